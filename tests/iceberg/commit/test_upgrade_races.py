"""Jobs during an upgrade: the committed delete files are those of the table's format version."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException

from puffin_fast import iceberg
from puffin_fast.errors import ConflictError
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.commit.request import head_of
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from tests.iceberg.conftest import RacingCatalog, files_of, local, rows_of, rows_of_duckdb

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.table import Table

ROWS = pa.table({"id": pa.array(range(100), pa.int64())})
POSITION_DELETES = 1

QUICK = {f"commit.retry.{name}-wait-ms": "1" for name in ("min", "max")}


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    """A table of format version 2 with 100 rows in two data files."""
    with v3_metadata(racing):
        made = racing.create_table("n.t", ROWS.schema, properties={"format-version": "2", **QUICK})
    iceberg.append(made, ROWS.slice(0, 50))
    iceberg.append(made, ROWS.slice(50))
    return made


DELETES: dict[str, Callable[[Table], Any]] = {
    "delete": lambda table: iceberg.delete(table, "id < 10"),
    "delete_keys": lambda table: iceberg.delete_keys(table, pa.table({"id": range(10)}), "id"),
    "delete_positions": lambda table: iceberg.delete_positions(
        table, pa.table({"file_path": [path_of_the_first(table)] * 10, "pos": range(10)})
    ),
    "upsert": lambda table: iceberg.upsert(table, pa.table({"id": range(10)}), "id", skip_unchanged=False),
}


def path_of_the_first(table: Table) -> str:
    found: str = iceberg.scan(table, "id = 0", ("_file",)).to_arrow()["_file"][0].as_py()
    return found


def position_delete_files(table: Table) -> int:
    plan = iceberg.plan_files(table)
    return sum(len(task.position_deletes) for task in plan.tasks)


@pytest.mark.parametrize("earlier", [False, True], ids=["", "with earlier deletes"])
@pytest.mark.parametrize("verb", DELETES)
def test_a_delete_that_meets_an_upgrade_is_planned_anew(
    racing: RacingCatalog, table: Table, duckdb_iceberg: DuckDBPyConnection, verb: str, earlier: bool
) -> None:
    if earlier:
        iceberg.delete(table, "id = 20")
        assert position_delete_files(table) == 1
    racing.before.append(lambda: iceberg.upgrade(racing.load_table("n.t")))
    done = DELETES[verb](table)
    assert done.attempts == 2
    assert table.metadata.format_version == 3
    assert position_delete_files(table) == 0
    assert sum(task.vector is not None for task in iceberg.plan_files(table).tasks) == 1
    left = [id for id in range(0 if verb == "upsert" else 10, 100) if not earlier or id != 20]
    assert rows_of(table)["id"].to_pylist() == left
    assert rows_of_duckdb(duckdb_iceberg, table)["id"].to_pylist() == left
    assert list(iceberg.verify(table)) == []
    assert sum(path.name.endswith("deletes.parquet") for path in files_of(table)) == earlier


def test_an_append_that_meets_an_upgrade_gets_row_ids(racing: RacingCatalog, table: Table) -> None:
    racing.before.append(lambda: iceberg.upgrade(racing.load_table("n.t")))
    done = iceberg.append(table, pa.table({"id": [500]}))
    assert done is not None
    assert done.attempts == 2
    ids = iceberg.scan(table, "id = 500", ("_row_id",)).to_arrow()["_row_id"].to_pylist()
    assert len(ids) == 1
    assert ids[0] is not None


def test_a_retry_never_adds_a_position_delete_file_to_a_table_of_version_3(
    racing: RacingCatalog, table: Table
) -> None:
    """An append comes in between, so that the branch has moved, and then the upgrade."""

    def both() -> None:
        other = racing.load_table("n.t")
        iceberg.append(other, pa.table({"id": [500]}))
        iceberg.upgrade(other)

    racing.before.append(both)
    assert iceberg.delete(table, "id < 10").vectors_written == 1
    assert position_delete_files(table) == 0


def test_changes_that_cannot_be_planned_anew_conflict_with_an_upgrade(
    racing: RacingCatalog, table: Table
) -> None:
    iceberg.delete(table, "id = 20")
    (entry,) = [e for task in iceberg.plan_files(table).tasks for e in task.position_deletes]
    base = head_of(table.metadata)
    racing.before.append(lambda: iceberg.upgrade(racing.load_table("n.t")))
    with pytest.raises(ConflictError, match="raised the format version from 2 to 3"):
        commit(table, Changes(removed=(entry,)), base=base)


def test_an_upgrade_that_meets_a_commit_is_tried_again(racing: RacingCatalog, table: Table) -> None:
    racing.before.append(lambda: iceberg.delete(racing.load_table("n.t"), "id < 10"))
    assert iceberg.upgrade(table).metadata.format_version == 3
    assert rows_of(table)["id"].to_pylist() == list(range(10, 100))


def test_upgrades_that_meet_each_other_are_one(racing: RacingCatalog, table: Table) -> None:
    racing.before.append(lambda: iceberg.upgrade(racing.load_table("n.t")))
    assert iceberg.upgrade(table).metadata.format_version == 3
    assert table.metadata_location == racing.load_table("n.t").metadata_location


def test_an_upgrade_that_happened_though_the_catalog_refused_it_is_a_success(
    racing: RacingCatalog, table: Table
) -> None:
    """A request that something between repeated: the second was refused, for the first had come through."""

    def refused() -> None:
        raise CommitFailedException("another commit came first: your own")

    racing.after.append(refused)
    assert iceberg.upgrade(table).metadata.format_version == 3
    assert local(table.metadata_location).exists()
    assert rows_of(racing.load_table("n.t")).num_rows == 100


def test_a_delete_that_meets_an_upgrade_through_a_server_is_planned_anew(
    rest_catalog: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server refuses a snapshot without row ids, in words of its own."""
    rest_catalog.create_namespace_if_not_exists("upgrades")
    table = rest_catalog.create_table("upgrades.t", ROWS.schema, properties={"format-version": "2", **QUICK})
    iceberg.append(table, ROWS)
    send = rest_catalog.commit_table
    planned = [lambda: iceberg.upgrade(rest_catalog.load_table("upgrades.t"))]

    def commit_table(*args: Any) -> Any:
        while planned:
            planned.pop()()
        return send(*args)

    monkeypatch.setattr(rest_catalog, "commit_table", commit_table)
    done = iceberg.delete(table, "id < 10")
    assert (done.attempts, done.vectors_written) == (2, 1)
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == list(range(10, 100))
