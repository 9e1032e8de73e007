"""Deletion vectors at memory speed: positions -> Roaring bytes -> blobs -> Puffin files -> tables, and back.

Names and rooms are loaded when first used, so that ``import puffin_fast`` costs next to nothing and never
loads PyIceberg or PySpark; a room whose extra is not installed says which one it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from puffin_fast import errors
from puffin_fast.errors import PuffinFastError

if TYPE_CHECKING:
    from puffin_fast import arrow, delta, dv, iceberg, puffin, spark
    from puffin_fast.bitmap import PositionBitmap
    from puffin_fast.files import DeletionVectorLocation, read_vector, read_vectors, write_vectors
    from puffin_fast.puffin import BlobMetadata, FileMetadata, PuffinReader, PuffinWriter
    from puffin_fast.theta import ThetaSketch

__version__ = "0.1.0"

__all__ = [
    "BlobMetadata",
    "DeletionVectorLocation",
    "FileMetadata",
    "PositionBitmap",
    "PuffinFastError",
    "PuffinReader",
    "PuffinWriter",
    "ThetaSketch",
    "arrow",
    "delta",
    "dv",
    "errors",
    "iceberg",
    "puffin",
    "read_vector",
    "read_vectors",
    "spark",
    "write_vectors",
]

_ROOMS = frozenset({"arrow", "delta", "dv", "iceberg", "puffin", "spark"})

_HOMES = {
    "BlobMetadata": "puffin_fast.puffin",
    "FileMetadata": "puffin_fast.puffin",
    "PositionBitmap": "puffin_fast.bitmap",
    "PuffinReader": "puffin_fast.puffin",
    "PuffinWriter": "puffin_fast.puffin",
    "DeletionVectorLocation": "puffin_fast.files",
    "ThetaSketch": "puffin_fast.theta",
    "read_vector": "puffin_fast.files",
    "read_vectors": "puffin_fast.files",
    "write_vectors": "puffin_fast.files",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"puffin_fast.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'puffin_fast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
