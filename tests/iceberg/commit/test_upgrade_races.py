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
from tests.iceberg.conftest import rows_of, rows_of_duckdb
from tests.iceberg.dml.example_rows import N, made, of, row
from tests.kit.faults import RacingCatalog
from tests.kit.rows import by_pyiceberg, row_ids
from tests.kit.tables import files_of, iceberg_table, parts, path_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.table import Table

ROWS = pa.table({"id": pa.array(range(100), pa.int64())})
POSITION_DELETES = 1

QUICK = {f"commit.retry.{name}-wait-ms": "1" for name in ("min", "max")}


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    """A table of format version 2 with 100 rows in two data files."""
    return iceberg_table(racing, parts(ROWS, 2), version=2, properties=QUICK)


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
    assert done.commit.attempts == 2
    assert table.metadata.format_version == 3
    assert position_delete_files(table) == 0
    assert sum(task.vector is not None for task in iceberg.plan_files(table).tasks) == 1
    left = [id for id in range(0 if verb == "upsert" else 10, 100) if not earlier or id != 20]
    assert rows_of(table)["id"].to_pylist() == left
    assert rows_of_duckdb(duckdb_iceberg, table)["id"].to_pylist() == left
    assert list(iceberg.verify(table)) == []
    assert sum(path.name.endswith("deletes.parquet") for path in files_of(table)) == earlier


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
    assert path_of(table.metadata_location).exists()
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
    assert (done.commit.attempts, done.vectors_written) == (2, 1)
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == list(range(10, 100))


# Rows that get their row ids between the plan of a change and its commit ----------------------------------------

NEW = of([row(3, "new"), row(4, "new")])


def in_transaction(table: Table) -> None:
    with iceberg.transaction(table) as job:
        job.append(of([row(200)]))
        job.update("id in (3, 4)", {"g": "new"})


CHANGES: dict[str, Callable[[Table], object]] = {
    "update": lambda table: iceberg.update(table, "id in (3, 4)", {"g": "new"}),
    "update of all": lambda table: iceberg.update(table, f"id < {N}", {"g": "new"}),
    "upsert": lambda table: iceberg.upsert(table, NEW, ["id"]),
    "upsert of columns": lambda table: iceberg.upsert(table, NEW, ["id"], update_columns=["g"]),
    "transaction": in_transaction,
    "append": lambda table: iceberg.append(table, of([row(200, "new"), row(201, "new")])),
}


@pytest.mark.parametrize("upgraded", ["before", "meanwhile"])
@pytest.mark.parametrize("verb", CHANGES)
def test_row_ids_that_another_commit_assigns_meanwhile_are_kept(
    racing: RacingCatalog, verb: str, upgraded: str
) -> None:
    table = made(racing, "n", version=2)
    if upgraded == "before":
        iceberg.upgrade(table)
    other = racing.load_table("n.t")

    def assign() -> None:
        iceberg.upgrade(other)
        iceberg.append(other, of([row(100, "theirs")]))

    racing.before.append(assign)
    CHANGES[verb](table)

    def ids_of(table: Table) -> dict[int, int]:
        return {id: row_id for id, row_id in row_ids(table).items() if id < N}

    assert table.metadata.format_version == 3
    assert sum(found["g"] == "new" for found in by_pyiceberg(table)) >= 2
    assert ids_of(table) == ids_of(other)
    assert None not in ids_of(table).values()
