"""Tables, readers and cases that several tests share with `test_convert`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.iceberg import RewriteResult
from tests.iceberg.maintenance.delete_files import kinds, rows
from tests.spark.results import facts

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession


WRITTEN = "puffin_files_written"
"""A count that depends on the number of tasks."""


def copy_of(catalog: SqlCatalog, table: Table, name: str = "n.copy") -> Table:
    """Registers another table with the same snapshots and files."""
    return catalog.register_table(name, table.metadata_location)


def agree(spark: SparkSession, table: Table, single: Table, job: str) -> RewriteResult:
    """Runs a job on Spark and on one machine, and checks that rows, kinds of deletes and results are equal."""
    before = rows(table)
    done, expected = getattr(ps, job)(spark, table), getattr(iceberg, job)(single)
    assert facts(done, WRITTEN) == facts(expected, WRITTEN)
    assert (done.commit.id is None) == (expected.commit.id is None)
    assert rows(table) == rows(single) == before
    assert kinds(table) == kinds(single)
    assert iceberg.verify(table) == iceberg.verify(single)
    result: RewriteResult = done
    return result
