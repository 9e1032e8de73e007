"""Commands on tables that are given by a path: Delta, Paimon and Lance."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from puffin_fast import delta
from tests.cli.conftest import Shell
from tests.conftest import require_module
from tests.kit.cases import each
from tests.kit.rows import by_duckdb, by_us
from tests.kit.tables import GOLDEN, delta_table, files_of, golden_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ANSWERS: dict[str, Any] = json.loads((GOLDEN / "delta" / "expected.json").read_text())
TABLES = sorted(name for name, answer in ANSWERS.items() if "files" in answer)
PAIMON = ("app_v1_part", "app_v2", "app_mix", "pk_v2")
RECORDS = sorted(
    [*GOLDEN.glob("delta/**/*.bin"), *GOLDEN.glob("paimon/**/index/*"), *GOLDEN.glob("lance/**/_deletions/*")]
)


PLAIN = Shell()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A copy of a golden table, to write to."""
    return golden_table("delta/spark_partitioned", tmp_path)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A table of deltalake's, without deletion vectors."""
    rows = {"id": range(100), "word": [f"w{i % 7}" for i in range(100)]}
    return delta_table(tmp_path / "written", rows, by="deltalake")


def ids(table: Path, row_filter: str = "true") -> set[int]:
    return {row["id"] for row in by_us(table, "id", row_filter=row_filter)}


def state(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in files_of(folder)}


def refused(table: Path, *arguments: object, code: int = 1) -> str:
    """The error of a command that leaves the files of a table."""
    before = state(table)
    said = PLAIN.refused(*arguments, code=code)
    assert state(table) == before
    return said


def commit_info(table: Path, version: int) -> dict[str, Any]:
    (log,) = (table / "_delta_log").glob(f"*{version}.json")
    found: dict[str, Any] = json.loads(log.read_text().splitlines()[0])["commitInfo"]
    return found


# Reading ---------------------------------------------------------------------------------------------------


@each("name", TABLES)
def test_scan_verify_and_deletes_know_each_golden_delta_table(name: str) -> None:
    path, answer = GOLDEN / "delta" / name, ANSWERS[name]
    counted = PLAIN.one("scan", path, "--count")
    assert counted["rows"] == answer["live_rows"]
    assert PLAIN.ask("verify", path) == []
    deletes = PLAIN.ask("deletes", path)
    report = PLAIN.ask("report", path, "--share", "0.2")
    expected = {
        (Path(file).name, len(found["deleted"]), found["rows"])
        for file, found in answer["files"].items()
        if found["deleted"]
    }
    for listed in (deletes, report["files"]):
        assert {(Path(row["data_file"]).name, row["deleted"], row["rows"]) for row in listed} == expected
    for row in report["files"]:
        assert row["share"] == row["deleted"] / row["rows"]
        assert row["advice"] == ("rewrite" if row["share"] >= 0.2 else "")
    totals = report["totals"]
    assert totals["rows"] - totals["deleted"] == answer["live_rows"]
    assert (totals["data_files"], totals["vectors"]) == (len(answer["files"]), len(expected))
    assert len(report["advice"]) == any(row["advice"] for row in report["files"])


def test_scan_takes_the_options_of_a_catalogs_table(table: Path, tmp_path: Path) -> None:
    rows = PLAIN.ask("scan", table, "--row-filter", "id < 9", "--selected-fields", "id,_pos")
    assert rows == delta.scan(table, "id < 9", ("id", "_pos")).to_arrow().to_pylist()
    target = tmp_path / "rows.parquet"
    PLAIN.ask("scan", f"{table}/", "--to", target)
    assert pq.read_table(target).num_rows == ANSWERS["spark_partitioned"]["live_rows"]
    first = PLAIN.one("scan", table, "--snapshot-id", 1, "--count")
    assert first["rows"] == 300
    PLAIN.refused("scan", table, "--snapshot-id", 99)


@pytest.mark.parametrize("name", PAIMON)
def test_deletes_and_verify_know_paimons_tables(name: str, tmp_path: Path) -> None:
    table = golden_table(f"paimon/d.db/{name}", tmp_path)
    answer = json.loads((GOLDEN / "paimon" / "expected.json").read_text())[name]
    rows = PLAIN.ask("deletes", table)
    assert {row["data_file"]: row["deleted"] for row in rows} == {
        file: len(found["deleted"]) for file, found in answer["files"].items() if found["deleted"]
    }
    assert PLAIN.ask("verify", table) == []
    for file in (table / "index").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert "index-" in PLAIN.failing("verify", table)[0]["path"]


def test_deletes_and_verify_know_lances_datasets() -> None:
    require_module("lance", "pip install 'puffin-fast[lance]'")
    path = GOLDEN / "lance" / "array_and_bitmap.lance"
    rows = PLAIN.ask("deletes", path)
    assert [(row["data_file"], row["deleted"], row["rows"]) for row in rows] == [
        ("0", 29, 200),
        ("1", 5040, 5400),
    ]
    assert PLAIN.ask("verify", path) == []


# Writing ---------------------------------------------------------------------------------------------------


def test_delete_commits_one_version_that_others_read(table: Path, duckdb_delta: DuckDBPyConnection) -> None:
    before = ids(table)
    arguments = (
        "delete",
        table,
        "--row-filter",
        "id < 20",
        "--snapshot-properties",
        "who=me",
        "--job-id",
        "j1",
    )
    dry = PLAIN.one(*arguments, "--dry-run")
    assert ids(table) == before
    done, again = (PLAIN.one(*arguments) for _ in range(2))
    assert (done["commit"]["id"], again["commit"]["repeated"]) == (4, True)
    assert done["rows_deleted"] == dry["rows_deleted"] == sum(i < 20 for i in before)
    assert done["data_files"] == dry["data_files"]
    assert commit_info(table, 4)["who"] == "me"
    assert {row["id"] for row in by_duckdb(duckdb_delta, table, "id")} == {i for i in before if i >= 20}


@pytest.mark.parametrize("verb", ["delete", "update", "overwrite"])
def test_the_filter_is_logged_only_if_it_may(table: Path, tmp_path: Path, verb: str) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("")
    options = {"delete": (), "update": ("--set", "v=new"), "overwrite": (rows,)}[verb]
    for version, (logs, text) in enumerate(
        [("--no-log-predicate", "id = 7"), ("--log-predicate", "id = 8")], 4
    ):
        PLAIN.says(verb, table, *options, "--row-filter", text, logs)
        logged = str(commit_info(table, version)["operationParameters"])
        assert (text in logged) == (logs == "--log-predicate")


def test_keys_of_a_csv_file_are_deleted(table: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    keys.write_text("id\n2\n5\n1000\n")
    assert PLAIN.one("delete-keys", table, keys, "--join-col", "id")["rows_deleted"] == 2
    assert "--join-col" in refused(table, "delete-keys", table, keys)


def test_rows_of_a_csv_file_are_upserted(written: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("id,word\n5,new\n100,more\n")
    PLAIN.says("upgrade", written)
    assert PLAIN.one("upsert", written, rows, "--join-col", "id")["commit"]["id"] is not None
    found = by_us(written, row_filter="id = 5 or id >= 99")
    assert [(row["id"], row["word"]) for row in found] == [(5, "new"), (99, "w1"), (100, "more")]
    assert "--join-col" in refused(written, "upsert", written, rows)
    rows.write_text("id,word,at\n5,old,1\n5,last,2\n")
    options = ("--join-col", "id", "--update-column", "word", "--order-column", "at")
    done = PLAIN.one("upsert", written, rows, *options)
    assert (done["rows_updated"], done["rows_superseded"]) == (1, 1)
    assert by_us(written, "word", row_filter="id = 5") == [{"word": "last"}]


def test_a_delta_table_is_created_filled_and_overwritten(tmp_path: Path) -> None:
    rows, table = tmp_path / "rows.csv", tmp_path / "made"
    rows.write_text("id,p\n1,a\n2,b\n")
    PLAIN.says("create", table, rows, "--partition-spec", "p", "--property", "delta.enableRowTracking=true")
    assert delta.snapshot(table).partition_columns == ["p"]
    dry, done = PLAIN.one("append", table, rows, "--dry-run"), PLAIN.one("append", table, rows)
    assert (dry["commit"]["id"], done["commit"]["id"], done["rows_appended"]) == (None, 1, 2)
    rows.write_text("id,p\n3,b\n")
    done = PLAIN.one("overwrite", table, rows, "--dynamic-partitions")
    assert (done["rows_deleted"], done["rows_appended"], ids(table)) == (1, 1, {1, 3})
    PLAIN.says("overwrite", table, rows, "--row-filter", "true")
    assert ids(table) == {3}
    assert "already exists" in refused(table, "create", table, rows)
    assert "--location" in PLAIN.refused("create", tmp_path / "other", rows, "--location", "x")


def test_rows_are_updated(table: Path) -> None:
    update, before = ("update", table, "--row-filter", "id < 3", "--set", "v=new"), state(table)
    dry = PLAIN.one(*update, "--dry-run")
    assert (dry["commit"]["id"], dry["rows_updated"] > 0, state(table)) == (None, True, before)
    done = PLAIN.one(*update)
    assert done["rows_updated"] == dry["rows_updated"]
    assert by_us(table, "v", row_filter="id < 3") == [{"v": "new"}] * done["rows_updated"]


def test_a_table_of_deltalake_takes_deletes_after_upgrade(
    written: Path, duckdb_delta: DuckDBPyConnection
) -> None:
    assert "enable" in refused(written, "delete", written, "--row-filter", "id < 20")
    before = state(written)
    assert PLAIN.one("upgrade", written, "--dry-run")["before"] is False
    assert state(written) == before
    assert PLAIN.one("upgrade", written)["before"] is False
    assert "nothing done" in PLAIN.says("upgrade", written)
    assert PLAIN.one("delete", written, "--row-filter", "word = 'w1'")["rows_deleted"] == 15
    left = {i for i in range(100) if i % 7 != 1}
    assert {row["id"] for row in by_duckdb(duckdb_delta, written, "id")} == left
    assert PLAIN.one("scan", written, "--count")["rows"] == 85
    assert PLAIN.ask("orphan-files", written, "--older-than", 0) == []


def test_a_table_is_readable_for_all_after_disable(written: Path, shell: Shell) -> None:
    deltalake: Any = require_module("deltalake")
    upgraded = PLAIN.run("upgrade", written).stderr
    for said in ("warning: table", "to_pandas", "`puffin-fast disable`"):
        assert said in upgraded
    PLAIN.says("delete", written, "--row-filter", "id < 20")
    before = state(written)
    dry = PLAIN.ask("disable", written, "--dry-run")
    assert (dry["commit"]["id"], dry["rows_purged"]) == (None, 20)
    assert "dry run: nothing was written" in PLAIN.says("disable", written, "--dry-run")
    assert state(written) == before
    done = PLAIN.ask("disable", written, "--job-id", "j")
    assert (done["data_files"], done["rows_purged"], done["keeps_checkpoints"]) == (1, 20, True)
    assert len(deltalake.DeltaTable(str(written)).to_pandas()) == 80
    assert "has this job id" in PLAIN.says("disable", written, "--job-id", "j")
    assert "no deletion vectors" in PLAIN.says("disable", written)
    assert "expected the path of a Delta table" in shell.refused("disable", "ns.t")


# What is refused ---------------------------------------------------------------------------------------------


@each(
    "arguments, named",
    [
        (("scan", "{table}", "--branch", "b"), "--branch"),
        (("deletes", "{table}", "--tag", "b"), "--tag"),
        (("delete", "{table}", "--row-filter", "id = 1", "--branch", "b"), "--branch"),
        (("delete", "{table}", "--row-filter", "nothing = 1"), "nothing"),
        (("delete", "{table}", "--row-filter", "id ="), "id ="),
        (("repair", "{table}"), "repair"),
        (("report", "{table}", "--tag", "b"), "--tag"),
        (("ndv", "{table}"), "ndv"),
        (("compact", "{table}"), "compact"),
        (("convert", "{table}", "--to", "paimon-v2"), "--to iceberg"),
        (("delete", "{table}/../p", "--row-filter", "id = 1", "--spark"), "expected a table"),
        (("scan", "{table}/nothing"), "expected a table"),
        (("scan", "{table}/_delta_log"), "expected a table"),
        (("verify", "{table}/nothing"), "no such file"),
        (("delete", "{table}/part=p 0", "--row-filter", "id = 1"), "expected a table"),
    ],
)
def test_errors_are_one_line_and_the_table_stays(table: Path, arguments: tuple[str, ...], named: str) -> None:
    said = refused(table, *(argument.format(table=table) for argument in arguments))
    assert named in said
    assert str(table) in said or named in ("nothing", "id =")


def test_a_conversion_takes_no_option_of_a_commit(table: Path) -> None:
    convert = ("convert", table, "--to", "iceberg", "--name", "n.t")
    for option in (("--dry-run",), ("--job-id", "j"), ("--only", "position"), ("--branch", "b")):
        assert option[0] in refused(table, *convert, *option, code=2)
    refused(table, "convert", table, code=2)


def test_a_folder_of_two_formats_is_refused(table: Path) -> None:
    shutil.copytree(GOLDEN / "paimon" / "d.db" / "app_v2" / "snapshot", table / "snapshot")
    assert "Delta and Paimon" in refused(table, "scan", table)


def test_a_torn_file_of_vectors_is_named_by_verify_and_refused_by_scan(table: Path, tmp_path: Path) -> None:
    (path,) = {Path(row["path"]) for row in PLAIN.ask("deletes", table) if row["offset"] == 1}
    path.write_bytes(path.read_bytes()[:40])
    (finding,) = PLAIN.failing("verify", table)
    assert (finding["kind"], finding["path"], finding["offset"]) == ("corrupt", str(path), 1)
    assert path.name in refused(table, "scan", table, "--to", tmp_path / "rows.parquet")
    assert not (tmp_path / "rows.parquet").exists()


# Files of vectors --------------------------------------------------------------------------------------------


@each("file", RECORDS, ids=lambda file: file.name)
def test_inspect_and_verify_know_the_files_of_other_formats(file: Path) -> None:
    document = PLAIN.ask("inspect", file)
    assert document["file-size-in-bytes"] == file.stat().st_size
    assert all(blob["content"]["cardinality"] > 0 for blob in document["blobs"])
    assert all(blob["type"] for blob in document["blobs"])
    last = document["blobs"][-1]
    assert last["offset"] + last["length"] == file.stat().st_size
    rows = PLAIN.ask("verify", file)
    assert [(row["offset"], row["error"]) for row in rows] == [
        (blob["offset"], None) for blob in document["blobs"]
    ]
    assert str(file.name) in PLAIN.says("inspect", file)


@each("file", RECORDS[::3], ids=lambda file: file.name)
def test_damaged_files_of_other_formats_are_shown_and_fail_to_verify(file: Path, tmp_path: Path) -> None:
    data = file.read_bytes()
    damaged = tmp_path / "damaged"
    for altered in (data[:-1], data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]):
        damaged.write_bytes(altered)
        document = PLAIN.ask("inspect", damaged)
        assert str(damaged) in document["blobs"][-1]["content"]["error"]
        assert PLAIN.failing("verify", damaged)


@each("content", [b"", b"\2", b"no vectors", b"PFA1"])
def test_what_is_no_file_of_vectors_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "other.bin"
    file.write_bytes(content)
    for command in ("inspect", "verify"):
        assert str(file) in PLAIN.refused(command, file)


@pytest.mark.spark
def test_delete_through_spark_takes_a_path_too(spark: object, table: Path) -> None:
    before = state(table)
    delete = ("delete", table, "--row-filter", "id >= 10 and id < 30", "--spark")
    dry = PLAIN.one(*delete, "--dry-run")
    assert state(table) == before
    done = PLAIN.one(*delete)
    assert (done["commit"]["id"], ids(table, "id >= 10 and id < 30")) == (4, set())
    assert dry["rows_deleted"] == done["rows_deleted"] > 0
