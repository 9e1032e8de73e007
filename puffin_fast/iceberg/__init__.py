"""Iceberg tables through PyIceberg: create version 3 tables, append rows, delete rows by deletion vectors, scan.

Tables and catalogs are PyIceberg's objects. Needs the extra ``iceberg``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from puffin_fast._api.lazy_names import lazy_names, need_table_packages

if TYPE_CHECKING:
    from puffin_fast.acceleration import Acceleration
    from puffin_fast.iceberg.catalogs.hadoop import HadoopCatalog
    from puffin_fast.iceberg.catalogs.working_table import load_table
    from puffin_fast.iceberg.compat.table_metadata import v3_metadata
    from puffin_fast.iceberg.dml.tables import create_table, upgrade
    from puffin_fast.iceberg.index.build import index_keys
    from puffin_fast.iceberg.maintenance.compact import compact
    from puffin_fast.iceberg.maintenance.convert import convert_equality_deletes, convert_position_deletes
    from puffin_fast.iceberg.maintenance.expire_snapshots import expire_snapshots
    from puffin_fast.iceberg.maintenance.repair import repair
    from puffin_fast.iceberg.maintenance.rewrite_manifests import rewrite_manifests
    from puffin_fast.iceberg.patches.accelerate import accelerate
    from puffin_fast.iceberg.plan.delete_index import FileTask
    from puffin_fast.iceberg.plan.files import Plan, plan_files
    from puffin_fast.iceberg.statistics.collect import collect_ndv
    from puffin_fast.iceberg.statistics.read import NdvOverlap, ndv, ndv_overlap
    from puffin_fast.puffin.finding import Finding
    from puffin_fast.rows.changes.change_scan import Changes
    from puffin_fast.rows.findings import Findings
    from puffin_fast.rows.scan.explain import Explanation
    from puffin_fast.rows.scan.scan import Scan
    from puffin_fast.tables.changes import changes
    from puffin_fast.tables.delete import delete, delete_keys, delete_positions
    from puffin_fast.tables.deletes import deletes
    from puffin_fast.tables.maintain import maintain
    from puffin_fast.tables.orphan_files import orphan_files, remove_orphan_files
    from puffin_fast.tables.overwrite import append, dynamic_partition_overwrite, overwrite
    from puffin_fast.tables.report import report
    from puffin_fast.tables.rewrite_data_files import rewrite_data_files
    from puffin_fast.tables.scan import scan
    from puffin_fast.tables.transaction import transaction
    from puffin_fast.tables.update import update
    from puffin_fast.tables.upsert import upsert
    from puffin_fast.tables.verify import verify
    from puffin_fast.verbs.maintenance import (
        ExpireSnapshotsResult,
        KeyIndexResult,
        MaintainResult,
        MaintenancePolicy,
        NdvResult,
        RewriteDataFilesResult,
        RewriteManifestsResult,
        RewriteResult,
    )
    from puffin_fast.verbs.remove_orphan_files import RemoveOrphanFilesResult
    from puffin_fast.verbs.results import (
        AppendResult,
        Commit,
        DeleteResult,
        OverwriteResult,
        UpdateResult,
        UpsertResult,
    )
    from puffin_fast.verbs.table_report import Report
    from puffin_fast.verbs.transaction import Transaction

if TYPE_CHECKING:  # needs the extra delta
    from puffin_fast.bridges.iceberg_to_delta import from_iceberg as to_delta

__all__ = [
    "Commit",
    "AppendResult",
    "Acceleration",
    "Changes",
    "DeleteResult",
    "ExpireSnapshotsResult",
    "Explanation",
    "FileTask",
    "Finding",
    "Findings",
    "HadoopCatalog",
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
    "RewriteManifestsResult",
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
    "rewrite_manifests",
    "scan",
    "to_delta",
    "transaction",
    "update",
    "upgrade",
    "upsert",
    "v3_metadata",
    "verify",
]

_HOMES = {
    "Commit": "verbs.results",
    "AppendResult": "verbs.results",
    "Acceleration": "acceleration",
    "Changes": "rows.changes.change_scan",
    "DeleteResult": "verbs.results",
    "ExpireSnapshotsResult": "verbs.maintenance",
    "Explanation": "rows.scan.explain",
    "FileTask": "iceberg.plan.delete_index",
    "Finding": "puffin.finding",
    "Findings": "rows.findings",
    "HadoopCatalog": "iceberg.catalogs.hadoop",
    "KeyIndexResult": "verbs.maintenance",
    "MaintainResult": "verbs.maintenance",
    "MaintenancePolicy": "verbs.maintenance",
    "NdvOverlap": "iceberg.statistics.read",
    "NdvResult": "verbs.maintenance",
    "OverwriteResult": "verbs.results",
    "Plan": "iceberg.plan.files",
    "RemoveOrphanFilesResult": "verbs.remove_orphan_files",
    "Report": "verbs.table_report",
    "RewriteDataFilesResult": "verbs.maintenance",
    "RewriteManifestsResult": "verbs.maintenance",
    "RewriteResult": "verbs.maintenance",
    "Scan": "rows.scan.scan",
    "Transaction": "verbs.transaction",
    "UpdateResult": "verbs.results",
    "UpsertResult": "verbs.results",
    "accelerate": "iceberg.patches.accelerate",
    "append": "tables.overwrite",
    "changes": "tables.changes",
    "collect_ndv": "iceberg.statistics.collect",
    "compact": "iceberg.maintenance.compact",
    "convert_equality_deletes": "iceberg.maintenance.convert",
    "convert_position_deletes": "iceberg.maintenance.convert",
    "create_table": "iceberg.dml.tables",
    "delete": "tables.delete",
    "delete_keys": "tables.delete",
    "delete_positions": "tables.delete",
    "deletes": "tables.deletes",
    "dynamic_partition_overwrite": "tables.overwrite",
    "expire_snapshots": "iceberg.maintenance.expire_snapshots",
    "index_keys": "iceberg.index.build",
    "load_table": "iceberg.catalogs.working_table",
    "maintain": "tables.maintain",
    "ndv": "iceberg.statistics.read",
    "ndv_overlap": "iceberg.statistics.read",
    "orphan_files": "tables.orphan_files",
    "overwrite": "tables.overwrite",
    "plan_files": "iceberg.plan.files",
    "remove_orphan_files": "tables.orphan_files",
    "repair": "iceberg.maintenance.repair",
    "report": "tables.report",
    "rewrite_manifests": "iceberg.maintenance.rewrite_manifests",
    "rewrite_data_files": "tables.rewrite_data_files",
    "scan": "tables.scan",
    "transaction": "tables.transaction",
    "update": "tables.update",
    "upgrade": "iceberg.dml.tables",
    "upsert": "tables.upsert",
    "v3_metadata": "iceberg.compat.table_metadata",
    "verify": "tables.verify",
}
"""The module of each public name; tests compare it with the imports above."""

need_table_packages(extra="iceberg")

if not TYPE_CHECKING:  # type checkers see the names above, and no others
    _load = lazy_names(__name__, _HOMES, extra="iceberg")

    def __getattr__(name: str) -> Any:
        return import_module("puffin_fast.delta").from_iceberg if name == "to_delta" else _load(name)


def __dir__() -> list[str]:
    return sorted(__all__)
