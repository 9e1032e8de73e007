"""Purges of Delta tables: no row changes, and no vector is left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

from puffin_fast import delta, errors
from tests.delta.conftest import TABLES
from tests.delta.tables import Golden, commit_of, refused, unchanged
from tests.kit.rows import agreed, by_us

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@pytest.mark.parametrize("name", TABLES)
def test_a_purge_drops_the_vectors_and_no_row(
    name: str, golden: Golden, duckdb_delta: DuckDBPyConnection
) -> None:
    table = golden(name)
    before = by_us(table)
    n_vectors = delta.vectors(table).num_rows
    purged = sum(delta.vectors(table)["cardinality"].to_pylist())
    version = delta.snapshot(table).version
    assert delta.purge(table, min_deleted=1e-9, dry_run=True).data_files == n_vectors
    done = delta.purge(table, min_deleted=1e-9)
    assert (done.data_files, done.rows_purged, done.commit.id) == (n_vectors, purged, version + 1)
    assert delta.vectors(table).num_rows == 0
    assert agreed(table, duckdb_delta) == before
    actions = commit_of(table, version + 1)
    assert not any(action["dataChange"] for action in [*actions["add"], *actions["remove"]])
    for add in actions["add"]:
        stats = json.loads(add["stats"])
        assert stats["tightBounds"] is True
        stored = pq.ParquetFile(table / unquote(add["path"])).read()
        assert stats["numRecords"] == stored.num_rows
        for column, low in stats["minValues"].items():
            assert low == min(stored[column].to_pylist())
            assert stats["maxValues"][column] == max(stored[column].to_pylist())
    assert delta.purge(table, min_deleted=1e-9).commit.id is None
    assert delta.orphan_files(table).num_rows == 0


def test_files_with_few_deletes_are_left(partitioned: Path) -> None:
    delta.delete(partitioned, "part = 'p 1' and id < 200")
    assert delta.purge(partitioned, min_deleted=0.5).data_files == 1
    with refused(partitioned, errors.InvalidInputError, "from 0 to 1"):
        delta.purge(partitioned, min_deleted=2)


def test_a_job_is_done_once_and_is_of_one_verb(partitioned: Path) -> None:
    assert delta.purge(partitioned, min_deleted=1e-9, job_id="p").commit.id == 4
    with unchanged(partitioned):
        assert delta.purge(partitioned, min_deleted=1e-9, job_id="p").commit.repeated
    with refused(partitioned, errors.InvalidInputError, "found that rewrite_data_files committed it"):
        delta.delete(partitioned, "id < 9", job_id="p")
