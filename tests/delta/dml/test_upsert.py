"""Upserts into Delta tables: the log, and the rows that all readers return."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from puffin_fast import delta, errors
from tests.delta.conftest import TABLES
from tests.delta.tables import Golden, append, refused
from tests.kit.faults import RacingStorage
from tests.kit.rows import agreed, by_us

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


SPARK = [name for name in TABLES if name.startswith("spark") and name != "spark_containers"]


@pytest.mark.parametrize("name", SPARK)
def test_an_upsert_leaves_each_given_row_once(
    name: str, golden: Golden, duckdb_delta: DuckDBPyConnection
) -> None:
    table = golden(name)
    before = {row["id"]: row for row in by_us(table)}
    given = {i: {"id": i, "v": "up", "part": f"p {i % 3}"} for i in (*range(50, 60), *range(990, 1000))}
    same = before[101]
    data = pa.Table.from_pylist([*given.values(), same])
    assert delta.upsert(table, data, "id", dry_run=True).commit.id is None
    done = delta.upsert(table, data, "id")
    updated = sum(i in before for i in given)
    assert (done.rows_updated, done.rows_inserted, done.rows_unchanged) == (updated, len(given) - updated, 1)
    assert agreed(table, duckdb_delta) == sorted((before | given).values(), key=lambda row: row["id"])
    again = delta.upsert(table, data, "id")
    assert (again.commit.id, again.rows_unchanged) == (None, len(given) + 1)


def test_an_upsert_replaces_several_rows_by_one_only_if_told(partitioned: Path) -> None:
    table = partitioned
    append(table, 4)
    assert len([row for row in by_us(table) if row["id"] == 99]) == 2
    data = pa.table({"id": [99, 98], "v": ["one", "one"], "part": ["p 0"] * 2})
    for options in ({}, {"dry_run": True}, {"skip_unchanged": False}, {"duplicate_keys": "refuse"}):
        words = "found id: 1 of the given keys have several rows there, 2 in all"
        with refused(table, errors.InvalidInputError, words):
            delta.upsert(table, data, ["id"], **options)
    assert delta.upsert(table, data, "id", when_matched_update_all=False).rows_unchanged == 2
    with pytest.raises(
        errors.InvalidInputError, match="duplicate_keys: expected 'refuse' or 'replace', found 'all'"
    ):
        delta.upsert(table, data, "id", duplicate_keys="all")
    done = delta.upsert(table, data.slice(0, 1), ["id"], duplicate_keys="replace")
    assert (done.rows_updated, done.rows_deleted) == (1, 2)
    assert [row["v"] for row in by_us(table) if row["id"] == 99] == ["one"]


def test_a_row_that_others_add_meanwhile_is_one_of_several(partitioned: Path) -> None:
    table = partitioned
    data = pa.table({"id": [99], "v": ["mine"], "part": ["p 0"]})
    with pytest.raises(errors.InvalidInputError, match="1 of the given keys have several rows there"):
        delta.upsert(RacingStorage(table, lambda: append(table, 4)), data, "id")
    assert sum(row["id"] == 99 for row in by_us(table)) == 2
    assert delta.orphan_files(table, older_than=timedelta()).num_rows == 0


def test_keys_that_others_add_meanwhile_are_searched(partitioned: Path) -> None:
    table = partitioned
    data = pa.table({"id": [0], "v": ["mine"], "part": ["p 0"]})  # row 0 was deleted before
    done = delta.upsert(RacingStorage(table, lambda: append(table, 4)), data, "id")
    assert (done.commit.id, done.rows_updated, done.rows_inserted) == (5, 1, 0)
    assert [row["v"] for row in by_us(table) if row["id"] == 0] == ["mine"]
