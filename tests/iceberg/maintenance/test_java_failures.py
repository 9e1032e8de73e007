"""Tables that Iceberg's own `rewrite_position_delete_files` damages: our conversion is correct, and repairs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from puffin_fast import iceberg
from puffin_fast.errors import CorruptDataError
from tests.kit.rows import Rows, by_duckdb, by_pyiceberg, by_spark, by_us

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jar]

PROPERTIES = (
    "'format-version'='2', 'write.delete.granularity'='partition', 'write.delete.mode'='merge-on-read', "
    "'write.delete.target-file-size-bytes'='67108864'"
)


class JavaTable:
    """One table, read by all engines."""

    def __init__(self, spark: SparkSession, duckdb: DuckDBPyConnection, table: Table) -> None:
        self.spark, self.duckdb, self.table = spark, duckdb, table
        self.name = ".".join((table.catalog.name, *table.name()))

    def sql(self, statement: str) -> Any:
        result = self.spark.sql(statement.format(t=self.name, p=".".join(self.table.name()))).collect()
        self.table.refresh()
        return result

    def spark_reads(self) -> Rows:
        return by_spark(self.spark, self.table)

    def all_read(self) -> Rows:
        """The rows that all readers find."""
        rows = by_us(self.table)
        assert by_pyiceberg(self.table) == by_duckdb(self.duckdb, self.table) == self.spark_reads() == rows
        return rows


Make = Callable[[str, list[str]], JavaTable]


@pytest.fixture
def make(
    iceberg_spark: SparkSession,
    duckdb_iceberg: DuckDBPyConnection,
    shared_catalog: SqlCatalog,
    namespace: str,
) -> Make:
    """A version 3 table with rows of `range(…)`, whose deletes were written by Spark in version 2."""

    def make(rows: str, deletes: list[str]) -> JavaTable:
        name = f"shared.{namespace}.t"
        iceberg_spark.sql(f"CREATE TABLE {name} (id BIGINT) USING iceberg TBLPROPERTIES ({PROPERTIES})")
        iceberg_spark.sql(f"INSERT INTO {name} SELECT id FROM range({rows})")
        for where in deletes:
            iceberg_spark.sql(f"DELETE FROM {name} WHERE {where}")
        table = iceberg.upgrade(shared_catalog.load_table(f"{namespace}.t"))
        return JavaTable(iceberg_spark, duckdb_iceberg, table)

    return make


def one_large_and_six_small(make: Make) -> tuple[JavaTable, tuple[int, int, int]]:
    """The table, and sizes of delete files for which only the large one has the right size."""
    interop = make(
        "0, 200000, 1, 1", ["id % 3 = 0", *(f"id % 1801 = {k} AND id < 199900" for k in range(1, 7))]
    )
    sizes = sorted(row["file_size_in_bytes"] for row in interop.table.inspect.delete_files().to_pylist())
    assert len(sizes) == 7
    *_, next_one, large = sizes
    assert large > 2 * next_one
    return interop, (next_one * 3 // 2, large, large * 2)


LARGE_IS_WELL_SIZED = (
    "CALL shared.system.rewrite_position_delete_files(table => '{{p}}', options => map("
    "'min-file-size-bytes', '{}', 'target-file-size-bytes', '{}', 'max-file-size-bytes', '{}'))"
)


def test_rows_do_not_come_back_when_a_large_delete_file_is_well_sized(
    make: Make,
) -> None:
    interop, _ = one_large_and_six_small(make)
    before = interop.all_read()
    result = iceberg.convert_position_deletes(interop.table)
    assert (result.vectors_written, result.position_delete_files_removed) == (1, 7)
    assert result.positions == 200_000 - len(before)
    assert interop.all_read() == before
    assert iceberg.verify(interop.table) == []
    assert [row[0] for row in interop.sql("SELECT file_format FROM {t}.delete_files")] == ["PUFFIN"]


def test_rows_that_javas_rewrite_brought_back_are_found_and_deleted_again(
    make: Make,
) -> None:
    interop, limits = one_large_and_six_small(make)
    before = interop.all_read()
    interop.sql(LARGE_IS_WELL_SIZED.format(*limits))
    broken = interop.spark_reads()
    if broken == before:
        pytest.fail("this version of Iceberg does not lose these deletes: drop the case")
    assert len(broken) > len(before)
    findings = iceberg.verify(interop.table)
    assert [finding.kind for finding in findings] == ["superseded"]
    assert f"{len(broken) - len(before)} positions" in findings[0].message

    converted = iceberg.convert_position_deletes(interop.table)  # keeps what only the superseded file knows
    assert len(converted.not_rewritten) == 1
    assert converted.commit.id is None
    assert interop.spark_reads() == broken  # PyIceberg reads `before`: it applies what a vector hides

    result = iceberg.repair(interop.table)
    assert result.rows_deleted == len(broken) - len(before)
    assert interop.all_read() == before
    assert iceberg.verify(interop.table) == []
    assert iceberg.convert_position_deletes(interop.table).commit.id is None
    assert iceberg.repair(interop.table).commit.id is None


def six_over_two_files(make: Make) -> JavaTable:
    """The files' names sort as they were written: each delete is one file over both data files."""
    interop = make("0, 2000, 1, 2", [f"id % 39 = {k} AND id < 1980" for k in range(6)])
    assert len(iceberg.plan_files(interop.table).tasks) == 2
    return interop


def test_six_deletes_over_two_data_files_become_two_vectors(
    make: Make,
) -> None:
    interop = six_over_two_files(make)
    before = interop.all_read()
    result = iceberg.convert_position_deletes(interop.table)
    assert result.vectors_written == 2
    assert interop.all_read() == before
    assert iceberg.verify(interop.table) == []


def test_the_table_that_javas_partial_progress_breaks_is_read_again_by_everyone(
    make: Make,
) -> None:
    interop = six_over_two_files(make)
    before = interop.all_read()
    interop.sql(
        "CALL shared.system.rewrite_position_delete_files(table => '{p}', options => map("
        "'rewrite-all', 'true', 'max-file-group-size-bytes', '2000', "
        "'partial-progress.enabled', 'true', 'partial-progress.max-commits', '10'))"
    )
    states = Counter(iceberg.deletes(interop.table)["state"].to_pylist())
    if not states["duplicate"]:
        pytest.fail("this version of Iceberg leaves no duplicate vectors: drop the case")
    with pytest.raises(Exception, match="Can't index multiple DVs"):
        interop.spark_reads()
    with pytest.raises(CorruptDataError, match="two deletion vectors"):
        iceberg.scan(interop.table).to_arrow()
    with pytest.raises(CorruptDataError, match="repair"):
        iceberg.compact(interop.table)

    duplicates = [finding for finding in iceberg.verify(interop.table) if finding.kind == "duplicate"]
    assert {finding.data_file for finding in duplicates} <= {
        entry["file_path"] for entry in interop.table.inspect.data_files().to_pylist()
    }
    assert len(duplicates) == len({finding.data_file for finding in duplicates}) > 0

    result = iceberg.repair(interop.table)
    assert result.vectors_removed == states["duplicate"]
    assert interop.all_read() == before
    assert iceberg.verify(interop.table) == []
    interop.sql("DELETE FROM {t} WHERE id = 1999")
    assert interop.all_read() == [row for row in before if row["id"] != 1999]
