"""Converts deletion vectors between formats, without decoding if the bytes are equal.

Iceberg's blob, Delta's portable record and Paimon's V2 record are the same bytes, which are only checked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from puffin_fast._positions import as_bytes
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import delta, iceberg, lance, mumbling, paimon
from puffin_fast.errors import InvalidInputError

__all__ = ["FORMATS", "SAME", "convert"]

SAME = ("iceberg", "delta", "paimon")
"""Formats whose records are the bytes of `deletion-vector-v1`."""

_ENCODE: dict[str, Callable[[PositionBitmap], bytes]] = {
    "iceberg": iceberg.encode,
    "delta": delta.encode,
    "paimon": paimon.encode,
    "paimon-v1": partial(paimon.encode, version=1),
    "lance": lance.encode,
    "mumbling": mumbling.encode,
}
_DECODE: dict[str, Callable[..., PositionBitmap]] = {
    "iceberg": iceberg.decode,
    "delta": delta.decode,
    "paimon": paimon.decode,
    "paimon-v1": paimon.decode,
    "lance": lance.decode,
    "mumbling": mumbling.decode,
}

FORMATS = tuple(_ENCODE)
"""The formats of `convert`; ``"paimon"`` writes V2."""


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
    for name in (source, target):
        if name not in FORMATS:
            raise InvalidInputError(f"format: expected one of {', '.join(FORMATS)}, found {name!r}")
    data = as_bytes(blob, "deletion vector")
    if source in SAME and target in SAME and data[4:8] == iceberg.MAGIC:
        iceberg.decode(data, cardinality=cardinality, path=path, offset=offset)
        return data
    return _ENCODE[target](_DECODE[source](data, cardinality=cardinality, path=path, offset=offset))
