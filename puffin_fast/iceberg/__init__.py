"""Iceberg tables through PyIceberg: create version 3 tables, append rows, delete rows by deletion vectors, scan.

Tables and catalogs are PyIceberg's objects. Needs the extra ``iceberg``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from puffin_fast._run.keywords import name_keywords, no_attribute
from puffin_fast._run.packages import imports_of_extra

with imports_of_extra("iceberg"):
    from puffin_fast._run.patches import Acceleration
    from puffin_fast.iceberg.changelog.changes import Changes, changes
    from puffin_fast.iceberg.compat.table_metadata import v3_metadata
    from puffin_fast.iceberg.compat.working_table import load_table
    from puffin_fast.iceberg.dml.delete import DeleteResult, delete, delete_keys, delete_positions
    from puffin_fast.iceberg.dml.overwrite import OverwriteResult, dynamic_partition_overwrite, overwrite
    from puffin_fast.iceberg.dml.tables import append, create_table, upgrade
    from puffin_fast.iceberg.dml.transaction import Transaction, transaction
    from puffin_fast.iceberg.dml.update import UpdateResult, update
    from puffin_fast.iceberg.dml.upsert import UpsertResult, upsert
    from puffin_fast.iceberg.index.build import KeyIndexResult, index_keys
    from puffin_fast.iceberg.maintenance.compact import compact
    from puffin_fast.iceberg.maintenance.convert import convert_equality_deletes, convert_position_deletes
    from puffin_fast.iceberg.maintenance.expire_snapshots import ExpireSnapshotsResult, expire_snapshots
    from puffin_fast.iceberg.maintenance.finding import Finding
    from puffin_fast.iceberg.maintenance.list_deletes import deletes
    from puffin_fast.iceberg.maintenance.maintain import MaintainResult, MaintenancePolicy, maintain
    from puffin_fast.iceberg.maintenance.orphan_files import (
        RemoveOrphanFilesResult,
        orphan_files,
        remove_orphan_files,
    )
    from puffin_fast.iceberg.maintenance.repair import repair
    from puffin_fast.iceberg.maintenance.report import Report, report
    from puffin_fast.iceberg.maintenance.rewrite import RewriteResult
    from puffin_fast.iceberg.maintenance.rewrite_data_files import rewrite_data_files
    from puffin_fast.iceberg.maintenance.rewrite_job import RewriteDataFilesResult
    from puffin_fast.iceberg.maintenance.verify import verify
    from puffin_fast.iceberg.patches.accelerate import accelerate
    from puffin_fast.iceberg.plan.delete_index import FileTask
    from puffin_fast.iceberg.plan.files import Plan, plan_files
    from puffin_fast.iceberg.read.scan import Scan, scan
    from puffin_fast.iceberg.statistics.collect import NdvResult, collect_ndv
    from puffin_fast.iceberg.statistics.read import NdvOverlap, ndv, ndv_overlap
    from puffin_fast.rows.findings import Findings
    from puffin_fast.rows.scan.explain import Explanation

if TYPE_CHECKING:
    from puffin_fast.delta.maintenance.from_iceberg import from_iceberg as to_delta

__all__ = [
    "Acceleration",
    "Changes",
    "DeleteResult",
    "ExpireSnapshotsResult",
    "Explanation",
    "FileTask",
    "Finding",
    "Findings",
    "KeyIndexResult",
    "MaintainResult",
    "MaintenancePolicy",
    "NdvOverlap",
    "NdvResult",
    "OverwriteResult",
    "Plan",
    "RemoveOrphanFilesResult",
    "Report",
    "RewriteDataFilesResult",
    "RewriteResult",
    "Scan",
    "Transaction",
    "UpdateResult",
    "UpsertResult",
    "accelerate",
    "append",
    "changes",
    "collect_ndv",
    "compact",
    "convert_equality_deletes",
    "convert_position_deletes",
    "create_table",
    "delete",
    "delete_keys",
    "delete_positions",
    "deletes",
    "dynamic_partition_overwrite",
    "expire_snapshots",
    "index_keys",
    "load_table",
    "maintain",
    "ndv",
    "ndv_overlap",
    "orphan_files",
    "overwrite",
    "plan_files",
    "remove_orphan_files",
    "repair",
    "report",
    "rewrite_data_files",
    "scan",
    "to_delta",
    "transaction",
    "update",
    "upgrade",
    "upsert",
    "v3_metadata",
    "verify",
]


name_keywords(sys.modules[__name__], __all__)
name_keywords(Transaction, __all__)
for _scan in (Scan, Changes):
    name_keywords(_scan, ("count", "to_arrow"))

if not TYPE_CHECKING:  # type checkers see the names above, and no others

    def __getattr__(name: str) -> Any:
        """Loads `to_delta`, another name of `delta.from_iceberg`, when it is used: ``delta`` imports this package."""
        if name == "to_delta":
            return import_module("puffin_fast.delta").from_iceberg
        raise no_attribute(__name__, name, __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
