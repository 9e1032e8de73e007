"""Upserts, compared with a dictionary; PyIceberg, DuckDB and Spark read the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast.errors import ConflictError, InvalidInputError, NotFoundError
from puffin_fast.iceberg import append, create_table, delete, plan_files, scan, upsert, v3_metadata
from tests.iceberg.conftest import refused, rows_of, rows_of_duckdb, summary_of
from tests.iceberg.dml.example_rows import SCHEMA, START, N, check, made, of, row
from tests.kit.rows import by_pyiceberg
from tests.kit.tables import files_of, path_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

    from tests.kit.faults import RacingCatalog


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spec", [(), ("g",)], ids=["flat", "partitioned"])
def test_rows_are_replaced_inserted_or_unchanged(
    shared_catalog: SqlCatalog,
    namespace: str,
    duckdb_iceberg: DuckDBPyConnection,
    version: int,
    spec: tuple[str, ...],
) -> None:
    table = made(shared_catalog, namespace, version=version, spec=spec)
    before = table.metadata.last_sequence_number
    new = [
        row(3, "g1", 0.5),
        row(100),
        START[7],
        row(25, None, None),
        {**START[8], "tags": ["new"]},
        row(101),
    ]
    done = upsert(table, of(new), ["id"])
    assert (done.rows_updated, done.rows_inserted, done.rows_unchanged) == (3, 2, 1)
    assert (done.rows_deleted, done.commit.attempts) == (3, 1)
    assert table.metadata.last_sequence_number == before + 1
    expected = {r["id"]: r for r in [*START, *new]}
    check(table, duckdb_iceberg, list(expected.values()))
    again = upsert(table, of(new), ["id"])
    assert (again.commit.id, again.rows_unchanged) == (None, 6)
    written = upsert(table, of(new), ["id"], skip_unchanged=False)
    assert (written.rows_updated, written.rows_unchanged, written.rows_deleted) == (6, 0, 6)
    check(table, duckdb_iceberg, list(expected.values()))
    assert summary_of(table)["operation"] == "overwrite"


def test_update_and_insert_can_be_disabled(
    shared_catalog: SqlCatalog, namespace: str, duckdb_iceberg: DuckDBPyConnection
) -> None:
    table = made(shared_catalog, namespace)
    new = [row(3, "z"), row(100, "z")]
    done = upsert(table, of(new), ["id"], when_matched_update_all=False)
    assert (done.rows_updated, done.rows_inserted, done.rows_unchanged) == (0, 1, 1)
    check(table, duckdb_iceberg, [*START, new[1]])
    other = [row(3, "y"), row(101, "y")]
    done = upsert(table, of(other), ["id"], when_not_matched_insert_all=False)
    assert (done.rows_updated, done.rows_inserted) == (1, 0)
    check(table, duckdb_iceberg, [*START[:3], other[0], *START[4:], new[1]])
    with pytest.raises(InvalidInputError, match="expected at least one of them"):
        upsert(table, of(new), ["id"], when_matched_update_all=False, when_not_matched_insert_all=False)


def test_rows_deleted_before_are_inserted_and_repeated_ones_become_one(
    shared_catalog: SqlCatalog, namespace: str, duckdb_iceberg: DuckDBPyConnection
) -> None:
    table = made(shared_catalog, namespace)
    delete(table, "id < 10")
    append(table, of([START[30], row(31, "other")]))
    new = [START[5], START[30], START[31], START[40]]
    done = upsert(table, of(new), ["id"], duplicate_keys="replace")
    assert (done.rows_inserted, done.rows_updated, done.rows_unchanged, done.rows_deleted) == (1, 2, 1, 4)
    check(table, duckdb_iceberg, [START[5], *START[10:]])


def test_an_empty_table_or_no_rows(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = create_table(shared_catalog, f"{namespace}.t", SCHEMA)
    assert upsert(table, of([]), ["id"]).commit.id is None
    assert upsert(table, of(START), ["id"]).rows_inserted == N
    assert upsert(table, of([]), ["id"]).commit.id is None
    assert by_pyiceberg(table) == START


def test_floats_are_compared_bit_by_bit(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = create_table(shared_catalog, f"{namespace}.t", SCHEMA)
    nan = float("nan")
    append(table, of([row(1, x=nan), row(2, x=0.0), row(3, x=None)]))
    done = upsert(table, of([row(1, x=nan), row(2, x=-0.0), row(3, x=None)]), ["id"])
    assert (done.rows_unchanged, done.rows_updated) == (2, 1)


def test_rows_of_key_columns_only_are_unchanged(shared_catalog: SqlCatalog, namespace: str) -> None:
    rows = pa.table({"a": pa.array([1, 2, 3]), "b": ["x", "y", "z"], "c": [0.0, 1.0, float("nan")]})
    table = create_table(shared_catalog, f"{namespace}.keys", rows.schema)
    append(table, rows)
    exact = upsert(table, rows.slice(1), ["a", "b"])
    assert (exact.commit.id, exact.rows_unchanged) == (None, 2)
    given = rows.set_column(2, "c", [[-0.0, 1.0, float("nan")]])
    done = upsert(table, given, ["a", "b", "c"])  # -0.0 is the key 0.0, but not the same bits
    assert (done.rows_updated, done.rows_inserted, done.rows_unchanged) == (1, 0, 2)
    assert str(scan(table, "a = 1").to_arrow()["c"][0].as_py()) == "-0.0"


def test_keys_of_several_columns_and_in_structs(
    shared_catalog: SqlCatalog, namespace: str, duckdb_iceberg: DuckDBPyConnection
) -> None:
    table = create_table(shared_catalog, f"{namespace}.t", SCHEMA)
    rows = [row(i, f"g{i}") for i in (1, 2, 3, 5, 6)]
    append(table, of(rows))
    new = [{**rows[0], "x": 9.0}, {**rows[1], "g": "other"}]
    done = upsert(table, of(new), ["s.a", "s.b", "id"])
    assert (done.rows_updated, done.rows_unchanged) == (2, 0)
    done = upsert(table, of([{**rows[2], "g": "else"}]), ["g", "id"])
    assert done.rows_inserted == 1
    found = scan(table).to_arrow().to_pylist()
    assert rows_of_duckdb(duckdb_iceberg, table, order="id, g").to_pylist() == sorted(
        found, key=lambda r: (r["id"], r["g"])
    )
    assert sorted(r["g"] for r in found if r["id"] == 3) == ["else", "g3"]


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "two rows": (of([row(1), row(2), row(1, "b")]), ["id"], r"two rows with one key \(id\)"),
    "null key": (of([row(1), {**row(2), "id": None}]), ["id"], "null in key column id"),
    "column missing": (of(START).drop_columns(["x"]), ["id"], "no column x"),
    "more columns": (of(START).append_column("more", pa.array(range(N))), ["id"], "more"),
    "wrong type": (of(START).set_column(1, "g", pa.array(range(N))), ["id"], "g"),
    "no key": (of(START), [], "at least one"),
    "no identifier": (of(START), None, "identifier"),
    "list as key": (of(START), ["tags"], "tags is a list"),
    "no arrow": (7, ["id"], "Arrow"),
    "unknown key": (of(START), ["nothing"], "nothing"),
}


@pytest.mark.parametrize("name", ["_pos", "_row_id"])
def test_columns_named_as_metadata_columns_are_columns(
    shared_catalog: SqlCatalog, namespace: str, name: str
) -> None:
    """Rows are compared by the table's own column, and found by the real position."""
    rows = pa.table({"id": [1, 2, 3], name: pa.array([7, 7, 7])})
    with v3_metadata(shared_catalog):  # `create_table` refuses these names
        table = shared_catalog.create_table(
            f"{namespace}.metadata", rows.schema, properties={"format-version": "3"}
        )
    append(table, rows)
    assert upsert(table, pa.table({"id": [1, 3], name: [7, 8]}), "id").rows_updated == 1
    assert rows_of(table).column(name).to_pylist() == [7, 7, 8]
    assert upsert(table, pa.table({"id": [4], name: [8]}), name).rows_updated == 1
    assert by_pyiceberg(table) == [{"id": i, name: 7 if i < 4 else 8} for i in (1, 2, 4)]


@pytest.mark.parametrize("version", [2, 3])
def test_bad_rows_are_refused_and_change_nothing(
    shared_catalog: SqlCatalog, namespace: str, version: int
) -> None:
    table = made(shared_catalog, namespace, version=version)
    for data, on, said in REFUSED.values():
        with refused(table, (InvalidInputError, NotFoundError), said):
            upsert(table, data, on)


def test_a_row_that_another_commit_inserts_meanwhile_is_updated(racing: RacingCatalog) -> None:
    table = made(racing, "n")
    other = racing.load_table("n.t")
    racing.before.append(lambda: append(other, of([row(100, "theirs")])))
    done = upsert(table, of([row(100, "mine"), row(3, "mine")]), ["id"])
    assert (done.rows_updated, done.rows_inserted, done.commit.attempts) == (2, 0, 2)
    assert [r["g"] for r in by_pyiceberg(table) if r["id"] in (3, 100)] == ["mine", "mine"]
    known = {
        task.data.file_path.rpartition("/")[2]
        for snapshot in table.metadata.snapshots
        for task in plan_files(table, snapshot_id=snapshot.snapshot_id).tasks
    }
    assert {p.name for p in files_of(table) if p.suffix == ".parquet"} == known


def test_a_row_that_another_commit_deletes_meanwhile_is_a_conflict(racing: RacingCatalog) -> None:
    table = made(racing, "n")
    other = racing.load_table("n.t")
    racing.before.append(lambda: delete(other, "id = 3"))
    with pytest.raises(ConflictError, match="another commit added deletes"):
        upsert(table, of([row(3, "mine"), row(100)]), ["id"])
    assert rows_of(racing.load_table("n.t")).num_rows == N - 1
    racing.before.append(lambda: delete(other, "id = 4"))
    done = upsert(table, of([row(3, "mine"), row(4, "mine")]), ["id"], on_conflict="merge")
    assert (done.rows_inserted, done.rows_updated) == (2, 0)
    assert rows_of(table).num_rows == N


# A key that several rows have -----------------------------------------------------------------------------

TWO_KEYS = "found id: 2 of the given keys have several rows there, 5 in all and up to 3 for one key"


def with_duplicates(catalog: Any, namespace: str, **options: Any) -> Table:
    """The rows of `made`, in three files; 8 is there twice, 30 three times."""
    table = made(catalog, namespace, **options)
    append(table, of([row(8, "else"), row(30, "other"), row(30, "more")]))
    return table


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spec", [(), ("g",)], ids=["flat", "partitioned"])
def test_a_row_never_replaces_several_without_being_asked(
    shared_catalog: SqlCatalog, namespace: str, version: int, spec: tuple[str, ...]
) -> None:
    table = with_duplicates(shared_catalog, namespace, version=version, spec=spec)
    n_rows = rows_of(table).num_rows
    given = of([row(3, "new"), row(8, "new"), START[30], row(900)])
    for options in (
        {},
        {"dry_run": True},
        {"skip_unchanged": False},
        {"threads": 4},
        {"on_conflict": "merge"},
        {"when_not_matched_insert_all": False, "duplicate_keys": "refuse"},
    ):
        with refused(table, InvalidInputError, TWO_KEYS) as error:
            upsert(table, given, "id", **options)
        assert "duplicate_keys='replace'" in str(error.value)
        assert "else" not in str(error.value)
    done = upsert(table, given, "id", duplicate_keys="replace")
    assert (done.rows_updated, done.rows_deleted, done.rows_inserted) == (3, 6, 1)
    assert rows_of(table).num_rows == n_rows - 6 + 4


def test_keys_count_that_are_given_and_replaced_and_live(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = with_duplicates(shared_catalog, namespace)
    assert upsert(table, of([row(9, "new"), row(901)]), "id").rows_deleted == 1
    inserted = upsert(table, of([row(8, "new"), row(902)]), "id", when_matched_update_all=False)
    assert (inserted.rows_inserted, inserted.rows_unchanged, inserted.rows_deleted) == (1, 1, 0)
    delete(table, "g = 'else' or g = 'more'")
    with pytest.raises(InvalidInputError, match="1 of the given keys have several rows there, 2 in all"):
        upsert(table, of([row(8, "new"), row(30, "new")]), "id")
    delete(table, "g = 'other'")
    assert upsert(table, of([row(8, "new"), row(30, "new")]), "id").rows_updated == 2


def test_equal_rows_have_one_key_several_times(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    append(table, of([START[3]]))
    with pytest.raises(InvalidInputError, match="1 of the given keys"):
        upsert(table, of([START[3]]), "id")


def test_a_feed_and_single_columns_reach_every_row_of_a_key(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = with_duplicates(shared_catalog, namespace)
    given = of([row(8, "new"), row(30, "new")])
    done = upsert(table, given, "id", update_columns=["g"])
    assert (done.rows_updated, done.rows_deleted) == (2, 5)
    gone = given.append_column("gone", pa.array([True, False]))
    with pytest.raises(InvalidInputError, match="1 of the given keys have several rows there, 3 in all"):
        upsert(table, gone, "id", delete_column="gone")
    done = upsert(table, gone.slice(0, 1), "id", delete_column="gone")
    assert (done.keys_deleted, done.rows_deleted) == (1, 2)


def test_a_row_that_another_commit_adds_meanwhile_is_one_of_several(racing: RacingCatalog) -> None:
    table = made(racing, "n")
    other = racing.load_table("n.t")
    racing.before.append(lambda: append(other, of([row(3, "theirs")])))
    with pytest.raises(InvalidInputError, match="1 of the given keys"):
        upsert(table, of([row(3, "mine")]), "id")
    assert {r["g"] for r in rows_of(table.refresh()).to_pylist() if r["id"] == 3} == {"g0", "theirs"}
    live = {path_of(task.data.file_path) for task in plan_files(table).tasks}
    assert live == {path for path in files_of(table) if path.suffix == ".parquet"}


def test_a_transaction_sees_the_rows_that_it_added(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    with iceberg.transaction(table) as tx:
        tx.append(of([row(3, "more"), row(700)]))
        with pytest.raises(InvalidInputError, match="1 of the given keys"):
            tx.upsert(of([row(3, "new")]), "id")
        assert tx.upsert(of([row(3, "new")]), "id", duplicate_keys="replace").rows_deleted == 2
        assert tx.upsert(of([row(700, "new")]), "id").rows_updated == 1
    assert rows_of(table).num_rows == len(START) + 1
