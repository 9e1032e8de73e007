"""Codecs of deletion vectors, one per file: `encode(bitmap)` and `decode(blob)`."""

from puffin_fast.dv import delta, iceberg, lance, mumbling, paimon
from puffin_fast.dv.conversion import convert

__all__ = ["convert", "delta", "iceberg", "lance", "mumbling", "paimon"]


def __dir__() -> list[str]:
    return sorted(__all__)
