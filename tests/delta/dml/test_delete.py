"""Deletes from Delta tables: the log, the rows that other readers return, concurrent commits, refused calls."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin_fast import delta, errors
from puffin_fast.delta.dml.changes import _wide
from puffin_fast.dv import _frame
from tests.delta.conftest import TABLES
from tests.delta.tables import (
    Golden,
    alter,
    append,
    commit_of,
    configure,
    ids,
    refused,
    unchanged,
    write_lines,
)
from tests.kit.faults import RacingStorage
from tests.kit.tables import files_of

SPARK = [name for name in TABLES if name.startswith("spark") and name != "spark_containers"]


def vector_files(table: Path) -> set[Path]:
    return {path for path in files_of(table) if path.suffix == ".bin"}


# What is deleted -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPARK)
@pytest.mark.parametrize(
    ("row_filter", "goes"),
    [
        ("id >= 100 and id < 150", lambda i: 100 <= i < 150),
        (pc.field("part") == "p 2", lambda i: i % 3 == 2),
        ("part = 'p 1' and v = 'v3'", lambda i: i % 3 == 1 and i % 7 == 3),
        ("part = 'p 0' or id = 100", lambda i: i % 3 == 0 or i == 100),
        ("part is not null", lambda i: True),
    ],
)
def test_a_delete_takes_its_rows_and_no_others(
    name: str, row_filter: Any, goes: Callable[[int], bool], golden: Golden
) -> None:
    table = golden(name)
    before = ids(table)
    done = delta.delete(table, row_filter)
    assert ids(table) == [i for i in before if not goes(i)]
    assert done.rows_deleted == sum(map(goes, before))
    assert (done.commit.id, done.commit.attempts, done.commit.repeated) == (4, 1, False)
    assert done.vectors_written + done.data_files_dropped == done.data_files
    assert ids(table, snapshot_id=3) == before


def test_a_delete_of_nothing_commits_nothing(table: Path) -> None:
    with unchanged(table):
        done = delta.delete(table, "id < 0")
    assert (done.commit.id, done.rows_deleted, done.commit.attempts) == (None, 0, 0)


def test_positions_go_by_file_and_position(partitioned: Path) -> None:
    rows = delta.scan(partitioned, "id < 9", ("id", "_file", "_pos")).to_arrow()
    deletes = pa.table({"file_path": rows["_file"].cast(pa.string()), "pos": rows["_pos"]})
    done = delta.delete_positions(partitioned, pa.concat_tables([deletes, deletes]))
    assert done.rows_deleted == rows.num_rows
    assert not set(ids(partitioned)) & set(rows["id"].to_pylist())
    again = delta.delete_positions(partitioned, deletes)
    assert (again.commit.id, again.rows_deleted) == (None, 0)
    relative = "part=p 0/" + next(partitioned.glob("part=p 0/*.parquet")).name
    spelled = pa.table({"file_path": [relative, relative.replace(" ", "%20")], "pos": [6, 8]})
    assert delta.delete_positions(partitioned, spelled).rows_deleted == 2
    for path, pos, error, message in (
        ("nothing.parquet", 1, errors.NotFoundError, "expected a data file of version 5, found none"),
        (relative, 100, errors.InvalidInputError, r"expected positions below 100 \(rows\)"),
        (relative, -1, errors.InvalidInputError, "-1"),
    ):
        with refused(partitioned, error, message):
            delta.delete_positions(partitioned, pa.table({"file_path": [path], "pos": [pos]}))


def test_vectors_above_the_target_size_are_in_several_files(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("puffin_fast.delta.dml.changes.VECTOR_FILE_SIZE", 1)
    table = golden("spark_partitioned")
    before, files = ids(table), vector_files(table)
    done = delta.delete(table, "id < 30")
    new = vector_files(table) - files
    assert len(new) == done.vectors_written > 1
    assert done.commit.n_bytes == sum(path.stat().st_size for path in new)
    assert ids(table) == [i for i in before if i >= 30]
    assert delta.verify(table) == []


def test_keys_go_by_their_columns(golden: Golden) -> None:
    table = golden("spark_many_features")
    before = ids(table)
    keys = pa.table({"id": [2, 3, 8, 9, 1000], "part": ["p 2", "p 1", "p 2", None, "p 0"]})
    assert delta.delete_keys(table, keys, ["id", "part"]).rows_deleted == 2
    assert ids(table) == [i for i in before if i not in (2, 8)]
    assert delta.delete_keys(table, keys, "id").rows_deleted == 2
    with pytest.raises(errors.NotFoundError, match="nothing"):
        delta.delete_keys(table, keys, "nothing")


# The log ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPARK)
def test_adds_repeat_the_old_ones_and_removes_have_the_old_vector(name: str, golden: Golden) -> None:
    table = golden(name)
    old = delta.snapshot(table)
    olds = {add["path"]: add for add in old.adds(range(old.files.num_rows))}
    done = delta.delete(table, "id < 30", snapshot_properties={"why": "a test"})
    actions = commit_of(table, 4)
    assert len(actions["add"]) == len(actions["remove"]) == done.vectors_written == 3
    for add in actions["add"]:
        before = dict(olds[add["path"]])
        stats, wide = json.loads(before.pop("stats")), json.loads(add.pop("stats"))
        assert wide == stats | {"tightBounds": False}
        vector = add.pop("deletionVector")
        assert (vector["storageType"], vector["offset"] >= 1) == ("u", True)
        before.pop("deletionVector", None)
        assert add == before | {"dataChange": True}
    for remove in actions["remove"]:
        before = olds[remove["path"]]
        assert remove["extendedFileMetadata"] is remove["dataChange"] is True
        for field in (
            "deletionVector",
            "partitionValues",
            "size",
            "tags",
            "baseRowId",
            "defaultRowCommitVersion",
        ):
            assert remove.get(field) == before.get(field)
    (info,) = actions["commitInfo"]
    assert (info["operation"], info["readVersion"], info["isBlindAppend"]) == ("DELETE", 3, False)
    assert info["why"] == "a test"
    tracked = name in ("spark_many_features", "spark_iceberg_compat_v3")
    assert (info.get("tags") == {"delta.rowTracking.preserved": "true"}) == tracked
    if name == "spark_many_features":
        assert next(iter(info)) == "inCommitTimestamp"
        assert info["inCommitTimestamp"] > old.commit_info["inCommitTimestamp"]
    else:
        assert "inCommitTimestamp" not in info


def test_vectors_of_one_commit_share_a_file(partitioned: Path) -> None:
    before = vector_files(partitioned)
    done = delta.delete(partitioned, "id < 30")
    (new,) = vector_files(partitioned) - before
    data = new.read_bytes()
    assert len(data) == done.commit.n_bytes
    descriptors = [add["deletionVector"] for add in commit_of(partitioned, 4)["add"]]
    assert sorted((d["offset"], d["sizeInBytes"] + 8) for d in descriptors) == list(_frame.spans(data))


def test_a_file_of_which_no_row_is_left_is_removed_only(partitioned: Path) -> None:
    delta.delete(partitioned, "part = 'p 2'")
    actions = commit_of(partitioned, 4)
    assert "add" not in actions
    assert [remove["deletionVector"]["cardinality"] for remove in actions["remove"]] == [10]
    assert not [file for file in delta.snapshot(partitioned).files["path"].to_pylist() if "p%202" in file]


def test_statistics_keep_every_digit() -> None:
    stats = '{ "minValues":{"tightBounds":true,"d":12345678901234567890.123456789}, "tightBounds" : true , "x":1.0E+20}'
    assert _wide(stats, 7, "t") == (
        '{"numRecords":7,"minValues":{"tightBounds":true,"d":12345678901234567890.123456789},"x":1.0E+20,"tightBounds":false}'
    )
    for nothing in (None, "{}"):
        assert json.loads(_wide(nothing, 7, "t")) == {"numRecords": 7, "tightBounds": False}
    with pytest.raises(errors.CorruptDataError, match="stats"):
        _wide("[1]", 7, "t")


# Refusals --------------------------------------------------------------------------------------------------


def sets(name: str, value: str) -> Callable[[dict[str, Any]], object]:
    return lambda metadata: metadata["configuration"].update({f"delta.{name}": value})


@pytest.mark.parametrize(
    ("kind", "edit", "message"),
    [
        ("metaData", sets("enableDeletionVectors", "false"), "not enabled"),
        ("metaData", sets("appendOnly", "true"), "appendOnly"),
        ("metaData", sets("enableIcebergCompatV1", "true"), "CompatV1"),
        ("metaData", sets("enableIcebergCompatV2", "true"), "CompatV2"),
        ("metaData", sets("redirectReaderWriter", "{}"), "redirect"),
        ("metaData", sets("coordinatedCommits.commitCoordinator-preview", "x"), "coordinatedCommits"),
        ("protocol", lambda p: p["writerFeatures"].append("catalogManaged"), "catalogManaged"),
        ("protocol", lambda p: p["writerFeatures"].append("teleportation"), "teleportation"),
        ("protocol", lambda p: p.update(minWriterVersion=8), "writer version 8"),
        ("protocol", lambda p: p["readerFeatures"].remove("deletionVectors"), "not enabled"),
    ],
)
def test_tables_that_must_not_be_written_to_are_refused_by_name(
    kind: str, edit: Callable[[dict[str, Any]], object], message: str, partitioned: Path
) -> None:
    alter(partitioned, kind, edit)
    with refused(partitioned, errors.UnsupportedError, message):
        delta.delete(partitioned, "id < 30")
    with refused(partitioned, errors.UnsupportedError, message):
        delta.delete_keys(partitioned, pa.table({"id": [1]}), "id")


def test_wrong_options_are_refused(partitioned: Path) -> None:
    with refused(partitioned, errors.InvalidInputError, "operation"):
        delta.delete(partitioned, "id < 3", snapshot_properties={"operation": "x"})
    with refused(partitioned, errors.NotFoundError, "nothing"):
        delta.delete(partitioned, "nothing < 3")
    next(partitioned.glob("part=p 2/*.parquet")).unlink()
    with refused(partitioned, errors.NotFoundError, "part=p 2"):
        delta.delete(partitioned, "id >= 0 and v = 'v1'")


# Races -----------------------------------------------------------------------------------------------------


def test_a_serializable_table_searches_rows_that_others_append_meanwhile(partitioned: Path) -> None:
    configure(partitioned, isolationLevel="Serializable")
    before = vector_files(partitioned)
    done = delta.delete(RacingStorage(partitioned, lambda: append(partitioned, 4)), "id < 30")
    assert (done.commit.id, done.commit.attempts) == (5, 2)
    assert min(ids(partitioned)) == 30
    assert len(vector_files(partitioned) - before) == 1


def test_a_delete_in_another_file_meanwhile_stands_beside(partitioned: Path) -> None:
    before = ids(partitioned)
    row = delta.scan(partitioned, "id = 5", ("_file", "_pos")).to_arrow().rename_columns(["file_path", "pos"])
    done = delta.delete(
        RacingStorage(partitioned, lambda: delta.delete_positions(partitioned, row)),
        "id = 1",
        on_conflict="merge",
    )
    assert done.commit.id == 5
    assert ids(partitioned) == [i for i in before if i not in (1, 5)]


def test_a_conflict_names_the_version_and_what_it_changed(partitioned: Path) -> None:
    with pytest.raises(errors.ConflictError, match="version 4 changed the data file"):
        delta.delete(RacingStorage(partitioned, lambda: delta.delete(partitioned, "id = 4")), "id = 1")
    for version, action in enumerate(("metaData", "protocol"), 5):
        line = {action: commit_of(partitioned, 0)[action][0]}
        racing = RacingStorage(
            partitioned, lambda version=version, line=line: write_lines(partitioned, version, [line])
        )
        with pytest.raises(errors.ConflictError, match=f"version {version} changed the table's"):
            delta.delete(racing, "id = 1", on_conflict="merge")


# Jobs ------------------------------------------------------------------------------------------------------


def test_the_log_has_the_job_and_its_verb(golden: Golden) -> None:
    table = golden("spark_v1_checkpoint")
    delta.delete(table, "id < 30", job_id="nightly")
    assert delta.snapshot(table).transactions == {"nightly": 1, "nightly (puffin_fast.delta.delete)": 1}
    words = r"job_id 'nightly': expected a job of delete_keys, found that delete committed it to .*spark_v1_checkpoint"
    with refused(table, errors.InvalidInputError, words):
        delta.delete_keys(table, pa.table({"id": pa.array([40], pa.int64())}), "id", job_id="nightly")
    write_lines(table, 5, [{"txn": {"appId": "of another writer", "version": 1}}])
    assert delta.delete(table, "id < 60", job_id="of another writer").commit.repeated


@pytest.mark.parametrize("verb", ["delete", "delete_keys"])
def test_of_two_runs_of_a_job_at_once_one_counts(verb: str, partitioned: Path) -> None:
    before = vector_files(partitioned)
    racing = RacingStorage(partitioned, lambda: delta.delete(partitioned, "id < 30", job_id="nightly"))
    if verb == "delete":
        done = delta.delete(racing, "id < 30", job_id="nightly")
        assert (done.commit.repeated, done.rows_deleted) == (True, 0)
    else:
        with pytest.raises(errors.InvalidInputError, match="expected a job of delete_keys"):
            delta.delete_keys(racing, pa.table({"id": pa.array([1], pa.int64())}), "id", job_id="nightly")
    assert len(vector_files(partitioned) - before) == 1


WRONG: dict[str, list[Any]] = {
    "as_of": ["x", 1.5],
    "case_sensitive": ["false", None, 1],
    "snapshot_properties": [5, "x", {"a": 1}],
    "dry_run": ["false", None, 1],
    "job_id": [42, "", " "],
    "join_cols": [5, [5], b"id"],
    "limit": ["3", -1, True],
    "min_deleted": ["0.5", None, 0, 1.5],
    "null_safe": ["false", None],
    "older_than": [5, "1 day", None],
    "on_conflict": [None, "x"],
    "row_filter": [None, 5, ""],
    "selected_fields": ["id", 5, None],
    "share": [-1, "0.5", None, 1.5],
    "skip_unchanged": ["false", None],
    "threads": ["2", 0, True],
    "values": [5, "x", {}],
    "version": ["1", -1, 1.5, True],
    "workers": ["2", 2, True],
    "when_matched_update_all": ["false", None],
    "when_not_matched_insert_all": ["false", None],
}


FUNCTIONS = {name for name in delta.__all__ if inspect.isfunction(getattr(delta, name))}
ON_DELTA = sorted(FUNCTIONS - {"from_iceberg"})
"""The functions whose table is a Delta table."""


@pytest.mark.parametrize("function", ON_DELTA)
def test_wrong_arguments_are_refused_by_name(golden: Golden, function: str) -> None:
    table = golden("spark_v1_checkpoint")
    rows = pa.table({"id": pa.array([1], pa.int64())})
    none = pa.table({"file_path": pa.array([], pa.string()), "pos": pa.array([], pa.int64())})
    given: dict[str, Any] = {
        "table": table,
        "row_filter": "id = 1",
        "keys": rows,
        "join_cols": "id",
        "deletes": none,
        "catalog": None,
        "name": "ns.t",
        "schema": rows.schema,
        "data": delta.scan(table, limit=1).to_arrow(),
        "values": {"id": 1},
    }
    call: Callable[..., Any] = getattr(delta, function)
    parameters = inspect.signature(call).parameters
    needed = {name: given[name] for name, p in parameters.items() if p.default is p.empty}
    with unchanged(table):
        for name in parameters.keys() & WRONG.keys():
            for wrong in WRONG[name]:
                if function in ("rewrite_data_files", "purge") and (name, wrong) == ("min_deleted", 0):
                    continue  # as Iceberg's: every file with deletes
                with pytest.raises(errors.InvalidInputError) as caught:
                    call(**{**needed, name: wrong})
                shown = "filter" if name == "row_filter" else name.removesuffix("s")
                assert shown in str(caught.value), (name, wrong)


@pytest.mark.slow
def test_racing_processes_lose_no_delete(golden: Golden) -> None:
    table = golden("hand_prefix")
    delta.delete(table, "id = 999")
    before = ids(table)
    alive = [i for i in before if i < 40]
    assert alive
    command = [sys.executable, str(Path(__file__).with_name("racing.py")), str(table)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    running = [
        subprocess.Popen(
            [*command, ",".join(map(str, alive[k::4]))], env=environment, stderr=subprocess.PIPE, text=True
        )
        for k in range(4)
    ]
    for process in running:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert ids(table) == [i for i in before if i >= 40]
    assert delta.snapshot(table).version == 3 + len(alive)
    assert not list((table / "_delta_log").glob(".*tmp"))
