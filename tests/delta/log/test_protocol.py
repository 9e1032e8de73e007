"""Protocols of all versions, and tables whose vectors are enabled no longer: what may be committed to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from duckdb import DuckDBPyConnection

from puffin_fast import delta, errors
from tests.delta.tables import alter, commit_of, files_of, ids

Golden = Callable[[str], Path]

_ADDED = {
    (1, 2): {"appendOnly", "invariants"},
    (1, 3): {"checkConstraints"},
    (1, 4): {"changeDataFeed", "generatedColumns"},
    (2, 5): {"columnMapping"},
    (1, 6): {"identityColumns"},
}
SPARK: dict[tuple[int, int], set[str]] = {
    (reader, writer): set().union(*(_ADDED[at] for at in _ADDED if at[0] <= reader and at[1] <= writer))
    for reader in (1, 2)
    for writer in range(1, 7)
}
"""The writer features that delta-spark 4.1 lists when it enables vectors on a table of each legacy protocol."""


def without_vectors(table: Path) -> None:
    """Leaves only version 0 of a table that has got vectors later."""
    for version in (1, 2):
        (table / "_delta_log" / f"{version:020d}.json").unlink()


@pytest.mark.parametrize(("reader", "writer"), SPARK)
def test_enabling_lists_what_spark_lists(
    reader: int, writer: int, golden: Golden, duckdb_delta: DuckDBPyConnection
) -> None:
    table = golden("hand_inline")
    without_vectors(table)
    alter(table, "protocol", lambda p: p.update(minReaderVersion=reader, minWriterVersion=writer))
    assert delta.enable(table) == 1
    protocol = delta.snapshot(table).protocol
    assert protocol.writer_features == SPARK[reader, writer] | {"deletionVectors"}
    assert protocol.reader_features == protocol.writer_features & {"columnMapping", "deletionVectors"}
    assert (protocol.reader, protocol.writer) == (3, 7)
    (count,) = duckdb_delta.execute(f"SELECT count(*) FROM delta_scan('{table}')").fetchone() or ()
    assert count == 1000


@pytest.mark.parametrize(
    ("protocol", "readers", "writers"),
    [
        ((1, 7, None, ["appendOnly"]), set(), {"appendOnly"}),
        ((2, 7, None, ["appendOnly"]), set(), {"appendOnly"}),
        ((2, 7, None, ["columnMapping"]), {"columnMapping"}, {"columnMapping"}),
        ((1, 7, None, ["timestampNtz"]), {"timestampNtz"}, {"timestampNtz"}),
        ((1, 2, [], []), set(), {"appendOnly", "invariants"}),
        ((1, 2, ["deletionVectors"], ["deletionVectors"]), set(), {"appendOnly", "invariants"}),
        ((3, 7, ["timestampNtz"], ["timestampNtz"]), {"timestampNtz"}, {"timestampNtz"}),
    ],
)
def test_features_of_readers_are_in_both_lists(
    protocol: tuple[int, int, Any, Any], readers: set[str], writers: set[str], golden: Golden
) -> None:
    table = golden("hand_inline")
    without_vectors(table)
    names = ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures")
    given = {name: value for name, value in zip(names, protocol, strict=True) if value is not None}
    alter(table, "protocol", lambda p: (p.clear(), p.update(given)))
    assert delta.enable(table) == 1
    (found,) = commit_of(table, 1)["protocol"]
    assert set(found["readerFeatures"]) == readers | {"deletionVectors"}
    assert set(found["writerFeatures"]) == writers | {"deletionVectors"}


def test_enabling_lists_the_column_mapping_that_the_properties_set(golden: Golden) -> None:
    table = golden("spark_many_features")
    alter(table, "protocol", lambda p: (p.clear(), p.update(minReaderVersion=1, minWriterVersion=4)))
    before = ids(table)
    version = delta.enable(table)
    assert version is not None
    (found,) = commit_of(table, version)["protocol"]
    assert "columnMapping" in found["readerFeatures"]
    assert "columnMapping" in found["writerFeatures"]
    assert ids(table) == before


# Vectors that are enabled no longer ----------------------------------------------------------------------------

DISABLED = {"delta.enableDeletionVectors": "false"}
VERBS: dict[str, Callable[[Path, bool], Any]] = {
    "delete": lambda table, dry: delta.delete(table, "id < 30", dry_run=dry),
    "delete_keys": lambda table, dry: delta.delete_keys(table, pa.table({"id": [1]}), "id", dry_run=dry),
    "update": lambda table, dry: delta.update(table, "id < 30", {"v": "x"}, dry_run=dry),
    "upsert": lambda table, dry: delta.upsert(
        table, pa.table({"id": [1], "v": ["x"], "part": ["p 1"]}), "id", dry_run=dry
    ),
}


@pytest.fixture
def disabled(golden: Golden) -> Path:
    """A table that has vectors, and a property that enables no new ones."""
    table = golden("spark_partitioned")
    alter(table, "metaData", lambda m: m["configuration"].update(DISABLED))
    assert any(delta.scan(table).files()["vector_path"].is_valid().to_pylist())
    return table


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("verb", VERBS)
def test_what_needs_a_new_vector_is_refused(verb: str, dry_run: bool, disabled: Path) -> None:
    before = files_of(disabled)
    with pytest.raises(errors.UnsupportedError, match=r"not enabled; puffin_fast.delta.enable"):
        VERBS[verb](disabled, dry_run)
    assert files_of(disabled) == before


def test_a_purge_needs_no_vector(disabled: Path, duckdb_delta: DuckDBPyConnection) -> None:
    before = ids(disabled)
    done = delta.purge(disabled, min_deleted=1e-9)
    assert done.rows_purged > 0
    assert not any(delta.scan(disabled).files()["vector_path"].is_valid().to_pylist())
    found = duckdb_delta.execute(f"SELECT id FROM delta_scan('{disabled}') ORDER BY id").fetchall()
    assert [id for (id,) in found] == before == ids(disabled)


@pytest.mark.parametrize("row_filter", ["id >= 0", "part = 'p 1'", "v is not null and part = 'p 1'"])
def test_a_delete_of_whole_files_needs_no_vector(row_filter: str, disabled: Path) -> None:
    gone = set(delta.scan(disabled, row_filter, ("id",)).to_arrow()["id"].to_pylist())
    left = set(ids(disabled)) - gone
    done = delta.delete(disabled, row_filter)
    assert (done.rows_deleted, done.vectors_written) == (len(gone), 0)
    assert set(ids(disabled)) == left
    assert "deletionVector" in json.dumps(commit_of(disabled, done.version or 0)["remove"])


def test_an_update_of_whole_files_needs_no_vector(disabled: Path) -> None:
    before = ids(disabled)
    assert delta.update(disabled, "part = 'p 1'", {"v": "x"}).vectors_written == 0
    assert delta.scan(disabled, "part = 'p 1' and v != 'x'").count() == 0
    assert ids(disabled) == before


def test_an_upsert_of_new_keys_needs_no_vector_and_removes_nothing(golden: Golden) -> None:
    table = golden("spark_partitioned")
    alter(table, "metaData", lambda m: m["configuration"].update(DISABLED | {"delta.appendOnly": "true"}))
    before = ids(table)
    rows = pa.table({"id": [90_001], "v": ["x"], "part": ["p 1"]})
    assert delta.upsert(table, rows, "id").rows_inserted == 1
    assert ids(table) == [*before, 90_001]
    with pytest.raises(errors.UnsupportedError, match="appendOnly"):
        delta.upsert(table, pa.table({"id": [90_001], "v": ["y"], "part": ["p 1"]}), "id")


def test_a_purge_of_rows_that_may_only_be_appended_changes_no_row(golden: Golden) -> None:
    """The protocol forbids `remove` actions that change data; a purge moves rows."""
    table = golden("spark_partitioned")
    alter(table, "metaData", lambda m: m["configuration"].update({"delta.appendOnly": "true"}))
    before = ids(table)
    assert delta.purge(table, min_deleted=1e-9).rows_purged > 0
    assert ids(table) == before
    with pytest.raises(errors.UnsupportedError, match="appendOnly"):
        delta.delete(table, "id >= 0")
