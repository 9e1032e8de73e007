"""Converts deletion vectors between formats, without decoding if the bytes are equal.

Iceberg's blob, Delta's portable record and Paimon's V2 record are the same bytes, which are only checked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from puffin_fast._positions import as_bytes
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import delta, iceberg, lance, mumbling, paimon
from puffin_fast.errors import InvalidInputError

__all__ = ["FORMATS", "SAME", "codec_of", "convert"]

SAME = ("iceberg", "delta", "paimon")
"""Formats whose records are the bytes of `deletion-vector-v1`."""

Encode: TypeAlias = "Callable[[PositionBitmap], bytes]"
Decode: TypeAlias = "Callable[..., PositionBitmap]"

_CODECS: dict[str, tuple[Encode, Decode]] = {
    "iceberg": (iceberg.encode, iceberg.decode),
    "delta": (delta.encode, delta.decode),
    "paimon": (paimon.encode, paimon.decode),
    "paimon-v1": (partial(paimon.encode, version=1), paimon.decode),
    "lance": (lance.encode, lance.decode),
    "mumbling": (mumbling.encode, mumbling.decode),
}

FORMATS = tuple(_CODECS)
"""The formats of `convert`; ``"paimon"`` writes V2."""


def codec_of(name: str, what: str = "format") -> tuple[Encode, Decode]:
    """Returns `encode` and `decode` of a format.

    Args:
        name: one of `FORMATS`.
        what: the name of the argument in the error.

    Raises:
        InvalidInputError: the format is unknown.
    """
    if name not in FORMATS:
        raise InvalidInputError(f"{what}: expected one of {', '.join(FORMATS)}, found {name!r}")
    return _CODECS[name]


def convert(
    blob: Any,
    source: str,
    target: str,
    *,
    cardinality: int | None = None,
    path: str | None = None,
    offset: int = 0,
) -> bytes:
    """Converts a vector to another format. If the bytes of both formats are equal, they are checked and returned.

    Args:
        blob: any contiguous buffer that holds exactly one vector.
        source, target: two of ``"iceberg"``, ``"delta"``, ``"paimon"`` (target: version 2), ``"paimon-v1"``,
            ``"lance"``, ``"mumbling"``.
        cardinality: number of positions in the metadata; None if it is unknown.
        path, offset: the place of the vector, for errors.

    Raises:
        InvalidInputError: the format is unknown.
        CorruptDataError: the bytes are not a well-formed vector of the source.
        LimitExceededError: the target cannot represent a position.

    Examples:
        >>> blob = pf.dv.iceberg.encode(pf.PositionBitmap([3, 1]))
        >>> pf.dv.delta.decode(pf.dv.convert(blob, "iceberg", "delta"))
        PositionBitmap([1, 3])
    """
    (_, decode), (encode, _) = codec_of(source), codec_of(target)
    data = as_bytes(blob, "deletion vector", offset)
    if source in SAME and target in SAME and data[4:8] == iceberg.MAGIC:
        iceberg.decode(data, cardinality=cardinality, path=path, offset=offset)
        return data
    return encode(decode(data, cardinality=cardinality, path=path, offset=offset))
