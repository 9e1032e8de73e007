"""Deletion vectors: positions -> Roaring bytes -> blobs -> Puffin files -> tables, and the reverse.

Names and modules are loaded when they are first used, so that ``import puffin_fast`` is fast and does not import
PyIceberg or PySpark. If an optional dependency of a module is missing, each use of the module raises a
`MissingExtraError` that names the extra.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from puffin_fast import errors
from puffin_fast.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptDataError,
    EngineSupportWarning,
    InvalidInputError,
    JobInterruptedError,
    LimitExceededError,
    MissingExtraError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from puffin_fast import arrow, delta, dv, iceberg, lance, paimon, puffin, spark
    from puffin_fast.bitmap import PositionBitmap
    from puffin_fast.puffin import BlobMetadata, FileMetadata, PuffinReader, PuffinWriter
    from puffin_fast.puffin.vectors import DeletionVectorLocation, read_vector, read_vectors, write_vectors
    from puffin_fast.theta import ThetaSketch

__version__ = "0.1.0"

__all__ = [
    "BlobMetadata",
    "CommitUnknownError",
    "ConflictError",
    "CorruptDataError",
    "EngineSupportWarning",
    "DeletionVectorLocation",
    "FileMetadata",
    "InvalidInputError",
    "JobInterruptedError",
    "LimitExceededError",
    "MissingExtraError",
    "NotFoundError",
    "PositionBitmap",
    "PuffinFastError",
    "PuffinReader",
    "PuffinWriter",
    "ThetaSketch",
    "UnsupportedError",
    "arrow",
    "delta",
    "dv",
    "errors",
    "iceberg",
    "lance",
    "paimon",
    "puffin",
    "read_vector",
    "read_vectors",
    "spark",
    "write_vectors",
]

_MODULES = frozenset({"arrow", "delta", "dv", "iceberg", "lance", "paimon", "puffin", "spark"})

_NAMES = {
    "BlobMetadata": "puffin_fast.puffin",
    "FileMetadata": "puffin_fast.puffin",
    "PositionBitmap": "puffin_fast.bitmap",
    "PuffinReader": "puffin_fast.puffin",
    "PuffinWriter": "puffin_fast.puffin",
    "DeletionVectorLocation": "puffin_fast.puffin.vectors",
    "ThetaSketch": "puffin_fast.theta",
    "read_vector": "puffin_fast.puffin.vectors",
    "read_vectors": "puffin_fast.puffin.vectors",
    "write_vectors": "puffin_fast.puffin.vectors",
}


_VERBS = [f"{module}.{verb}" for module in ("iceberg", "delta") for verb in (
    "append", "changes", "create_table", "delete", "delete_keys", "maintain", "overwrite", "remove_orphan_files",
    "report", "rewrite_data_files", "scan", "transaction", "update", "upsert", "verify",
)]  # fmt: skip
"""Functions that both modules have, which errors name where they are looked up here."""


class _MissingModule(ModuleType):
    """Replaces a module whose optional dependency is not installed."""

    def __init__(self, name: str, error: MissingExtraError) -> None:
        super().__init__(name, doc=str(error))
        self._error = error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # attributes that `help` and `inspect` read from every module
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        raise MissingExtraError(self._error.package, self._error.extra) from self._error


if not TYPE_CHECKING:  # type checkers see the names above, and no others

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            try:
                return importlib.import_module(f"puffin_fast.{name}")
            except MissingExtraError as error:
                return _MissingModule(f"puffin_fast.{name}", error)
        if name in _NAMES:
            value = getattr(importlib.import_module(_NAMES[name]), name)
            globals()[name] = value
            return value
        from puffin_fast._run.keywords import no_attribute

        raise no_attribute("puffin_fast", name, [*_VERBS, *_NAMES])


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
