"""All verbs have the same argument names, dry runs, branches and tags."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError, NotFoundError
from tests.iceberg.conftest import files_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tests.iceberg.conftest import RacingCatalog

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "word": [f"w{i % 7}" for i in range(100)]})

COMMITTING = (
    "append",
    "compact",
    "convert_equality_deletes",
    "convert_position_deletes",
    "delete",
    "delete_keys",
    "delete_positions",
    "dynamic_partition_overwrite",
    "overwrite",
    "repair",
    "rewrite_data_files",
    "rewrite_manifests",
    "transaction",
    "update",
    "upsert",
)
READING = ("deletes", "plan_files", "report", "scan", "verify")


def names_of(verb: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(verb).parameters)


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    """Two data files of 50 rows, one of them with a deletion vector, and the tag ``first``."""
    made = iceberg.create_table(racing, "n.t", ROWS.schema)
    iceberg.append(made, ROWS.slice(0, 50))
    first = made.metadata.current_snapshot_id
    assert first is not None
    with iceberg.v3_metadata(racing):
        made.manage_snapshots().create_tag(first, "first").commit()
    iceberg.append(made, ROWS.slice(50))
    iceberg.delete(made, "id = 3")
    return made


@pytest.mark.parametrize("verb", COMMITTING)
def test_every_verb_that_commits_takes_the_same_arguments(verb: str) -> None:
    expected = {"branch", "job_id", "snapshot_properties", "dry_run"}
    assert expected <= names_of(getattr(iceberg, verb))


@pytest.mark.parametrize("verb", READING)
def test_every_verb_that_reads_a_snapshot_takes_the_same_arguments(verb: str) -> None:
    assert {"snapshot_id", "branch", "tag", "as_of"} <= names_of(getattr(iceberg, verb))


@pytest.mark.parametrize(
    "verb",
    ["compact", "convert_equality_deletes", "convert_position_deletes", "delete", "delete_keys", "scan"],
)
def test_spark_jobs_take_the_arguments_of_their_python_counterparts(verb: str) -> None:
    spark = pytest.importorskip("puffin_fast.spark")
    pytest.importorskip("pyspark")
    here = names_of(getattr(iceberg, verb)) - {
        "threads",
        "workers",
        "keys",
        "string_views",
    }  # Spark has one type of text
    assert here <= names_of(getattr(spark, verb))


def delete_in_transaction(table: Table) -> None:
    with iceberg.transaction(table, dry_run=True) as tx:
        tx.append(ROWS)
        tx.delete("id < 60")


def overwrite_partitions(table: Table) -> None:
    with pytest.raises(InvalidInputError, match="expected a partitioned table"):
        iceberg.dynamic_partition_overwrite(table, ROWS, dry_run=True)


def dry_runs(table: Table) -> dict[str, Callable[[], Any]]:
    path = iceberg.plan_files(table).tasks[0].data.file_path
    positions = pa.table({"file_path": [path], "pos": [9]})
    return {
        "append": lambda: iceberg.append(table, ROWS, dry_run=True),
        "compact": lambda: iceberg.compact(table, dry_run=True),
        "convert_equality_deletes": lambda: iceberg.convert_equality_deletes(table, dry_run=True),
        "convert_position_deletes": lambda: iceberg.convert_position_deletes(table, dry_run=True),
        "delete": lambda: iceberg.delete(table, "id < 60", dry_run=True),
        "delete_keys": lambda: iceberg.delete_keys(table, ROWS.slice(0, 5), "id", dry_run=True),
        "delete_positions": lambda: iceberg.delete_positions(table, positions, dry_run=True),
        "dynamic_partition_overwrite": lambda: overwrite_partitions(table),
        "overwrite": lambda: iceberg.overwrite(table, ROWS, "id < 60", dry_run=True),
        "repair": lambda: iceberg.repair(table, dry_run=True),
        "rewrite_data_files": lambda: iceberg.rewrite_data_files(table, min_deleted=0.01, dry_run=True),
        "rewrite_manifests": lambda: iceberg.rewrite_manifests(table, dry_run=True),
        "transaction": lambda: delete_in_transaction(table),
        "update": lambda: iceberg.update(table, "id < 60", {"word": "new"}, dry_run=True),
        "upgrade": lambda: iceberg.upgrade(table, dry_run=True),
        "upsert": lambda: iceberg.upsert(table, ROWS.slice(0, 5), "id", dry_run=True),
    }


@pytest.mark.parametrize("verb", [*COMMITTING, "upgrade"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_dry_run_writes_nothing(racing: RacingCatalog, table: Table, verb: str, version: int) -> None:
    if version == 2:
        table = racing.create_table("n.old", ROWS.schema, properties={"format-version": "2"})
        table.append(ROWS)
        if verb in ("compact", "convert_equality_deletes", "convert_position_deletes", "repair"):
            pytest.skip("needs format version 3")
    location, files = table.metadata_location, files_of(table)
    dry_runs(table)[verb]()
    table.refresh()
    assert table.metadata_location == location
    assert files_of(table) == files


def test_a_dry_run_counts_what_the_run_deletes(table: Table) -> None:
    path = iceberg.plan_files(table).tasks[0].data.file_path
    positions = pa.table({"file_path": [path, path], "pos": [9, 9]})
    counts = ("rows_deleted", "data_files", "data_files_dropped")
    for verb, argument in ((iceberg.delete_positions, positions), (iceberg.delete, "id < 60")):
        planned, done = verb(table, argument, dry_run=True), verb(table, argument)
        assert planned.snapshot_id is None
        assert planned.rows_deleted > 0
        assert [getattr(planned, name) for name in counts] == [getattr(done, name) for name in counts]


def test_a_dry_run_of_rows_that_do_not_fit_fails(table: Table) -> None:
    with pytest.raises(InvalidInputError):
        iceberg.append(table, pa.table({"nothing": [1]}), dry_run=True)


def test_a_key_column_may_be_a_name(table: Table) -> None:
    assert iceberg.delete_keys(table, ROWS.slice(0, 2), "id").rows_deleted == 2
    assert iceberg.upsert(table, ROWS.slice(0, 2), "id").rows_inserted == 2


@pytest.mark.parametrize("verb", READING)
def test_a_tag_is_read_by_its_own_argument(table: Table, verb: str) -> None:
    job = getattr(iceberg, verb)
    job(table, tag="first")
    with pytest.raises(InvalidInputError, match="'first': expected a branch, found a tag"):
        job(table, branch="first")
    with pytest.raises(InvalidInputError, match="'main': expected a tag, found a branch"):
        job(table, tag="main")
    with pytest.raises(NotFoundError, match="tag 'second': not found; the table has first"):
        job(table, tag="second")
    with pytest.raises(InvalidInputError, match="found branch and tag"):
        job(table, branch="main", tag="first")


def test_a_tag_is_the_snapshot_it_names(table: Table) -> None:
    assert iceberg.scan(table, tag="first").to_arrow().num_rows == 50


def test_snapshot_properties_are_in_the_summary(table: Table) -> None:
    iceberg.delete(table, "id = 70", snapshot_properties={"run": "42"})
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.additional_properties["run"] == "42"
