"""Iceberg tables through PyIceberg: version 3 tables made and filled, rows deleted as vectors, fast scans.

Tables and catalogs are PyIceberg's objects; needs the extra ``iceberg``.
"""

from __future__ import annotations

from puffin_fast.errors import MissingExtraError

try:
    from puffin_fast.iceberg._pyiceberg import v3_metadata
    from puffin_fast.iceberg._rewrite import RewriteResult
    from puffin_fast.iceberg.accelerate import Acceleration, accelerate
    from puffin_fast.iceberg.compact import compact
    from puffin_fast.iceberg.convert import convert_equality_deletes, convert_position_deletes
    from puffin_fast.iceberg.delete import DeleteResult, delete, delete_positions
    from puffin_fast.iceberg.deletes import deletes
    from puffin_fast.iceberg.keys import delete_keys
    from puffin_fast.iceberg.plan import FileTask, Plan, plan_files
    from puffin_fast.iceberg.repair import repair
    from puffin_fast.iceberg.report import Report, report
    from puffin_fast.iceberg.scan import Scan, scan
    from puffin_fast.iceberg.tables import append, create_table, upgrade
    from puffin_fast.iceberg.unneeded import unneeded_files
    from puffin_fast.iceberg.upsert import UpsertResult, upsert
    from puffin_fast.iceberg.verify import Finding, verify
except ModuleNotFoundError as error:
    package = (error.name or "").partition(".")[0]
    if package not in ("pyiceberg", "fastavro", "tenacity"):
        raise
    raise MissingExtraError(package, extra="iceberg") from error

__all__ = [
    "Acceleration",
    "DeleteResult",
    "FileTask",
    "Finding",
    "Plan",
    "Report",
    "RewriteResult",
    "Scan",
    "UpsertResult",
    "accelerate",
    "append",
    "compact",
    "convert_equality_deletes",
    "convert_position_deletes",
    "create_table",
    "delete",
    "delete_keys",
    "delete_positions",
    "deletes",
    "plan_files",
    "repair",
    "report",
    "scan",
    "unneeded_files",
    "upgrade",
    "upsert",
    "v3_metadata",
    "verify",
]
