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

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from duckdb import DuckDBPyConnection

from puffin_fast import delta, errors
from puffin_fast.delta.dml.changes import _wide
from puffin_fast.dv import _frame
from tests.delta.tables import alter, append, commit_of, files_of, ids
from tests.kit.faults import RacingStorage

ROOT = Path(__file__).parents[3]
SPARK = [
    "spark_partitioned",
    "spark_v1_checkpoint",
    "spark_v2_checkpoint",
    "spark_many_features",
    "spark_iceberg_compat_v3",
]


# What is deleted -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPARK)
@pytest.mark.parametrize(
    ("row_filter", "goes"),
    [
        ("id >= 100 and id < 150", lambda i: 100 <= i < 150),
        ("part = 'p 1'", lambda i: i % 3 == 1),
        ("part != 'p 1'", lambda i: i % 3 != 1),
        (pc.field("part") == "p 2", lambda i: i % 3 == 2),
        ("part = 'p 1' and v = 'v3'", lambda i: i % 3 == 1 and i % 7 == 3),
        ("part = 'p 0' or id = 100", lambda i: i % 3 == 0 or i == 100),
        ("id >= 0", lambda i: True),
        ("part is not null", lambda i: True),
    ],
)
def test_a_delete_takes_its_rows_and_no_others(
    name: str, row_filter: Any, goes: Callable[[int], bool], golden: Callable[[str], Path]
) -> None:
    table = golden(name)
    before = ids(table)
    done = delta.delete(table, row_filter)
    assert ids(table) == [i for i in before if not goes(i)]
    assert done.rows_deleted == sum(map(goes, before))
    assert (done.version, done.attempts, done.repeated) == (4, 1, False)
    assert done.vectors_written + done.data_files_dropped == done.data_files
    assert ids(table, version=3) == before


@pytest.mark.parametrize("name", ["hand_inline", "hand_prefix", "hand_native"])
def test_vectors_of_every_kind_are_taken_over(name: str, golden: Callable[[str], Path]) -> None:
    table = golden(name)
    before = ids(table)
    done = delta.delete(table, "id < 15")
    assert done.vectors_merged == done.vectors_written == 1
    assert ids(table) == [i for i in before if i >= 15]


def test_a_delete_of_nothing_commits_nothing(table: Path) -> None:
    before = files_of(table)
    done = delta.delete(table, "id < 0")
    assert (done.version, done.rows_deleted, done.attempts) == (None, 0, 0)
    assert files_of(table) == before


def test_positions_go_by_file_and_position(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    rows = delta.scan(table, "id < 9", ("id", "_file", "_pos")).to_arrow()
    deletes = pa.table({"file_path": rows["_file"].cast(pa.string()), "pos": rows["_pos"]})
    done = delta.delete_positions(table, pa.concat_tables([deletes, deletes]))
    assert done.rows_deleted == rows.num_rows
    assert not set(ids(table)) & set(rows["id"].to_pylist())
    again = delta.delete_positions(table, deletes)
    assert (again.version, again.rows_deleted) == (None, 0)
    relative = "part=p 0/" + next(table.glob("part=p 0/*.parquet")).name
    by_log = relative.replace(" ", "%20")
    assert (
        delta.delete_positions(table, pa.table({"file_path": [relative, by_log], "pos": [6, 8]})).rows_deleted
        == 2
    )


@pytest.mark.parametrize(
    ("path", "pos", "error", "message"),
    [
        ("nothing.parquet", 1, errors.NotFoundError, "expected a data file of version 3, found none"),
        (None, 100, errors.InvalidInputError, r"expected positions below 100 \(rows\)"),
        (None, -1, errors.InvalidInputError, "-1"),
    ],
)
def test_positions_that_are_none_are_refused(
    path: str | None, pos: int, error: type[Exception], message: str, golden: Callable[[str], Path]
) -> None:
    table = golden("spark_partitioned")
    before = files_of(table)
    path = path or str(next(table.glob("part=p 0/*.parquet")))
    with pytest.raises(error, match=message):
        delta.delete_positions(table, pa.table({"file_path": [path], "pos": [pos]}))
    assert files_of(table) == before


@pytest.mark.parametrize("verb", ["delete", "delete_positions"])
def test_a_dry_run_counts_and_writes_nothing(verb: str, golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    delta.delete(table, "id < 10")
    rows = delta.scan(table, "id < 40 or part = 'p 1'", ("_file", "_pos")).to_arrow()
    what: Any = "id < 40 or part = 'p 1'"
    if verb == "delete_positions":
        what = rows.rename_columns(["file_path", "pos"])
    call, before = getattr(delta, verb), files_of(table)
    dry = call(table, what, dry_run=True)
    assert files_of(table) == before
    assert (dry.version, dry.attempts, dry.n_bytes) == (None, 0, 0)
    done = call(table, what)
    for name in ("rows_deleted", "data_files", "data_files_dropped", "vectors_written", "vectors_merged"):
        assert getattr(dry, name) == getattr(done, name) > 0, name


def test_vectors_above_the_target_size_are_in_several_files(
    golden: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("puffin_fast.delta.dml.changes.TARGET_FILE_SIZE", 1)
    table = golden("spark_partitioned")
    before, files = ids(table), {path for path in files_of(table) if path.suffix == ".bin"}
    done = delta.delete(table, "id < 30")
    new = {path for path in files_of(table) if path.suffix == ".bin"} - files
    assert len(new) == done.vectors_written > 1
    assert done.n_bytes == sum(path.stat().st_size for path in new)
    assert ids(table) == [i for i in before if i >= 30]
    assert delta.verify(table) == []


def test_keys_go_by_their_columns(golden: Callable[[str], Path]) -> None:
    table = golden("spark_many_features")
    before = ids(table)
    keys = pa.table({"id": [2, 3, 8, 9, 1000], "part": ["p 2", "p 1", "p 2", None, "p 0"]})
    assert delta.delete_keys(table, keys, "id", dry_run=True).rows_deleted == 4
    assert ids(table) == before
    assert delta.delete_keys(table, keys, ["id", "part"]).rows_deleted == 2
    assert ids(table) == [i for i in before if i not in (2, 8)]
    assert delta.delete_keys(table, keys, "id").rows_deleted == 2
    with pytest.raises(errors.NotFoundError, match="nothing"):
        delta.delete_keys(table, keys, "nothing")


# The log ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPARK)
def test_adds_repeat_the_old_ones_and_removes_have_the_old_vector(
    name: str, golden: Callable[[str], Path]
) -> None:
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
        assert vector["storageType"] == "u"
        assert vector["offset"] >= 1
        before.pop("deletionVector", None)
        assert add == before | {"dataChange": True}
    for remove in actions["remove"]:
        before = olds[remove["path"]]
        assert remove["deletionVector"] == before["deletionVector"]
        assert remove["extendedFileMetadata"] is remove["dataChange"] is True
        for field in ("partitionValues", "size", "tags", "baseRowId", "defaultRowCommitVersion"):
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


def test_vectors_of_one_commit_share_a_file(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    before = files_of(table)
    done = delta.delete(table, "id < 30")
    (new,) = [path for path in files_of(table) - before if path.suffix == ".bin"]
    data = new.read_bytes()
    assert len(data) == done.n_bytes
    spans = list(_frame.spans(data))
    descriptors = [add["deletionVector"] for add in commit_of(table, 4)["add"]]
    assert sorted((d["offset"], d["sizeInBytes"] + 8) for d in descriptors) == spans


def test_a_file_of_which_no_row_is_left_is_removed_only(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    delta.delete(table, "part = 'p 2'")
    actions = commit_of(table, 4)
    assert "add" not in actions
    assert [remove["deletionVector"]["cardinality"] for remove in actions["remove"]] == [10]
    assert not [file for file in delta.snapshot(table).files["path"].to_pylist() if "p%202" in file]


def test_statistics_keep_every_digit() -> None:
    stats = '{ "minValues":{"tightBounds":true,"d":12345678901234567890.123456789}, "tightBounds" : true , "x":1.0E+20}'
    assert _wide(stats, 7, "t") == (
        '{"numRecords":7,"minValues":{"tightBounds":true,"d":12345678901234567890.123456789},"x":1.0E+20,"tightBounds":false}'
    )
    assert json.loads(_wide(None, 7, "t")) == {"numRecords": 7, "tightBounds": False}
    assert json.loads(_wide("{}", 7, "t")) == {"numRecords": 7, "tightBounds": False}
    with pytest.raises(errors.CorruptDataError, match="stats"):
        _wide("[1]", 7, "t")


# Refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "edit", "message"),
    [
        (
            "metaData",
            lambda m: m["configuration"].update({"delta.enableDeletionVectors": "false"}),
            "not enabled",
        ),
        ("metaData", lambda m: m["configuration"].update({"delta.appendOnly": "true"}), "appendOnly"),
        (
            "metaData",
            lambda m: m["configuration"].update({"delta.enableIcebergCompatV1": "true"}),
            "CompatV1",
        ),
        (
            "metaData",
            lambda m: m["configuration"].update({"delta.enableIcebergCompatV2": "true"}),
            "CompatV2",
        ),
        ("metaData", lambda m: m["configuration"].update({"delta.redirectReaderWriter": "{}"}), "redirect"),
        (
            "metaData",
            lambda m: m["configuration"].update({"delta.coordinatedCommits.commitCoordinator-preview": "x"}),
            "coordinatedCommits",
        ),
        ("protocol", lambda p: p["writerFeatures"].append("catalogManaged"), "catalogManaged"),
        ("protocol", lambda p: p["writerFeatures"].append("teleportation"), "teleportation"),
        ("protocol", lambda p: p.update(minWriterVersion=8), "writer version 8"),
        ("protocol", lambda p: p["readerFeatures"].remove("deletionVectors"), "not enabled"),
    ],
)
def test_tables_that_must_not_be_written_to_are_refused_by_name(
    kind: str, edit: Callable[[dict[str, Any]], object], message: str, golden: Callable[[str], Path]
) -> None:
    table = golden("spark_partitioned")
    alter(table, kind, edit)
    before = files_of(table)
    for run in (
        lambda: delta.delete(table, "id < 30"),
        lambda: delta.delete_keys(table, pa.table({"id": [1]}), "id"),
    ):
        with pytest.raises(errors.UnsupportedError, match=message):
            run()
    assert files_of(table) == before


def test_wrong_options_are_refused(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    with pytest.raises(errors.InvalidInputError, match="on_conflict"):
        delta.delete(table, "id < 3", on_conflict="hope")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidInputError, match="operation"):
        delta.delete(table, "id < 3", snapshot_properties={"operation": "x"})
    with pytest.raises(errors.NotFoundError, match="nothing"):
        delta.delete(table, "nothing < 3")


def test_a_missing_data_file_leaves_the_table_as_it_was(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    next(table.glob("part=p 2/*.parquet")).unlink()
    before = files_of(table)
    with pytest.raises(errors.NotFoundError):
        delta.delete(table, "id >= 0 and v = 'v1'")
    assert files_of(table) == before


# Races -----------------------------------------------------------------------------------------------------


def test_a_blind_append_meanwhile_stands_beside(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    done = delta.delete(RacingStorage(table, lambda: append(table, 4)), "id < 30")
    assert (done.version, done.attempts) == (5, 2)
    assert sorted(i for i in ids(table) if i < 30) == list(range(0, 30, 3))


def test_rows_that_others_add_after_reading_are_looked_at(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    before = {path for path in files_of(table) if path.suffix == ".bin"}
    done = delta.delete(RacingStorage(table, lambda: append(table, 4, blind=False)), "id < 30")
    assert (done.version, done.attempts) == (5, 2)
    assert not [i for i in ids(table) if i < 30]
    assert len({path for path in files_of(table) if path.suffix == ".bin"} - before) == 1


def test_a_serializable_table_looks_at_blind_appends_too(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    alter(table, "metaData", lambda m: m["configuration"].update({"delta.isolationLevel": "Serializable"}))
    delta.delete(RacingStorage(table, lambda: append(table, 4)), "id < 30")
    assert not [i for i in ids(table) if i < 30]


def test_a_delete_of_the_same_file_meanwhile_is_a_conflict(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    before = ids(table)
    racing = RacingStorage(table, lambda: delta.delete(table, "id = 4"))
    with pytest.raises(errors.ConflictError, match="version 4 changed the data file"):
        delta.delete(racing, "id = 1")
    assert ids(table) == [i for i in before if i != 4]
    orphans = {path.name for path in table.glob("*.bin")}
    live = {row["pathOrInlineDv"] for row in delta.snapshot(table).files["deletionVector"].to_pylist()}
    assert len(orphans) <= len(live) + 2


def test_a_delete_of_the_same_file_meanwhile_is_merged_where_asked(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    before = ids(table)
    racing = RacingStorage(table, lambda: delta.delete(table, "id = 4"))
    done = delta.delete(racing, "id = 1", on_conflict="merge")
    assert (done.version, done.attempts) == (5, 2)
    assert ids(table) == [i for i in before if i not in (1, 4)]


def test_a_delete_in_another_file_meanwhile_stands_beside(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    before = ids(table)
    racing = RacingStorage(table, lambda: delta.delete_positions(table, positions(table, 5)))
    done = delta.delete(racing, "id = 1", on_conflict="merge")
    assert done.version == 5
    assert ids(table) == [i for i in before if i not in (1, 5)]


def positions(table: Path, row: int) -> pa.Table:
    found = delta.scan(table, f"id = {row}", ("_file", "_pos")).to_arrow()
    return pa.table({"file_path": found["_file"].cast(pa.string()), "pos": found["_pos"]})


@pytest.mark.parametrize("action", ["metaData", "protocol"])
def test_new_metadata_or_protocol_meanwhile_is_a_conflict(action: str, golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    line = {action: commit_of(table, 0)[action][0]}

    def change() -> None:
        (table / "_delta_log" / f"{4:020d}.json").write_text(json.dumps(line) + "\n")

    with pytest.raises(errors.ConflictError, match="version 4 changed the table's"):
        delta.delete(RacingStorage(table, change), "id = 1", on_conflict="merge")


def test_a_job_is_done_once(golden: Callable[[str], Path]) -> None:
    table = golden("spark_v1_checkpoint")
    first = delta.delete(table, "id < 30", job_id="nightly")
    again = delta.delete(table, "id < 60", job_id="nightly")
    assert (first.version, first.repeated) == (4, False)
    assert (again.version, again.rows_deleted, again.repeated) == (None, 0, True)
    assert delta.snapshot(table).transactions == {"nightly": 1, "nightly (puffin_fast.delta.delete)": 1}
    assert delta.delete(table, "id < 60", job_id="another").version == 5


def test_a_job_id_names_a_job_of_one_verb(golden: Callable[[str], Path]) -> None:
    table = golden("spark_v1_checkpoint")
    delta.delete(table, "id < 30", job_id="nightly")
    keys = pa.table({"id": pa.array([40], pa.int64())})
    words = r"job_id 'nightly': expected a job of delete_keys, found that delete committed it to .*spark_v1_checkpoint"
    with pytest.raises(errors.InvalidInputError, match=words):
        delta.delete_keys(table, keys, "id", job_id="nightly")


def test_a_job_id_of_another_verb_that_came_first_is_refused(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    racing = RacingStorage(table, lambda: delta.delete(table, "id < 30", job_id="nightly"))
    before = {path for path in files_of(table) if path.suffix == ".bin"}
    with pytest.raises(errors.InvalidInputError, match="expected a job of delete_keys"):
        delta.delete_keys(racing, pa.table({"id": pa.array([1], pa.int64())}), "id", job_id="nightly")
    assert len({path for path in files_of(table) if path.suffix == ".bin"} - before) == 1


def test_a_job_id_without_a_verb_is_taken_for_the_job(golden: Callable[[str], Path]) -> None:
    table = golden("spark_v1_checkpoint")
    line = {"txn": {"appId": "nightly", "version": 1}}
    (table / "_delta_log" / f"{4:020d}.json").write_text(json.dumps(line) + "\n")
    assert delta.delete(table, "id < 30", job_id="nightly").repeated


@pytest.mark.parametrize("job_id", [42, "", " "])
def test_a_job_id_is_a_string_that_is_not_blank(golden: Callable[[str], Path], job_id: Any) -> None:
    with pytest.raises(errors.InvalidInputError, match="job_id: expected a string that is not empty"):
        delta.delete(golden("spark_v1_checkpoint"), "id < 30", job_id=job_id)


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
def test_wrong_arguments_are_refused_by_name(golden: Callable[[str], Path], function: str) -> None:
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
    }
    given["data"] = delta.scan(table, limit=1).to_arrow()
    call: Callable[..., Any] = getattr(delta, function)
    parameters = inspect.signature(call).parameters
    needed = {
        name: given[name] for name, p in parameters.items() if p.default is p.empty and name != "values"
    }
    if "values" in parameters:
        needed["values"] = {"id": 1}
    before = files_of(table)
    for name in parameters.keys() & WRONG.keys():
        for wrong in WRONG[name]:
            if function == "rewrite_data_files" and (name, wrong) == ("min_deleted", 0):
                continue  # as Iceberg's: every file with deletes
            with pytest.raises(errors.InvalidInputError) as caught:
                call(**{**needed, name: wrong})
            shown = "filter" if name == "row_filter" else name.removesuffix("s")
            assert shown in str(caught.value), (name, wrong)
    assert files_of(table) == before


def test_of_two_runs_of_a_job_at_once_one_counts(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    before = {path for path in files_of(table) if path.suffix == ".bin"}
    racing = RacingStorage(table, lambda: delta.delete(table, "id < 30", job_id="nightly"))
    done = delta.delete(racing, "id < 30", job_id="nightly")
    assert (done.repeated, done.rows_deleted) == (True, 0)
    assert len({path for path in files_of(table) if path.suffix == ".bin"} - before) == 1


@pytest.mark.slow
def test_racing_processes_lose_no_delete(golden: Callable[[str], Path]) -> None:
    table = golden("hand_prefix")
    delta.delete(table, "id = 999")
    before = ids(table)
    n = 4
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    alive = [i for i in range(40) if i in before]
    script = Path(__file__).with_name("racing.py")
    assert alive
    commands = [[sys.executable, str(script), str(table), ",".join(map(str, alive[k::n]))] for k in range(n)]
    running = [
        subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for command in commands
    ]
    for process in running:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert ids(table) == [i for i in before if i >= 40]
    assert delta.snapshot(table).version == 3 + len(alive)
    assert not list((table / "_delta_log").glob(".*tmp"))


# Vectors enabled -------------------------------------------------------------------------------------------


def test_enabling_vectors_names_what_older_protocols_implied(golden: Callable[[str], Path]) -> None:
    table = golden("hand_inline")
    for version in (1, 2):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(errors.UnsupportedError, match="enable"):
        delta.delete(table, "id < 5")
    assert delta.enable(table, dry_run=True) == 1
    assert delta.snapshot(table).version == 0
    assert delta.enable(table) == 1
    protocol = delta.snapshot(table).protocol.action()
    assert protocol == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["appendOnly", "deletionVectors", "invariants"],
    }
    assert delta.snapshot(table).configuration == {"delta.enableDeletionVectors": "true"}
    assert delta.enable(table) is delta.enable(table, dry_run=True) is None
    assert delta.delete(table, "id < 5").rows_deleted == 5
    assert ids(table) == list(range(5, 1000))


def test_a_table_that_deltalake_creates_with_vectors_enabled(
    tmp_path: Path, duckdb_delta: DuckDBPyConnection
) -> None:
    path = str(tmp_path)
    deltalake.write_deltalake(
        path, pa.table({"id": range(100)}), configuration={"delta.enableDeletionVectors": "true"}
    )
    assert "variantType" in delta.snapshot(path).protocol.reader_features
    assert delta.delete(path, "id >= 5 and id < 95").rows_deleted == 90
    found = duckdb_delta.execute(f"SELECT id FROM delta_scan('{path}') ORDER BY id").fetchall()
    assert [id for (id,) in found] == [*range(5), *range(95, 100)] == ids(tmp_path)


def test_enabling_vectors_is_refused_where_they_are_forbidden(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    alter(
        table,
        "metaData",
        lambda m: m["configuration"].update(
            {"delta.enableIcebergCompatV2": "true", "delta.enableDeletionVectors": "false"}
        ),
    )
    with pytest.raises(errors.UnsupportedError, match="CompatV2"):
        delta.enable(table)
    with pytest.raises(errors.UnsupportedError, match="CompatV2"):
        delta.enable(table, dry_run=True)
