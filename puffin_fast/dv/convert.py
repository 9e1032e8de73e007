"""A deletion vector of one format as another format's, without decoding where the bytes agree.

Iceberg's blob, Delta's portable record and Paimon's V2 record are the same bytes: they are checked and handed on.
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
"""Formats in which the bytes of `deletion-vector-v1` stand as they are."""

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
"""What `convert` knows; ``"paimon"`` writes V2."""


def convert(
    blob: Any,
    source: str,
    target: str,
    *,
    cardinality: int | None = None,
    path: str | None = None,
    offset: int = 0,
) -> bytes:
    """The same vector in another format; where the bytes agree they are checked and come back as they are.

    Args:
        blob: any contiguous buffer that holds exactly one vector.
        source, target: two of `FORMATS`.
        cardinality: number of positions in the metadata; None when it is not known.
        path, offset: where the vector lies, for errors.

    Raises:
        InvalidInputError: an unknown format.
        CorruptDataError: the bytes are not a well-formed vector of the source.
        LimitExceededError: a position that the target cannot hold.
    """
    for name in (source, target):
        if name not in FORMATS:
            raise InvalidInputError(f"format: expected one of {', '.join(FORMATS)}, found {name!r}")
    data = as_bytes(blob, "deletion vector")
    if source in SAME and target in SAME and data[4:8] == iceberg.MAGIC:
        iceberg.decode(data, cardinality=cardinality, path=path, offset=offset)
        return data
    return _ENCODE[target](_DECODE[source](data, cardinality=cardinality, path=path, offset=offset))
