"""Upserts by a key that several rows of the table have: refused, or all of these rows are replaced by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg import plan_files
from tests.iceberg.conftest import files_of, local, rows_of
from tests.iceberg.dml.example_rows import START, made, of, row

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

    from tests.iceberg.conftest import RacingCatalog

TWO_KEYS = "found id: 2 of the given keys have several rows there, 5 in all and up to 3 for one key"


def with_duplicates(catalog: Any, namespace: str, **options: Any) -> Table:
    """The rows of `made`, in three files; 8 is there twice, 30 three times."""
    table = made(catalog, namespace, **options)
    iceberg.append(table, of([row(8, "else"), row(30, "other"), row(30, "more")]))
    return table


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spec", [(), ("g",)], ids=["flat", "partitioned"])
def test_a_row_never_replaces_several_without_being_asked(
    shared_catalog: SqlCatalog, namespace: str, version: int, spec: tuple[str, ...]
) -> None:
    table = with_duplicates(shared_catalog, namespace, version=version, spec=spec)
    before, files, location = rows_of(table), files_of(table), table.metadata_location
    given = of([row(3, "new"), row(8, "new"), START[30], row(900)])
    for options in (
        {},
        {"dry_run": True},
        {"skip_unchanged": False},
        {"threads": 4},
        {"on_conflict": "merge"},
    ):
        with pytest.raises(InvalidInputError, match=TWO_KEYS) as error:
            iceberg.upsert(table, given, "id", **options)
        assert "duplicate_keys='replace'" in str(error.value)
        assert "else" not in str(error.value)
    with pytest.raises(InvalidInputError, match=TWO_KEYS):
        iceberg.upsert(table, given, "id", when_not_matched_insert_all=False, duplicate_keys="refuse")
    assert (table.refresh().metadata_location, files_of(table)) == (location, files)
    assert rows_of(table) == before
    done = iceberg.upsert(table, given, "id", duplicate_keys="replace")
    assert (done.rows_updated, done.rows_deleted, done.rows_inserted) == (3, 6, 1)
    assert rows_of(table).num_rows == before.num_rows - 6 + 4


def test_keys_count_that_are_given_and_replaced_and_live(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = with_duplicates(shared_catalog, namespace)
    assert iceberg.upsert(table, of([row(9, "new"), row(901)]), "id").rows_deleted == 1
    inserted = iceberg.upsert(table, of([row(8, "new"), row(902)]), "id", when_matched_update_all=False)
    assert (inserted.rows_inserted, inserted.rows_unchanged, inserted.rows_deleted) == (1, 1, 0)
    iceberg.delete(table, "g = 'else' or g = 'more'")
    with pytest.raises(InvalidInputError, match="1 of the given keys have several rows there, 2 in all"):
        iceberg.upsert(table, of([row(8, "new"), row(30, "new")]), "id")
    iceberg.delete(table, "g = 'other'")
    assert iceberg.upsert(table, of([row(8, "new"), row(30, "new")]), "id").rows_updated == 2


def test_equal_rows_are_several_rows(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    iceberg.append(table, of([START[3]]))
    with pytest.raises(InvalidInputError, match="1 of the given keys"):
        iceberg.upsert(table, of([START[3]]), "id")


def test_a_feed_and_single_columns_reach_every_row_of_a_key(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = with_duplicates(shared_catalog, namespace)
    given = of([row(8, "new"), row(30, "new")])
    done = iceberg.upsert(table, given, "id", update_columns=["g"])
    assert (done.rows_updated, done.rows_deleted) == (2, 5)
    gone = given.append_column("gone", pa.array([True, False]))
    with pytest.raises(InvalidInputError, match="1 of the given keys have several rows there, 3 in all"):
        iceberg.upsert(table, gone, "id", delete_column="gone")
    done = iceberg.upsert(table, gone.slice(0, 1), "id", delete_column="gone")
    assert (done.keys_deleted, done.rows_deleted) == (1, 2)


def test_a_row_that_another_commit_adds_meanwhile_is_one_of_several(racing: RacingCatalog) -> None:
    table = made(racing, "n")
    other = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.append(other, of([row(3, "theirs")])))
    with pytest.raises(InvalidInputError, match="1 of the given keys"):
        iceberg.upsert(table, of([row(3, "mine")]), "id")
    assert {r["g"] for r in rows_of(table.refresh()).to_pylist() if r["id"] == 3} == {"g0", "theirs"}
    live = {local(task.data.file_path) for task in plan_files(table).tasks}
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


@pytest.mark.parametrize("value", ["", "Refuse", None, True, "refuse,replace"])
def test_the_argument_is_checked(shared_catalog: SqlCatalog, namespace: str, value: Any) -> None:
    table = made(shared_catalog, namespace)
    with pytest.raises(InvalidInputError, match="duplicate_keys: expected 'refuse' or 'replace'"):
        iceberg.upsert(table, of([row(3)]), "id", duplicate_keys=value)
