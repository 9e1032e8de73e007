"""Changes between versions of Delta tables: each kind of commit, the range, schemas, and what is refused."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast import PositionBitmap, delta, dv
from puffin_fast.delta.changelog.versions import earliest
from puffin_fast.delta.log.segment import LogListing, commit_path
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.rows.changes.lines import WORDS
from tests.conftest import require_module
from tests.delta.tables import alter, commit_of, lines_of, remove_commits, write_lines
from tests.kit.tables import delta_table

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string())])
FEED = {"delta.enableChangeDataFeed": "true"}
TRACKED = {"delta.enableRowTracking": "true"}


def rows(ids: list[int], s: str = "a") -> pa.Table:
    return pa.table([ids, [s] * len(ids)], schema=SCHEMA)


def made(path: Path, properties: dict[str, str] | None = None, **options: Any) -> Path:
    """Ids 1 to 4, then 5 to 8, in versions 1 and 2."""
    commits = [rows([1, 2, 3, 4]), rows([5, 6, 7, 8])]
    return delta_table(path, commits, properties=properties, **options)


def short(changes: Any) -> list[tuple[Any, ...]]:
    """The lines as version, id, letter and text, ordered."""
    letters = dict(zip(WORDS, "diuU", strict=True))
    return sorted(
        (row["_commit_version"], row["id"], letters[row["_change_type"]], row["s"])
        for row in changes.to_arrow().to_pylist()
    )


@pytest.mark.parametrize("properties", [TRACKED, FEED, TRACKED | FEED], ids=["tracked", "feed", "both"])
def test_each_verb_yields_its_lines(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path, properties)
    delta.delete(table, "id = 1")
    delta.update(table, "id = 2", {"s": "b"})
    delta.upsert(table, rows([3, 9], "c"), ["id"])
    delta.purge(table, min_deleted=0.1)
    delta.delete(table, "id >= 5 and id <= 8")
    found = delta.changes(table, 2)
    assert short(found) == [
        (3, 1, "d", "a"),
        (4, 2, "U", "b"),
        (4, 2, "u", "a"),
        (5, 3, "U", "c"),
        (5, 3, "u", "a"),
        (5, 9, "i", "c"),
        *((7, id, "d", "a") for id in (5, 6, 7, 8)),
    ]
    assert found.count() == 10
    assert short(delta.changes(table, 2, 4, updates=False)) == [
        (3, 1, "d", "a"),
        (4, 2, "d", "a"),
        (4, 2, "i", "b"),
    ]
    assert short(delta.changes(table, 3, 5, row_filter="s = 'a'", join_cols="id")) == [
        (4, 2, "d", "a"),
        (5, 3, "d", "a"),
    ]
    assert short(delta.changes(table, 3, selected_fields=["id", "s", "_pos"], row_filter="id = 5")) == [
        (7, 5, "d", "a")
    ]
    assert delta.changes(table, 3, 4, selected_fields=["id"]).count() == 0  # no shown value changed


def test_a_table_without_feed_and_row_ids_pairs_updates_by_keys(tmp_path: Path) -> None:
    table = made(tmp_path)
    delta.update(table, "id = 2", {"s": "b"})
    assert short(delta.changes(table, 2)) == [(3, 2, "d", "a"), (3, 2, "i", "b")]
    assert short(delta.changes(table, 2, join_cols=["id"])) == [(3, 2, "U", "b"), (3, 2, "u", "a")]


def test_columns_and_types(tmp_path: Path) -> None:
    table = made(tmp_path, TRACKED)
    found = delta.changes(table, 1, selected_fields=["id", "_row_id"]).to_arrow()
    assert found.schema == pa.schema(
        [
            ("id", pa.int64()),
            ("_change_type", pa.string()),
            ("_commit_version", pa.int64()),
            ("_commit_timestamp", pa.timestamp("us", "UTC")),
            ("_row_id", pa.int64()),
        ]
    )
    modified = int(os.stat(tmp_path / commit_path(2)).st_mtime * 1000)
    times = found["_commit_timestamp"].cast(pa.int64()).to_pylist()
    assert {time // 1000 for time in times} <= {modified - 1, modified, modified + 1}
    assert found["_row_id"].to_pylist() == [4, 5, 6, 7]


def test_restored_and_replaced_rows_are_no_lines_where_they_are_equal(tmp_path: Path) -> None:
    table = made(tmp_path)
    delta.delete(table, "id = 2")
    require_module("deltalake").DeltaTable(table).restore(2)
    delta.overwrite(table, rows([1, 2, 3, 40]), "id <= 4")
    assert short(delta.changes(table, 2)) == [
        (3, 2, "d", "a"),
        (4, 2, "i", "a"),
        (5, 4, "d", "a"),
        (5, 40, "i", "a"),
    ]
    assert short(delta.changes(table, 2, net=True)) == [(5, 4, "d", "a"), (5, 40, "i", "a")]
    assert short(delta.changes(table, 5, 2, net=True)) == [(2, 4, "i", "a"), (2, 40, "d", "a")]  # backwards
    assert short(delta.changes(table, 3, 4, net=True)) == [(4, 2, "i", "a")]


def test_only_the_live_rows_of_an_unpaired_file_change(tmp_path: Path) -> None:
    table = made(tmp_path)
    delta.delete(table, "id = 2")
    delta.delete(table, "id <= 4")  # removes the file with its vector
    assert "deletionVector" in commit_of(table, 4)["remove"][0]
    assert short(delta.changes(table, 3)) == [(4, id, "d", "a") for id in (1, 3, 4)]


def inline(positions: list[int]) -> dict[str, Any]:
    """The descriptor of a deletion vector that is stored in the log."""
    text, size = dv.delta.encode_inline(PositionBitmap.from_positions(positions))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": size, "cardinality": len(positions)}


def test_vectors_in_the_log_of_one_data_file_are_those_of_their_versions(tmp_path: Path) -> None:
    table = made(tmp_path)
    file = commit_of(table, 1)["add"][0]
    vectors = [None, inline([0, 1]), inline([1, 2]), inline([1]), None]
    for version, (old, new) in enumerate(pairwise(vectors), 3):
        sides = [("remove", old), ("add", new)]
        lines = [{kind: file | ({"deletionVector": vector} if vector else {})} for kind, vector in sides]
        write_lines(table, version, lines)
    assert short(delta.changes(table, 2)) == [
        (3, 1, "d", "a"),
        (3, 2, "d", "a"),
        (4, 1, "i", "a"),
        (4, 3, "d", "a"),
        (5, 3, "i", "a"),
        (6, 2, "i", "a"),
    ]
    assert short(delta.changes(table, 3, net=True)) == [(6, 1, "i", "a"), (6, 2, "i", "a")]
    assert short(delta.changes(table, 3, 4, net=True)) == [(4, 1, "i", "a"), (4, 3, "d", "a")]


def test_the_range_of_versions(tmp_path: Path) -> None:
    table = made(tmp_path, {"delta.enableInCommitTimestamps": "true"})
    times = [commit_of(table, version)["commitInfo"][0]["inCommitTimestamp"] for version in range(3)]
    first, second = (
        [(version, id, "i", "a") for id in ids] for version, ids in ((1, (1, 2, 3, 4)), (2, (5, 6, 7, 8)))
    )
    found: list[tuple[dict[str, Any], list[Any]]] = [
        ({}, first + second),
        ({"from_snapshot_id_exclusive": 1}, second),
        ({"from_snapshot_id_exclusive": 2}, []),
        ({"from_snapshot_id_exclusive": 2, "net": True}, []),
        ({"to_timestamp_inclusive": times[1]}, first),
        ({"from_timestamp_exclusive": times[1]}, second),
        ({"from_timestamp_exclusive": times[2]}, []),
        ({"from_timestamp_exclusive": 0}, first + second),
    ]
    for options, expected in found:
        assert short(delta.changes(table, **options)) == expected
        assert delta.changes(table, **options).count() == len(expected)
    assert delta.changes(delta.snapshot(table, version=1)).count() == 4
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"to_snapshot_id_inclusive": 9}, NotFoundError, "no version 9, the newest is 2"),
        ({"from_snapshot_id_exclusive": 3}, NotFoundError, "no version 3, the newest is 2"),
        (
            {"from_snapshot_id_exclusive": 1, "to_snapshot_id_inclusive": 0},
            InvalidInputError,
            "from_snapshot_id_exclusive=1: expected at most 0",
        ),
        (
            {"from_snapshot_id_exclusive": 1, "from_timestamp_exclusive": 0},
            InvalidInputError,
            "at most one of them",
        ),
        ({"to_timestamp_inclusive": 1}, NotFoundError, "no version at or before"),
        ({"selected_fields": ["nosuch"]}, NotFoundError, "nosuch"),
        ({"columns": ["id"]}, TypeError, "write selected_fields="),
    ]
    for options, error, message in wrong:
        with pytest.raises(error, match=message):
            delta.changes(table, **options)


def test_a_log_that_was_cleaned_up(tmp_path: Path) -> None:
    table = made(tmp_path)
    require_module("deltalake").DeltaTable(table).create_checkpoint()
    delta.delete(table, "id = 2")
    remove_commits(tmp_path, (0, 1, 2))
    assert short(delta.changes(table, 2)) == [(3, 2, "d", "a")]
    assert short(delta.changes(table, 2, net=True)) == [(3, 2, "d", "a")]
    assert delta.changes(table, net=True).count() == 7
    assert delta.changes(table, None, 2, net=True).count() == 8  # only a checkpoint is left of the version
    begins = "commit of version 0; changes can begin with version 3, and net=True"
    with pytest.raises(NotFoundError, match=begins):
        delta.changes(table)
    with pytest.raises(NotFoundError, match="cannot be built"):
        delta.changes(table, 1, net=True).to_arrow()
    with pytest.raises(NotFoundError, match="the log begins at version 3"):
        delta.changes(table, from_timestamp_exclusive=-1)


def test_changes_begin_after_the_last_commit_that_is_missing(tmp_path: Path) -> None:
    table = made(tmp_path)
    for id in (1, 2, 3):
        delta.delete(table, f"id = {id}")
    storage = delta.snapshot(table).storage
    assert earliest(LogListing.of(storage)) == 0
    require_module("deltalake").DeltaTable(table).create_checkpoint()
    for missing, begins in ((1, 2), (3, 4), (5, 6)):
        remove_commits(tmp_path, (missing,))
        said = f"can begin with version {begins}" if begins < 6 else "it has no later one"
        with pytest.raises(NotFoundError, match=f"commit of version 1; .*{said}"):
            delta.changes(table)
        assert earliest(LogListing.of(storage)) == begins


def test_data_files_that_are_missing_are_named(tmp_path: Path) -> None:
    table = made(tmp_path)
    delta.delete(table, "id <= 4")
    gone = commit_of(table, 3)["remove"][0]["path"]
    (tmp_path / gone).unlink()
    with pytest.raises(NotFoundError, match=gone):
        delta.changes(table, 2).to_arrow()
    assert delta.changes(table, 1, 2).count() == 4


@pytest.mark.parametrize("mode", ["name", "id"])
def test_old_versions_have_the_columns_of_the_last_one(tmp_path: Path, mode: str) -> None:
    table = made(tmp_path, FEED | {"delta.columnMapping.mode": mode}, partition=["s"])
    delta.update(table, "id = 2", {"s": "b"})
    metadata = commit_of(table, 0)["metaData"][0]
    schema = json.loads(metadata["schemaString"])
    schema["fields"][0]["name"] = "renamed"
    new = {"name": "added", "type": "double", "nullable": True}
    new["metadata"] = {"delta.columnMapping.id": 3, "delta.columnMapping.physicalName": "col-3"}
    schema["fields"].append(new)
    metadata["configuration"]["delta.columnMapping.maxColumnId"] = "3"
    write_lines(table, 4, [{"metaData": metadata | {"schemaString": json.dumps(schema)}}])
    delta.append(table, pa.table({"renamed": [9], "s": ["z"], "added": [0.5]}))
    delta.update(table, "renamed = 9", {"s": "y"})
    for fields in (["*"], ["*", "_pos"]):
        found = delta.changes(table, 2, selected_fields=fields, join_cols=["renamed"]).to_arrow()
        assert found.select(["renamed", "s", "added", "_change_type"]).to_pylist() == [
            {"renamed": 2, "s": "a", "added": None, "_change_type": "update_preimage"},
            {"renamed": 2, "s": "b", "added": None, "_change_type": "update_postimage"},
            {"renamed": 9, "s": "z", "added": 0.5, "_change_type": "insert"},
            {"renamed": 9, "s": "z", "added": 0.5, "_change_type": "update_preimage"},
            {"renamed": 9, "s": "y", "added": 0.5, "_change_type": "update_postimage"},
        ]
    assert delta.changes(table, 2, 3).schema.names[:2] == ["id", "s"]


def test_other_partition_columns_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    require_module("deltalake").write_deltalake(
        table, rows([1, 2]), mode="overwrite", schema_mode="overwrite", partition_by=["s"]
    )
    found = delta.changes(table, 1)
    with pytest.raises(
        UnsupportedError, match=r"version 2: data file .* is partitioned by nothing, the table by s"
    ):
        found.to_arrow()
    with pytest.raises(UnsupportedError, match="partitioned by nothing, the table by s"):
        delta.changes(table, 1, net=True).count()
    log = [line for line in lines_of(table, 3) if "metaData" in line]
    log[0]["metaData"]["partitionColumns"] = []
    write_lines(table, 4, log)
    with pytest.raises(UnsupportedError, match="partitioned by s, the table by nothing"):
        delta.changes(table, 2).to_arrow()


@pytest.mark.parametrize("properties", [None, FEED], ids=["plain", "feed"])
@pytest.mark.parametrize("altered", [False, True])
def test_null_partitions_that_actions_leave_out(
    tmp_path: Path, properties: dict[str, str] | None, altered: bool
) -> None:
    """Spark leaves null partition values out of `remove` and `cdc`."""
    given = pa.table([[1, 2, 3], [None, None, "a"]], schema=SCHEMA)
    table = delta_table(tmp_path, given, properties=properties, partition=["s"])
    delta.update(table, "id = 1", {"id": 7})
    delta.delete(table, "id > 0")
    for version in (2, 3):
        lines = lines_of(table, version)
        for line in lines:
            for kind in ("remove", "cdc"):
                if line.get(kind, {}).get("partitionValues") == {"s": None}:
                    line[kind]["partitionValues"] = {}
        if altered and version == 2:  # partition columns may have been others before
            lines.append(next(line for line in lines_of(table, 0) if "metaData" in line))
        write_lines(table, version, lines)
    found = delta.changes(table, 1, updates=False)
    assert short(found)[:2] == [(2, 1, "d", None), (2, 7, "i", None)]
    assert short(found)[2:] == [(3, 2, "d", None), (3, 3, "d", "a"), (3, 7, "d", None)]


def test_types_that_do_not_become_the_last_ones_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    other = pa.table({"id": ["x"], "s": ["a"]})
    require_module("deltalake").write_deltalake(table, other, mode="overwrite", schema_mode="overwrite")
    for options in ({}, {"from_snapshot_id_exclusive": 2, "net": True}):
        with pytest.raises(
            UnsupportedError, match=r"column id had type long in version ., and has type string"
        ):
            delta.changes(table, **options).count()
    assert short(delta.changes(table, None, 1)) == [(1, id, "i", "a") for id in (1, 2, 3, 4)]
    assert delta.changes(table, selected_fields=["s"]).count() == 8 + 7


def test_actions_without_data_change_and_numbers_of_rows(tmp_path: Path) -> None:
    """Footers have the numbers of rows that the log lacks, and the version before has missing partition values."""
    table = made(tmp_path, partition=["s"])
    delta.delete(table, "s = 'a'")
    alter(table, "remove", lambda one: [one.pop(name) for name in ("partitionValues", "size", "stats")], 3)
    assert short(delta.changes(table, 2)) == [(3, id, "d", "a") for id in range(1, 9)]
    alter(table, "remove", lambda action: action.update(dataChange=False), 3)
    assert delta.changes(table, 2).count() == 0


def test_damaged_commits(tmp_path: Path) -> None:
    table = made(tmp_path, FEED)
    delta.update(table, "id = 2", {"s": "b"})
    lines = lines_of(table, 3)
    feed = next(line["cdc"] for line in lines if "cdc" in line)
    stored = pq.read_table(tmp_path / feed["path"])
    wrong = stored.set_column(2, "_change_type", pa.array(["upsert"] * len(stored)))
    pq.write_table(wrong, tmp_path / feed["path"])
    with pytest.raises(CorruptDataError, match="_change_type of a feed file"):
        delta.changes(table, 2).to_arrow()
    add = next(line for line in lines if "add" in line)
    write_lines(table, 3, [line for line in lines if "cdc" not in line] + [add])
    with pytest.raises(CorruptDataError, match="add actions of a data file in version 3"):
        delta.changes(table, 2).to_arrow()
    write_lines(table, 3, [{"add": {**add["add"], "dataChange": "yes"}}])
    with pytest.raises(CorruptDataError, match="dataChange"):
        delta.changes(table, 2).to_arrow()
