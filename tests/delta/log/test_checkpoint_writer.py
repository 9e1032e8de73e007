"""Commits write checkpoints: what other engines and this package read from them is what the log says."""

from __future__ import annotations

import json
import logging
import math
import shutil
import time
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from puffin_fast import delta
from puffin_fast.delta.log.checkpoint import _drop_nulls, _plain
from puffin_fast.delta.log.checkpoint_writer import write_checkpoint
from puffin_fast.delta.log.segment import LogListing
from puffin_fast.delta.log.snapshot import load_head, load_snapshot
from puffin_fast.delta.log.storage import TableStorage, storage_of
from puffin_fast.errors import ConflictError, NotFoundError
from tests.delta.tables import alter, ids_of_others
from tests.kit.rows import agreed, by_us
from tests.kit.tables import delta_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SCHEMA = pa.schema([("id", pa.int64()), ("g", pa.string()), ("at", pa.timestamp("us", "UTC"))])
FEATURES = {"enableDeletionVectors": "true", "enableRowTracking": "true"}


def rows(first: int, n: int) -> pa.Table:
    return pa.table(
        {"id": range(first, first + n), "g": [None, "a b", "ü"] * (n // 3), "at": [1] * n}, SCHEMA
    )


def made(folder: Path, **properties: str) -> Path:
    """An empty table with properties whose names begin with ``delta.``."""
    given = {f"delta.{name}": value for name, value in {**FEATURES, **properties}.items()}
    return delta_table(folder, SCHEMA, partition=["g"], properties=given)


def changed(table: Path, first: int) -> None:
    """Four commits: rows, vectors, files without rows, and a job."""
    delta.append(table, rows(first, 30), job_id=f"job {first}")
    delta.delete(table, f"id = {first} or id = {first + 7}")
    delta.update(table, f"id = {first + 3}", {"at": None})
    delta.delete(table, f"id >= {first + 24} and g = 'ü'")


def log(table: Path, suffix: str) -> list[Path]:
    return sorted((table / "_delta_log").glob(f"*{suffix}"))


def checkpoints(table: Path) -> list[int]:
    """The versions that have one."""
    return [int(path.name[:20]) for path in log(table, ".checkpoint.parquet")]


def remove_commits(table: Path, end: int = 1 << 60) -> None:
    """Removes the commits before a version; by default all."""
    for path in log(table, ".json"):
        if ".checkpoint." not in path.name and int(path.name[:20]) < end:
            path.unlink()


def key(action: dict[str, Any]) -> tuple[str, str]:
    return action["path"], json.dumps(action.get("deletionVector"))


def state(table: Path) -> dict[str, Any]:
    found = delta.snapshot(table)
    adds, removes = found.adds(range(found.files.num_rows)), found.tombstones(0)
    for action in (*adds, *removes):
        action.pop("dataChange")  # of the commit
    return {
        "adds": sorted(adds, key=key),
        "removes": sorted(removes, key=key),
        "metadata": found.metadata,
        "protocol": found.protocol,
        "domains": found.domain_metadata,
        "transactions": found.transactions,
        "rows": by_us(table),
    }


def test_a_version_from_its_checkpoint_is_the_version_of_the_log(
    tmp_path: Path, duckdb_delta: DuckDBPyConnection
) -> None:
    table = made(tmp_path / "t")
    for first in range(0, 150, 30):
        changed(table, first)
    assert checkpoints(table) == [10, 20]
    plain = shutil.copytree(table, tmp_path / "plain")
    for path in log(plain, ".checkpoint.parquet"):
        path.unlink()
    expected = state(plain)
    assert state(table) == expected
    remove_commits(table, 21)  # the second checkpoint was made from the first one
    assert state(table) == expected
    assert ids_of_others(duckdb_delta, table) == [[row["id"] for row in expected["rows"]]] * 2
    hint = json.loads((table / "_delta_log/_last_checkpoint").read_text())
    assert (hint["version"], hint["numOfAddFiles"]) == (20, len(expected["adds"]))
    changed(table, 300)
    assert delta.append(table, rows(30, 3), job_id="job 30").commit.repeated
    assert delta.verify(table) == []


def test_deltalake_writes_the_same_actions(tmp_path: Path) -> None:
    table = made(tmp_path / "t", checkpointInterval="1000")
    for first in range(0, 60, 30):
        changed(table, first)
    other = shutil.copytree(table, tmp_path / "other")
    deltalake.DeltaTable(other).create_checkpoint()
    assert write_checkpoint(storage_of(table), 8)
    assert not write_checkpoint(storage_of(table), 8)
    found = []
    for folder in (table, other):
        (path,) = log(folder, ".checkpoint.parquet")
        actions: dict[str, list[str]] = {}
        for row in pa.parquet.read_table(path).to_pylist(maps_as_pydicts="strict"):
            for kind, action in row.items():
                if action is not None:
                    known = {name: value for name, value in action.items() if value not in (None, {}, [])}
                    known.pop("dataChange", None)
                    known.pop("stats", None) if kind == "remove" else None
                    actions.setdefault(kind, []).append(json.dumps(known, sort_keys=True))
        found.append({kind: sorted(values) for kind, values in actions.items()})
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("interval", "versions"),
    [("3", [3, 6, 9, 12]), ("0", [10]), ("-1", [10]), ("x", [10]), ("100", []), ("9" * 5000, [10])],
    ids=lambda value: str(value)[:9],
)
def test_the_table_says_how_often(tmp_path: Path, interval: str, versions: list[int]) -> None:
    table = made(tmp_path / "t", checkpointInterval=interval)
    for first in range(0, 90, 30):
        changed(table, first)
    assert checkpoints(table) == versions


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        ("interval 0 seconds", False),
        ("interval 1 week", True),
        ("interval 2 days 3 hours", True),
        ("?", True),
    ],
)
def test_removed_files_stay_for_the_time_of_the_table(tmp_path: Path, retention: str, kept: bool) -> None:
    table = made(tmp_path / "t", checkpointInterval="1", deletedFileRetentionDuration=retention)
    delta.append(table, rows(0, 3))
    delta.delete(table, "true")
    delta.append(table, rows(0, 3))
    remove_commits(table)
    assert bool(delta.snapshot(table).tombstones(0)) is kept


def test_a_checkpoint_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(tmp_path / "t", checkpointInterval="1")
    (table / "_delta_log/00000000000000000001.checkpoint.parquet").mkdir()
    (table / "_delta_log/_last_checkpoint").mkdir()
    with caplog.at_level(logging.WARNING, "puffin_fast"):
        assert delta.append(table, rows(0, 3)).commit.id == 1
        assert delta.append(table, rows(3, 3)).commit.id == 2
    assert "version 2 is committed, but has no checkpoint" in caplog.text
    assert delta.scan(table).count() == 6


def test_tables_of_v2_checkpoints_get_one_without_sidecars(tmp_path: Path) -> None:
    table = made(tmp_path / "t", checkpointInterval="1")
    for name in ("readerFeatures", "writerFeatures"):
        alter(table, "protocol", lambda action, name=name: action[name].append("v2Checkpoint"))
    delta.append(table, rows(0, 3))
    (path,) = log(table, ".checkpoint.parquet")
    assert pc.drop_null(pq.read_table(path)["checkpointMetadata"]).to_pylist() == [{"version": 1}]
    remove_commits(table)
    delta.append(table, rows(3, 3))
    assert [row["id"] for row in agreed(table)] == [*range(6)]


def test_a_commit_on_a_table_whose_actions_have_null_maps_writes_its_checkpoint(tmp_path: Path) -> None:
    """deltalake writes ``"tags":null``."""
    table = delta_table(tmp_path, pa.table({"id": range(10)}), by="deltalake")
    assert '"tags":null' in log(table, ".json")[0].read_text()
    for at in range(10):
        delta.append(table, pa.table({"id": [100 + at]}))
    assert checkpoints(table) == [10]
    remove_commits(table, 1)
    assert [row["id"] for row in agreed(table)] == [*range(10), *range(100, 110)]


def test_times_of_commits_ascend_over_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t", checkpointInterval="2", enableInCommitTimestamps="true")
    delta.append(table, rows(0, 3))
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3600)
    delta.append(table, rows(3, 3))
    monkeypatch.undo()
    delta.append(table, rows(6, 3))
    times = [delta.snapshot(table, version=at).commit_info["inCommitTimestamp"] for at in range(4)]
    assert times == sorted(set(times))


def test_a_version_that_was_cleaned_away_is_not_found(tmp_path: Path) -> None:
    table = made(tmp_path / "t", checkpointInterval="2")
    for first in range(0, 18, 3):
        delta.append(table, rows(first, 3))
    remove_commits(table, 5)
    with pytest.raises(NotFoundError, match="version 3 cannot be built: the log begins at version 4"):
        delta.scan(table, snapshot_id=3)
    remove_commits(table, 6)
    with pytest.raises(NotFoundError, match="version 5 cannot be built"):
        delta.scan(table, snapshot_id=5)
    assert delta.scan(table).count() == 18


def test_parsed_statistics_that_json_has_no_numbers_for_are_left_out() -> None:
    exact, rounded = Decimal("12.34"), Decimal("90071992547409931234.01")
    values = {"a": math.inf, "b": -math.inf, "c": math.nan, "d": 1.5, "e": rounded, "f": exact, "g": None}
    found = json.loads(_plain({"path": "p", "stats_parsed": {"numRecords": 1, "minValues": values}})["stats"])
    assert found == {"numRecords": 1, "minValues": {"d": 1.5, "f": 12.34}}


# A checkpoint that another writer replaces -------------------------------------------------------------------------


def lines(actions: pa.Table) -> str:
    """The actions of a checkpoint as JSON."""
    found = actions.to_pylist(maps_as_pydicts="strict")
    known = ({kind: action for kind, action in row.items() if action is not None} for row in found)
    return "".join(f"{json.dumps(_drop_nulls(row))}\n" for row in known)


def in_parts(folder: Path, whole: pa.Table, *, n: int, order: int = 1) -> None:
    """A checkpoint of several parts; -1: in the opposite order."""
    turned = whole.take(pa.array(range(whole.num_rows)[::order]))
    for at in range(n):
        start, stop = (turned.num_rows * end // n for end in (at, at + 1))
        part = turned.slice(start, stop - start)
        pq.write_table(part, folder / f"{8:020d}.checkpoint.{at + 1:010d}.{n:010d}.parquet")


def with_sidecars(
    folder: Path,
    whole: pa.Table,
    *,
    ending: str,
    order: int = 1,
    number: int = 1,
    inline: bool = False,
    sidecars: str = "_sidecars",
    spelled: Callable[[Path], str] = lambda path: path.name,
) -> None:
    """A v2 checkpoint whose file actions are in two sidecars of the same names."""
    is_file = pc.or_(whole["add"].is_valid(), whole["remove"].is_valid())
    rest, files = whole.filter(pc.invert(is_file)), whole.filter(is_file)
    files = files.take(pa.array(range(files.num_rows)[::order]))
    names = [] if inline else [f"{at:08d}-0000-0000-0000-{number:012d}.parquet" for at in range(2)]
    paths = [(folder / sidecars).resolve() / name for name in names]
    for at, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        pq.write_table(files.slice(at * 3, 3 if at == 0 else None), path)
    named = [
        {"sidecar": {"path": spelled(path), "sizeInBytes": path.stat().st_size, "modificationTime": 1}}
        for path in paths
    ]
    extra = map(pa.Table.from_pylist, ([{"checkpointMetadata": {"version": 8}}], named))
    tables = [*extra, files if inline else files.slice(0, 0), rest]
    top = pa.concat_tables(tables, promote_options="default")
    path = folder / f"{8:020d}.checkpoint.{number:08d}-0000-0000-0000-000000000000.{ending}"
    if ending == "json":
        path.write_text(lines(top))
    else:
        pq.write_table(top, path)


def classic(folder: Path, whole: pa.Table, *, order: int = 1, **options: Any) -> None:
    turned = whole.take(pa.array(range(whole.num_rows)[::order]))
    pq.write_table(turned, folder / f"{8:020d}.checkpoint.parquet", **options)


def removed(folder: Path, whole: pa.Table) -> None:
    """No checkpoint: the commits are still there."""


def of_deltalake(folder: Path, whole: pa.Table) -> None:
    deltalake.DeltaTable(folder.parent).create_checkpoint()


BEFORE = {
    "one file": classic,
    "parts": partial(in_parts, n=3),
    "v2 in JSON": partial(with_sidecars, ending="json"),
    "v2 in Parquet": partial(with_sidecars, ending="parquet"),
    "v2 without sidecars": partial(with_sidecars, ending="parquet", inline=True),
}
AFTER = {
    "other order": partial(classic, order=-1),
    "row groups of one row": partial(classic, order=-1, row_group_size=1),
    "parts in other order": partial(in_parts, n=3, order=-1),
    "more parts": partial(in_parts, n=4),
    "sidecars of the same names": partial(with_sidecars, ending="parquet", order=-1),
    "JSON and sidecars of the same names": partial(with_sidecars, ending="json", order=-1),
    "sidecars of other names": partial(with_sidecars, ending="json", order=-1, number=2),
    "deltalake's": of_deltalake,
    "none": removed,
}


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """A table of 8 versions, whose checkpoint has adds with and without vectors, and removes; the checkpoint."""
    table = tmp_path_factory.mktemp("eight") / "t"
    rows = [{"id": pa.array(range(first, first + 10), pa.int64())} for first in range(0, 60, 10)]
    delta_table(table, rows, properties={"delta.checkpointInterval": "8"})
    delta.delete(table, "id % 10 = 3")
    delta.overwrite(table, pa.table({"id": range(50, 60)}), "id >= 50")
    (path,) = log(table, ".checkpoint.parquet")
    whole = pq.read_table(path)
    path.unlink()
    return table, whole


def of_form(eight: tuple[Path, pa.Table], folder: Path, form: Callable[[Path, pa.Table], None]) -> Path:
    shutil.copytree(eight[0], folder)
    form(folder / "_delta_log", eight[1])
    return folder


def replace_checkpoint(table: Path, whole: pa.Table, form: Callable[[Path, pa.Table], None]) -> None:
    for path in (*log(table, ".checkpoint.*"), table / "_delta_log" / "_last_checkpoint"):
        path.unlink(missing_ok=True)
    form(table / "_delta_log", whole)


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("before", BEFORE)
def test_actions_are_those_that_were_read_after_the_checkpoint_is_replaced(
    before: str, after: str, eight: tuple[Path, pa.Table], tmp_path: Path
) -> None:
    table = of_form(eight, tmp_path / "t", BEFORE[before])
    known = delta.snapshot(table)
    assert known.segment is not None
    assert known.segment.checkpoint == 8
    paths, expected = known.files["path"].to_pylist(), state(table)
    replace_checkpoint(table, eight[1], AFTER[after])
    adds = known.adds(range(len(paths)))
    assert [add["path"] for add in adds] == paths
    for found, name in ((adds, "adds"), (known.tombstones(0), "removes")):
        assert sorted(map(key, found)) == [key(action) for action in expected[name]]
        assert {action["size"] for action in found} == {action["size"] for action in expected[name]}


@pytest.mark.parametrize("after", AFTER)
def test_a_commit_changes_the_files_that_it_means_after_the_checkpoint_is_replaced(
    after: str, eight: tuple[Path, pa.Table], tmp_path: Path
) -> None:
    table = of_form(eight, tmp_path / "t", classic)
    before = set(delta.scan(table).to_arrow()["id"].to_pylist())
    with delta.transaction(table) as transaction:
        transaction.append(pa.table({"id": [1000]}))  # reads the version
        replace_checkpoint(table, eight[1], AFTER[after])
        transaction.delete("id < 10 or id = 22")
        transaction.update("id = 35", {"id": 735})
        transaction.delete_keys([41, 51], "id")
    expected = before - {*range(10), 22, 35, 41, 51} | {735, 1000}
    assert agreed(table) == [{"id": id} for id in sorted(expected)]


def test_a_checkpoint_without_a_file_that_was_live_is_a_conflict(
    eight: tuple[Path, pa.Table], tmp_path: Path
) -> None:
    table = of_form(eight, tmp_path / "t", classic)
    known = delta.snapshot(table)
    replace_checkpoint(table, eight[1].filter(eight[1]["add"].is_null()), classic)
    words = r"checkpoint of version 8 was replaced.*expected the add of .*found none"
    with pytest.raises(ConflictError, match=words):
        known.adds([0])
    remove_commits(table)
    replace_checkpoint(table, eight[1], removed)
    with pytest.raises(ConflictError, match="version 8 was removed after it had been read"):
        known.adds([0])


@pytest.mark.parametrize("times", [1, 100])
def test_parts_that_are_replaced_while_they_are_read_are_read_again(
    times: int, eight: tuple[Path, pa.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = of_form(eight, tmp_path / "t", BEFORE["parts"])
    expected, read, orders = state(table), TableStorage.read_whole, [-1, 1] * times

    def read_and_replace(storage: TableStorage, location: str) -> bytes:
        data = read(storage, location)
        if ".checkpoint.0000000001." in location and len(orders) > times:
            in_parts(table / "_delta_log", eight[1], n=3, order=orders.pop())
        return data

    monkeypatch.setattr(TableStorage, "read_whole", read_and_replace)
    if times == 1:
        assert state(table) == expected
    else:
        with pytest.raises(ConflictError, match="found that another writer replaced some of the 3 parts"):
            delta.snapshot(table)


@pytest.mark.parametrize("load", [load_snapshot, load_head])
def test_a_version_is_loaded_from_the_checkpoint_that_replaced_the_one_of_the_listing(
    load: Callable[..., Any], eight: tuple[Path, pa.Table], tmp_path: Path
) -> None:
    table = of_form(eight, tmp_path / "t", BEFORE["v2 in JSON"])
    segment = LogListing.of(storage_of(table)).segment()
    remove_commits(table)
    replace_checkpoint(table, eight[1], AFTER["sidecars of other names"])
    assert load(storage_of(table), segment).metadata == delta.snapshot(table).metadata
    replace_checkpoint(table, eight[1], removed)
    with pytest.raises(NotFoundError, match="no Delta table"):
        load(storage_of(table), segment)


# Paths -------------------------------------------------------------------------------------------------------------

SPELLINGS: dict[str, Callable[[Path], str]] = {
    "name": lambda path: path.name,
    "encoded name": lambda path: path.name.replace("-", "%2D"),
    "path": str,
    "encoded path": lambda path: quote(str(path)),
    "file:/": lambda path: f"file:{quote(str(path))}",
    "file:///": Path.as_uri,
    "file://localhost/": lambda path: f"file://localhost{quote(str(path))}",
}


@pytest.mark.parametrize("ending", ["json", "parquet"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_sidecars_are_found_by_any_spelling_of_their_paths(
    spelling: str, ending: str, eight: tuple[Path, pa.Table], tmp_path: Path
) -> None:
    is_absolute = spelling not in ("name", "encoded name")
    folder = "../side cars%" if is_absolute else "_sidecars"
    form = partial(with_sidecars, ending=ending, sidecars=folder, spelled=SPELLINGS[spelling])
    table = of_form(eight, tmp_path / "t", form)
    remove_commits(table)
    classic(table / "_delta_log", eight[1])  # the version may be loaded from this one, or from the other
    for is_alone in (False, True):
        if is_alone:
            (table / "_delta_log" / f"{8:020d}.checkpoint.parquet").unlink()
        assert delta.scan(table).count() == 55
        assert delta.verify(table) == []
        assert delta.orphan_files(table, older_than=timedelta(days=-1))["path"].to_pylist() == []
    assert delta.delete(table, "id = 20 or id >= 50").rows_deleted == 11
    assert len(agreed(table)) == 44


def test_a_path_is_the_same_file_in_any_spelling(tmp_path: Path) -> None:
    table, other = tmp_path / "t", tmp_path / "a b%"
    delta_table(table, {"id": pa.array(range(10), pa.int64())})
    delta.delete(table, "id < 3")
    newest = log(table, ".json")[-1]
    (add,) = delta.snapshot(table).adds([0])
    other.mkdir()
    data = Path(shutil.move(table / add["path"], other))
    (file,) = table.glob("deletion_vector_*.bin")
    vector = Path(shutil.move(file, other))
    spellings = [spell for name, spell in SPELLINGS.items() if "name" not in name and name != "path"]
    for number, spell in enumerate(spellings):
        removed_as = spellings[number - 1]
        here = {**add["deletionVector"], "storageType": "p", "pathOrInlineDv": spell(vector)}
        action = {**add, "path": spell(data), "deletionVector": here}
        newest.write_text(json.dumps({"add": action}) + "\n")
        log(table, "1.json")[0].write_text("")
        assert delta.scan(table).to_arrow()["id"].to_pylist() == [*range(3, 10)]
        assert delta.verify(table) == []
        gone = {"path": removed_as(data), "dataChange": True, "deletionVector": here}
        following = newest.with_name(f"{3:020d}.json")
        following.write_text(json.dumps({"remove": gone}) + "\n")
        assert delta.scan(table).count() == 0
        following.unlink()
