"""Deletion vectors that are enabled: the protocol that this makes of older ones, and where it is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import delta, errors
from tests.delta.tables import (
    Golden,
    alter,
    commit_of,
    configure,
    ids,
    ids_of_others,
    refused,
    remove_commits,
)
from tests.kit.cases import each
from tests.kit.tables import delta_table

if TYPE_CHECKING:
    from pathlib import Path

    from duckdb import DuckDBPyConnection

_ADDED = {
    (1, 2): {"appendOnly", "invariants"},
    (1, 3): {"checkConstraints"},
    (1, 4): {"changeDataFeed", "generatedColumns"},
    (2, 5): {"columnMapping"},
    (1, 6): {"identityColumns"},
}
BY_SPARK: dict[tuple[int, int], set[str]] = {
    (reader, writer): set().union(*(_ADDED[at] for at in _ADDED if at[0] <= reader and at[1] <= writer))
    for reader in (1, 2)
    for writer in range(1, 7)
}
"""The writer features that delta-spark 4.1 lists when it enables vectors on a table of each legacy protocol."""


@pytest.fixture
def without_vectors(golden: Golden) -> Path:
    """A table of 1000 rows in version 0, before vectors were enabled."""
    table = golden("hand_inline")
    remove_commits(table, (1, 2))
    return table


def enable_with(table: Path, protocol: dict[str, Any]) -> dict[str, Any]:
    """The protocol that comes of another one."""
    (table / "_delta_log" / f"{1:020d}.json").unlink(missing_ok=True)
    alter(table, "protocol", lambda action: (action.clear(), action.update(protocol)))
    assert delta.enable(table) == 1
    found: dict[str, Any] = delta.snapshot(table).protocol.action()
    return found


def test_enabling_names_what_the_older_protocol_implied(without_vectors: Path) -> None:
    table = without_vectors
    with refused(table, errors.UnsupportedError, "enable"):
        delta.delete(table, "id < 5")
    assert delta.enable(table, dry_run=True) == 1
    assert delta.snapshot(table).version == 0
    assert delta.enable(table) == 1
    assert delta.snapshot(table).protocol.action() == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["appendOnly", "deletionVectors", "invariants"],
    }
    assert delta.snapshot(table).configuration == {"delta.enableDeletionVectors": "true"}
    assert delta.enable(table) is delta.enable(table, dry_run=True) is None
    assert delta.delete(table, "id < 5").rows_deleted == 5
    assert ids(table) == list(range(5, 1000))


@each("reader, writer", BY_SPARK)
def test_enabling_lists_what_spark_lists(
    reader: int, writer: int, without_vectors: Path, duckdb_delta: DuckDBPyConnection
) -> None:
    found = enable_with(without_vectors, {"minReaderVersion": reader, "minWriterVersion": writer})
    features = BY_SPARK[reader, writer] | {"deletionVectors"}
    assert {name: set(value) if isinstance(value, list) else value for name, value in found.items()} == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features & {"columnMapping", "deletionVectors"},
        "writerFeatures": features,
    }
    assert [len(rows) for rows in ids_of_others(duckdb_delta, without_vectors)] == [1000, 1000]


@each(
    "protocol, readers, writers",
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
    protocol: tuple[Any, ...], readers: set[str], writers: set[str], without_vectors: Path
) -> None:
    names = ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures")
    given = {name: value for name, value in zip(names, protocol, strict=True) if value is not None}
    found = enable_with(without_vectors, given)
    assert set(found["readerFeatures"]) == readers | {"deletionVectors"}
    assert set(found["writerFeatures"]) == writers | {"deletionVectors"}


def test_enabling_lists_the_column_mapping_that_the_properties_set(golden: Golden) -> None:
    table = golden("spark_many_features")
    alter(table, "protocol", lambda p: (p.clear(), p.update(minReaderVersion=1, minWriterVersion=4)))
    before = ids(table)
    version = delta.enable(table)
    assert version is not None
    (found,) = commit_of(table, version)["protocol"]
    assert "columnMapping" in {*found["readerFeatures"]} & {*found["writerFeatures"]}
    assert ids(table) == before


def test_a_table_that_deltalake_creates_with_vectors_enabled(
    tmp_path: Path, duckdb_delta: DuckDBPyConnection
) -> None:
    properties = {"delta.enableDeletionVectors": "true"}
    table = delta_table(tmp_path, pa.table({"id": range(100)}), properties=properties, by="deltalake")
    assert "variantType" in delta.snapshot(table).protocol.reader_features
    assert delta.delete(table, "id >= 5 and id < 95").rows_deleted == 90
    assert ids(table) == [*range(5), *range(95, 100)]
    assert ids_of_others(duckdb_delta, table) == [ids(table)] * 2


@pytest.mark.parametrize("dry_run", [False, True])
def test_enabling_is_refused_where_vectors_are_forbidden(dry_run: bool, partitioned: Path) -> None:
    configure(partitioned, enableIcebergCompatV2="true", enableDeletionVectors="false")
    with refused(partitioned, errors.UnsupportedError, "CompatV2"):
        delta.enable(partitioned, dry_run=dry_run)
