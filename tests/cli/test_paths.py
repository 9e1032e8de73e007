"""Commands on tables that are given by a path: Delta, Paimon and Lance."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from puffin_fast import delta
from tests.conftest import require_module

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Run = Callable[..., Result]

GOLDEN = Path(__file__).parents[1] / "golden"
ANSWERS: dict[str, Any] = json.loads((GOLDEN / "delta" / "expected.json").read_text())
TABLES = sorted(name for name, answer in ANSWERS.items() if "files" in answer)
PAIMON = ("app_v1_part", "app_v2", "app_mix", "pk_v2")
RECORDS = sorted(
    [*GOLDEN.glob("delta/**/*.bin"), *GOLDEN.glob("paimon/**/index/*"), *GOLDEN.glob("lance/**/_deletions/*")]
)


def answer_of(result: Result) -> Any:
    assert result.exit_code == 0, result.output + result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A copy of a golden table, to write to."""
    return Path(shutil.copytree(GOLDEN / "delta" / "spark_partitioned", tmp_path / "t"))


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A table of deltalake's, without deletion vectors."""
    path = tmp_path / "written"
    rows = pa.table({"id": pa.array(range(100), pa.int64()), "word": [f"w{i % 7}" for i in range(100)]})
    require_module("deltalake").write_deltalake(str(path), rows)
    return path


def ids_of(connection: DuckDBPyConnection, table: Path) -> set[int]:
    return {row[0] for row in connection.execute(f"SELECT id FROM delta_scan('{table}')").fetchall()}


def state(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Reading ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_scan_verify_and_deletes_know_each_golden_delta_table(run: Run, name: str) -> None:
    path, answer = GOLDEN / "delta" / name, ANSWERS[name]
    (counted,) = answer_of(run("scan", path, "--count", "--output", "json"))
    assert counted["rows"] == answer["live_rows"]
    assert answer_of(run("verify", path, "--output", "json")) == []
    deletes = answer_of(run("deletes", path, "--output", "json"))
    report = answer_of(run("report", path, "--share", "0.2", "--output", "json"))
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


def test_scan_takes_the_options_of_a_catalogs_table(run: Run, table: Path, tmp_path: Path) -> None:
    options = ("--row-filter", "id < 9", "--selected-fields", "id,_pos", "--output", "json")
    rows = answer_of(run("scan", table, *options))
    expected = delta.scan(table, "id < 9", ("id", "_pos")).to_arrow().to_pylist()
    assert rows == expected
    target = tmp_path / "rows.parquet"
    answer_of(run("scan", f"{table}/", "--to", target, "--output", "json"))
    assert pq.read_table(target).num_rows == ANSWERS["spark_partitioned"]["live_rows"]
    (first,) = answer_of(run("scan", table, "--snapshot-id", 1, "--count", "--output", "json"))
    assert first["rows"] == 300
    assert run("scan", table, "--snapshot-id", 99).exit_code == 1


@pytest.mark.parametrize("name", PAIMON)
def test_deletes_and_verify_know_paimons_tables(run: Run, name: str, tmp_path: Path) -> None:
    table = Path(shutil.copytree(GOLDEN / "paimon" / "d.db" / name, tmp_path / name))
    answer = json.loads((GOLDEN / "paimon" / "expected.json").read_text())[name]
    rows = answer_of(run("deletes", table, "--output", "json"))
    assert {row["data_file"]: row["deleted"] for row in rows} == {
        file: len(found["deleted"]) for file, found in answer["files"].items() if found["deleted"]
    }
    assert answer_of(run("verify", table, "--output", "json")) == []
    for file in (table / "index").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    result = run("verify", table, "--output", "json")
    assert result.exit_code == 1
    assert "index-" in json.loads(result.stdout)[0]["path"]


def test_deletes_and_verify_know_lances_datasets(run: Run) -> None:
    require_module("lance", "pip install 'puffin-fast[lance]'")
    path = GOLDEN / "lance" / "array_and_bitmap.lance"
    rows = answer_of(run("deletes", path, "--output", "json"))
    assert [(row["data_file"], row["deleted"], row["rows"]) for row in rows] == [
        ("0", 29, 200),
        ("1", 5040, 5400),
    ]
    assert answer_of(run("verify", path, "--output", "json")) == []


# Writing ---------------------------------------------------------------------------------------------------


def test_delete_commits_one_version_that_others_read(
    run: Run, table: Path, duckdb_delta: DuckDBPyConnection
) -> None:
    before = set(delta.scan(table).to_arrow()["id"].to_pylist())
    dry = answer_of(run("delete", table, "--row-filter", "id < 20", "--dry-run", "--output", "json"))[0]
    assert set(delta.scan(table).to_arrow()["id"].to_pylist()) == before
    properties = ("--snapshot-properties", "who=me", "--job-id", "j1")
    arguments = ("delete", table, "--row-filter", "id < 20", *properties, "--output", "json")
    (done,) = answer_of(run(*arguments))
    assert done["version"] == 4
    assert done["rows_deleted"] == dry["rows_deleted"] == sum(i < 20 for i in before)
    assert done["data_files"] == dry["data_files"]
    (again,) = answer_of(run(*arguments))
    assert again["repeated"]
    (log,) = (table / "_delta_log").glob("*4.json")
    assert json.loads(log.read_text().splitlines()[0])["commitInfo"]["who"] == "me"
    assert ids_of(duckdb_delta, table) == {i for i in before if i >= 20}


@pytest.mark.parametrize("verb", ["delete", "update", "overwrite"])
def test_the_filter_is_logged_only_if_it_may(run: Run, table: Path, tmp_path: Path, verb: str) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("")
    options = {"delete": (), "update": ("--set", "v=new"), "overwrite": (rows,)}[verb]
    for version, (logs, text) in enumerate(
        [("--no-log-predicate", "id = 7"), ("--log-predicate", "id = 8")], 4
    ):
        assert run(verb, table, *options, "--row-filter", text, logs).exit_code == 0
        (log,) = (table / "_delta_log").glob(f"*{version}.json")
        info = json.loads(log.read_text().splitlines()[0])["commitInfo"]
        assert (text in str(info["operationParameters"])) == (logs == "--log-predicate")


def test_keys_of_a_csv_file_are_deleted(run: Run, table: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    keys.write_text("id\n2\n5\n1000\n")
    (done,) = answer_of(run("delete-keys", table, keys, "--join-col", "id", "--output", "json"))
    assert done["rows_deleted"] == 2
    assert "--join-col" in run("delete-keys", table, keys).stderr


def test_rows_of_a_csv_file_are_upserted(run: Run, written: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("id,word\n5,new\n100,more\n")
    assert run("upgrade", written).exit_code == 0
    (done,) = answer_of(run("upsert", written, rows, "--join-col", "id", "--output", "json"))
    assert done["version"] is not None
    found = delta.scan(written, "id = 5 or id >= 99").to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["word"]) for row in found] == [(5, "new"), (99, "w1"), (100, "more")]
    assert "--join-col" in run("upsert", written, rows).stderr
    rows.write_text("id,word,at\n5,old,1\n5,last,2\n")
    options = ("--join-col", "id", "--update-column", "word", "--order-column", "at", "--output", "json")
    (done,) = answer_of(run("upsert", written, rows, *options))
    assert (done["rows_updated"], done["rows_superseded"]) == (1, 1)
    assert delta.scan(written, "id = 5").to_arrow()["word"].to_pylist() == ["last"]


def test_a_delta_table_is_created_filled_and_overwritten(run: Run, tmp_path: Path) -> None:
    rows, table = tmp_path / "rows.csv", tmp_path / "made"
    rows.write_text("id,p\n1,a\n2,b\n")
    made = run("create", table, rows, "--partition-spec", "p", "--property", "delta.enableRowTracking=true")
    assert made.exit_code == 0, made.output
    assert delta.snapshot(table).partition_columns == ["p"]
    (dry,) = answer_of(run("append", table, rows, "--dry-run", "--output", "json"))
    (done,) = answer_of(run("append", table, rows, "--output", "json"))
    assert (dry["version"], done["version"], done["rows_appended"]) == (None, 1, 2)
    rows.write_text("id,p\n3,b\n")
    (done,) = answer_of(run("overwrite", table, rows, "--dynamic-partitions", "--output", "json"))
    assert (done["rows_deleted"], done["rows_appended"]) == (1, 1)
    assert sorted(delta.scan(table).to_arrow()["id"].to_pylist()) == [1, 3]
    assert run("overwrite", table, rows, "--row-filter", "true").exit_code == 0
    assert delta.scan(table).to_arrow()["id"].to_pylist() == [3]
    assert "already exists" in run("create", table, rows).stderr
    assert "--location" in run("create", tmp_path / "other", rows, "--location", "x").stderr


def test_rows_are_updated(run: Run, table: Path) -> None:
    arguments = ("update", table, "--row-filter", "id < 3", "--set", "v=new", "--output", "json")
    before = state(table)
    (dry,) = answer_of(run(*arguments, "--dry-run"))
    assert (dry["version"], dry["rows_updated"] > 0) == (None, True)
    assert state(table) == before
    (done,) = answer_of(run(*arguments))
    assert done["rows_updated"] == dry["rows_updated"]
    found = delta.scan(table, "id < 3").to_arrow()["v"].to_pylist()
    assert found == ["new"] * done["rows_updated"]


def test_a_table_of_deltalake_takes_deletes_after_upgrade(
    run: Run, written: Path, duckdb_delta: DuckDBPyConnection
) -> None:
    before = state(written)
    refused = run("delete", written, "--row-filter", "id < 20")
    assert refused.exit_code == 1
    assert "enable" in refused.stderr
    assert answer_of(run("upgrade", written, "--dry-run", "--output", "json"))[0]["before"] is False
    assert state(written) == before
    assert answer_of(run("upgrade", written, "--output", "json"))[0]["before"] is False
    assert "nothing done" in run("upgrade", written).stdout
    (done,) = answer_of(run("delete", written, "--row-filter", "word = 'w1'", "--output", "json"))
    assert done["rows_deleted"] == 15
    assert ids_of(duckdb_delta, written) == {i for i in range(100) if i % 7 != 1}
    (left,) = answer_of(run("scan", written, "--count", "--output", "json"))
    assert left["rows"] == 85
    assert answer_of(run("orphan-files", written, "--older-than", 0, "--output", "json")) == []


def test_a_table_is_readable_for_all_after_disable(
    run: Run, written: Path, catalog_options: tuple[str, ...]
) -> None:
    deltalake: Any = require_module("deltalake")
    upgraded = run("upgrade", written)
    assert "warning: table" in upgraded.stderr
    assert "to_pandas" in upgraded.stderr
    assert "`puffin-fast disable`" in upgraded.stderr
    run("delete", written, "--row-filter", "id < 20")
    before = state(written)
    dry = answer_of(run("disable", written, "--dry-run", "--output", "json"))
    assert (dry["version"], dry["rows_purged"]) == (None, 20)
    assert "dry run: nothing was written" in run("disable", written, "--dry-run").stdout
    assert state(written) == before
    done = answer_of(run("disable", written, "--job-id", "j", "--output", "json"))
    assert (done["data_files"], done["rows_purged"], done["keeps_checkpoints"]) == (1, 20, True)
    assert len(deltalake.DeltaTable(str(written)).to_pandas()) == 80
    assert "has this job id" in run("disable", written, "--job-id", "j").stdout
    assert "no deletion vectors" in run("disable", written).stdout
    assert "expected the path of a Delta table" in run("disable", "ns.t", *catalog_options).stderr


# What is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "named"),
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
def test_errors_are_one_line_and_the_table_stays(
    run: Run, table: Path, arguments: tuple[str, ...], named: str
) -> None:
    before = state(table)
    result = run(*(argument.format(table=table) for argument in arguments))
    assert result.exit_code == 1, result.output
    assert len(result.stderr.splitlines()) == 1
    assert named in result.stderr
    assert str(table) in result.stderr or named in ("nothing", "id =")
    assert state(table) == before


def test_a_conversion_takes_no_option_of_a_commit(run: Run, table: Path) -> None:
    before = state(table)
    for option in (("--dry-run",), ("--job-id", "j"), ("--only", "position"), ("--branch", "b")):
        result = run("convert", table, "--to", "iceberg", "--name", "n.t", *option)
        assert result.exit_code == 2
        assert option[0] in result.stderr
    assert run("convert", table).exit_code == 2
    assert state(table) == before


def test_a_folder_of_two_formats_is_refused(run: Run, table: Path) -> None:
    shutil.copytree(GOLDEN / "paimon" / "d.db" / "app_v2" / "snapshot", table / "snapshot")
    assert "Delta and Paimon" in run("scan", table).stderr


def test_a_torn_file_of_vectors_is_named_by_verify_and_refused_by_scan(
    run: Run, table: Path, tmp_path: Path
) -> None:
    (path,) = {Path(row["path"]) for row in delta_vectors(run, table) if row["offset"] == 1}
    path.write_bytes(path.read_bytes()[:40])
    result = run("verify", table, "--output", "json")
    assert result.exit_code == 1
    (finding,) = json.loads(result.stdout)
    assert (finding["kind"], finding["path"], finding["offset"]) == ("corrupt", str(path), 1)
    refused = run("scan", table, "--to", tmp_path / "rows.parquet")
    assert refused.exit_code == 1
    assert path.name in refused.stderr
    assert not (tmp_path / "rows.parquet").exists()


def delta_vectors(run: Run, table: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer_of(run("deletes", table, "--output", "json"))
    return found


# Files of vectors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: file.name)
def test_inspect_and_verify_know_the_files_of_other_formats(run: Run, file: Path) -> None:
    document = answer_of(run("inspect", file, "--output", "json"))
    assert document["file-size-in-bytes"] == file.stat().st_size
    assert all(blob["content"]["cardinality"] > 0 for blob in document["blobs"])
    assert all(blob["type"] for blob in document["blobs"])
    last = document["blobs"][-1]
    assert last["offset"] + last["length"] == file.stat().st_size
    rows = answer_of(run("verify", file, "--output", "json"))
    assert [(row["offset"], row["error"]) for row in rows] == [
        (blob["offset"], None) for blob in document["blobs"]
    ]
    assert str(file.name) in run("inspect", file).stdout


@pytest.mark.parametrize("file", RECORDS[::3], ids=lambda file: file.name)
def test_damaged_files_of_other_formats_are_shown_and_fail_to_verify(
    run: Run, file: Path, tmp_path: Path
) -> None:
    data = file.read_bytes()
    damaged = tmp_path / "damaged"
    for altered in (data[:-1], data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]):
        damaged.write_bytes(altered)
        document = answer_of(run("inspect", damaged, "--output", "json"))
        assert str(damaged) in document["blobs"][-1]["content"]["error"]
        assert run("verify", damaged).exit_code == 1


@pytest.mark.parametrize("content", [b"", b"\2", b"no vectors", b"PFA1"])
def test_what_is_no_file_of_vectors_is_refused(run: Run, content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "other.bin"
    file.write_bytes(content)
    for command in ("inspect", "verify"):
        result = run(command, file)
        assert result.exit_code == 1
        assert str(file) in result.stderr


@pytest.mark.spark
def test_delete_through_spark_takes_a_path_too(run: Run, spark: object, table: Path) -> None:
    before = state(table)
    arguments = ("delete", table, "--row-filter", "id >= 10 and id < 30", "--spark", "--output", "json")
    (dry,) = answer_of(run(*arguments, "--dry-run"))
    assert state(table) == before
    (done,) = answer_of(run(*arguments))
    assert done["version"] == 4
    assert dry["rows_deleted"] == done["rows_deleted"] > 0
    assert not [i for i in delta.scan(table).to_arrow()["id"].to_pylist() if 10 <= i < 30]
