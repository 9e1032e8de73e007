"""Deletes on executors from tables of version 2 write position-delete files for the same rows as on one machine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import ConflictError, InvalidInputError
from puffin_fast.iceberg.plan.files import plan_files
from tests.iceberg.delete_files.position_files import GRANULARITY, check, made, position_files
from tests.kit.faults import RacingCatalog
from tests.kit.tables import files_of, path_of
from tests.spark.faults.flaky import FlakyFileIO
from tests.spark.results import facts
from tests.spark.table.delete_files import copy_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession

    from puffin_fast.iceberg import DeleteResult, Finding

pytestmark = pytest.mark.spark


def kinds_of(findings: Iterable[Finding]) -> list[str]:
    return sorted(finding.kind for finding in findings)


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_deletes_in_turn_agree_with_the_single_machine(
    spark: SparkSession, racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection, granularity: str
) -> None:
    table = made(racing, "n", partitioned=True, **{GRANULARITY: granularity})
    single = copy_of(racing, table)
    n_files = len(plan_files(table).tasks)

    def agree(done: DeleteResult, expected: DeleteResult) -> None:
        left = iceberg.scan(single.refresh(), selected_fields=["id"]).to_arrow()["id"].to_pylist()
        written = "position_delete_files_written"
        assert facts(done, written) == facts(expected, written)
        check(table.refresh(), duckdb_iceberg, sorted(left))
        assert kinds_of(iceberg.verify(table)) == kinds_of(iceberg.verify(single))

    fourth = pc.equal(pc.bit_wise_and(pc.field("id"), 3), 0)
    first = ps.delete(spark, table, fourth)
    agree(first, iceberg.delete(single, fourth))
    assert first.position_delete_files_written == (n_files if granularity == "file" else 4)
    assert len(position_files(table)) == first.position_delete_files_written
    ids = pa.table({"id": [*range(30, 90), 1000]})
    keys = spark.createDataFrame(ids).repartition(2)
    files = files_of(table)
    planned = ps.delete_keys(keys, table, ["id"], broadcast_keys=0, dry_run=True)
    assert files_of(table) == files
    second = ps.delete_keys(keys, table, ["id"], broadcast_keys=0)
    agree(second, iceberg.delete_keys(single, ids, ["id"]))
    assert (planned.rows_deleted, planned.data_files) == (second.rows_deleted, second.data_files)
    places = iceberg.scan(table, "id > 250", ("_file", "_pos")).to_arrow()
    places = pa.table({"file_path": places["_file"].cast(pa.string()), "pos": places["_pos"]})
    rows = spark.createDataFrame(places)
    agree(ps.delete_positions(rows, table), iceberg.delete_positions(single, places))
    assert ps.delete_positions(rows, table).commit.id is None
    gone = ps.delete(spark, table, "word = 'w1' or id < 2")
    agree(gone, iceberg.delete(single, "word = 'w1' or id < 2"))
    assert gone.data_files_dropped > 0


def test_attempts_that_wrote_and_failed_leave_nothing_and_strays_are_found(
    spark: SparkSession, racing: RacingCatalog, tmp_path: Path
) -> None:
    faulted = tmp_path / "faulted"
    flaky = {"py-io-impl": f"{FlakyFileIO.__module__}.FlakyFileIO", "faulted": str(faulted)}
    catalog = RacingCatalog("racing", **racing.properties | flaky)
    table = made(catalog, "n")
    done = ps.delete(spark, table, "id = 5 or id = 105 or id = 205", job_id="nightly")
    assert faulted.exists()
    assert (done.rows_deleted, done.position_delete_files_written) == (3, 3)
    found = {path_of(path) for path in ps.job_files(table, "nightly")}
    assert found == {path_of(path) for path in position_files(table)}
    (folder,) = {path.parent for path in found}
    orphan = folder / f"{folder.name}-00000-99-0000.parquet"
    orphan.write_bytes(b"PAR1")
    assert [path_of(path) for path in ps.remove_job_files(table, "nightly")] == [orphan]
    assert ps.delete(spark, table, "id = 6", job_id="nightly").commit.repeated
    catalog.engine.dispose()


def test_a_lost_race_and_a_bad_property_leave_no_file(spark: SparkSession, racing: RacingCatalog) -> None:
    table = made(racing, "n")
    other = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.delete(other, "id = 3"))
    with pytest.raises(ConflictError):
        ps.delete(spark, table, "id < 10", job_id="nightly")
    assert ps.job_files(table, "nightly") == []
    with table.refresh().transaction() as transaction:
        transaction.set_properties({GRANULARITY: "row"})
    with pytest.raises(InvalidInputError, match="granularity: expected one of file, partition, found 'row'"):
        ps.delete(spark, table, "id < 10", job_id="nightly")
    assert ps.job_files(table, "nightly") == []
