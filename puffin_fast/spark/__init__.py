"""Deletion vectors on Spark: transformations and column functions of DataFrames, jobs on tables, a data source.

Executors search, decode, unite and encode; the driver plans and commits. Everything works on classic sessions and
on Spark Connect. Importing this package does not import PySpark; its functions need the extra ``spark``.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from puffin_fast._api.lazy_names import lazy_names
from puffin_fast.spark.dataframe import functions
from puffin_fast.spark.dataframe.job_files import job_files, remove_job_files
from puffin_fast.spark.dataframe.transforms import (
    decode_vectors,
    encode_deletes,
    theta_sketches,
    union_vectors,
)
from puffin_fast.spark.dataframe.write import write_deletion_vectors
from puffin_fast.spark.sources.register import register

if TYPE_CHECKING:
    from puffin_fast.spark.table.append import append, overwrite
    from puffin_fast.spark.table.changes import changes
    from puffin_fast.spark.table.delete import delete, delete_positions
    from puffin_fast.spark.table.delete_keys import delete_keys
    from puffin_fast.spark.table.maintenance import (
        collect_ndv,
        compact,
        convert_equality_deletes,
        convert_position_deletes,
        expire_snapshots,
        index_keys,
        maintain,
        remove_orphan_files,
        report,
        rewrite_data_files,
        verify,
    )
    from puffin_fast.spark.table.names import load_table
    from puffin_fast.spark.table.scan import scan
    from puffin_fast.spark.table.update import update
    from puffin_fast.spark.table.upsert import upsert

__all__ = [
    "append",
    "changes",
    "collect_ndv",
    "compact",
    "convert_equality_deletes",
    "convert_position_deletes",
    "decode_vectors",
    "delete",
    "delete_keys",
    "delete_positions",
    "encode_deletes",
    "expire_snapshots",
    "functions",
    "index_keys",
    "job_files",
    "load_table",
    "maintain",
    "overwrite",
    "register",
    "remove_job_files",
    "remove_orphan_files",
    "report",
    "rewrite_data_files",
    "scan",
    "theta_sketches",
    "union_vectors",
    "update",
    "upsert",
    "verify",
    "write_deletion_vectors",
]

_ON_TABLES = {
    "append": "append",
    "changes": "changes",
    "collect_ndv": "maintenance",
    "compact": "maintenance",
    "convert_equality_deletes": "maintenance",
    "convert_position_deletes": "maintenance",
    "delete": "delete",
    "delete_keys": "delete_keys",
    "delete_positions": "delete",
    "expire_snapshots": "maintenance",
    "index_keys": "maintenance",
    "load_table": "names",
    "maintain": "maintenance",
    "overwrite": "append",
    "remove_orphan_files": "maintenance",
    "report": "maintenance",
    "rewrite_data_files": "maintenance",
    "scan": "scan",
    "update": "update",
    "upsert": "upsert",
    "verify": "maintenance",
}
"""The module of each job on tables."""


if not TYPE_CHECKING:  # type checkers see the names above, and no others
    _homes = {name: f"spark.table.{module}" for name, module in _ON_TABLES.items()}
    __getattr__ = lazy_names(__name__, _homes, extra="iceberg")  # jobs on tables need PyIceberg


def __dir__() -> list[str]:
    missing = _ON_TABLES if find_spec("pyiceberg") is None else ()
    return sorted(set(__all__).difference(missing))
