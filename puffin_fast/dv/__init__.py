"""Deletion vectors, one codec per file: `encode(bitmap)` and `decode(blob)` between sets and a format's bytes."""

from puffin_fast.dv import iceberg

__all__ = ["iceberg"]
