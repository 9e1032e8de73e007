"""Delta tables: creates tables, reads the log and the live rows, appends, and changes rows by deletion vectors.

A table is a path, a URI or deltalake's `DeltaTable`, of which the location and the storage options are used: functions
that read return the newest version, or the one that they are given. Needs the extra ``delta``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from puffin_fast._api.lazy_names import lazy_names, need_table_packages

if TYPE_CHECKING:
    from puffin_fast.bridges.delta_to_iceberg import to_iceberg
    from puffin_fast.bridges.iceberg_to_delta import from_iceberg
    from puffin_fast.delta.dml.tables import create_table
    from puffin_fast.delta.log.snapshot import Snapshot, snapshot
    from puffin_fast.delta.maintenance.disable import DisableResult, disable
    from puffin_fast.delta.maintenance.enable import enable
    from puffin_fast.delta.scans.vectors import vectors
    from puffin_fast.rows.changes.change_scan import Changes
    from puffin_fast.rows.scan.scan import Scan
    from puffin_fast.tables.changes import changes
    from puffin_fast.tables.delete import delete, delete_keys, delete_positions
    from puffin_fast.tables.deletes import deletes
    from puffin_fast.tables.maintain import maintain
    from puffin_fast.tables.orphan_files import orphan_files, remove_orphan_files
    from puffin_fast.tables.overwrite import append, dynamic_partition_overwrite, overwrite
    from puffin_fast.tables.report import report
    from puffin_fast.tables.rewrite_data_files import purge, rewrite_data_files
    from puffin_fast.tables.scan import scan
    from puffin_fast.tables.transaction import transaction
    from puffin_fast.tables.update import update
    from puffin_fast.tables.upsert import upsert
    from puffin_fast.tables.verify import verify
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

__all__ = [
    "Commit",
    "AppendResult",
    "DeleteResult",
    "Changes",
    "DisableResult",
    "MaintainResult",
    "MaintenancePolicy",
    "OverwriteResult",
    "RemoveOrphanFilesResult",
    "RewriteDataFilesResult",
    "Scan",
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
    "disable",
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

_HOMES = {
    "Commit": "verbs.results",
    "AppendResult": "verbs.results",
    "DeleteResult": "verbs.results",
    "Changes": "rows.changes.change_scan",
    "DisableResult": "delta.maintenance.disable",
    "MaintainResult": "verbs.maintenance",
    "MaintenancePolicy": "verbs.maintenance",
    "OverwriteResult": "verbs.results",
    "RemoveOrphanFilesResult": "verbs.remove_orphan_files",
    "RewriteDataFilesResult": "verbs.maintenance",
    "Scan": "rows.scan.scan",
    "Snapshot": "delta.log.snapshot",
    "Transaction": "verbs.transaction",
    "UpdateResult": "verbs.results",
    "UpsertResult": "verbs.results",
    "append": "tables.overwrite",
    "changes": "tables.changes",
    "create_table": "delta.dml.tables",
    "delete": "tables.delete",
    "delete_keys": "tables.delete",
    "delete_positions": "tables.delete",
    "deletes": "tables.deletes",
    "disable": "delta.maintenance.disable",
    "dynamic_partition_overwrite": "tables.overwrite",
    "enable": "delta.maintenance.enable",
    "from_iceberg": "bridges.iceberg_to_delta",
    "maintain": "tables.maintain",
    "orphan_files": "tables.orphan_files",
    "overwrite": "tables.overwrite",
    "purge": "tables.rewrite_data_files",
    "remove_orphan_files": "tables.orphan_files",
    "report": "tables.report",
    "rewrite_data_files": "tables.rewrite_data_files",
    "scan": "tables.scan",
    "snapshot": "delta.log.snapshot",
    "to_iceberg": "bridges.delta_to_iceberg",
    "transaction": "tables.transaction",
    "update": "tables.update",
    "upsert": "tables.upsert",
    "vectors": "delta.scans.vectors",
    "verify": "tables.verify",
}
"""The module of each public name; tests compare it with the imports above."""

need_table_packages(extra="delta")

if not TYPE_CHECKING:  # type checkers see the names above, and no others
    __getattr__ = lazy_names(__name__, _HOMES, extra="delta")


def __dir__() -> list[str]:
    return sorted(__all__)
