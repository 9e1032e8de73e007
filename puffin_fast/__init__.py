"""Deletion vectors: positions -> Roaring bytes -> blobs -> Puffin files -> tables, and the reverse.

Names and modules are loaded when they are first used, so that ``import puffin_fast`` is fast and does not import
PyIceberg or PySpark. If an optional dependency of a module is missing, each use of the module raises a
`MissingExtraError` that names the extra.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
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
    from puffin_fast.rows.changes.change_scan import Changes
    from puffin_fast.rows.scan.scan import Scan
    from puffin_fast.tables.changes import changes
    from puffin_fast.tables.create import create_table
    from puffin_fast.tables.delete import delete, delete_keys, delete_positions
    from puffin_fast.tables.deletes import deletes
    from puffin_fast.tables.maintain import maintain
    from puffin_fast.tables.opening import open_table
    from puffin_fast.tables.orphan_files import orphan_files, remove_orphan_files
    from puffin_fast.tables.overwrite import append, dynamic_partition_overwrite, overwrite
    from puffin_fast.tables.report import report
    from puffin_fast.tables.rewrite_data_files import rewrite_data_files
    from puffin_fast.tables.scan import scan
    from puffin_fast.tables.table import Table
    from puffin_fast.tables.transaction import transaction
    from puffin_fast.tables.update import update
    from puffin_fast.tables.upsert import upsert
    from puffin_fast.tables.verify import verify
    from puffin_fast.theta import ThetaSketch
    from puffin_fast.verbs.maintenance import MaintainResult, MaintenancePolicy, RewriteDataFilesResult
    from puffin_fast.verbs.remove_orphan_files import RemoveOrphanFilesResult
    from puffin_fast.verbs.results import (
        AppendResult,
        Commit,
        DeleteResult,
        OverwriteResult,
        UpdateResult,
        UpsertResult,
    )
    from puffin_fast.verbs.transaction import Transaction

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
    "Table",
    "Transaction",
    "AppendResult",
    "Changes",
    "Commit",
    "DeleteResult",
    "OverwriteResult",
    "MaintainResult",
    "MaintenancePolicy",
    "RemoveOrphanFilesResult",
    "RewriteDataFilesResult",
    "Scan",
    "UpdateResult",
    "UpsertResult",
    "append",
    "changes",
    "delete",
    "delete_keys",
    "delete_positions",
    "deletes",
    "dynamic_partition_overwrite",
    "create_table",
    "maintain",
    "open_table",
    "orphan_files",
    "overwrite",
    "remove_orphan_files",
    "report",
    "rewrite_data_files",
    "scan",
    "transaction",
    "update",
    "upsert",
    "verify",
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
    "Table": "puffin_fast.tables.table",
    "Transaction": "puffin_fast.verbs.transaction",
    "AppendResult": "puffin_fast.verbs.results",
    "Changes": "puffin_fast.rows.changes.change_scan",
    "Commit": "puffin_fast.verbs.results",
    "DeleteResult": "puffin_fast.verbs.results",
    "OverwriteResult": "puffin_fast.verbs.results",
    "MaintainResult": "puffin_fast.verbs.maintenance",
    "MaintenancePolicy": "puffin_fast.verbs.maintenance",
    "RemoveOrphanFilesResult": "puffin_fast.verbs.remove_orphan_files",
    "RewriteDataFilesResult": "puffin_fast.verbs.maintenance",
    "Scan": "puffin_fast.rows.scan.scan",
    "UpdateResult": "puffin_fast.verbs.results",
    "UpsertResult": "puffin_fast.verbs.results",
    "append": "puffin_fast.tables.overwrite",
    "changes": "puffin_fast.tables.changes",
    "delete": "puffin_fast.tables.delete",
    "delete_keys": "puffin_fast.tables.delete",
    "delete_positions": "puffin_fast.tables.delete",
    "deletes": "puffin_fast.tables.deletes",
    "dynamic_partition_overwrite": "puffin_fast.tables.overwrite",
    "create_table": "puffin_fast.tables.create",
    "maintain": "puffin_fast.tables.maintain",
    "open_table": "puffin_fast.tables.opening",
    "orphan_files": "puffin_fast.tables.orphan_files",
    "overwrite": "puffin_fast.tables.overwrite",
    "remove_orphan_files": "puffin_fast.tables.orphan_files",
    "report": "puffin_fast.tables.report",
    "rewrite_data_files": "puffin_fast.tables.rewrite_data_files",
    "scan": "puffin_fast.tables.scan",
    "transaction": "puffin_fast.tables.transaction",
    "update": "puffin_fast.tables.update",
    "upsert": "puffin_fast.tables.upsert",
    "verify": "puffin_fast.tables.verify",
}


_VERBS = [f"{module}.{verb}" for module in ("iceberg", "delta") for verb in (
    "changes", "create_table",
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


def _missing_function(name: str, error: MissingExtraError) -> Callable[..., Any]:
    """Replaces a function of tables whose optional dependency is not installed."""

    def call(*args: Any, **kwargs: Any) -> Any:
        raise MissingExtraError(error.package, error.extra) from error

    call.__name__, call.__doc__ = name, str(error)
    return call


if not TYPE_CHECKING:  # type checkers see the names above, and no others

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            try:
                return importlib.import_module(f"puffin_fast.{name}")
            except MissingExtraError as error:
                return _MissingModule(f"puffin_fast.{name}", error)
        if name in _NAMES:
            try:
                from puffin_fast._api.packages import imports_of_extra

                with imports_of_extra("iceberg"):
                    value = getattr(importlib.import_module(_NAMES[name]), name)
            except MissingExtraError as error:
                return _missing_function(name, error)
            globals()[name] = value
            return value
        from puffin_fast._api.keywords import no_attribute

        raise no_attribute("puffin_fast", name, [*_VERBS, *_NAMES])


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
