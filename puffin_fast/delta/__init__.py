"""Delta tables: creates tables, reads the log and the live rows, appends, and changes rows by deletion vectors.

A table is a path, a URI or deltalake's `DeltaTable`. Needs the extra ``delta``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from puffin_fast._run.keywords import name_keywords, no_attribute
from puffin_fast._run.packages import imports_of_extra

with imports_of_extra("delta"):
    from puffin_fast.delta.changelog.changes import DeltaChanges, changes
    from puffin_fast.delta.dml.delete import DeleteResult, delete, delete_keys, delete_positions
    from puffin_fast.delta.dml.overwrite import (
        AppendResult,
        OverwriteResult,
        append,
        dynamic_partition_overwrite,
        overwrite,
    )
    from puffin_fast.delta.dml.tables import create_table
    from puffin_fast.delta.dml.transaction import Transaction, transaction
    from puffin_fast.delta.dml.update import UpdateResult, update
    from puffin_fast.delta.dml.upsert import UpsertResult, upsert
    from puffin_fast.delta.log.snapshot import Snapshot, snapshot
    from puffin_fast.delta.maintenance.enable import enable
    from puffin_fast.delta.maintenance.from_iceberg import from_iceberg
    from puffin_fast.delta.maintenance.list_deletes import deletes
    from puffin_fast.delta.maintenance.maintain import MaintainResult, MaintenancePolicy, maintain
    from puffin_fast.delta.maintenance.orphan_files import (
        RemoveOrphanFilesResult,
        orphan_files,
        remove_orphan_files,
    )
    from puffin_fast.delta.maintenance.purge import PurgeResult, purge
    from puffin_fast.delta.maintenance.report import report
    from puffin_fast.delta.maintenance.rewrite_data_files import RewriteDataFilesResult, rewrite_data_files
    from puffin_fast.delta.maintenance.to_iceberg import to_iceberg
    from puffin_fast.delta.maintenance.verify import verify
    from puffin_fast.delta.read.scan import DeltaScan, scan
    from puffin_fast.delta.read.vectors import vectors

__all__ = [
    "AppendResult",
    "DeleteResult",
    "DeltaChanges",
    "DeltaScan",
    "MaintainResult",
    "MaintenancePolicy",
    "OverwriteResult",
    "PurgeResult",
    "RemoveOrphanFilesResult",
    "RewriteDataFilesResult",
    "Snapshot",
    "Transaction",
    "UpdateResult",
    "UpsertResult",
    "append",
    "changes",
    "create_table",
    "delete",
    "delete_keys",
    "delete_positions",
    "deletes",
    "dynamic_partition_overwrite",
    "enable",
    "from_iceberg",
    "maintain",
    "orphan_files",
    "overwrite",
    "purge",
    "remove_orphan_files",
    "report",
    "rewrite_data_files",
    "scan",
    "snapshot",
    "to_iceberg",
    "transaction",
    "update",
    "upsert",
    "vectors",
    "verify",
]


name_keywords(sys.modules[__name__], __all__)
name_keywords(DeltaScan, ("count", "to_arrow"))

if not TYPE_CHECKING:  # type checkers see the names above, and no others

    def __getattr__(name: str) -> Any:
        raise no_attribute(__name__, name, __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
