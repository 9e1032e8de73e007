"""Deletion vectors, one codec per file: `encode(bitmap)` and `decode(blob)` between sets and a format's bytes."""

from puffin_fast.dv import delta, iceberg, lance, mumbling, paimon
from puffin_fast.dv.convert import convert

__all__ = ["convert", "delta", "iceberg", "lance", "mumbling", "paimon"]
