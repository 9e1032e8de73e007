"""`rewrite_data_files` of Delta tables: the log, and the rows that all readers return."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast import delta, errors
from tests.conftest import require_module
from tests.delta.conftest import TABLES
from tests.delta.tables import Golden, commit_of, stored_row_ids
from tests.kit.faults import failing
from tests.kit.rows import agreed, by_us
from tests.kit.tables import delta_table, parts

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ALL: dict[str, Any] = {"min_deleted": 0, "min_input_files": 2}
"""Rewrites every data file with deletes, and joins any two small ones."""


def small_files(path: Path, n: int = 12) -> Path:
    """A table of `n` appends of ten rows each, in descending order of id."""
    ids = range(10 * n, 0, -1)
    return delta_table(path, parts(pa.table({"id": ids, "v": [f"v{i % 7}" for i in ids]}), n))


@pytest.mark.parametrize("name", TABLES)
def test_a_rewrite_changes_files_and_no_row(
    name: str, golden: Golden, duckdb_delta: DuckDBPyConnection
) -> None:
    table = golden(name)
    before = by_us(table)
    ids = stored_row_ids(table) if name == "spark_many_features" else None
    version = delta.snapshot(table).version
    purged = sum(delta.vectors(table)["cardinality"].to_pylist())
    asked = delta.rewrite_data_files(table, **ALL, dry_run=True)
    done = delta.rewrite_data_files(table, **ALL)
    assert (asked.data_files, asked.rows, asked.rows_purged) == (done.data_files, done.rows, purged)
    assert done.commit.id == version + 1
    assert delta.vectors(table).num_rows == 0
    assert agreed(table, duckdb_delta) == before
    assert by_us(table, snapshot_id=version) == before
    if ids is not None:
        assert stored_row_ids(table) == ids
    actions = commit_of(table, version + 1)
    assert not any(action["dataChange"] for action in [*actions["add"], *actions["remove"]])
    assert done.rows == sum(json.loads(add["stats"])["numRecords"] for add in actions["add"])
    sizes = {add["path"]: add["size"] for add in actions["add"]}
    assert sum(sizes.values()) == done.commit.n_bytes
    for add in actions["add"]:
        stored = pq.ParquetFile(table / unquote(add["path"]))
        assert json.loads(add["stats"])["numRecords"] == stored.metadata.num_rows
    assert delta.orphan_files(table).num_rows == 0
    again = delta.rewrite_data_files(table, **ALL)
    assert (again.commit.id, again.data_files) == (None, 0)


def test_small_files_are_joined_to_files_of_the_target_size(tmp_path: Path) -> None:
    table = small_files(tmp_path / "t")
    before = by_us(table)
    size = max(file.stat().st_size for file in table.glob("*.parquet"))
    done = delta.rewrite_data_files(table, target_file_size=4 * size, min_input_files=2)
    assert (done.data_files, done.data_files_written, done.rows, done.commits) == (12, 3, 120, 1)
    assert by_us(table) == before
    delta.overwrite(table, pa.table({"id": [1], "v": ["x"]}), "id = 1")
    assert delta.rewrite_data_files(table, min_file_size=0).commit.id is None, "no file has many deletes"


def test_a_property_has_the_target_size(tmp_path: Path) -> None:
    small, wrong = {"delta.targetFileSize": "1kb"}, {"delta.targetFileSize": "big"}
    table = delta_table(tmp_path / "t", parts(pa.table({"id": range(400)}), 4), properties=small)
    assert delta.rewrite_data_files(table).commit.id is None, "no file has less than 0.75 kB"
    table = delta_table(tmp_path / "u", pa.schema([("id", pa.int64())]), properties=wrong)
    with pytest.raises(errors.CorruptDataError, match=r"delta\.targetFileSize: expected a size"):
        delta.rewrite_data_files(table)


@pytest.mark.parametrize("run_bytes", [1, 128 << 20])
def test_rows_are_sorted(run_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("puffin_fast.rows.rewrite.sorted_rows.RUN_BYTES", run_bytes)
    table = small_files(tmp_path / "t")
    delta.delete(table, "id in (5, 10, 15)")
    before = by_us(table)
    delta.rewrite_data_files(table, sort_by=["v desc", "id"], **ALL)
    found = delta.scan(table).to_arrow().to_pylist()
    assert found == sorted(sorted(before, key=lambda row: row["id"]), key=lambda row: row["v"], reverse=True)
    with pytest.raises(errors.NotFoundError, match="no column w"):
        delta.rewrite_data_files(table, sort_by=["w"])


def test_a_filter_chooses_the_files(partitioned: Path) -> None:
    before = by_us(partitioned)
    done = delta.rewrite_data_files(partitioned, "part = 'p 1'", **ALL)
    paths = {unquote(action["path"]) for action in commit_of(partitioned, done.commit.id or 0)["remove"]}
    assert paths
    assert all(path.startswith("part=p 1/") for path in paths)
    assert by_us(partitioned) == before


@pytest.mark.parametrize(("max_commits", "commits"), [(2, 2), (4, 4), (9, 4)])
def test_several_commits(tmp_path: Path, max_commits: int, commits: int) -> None:
    table = small_files(tmp_path / "t")
    size = max(file.stat().st_size for file in table.glob("*.parquet"))
    before, version = by_us(table), delta.snapshot(table).version
    several: dict[str, Any] = {"min_input_files": 2, "max_commits": max_commits}
    done = delta.rewrite_data_files(table, target_file_size=3 * size, **several)
    assert (done.commits, done.commit.id) == (commits, version + commits)
    assert (done.data_files, done.data_files_left_out) == (12, 0)
    assert by_us(table) == before
    assert delta.rewrite_data_files(table, target_file_size=size // 2, **several).commits == 0
    with pytest.raises(errors.InvalidInputError, match="max_commits 2: expected 1 with a job_id"):
        delta.rewrite_data_files(table, max_commits=2, job_id="j")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, errors.JobInterruptedError])
@pytest.mark.parametrize("part", [1, 2])
def test_an_interrupted_part_names_the_commits_of_earlier_parts(
    tmp_path: Path, part: int, kind: type[BaseException]
) -> None:
    table = small_files(tmp_path / "t")
    size = max(file.stat().st_size for file in table.glob("*.parquet"))
    before, version = by_us(table), delta.snapshot(table).version
    write = "puffin_fast.delta.maintenance.rewritten_files.FileRewriter.write"
    with failing(write, kind("cancelled"), call=part), pytest.raises(kind) as caught:
        delta.rewrite_data_files(table, target_file_size=3 * size, min_input_files=2, max_commits=2)
    said = "; ".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert (f"earlier parts are committed up to version {version + 1}" in said) is (part == 2)
    assert delta.snapshot(table).version == version + part - 1
    assert by_us(table) == before


def test_an_interrupt_while_the_table_is_loaded_says_that_nothing_was_committed(tmp_path: Path) -> None:
    table = small_files(tmp_path / "t", 2)
    for verb in (
        lambda: delta.delete(table, "id = 1"),
        lambda: delta.append(table, pa.table({"id": [1], "v": ["a"]})),
        lambda: delta.rewrite_data_files(table, **ALL),
        lambda: delta.rewrite_data_files(table, **ALL, max_commits=2),
    ):
        with (
            failing("puffin_fast.delta.log.commit.load_snapshot"),
            pytest.raises(KeyboardInterrupt) as caught,
        ):
            verb()
        assert caught.value.__notes__ == ["nothing was committed, no file was written"]


def test_the_change_data_feed_has_no_line(tmp_path: Path) -> None:
    rows = pa.table({"id": range(30), "v": ["x"] * 30})
    table = delta_table(tmp_path, parts(rows, 3), properties={"delta.enableChangeDataFeed": "true"})
    done = delta.rewrite_data_files(table, min_input_files=2)
    opened: Any = require_module("deltalake").DeltaTable(str(table))
    assert pa.table(opened.load_cdf(starting_version=done.commit.id).read_all()).num_rows == 0


def test_columns_with_the_names_of_row_tracking(tmp_path: Path) -> None:
    rows = pa.table({"id": [0, 1, 2], "_row_id": ["r9", "r8", "r7"], "_pos": [0, 1, 2]})
    table = delta_table(tmp_path, parts(rows, 3), by="deltalake")
    delta.rewrite_data_files(table, sort_by=["_row_id"], **ALL)
    assert delta.scan(table).to_arrow().to_pylist() == rows.to_pylist()[::-1]
