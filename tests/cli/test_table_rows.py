"""``scan``, ``deletes``, ``delete-keys`` and ``upgrade`` from the shell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyiceberg.catalog import load_catalog

from puffin_fast import iceberg
from tests.cli.conftest import ROWS
from tests.cli.tables import count, open_table

Run = Callable[..., Result]
Options = tuple[str, ...]


def said(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    answer: list[dict[str, object]] = json.loads(result.output)
    return answer


def keys_file(folder: Path, suffix: str, keys: pa.Table) -> Path:
    path = folder / f"keys{suffix}"
    if suffix == ".parquet":
        pq.write_table(keys, path)
    elif suffix == ".csv":
        csv.write_csv(keys, path)
    else:
        with pa.ipc.new_file(str(path), keys.schema) as writer:
            writer.write_table(keys)
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow", ".feather"])
def test_keys_come_from_files_of_each_kind(
    run: Run, catalog_options: Options, tmp_path: Path, suffix: str
) -> None:
    path = keys_file(tmp_path, suffix, pa.table({"id": [1, 5, 5, 4000], "note": ["a", "b", "c", "d"]}))
    arguments = ("delete-keys", "ns.t", path, "--join-col", "id", "--output", "json", *catalog_options)
    before = open_table(catalog_options).metadata_location
    (dry,) = said(run(*arguments, "--dry-run"))
    assert (dry["rows_deleted"], dry["data_files"], dry["snapshot_id"]) == (2, 1, None)
    assert open_table(catalog_options).metadata_location == before
    (done,) = said(run(*arguments, "--job-id", "j"))
    assert (done["rows_deleted"], done["vectors_written"]) == (2, 1)
    assert count(catalog_options) == 998
    (again,) = said(run(*arguments, "--job-id", "j"))
    assert (again["repeated"], again["snapshot_id"]) == (True, done["snapshot_id"])


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_rows_are_appended_from_files(
    run: Run, catalog_options: Options, tmp_path: Path, suffix: str
) -> None:
    path = keys_file(tmp_path, suffix, pa.table({"id": [5000, 5001], "word": ["a", "b"]}))
    arguments = ("append", "ns.t", path, "--output", "json", *catalog_options)
    before = open_table(catalog_options).metadata_location
    (dry,) = said(run(*arguments, "--dry-run"))
    assert (dry["rows_appended"], dry["snapshot_id"]) == (None, None)  # no row was read
    assert open_table(catalog_options).metadata_location == before
    (done,) = said(run(*arguments, "--job-id", "j"))
    assert (done["rows_appended"], done["data_files_written"], done["repeated"]) == (2, 1, False)
    (again,) = said(run(*arguments, "--job-id", "j"))
    assert (again["repeated"], again["snapshot_id"]) == (True, done["snapshot_id"])
    assert count(catalog_options) == 1002
    assert "2" in run("append", "ns.t", path, *catalog_options).stdout
    path.write_text("nothing\n")
    assert run("append", "ns.t", path, *catalog_options).exit_code == 1


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_positions_come_from_files(run: Run, catalog_options: Options, tmp_path: Path, suffix: str) -> None:
    places = iceberg.scan(open_table(catalog_options), "id < 10", ["_file", "_pos"]).to_arrow()
    path = keys_file(tmp_path, suffix, places.rename_columns(["file_path", "pos"]))
    arguments = ("delete-positions", "ns.t", path, "--output", "json", *catalog_options)
    (dry,) = said(run(*arguments, "--dry-run"))
    assert (dry["rows_deleted"], dry["snapshot_id"]) == (places.num_rows, None)
    (done,) = said(run(*arguments))
    assert done["rows_deleted"] == places.num_rows > 0
    assert iceberg.scan(open_table(catalog_options), "id < 10").count() == 0
    wrong = keys_file(tmp_path, ".parquet", pa.table({"file_path": ["nowhere"], "pos": [1]}))
    result = run("delete-positions", "ns.t", wrong, *catalog_options)
    assert (result.exit_code, "nowhere" in result.stderr) == (1, True)


def test_a_csv_column_is_read_in_the_table_s_type(run: Run, catalog_options: Options, tmp_path: Path) -> None:
    path = tmp_path / "keys.csv"
    path.write_text("word,id\nw1,0008\n")
    arguments = ("delete-keys", "ns.t", path, "--join-col", "word", "--join-col", "id", "--output", "json")
    assert said(run(*arguments, *catalog_options))[0]["rows_deleted"] == 1
    path.write_text("word\n007\n")
    arguments = ("delete-keys", "ns.t", path, "--join-col", "word", "--output", "json")
    assert said(run(*arguments, *catalog_options))[0]["rows_deleted"] == 0


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
def test_rows_are_upserted_from_files(run: Run, catalog_options: Options, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    rows = pa.table({"word": ["w1", "new", "newer"], "id": [1, 2, 1000]})
    (pq.write_table if name.endswith("parquet") else csv.write_csv)(rows, path)
    arguments = ("upsert", "ns.t", path, "--join-col", "id", "--output", "json", *catalog_options)
    counts = ("rows_updated", "rows_inserted", "rows_unchanged", "rows_deleted")
    before = open_table(catalog_options).metadata_location
    (dry,) = said(run(*arguments, "--dry-run"))
    assert [dry[key] for key in counts] == [1, 1, 1, 1]
    assert (dry["snapshot_id"], dry["data_files_written"], dry["delete_files_written"]) == (None, 0, 0)
    assert open_table(catalog_options).metadata_location == before
    (done,) = said(run(*arguments, "--job-id", "j"))
    assert [done[key] for key in counts] == [1, 1, 1, 1]
    found = {row["id"]: row["word"] for row in open_table(catalog_options).scan().to_arrow().to_pylist()}
    assert found == {row["id"]: row["word"] for row in ROWS.to_pylist()} | {2: "new", 1000: "newer"}
    (again,) = said(run(*arguments, "--job-id", "j"))
    assert (again["repeated"], again["snapshot_id"]) == (True, done["snapshot_id"])


def test_rows_are_overwritten_from_files(run: Run, catalog_options: Options, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,word\n1,new\n2000,newer\n")
    arguments = ("overwrite", "ns.t", path, "--output", "json", *catalog_options)
    for wrong in ((), ("--row-filter", "id < 5", "--dynamic-partitions")):
        result = run(*arguments, *wrong)
        assert result.exit_code == 2
        assert "expected either --row-filter or --dynamic-partitions" in result.output
    result = run(*arguments, "--dynamic-partitions")
    assert result.exit_code == 1
    assert "expected a partitioned table" in result.output
    (dry,) = said(run(*arguments, "--row-filter", "id < 100", "--dry-run"))
    (done,) = said(run(*arguments, "--row-filter", "id < 100"))
    for counts in (dry, done):
        assert (counts["rows_deleted"], counts["rows_appended"]) == (100, 2)
    assert dry["snapshot_id"] is None
    assert count(catalog_options) == 902


@pytest.mark.parametrize(
    ("option", "expected"),
    [("--no-when-matched-update-all", [0, 1, 2]), ("--no-when-not-matched-insert-all", [1, 0, 1])],
)
def test_an_upsert_can_leave_out_half(
    run: Run, catalog_options: Options, tmp_path: Path, option: str, expected: list[int]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,word\n1,w1\n2,new\n1000,newer\n")
    arguments = ("upsert", "ns.t", path, "--join-col", "id", "--output", "json", *catalog_options)
    (done,) = said(run(*arguments, option))
    assert [done[key] for key in ("rows_updated", "rows_inserted", "rows_unchanged")] == expected
    assert count(catalog_options) == 1000 + expected[1]
    result = run(*arguments, "--no-when-matched-update-all", "--no-when-not-matched-insert-all")
    assert result.exit_code == 1
    assert "expected at least one of them" in result.output


def test_an_upsert_replaces_several_rows_by_one_only_if_told(
    run: Run, catalog_options: Options, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,word\n1,again\n")
    assert run("append", "ns.t", path, *catalog_options).exit_code == 0
    arguments = ("upsert", "ns.t", path, "--join-col", "id", "--output", "json", *catalog_options)
    before = open_table(catalog_options).metadata_location
    for more in ((), ("--dry-run",), ("--duplicate-keys", "refuse")):
        result = run(*arguments, *more)
        assert result.exit_code == 1
        assert "found id: 1 of the given keys have several rows there, 2 in all" in result.output
    assert run(*arguments, "--duplicate-keys", "all").exit_code == 2
    assert open_table(catalog_options).metadata_location == before
    (done,) = said(run(*arguments, "--duplicate-keys", "replace"))
    assert (done["rows_updated"], done["rows_deleted"], count(catalog_options)) == (1, 2, 1000)


def test_a_change_feed_is_upserted(run: Run, catalog_options: Options, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,word,gone,at\n1,a,false,1\n1,b,false,2\n5,,true,1\n2000,new,false,1\n")
    arguments = ("upsert", "ns.t", path, "--join-col", "id", "--output", "json", *catalog_options)
    (done,) = said(run(*arguments, "--delete-column", "gone", "--order-column", "at"))
    counts = ("rows_updated", "rows_inserted", "keys_deleted", "rows_superseded")
    assert [done[key] for key in counts] == [1, 1, 1, 1]
    assert count(catalog_options) == 1000
    path.write_text("id,word\n1,c\n3000,new\n")
    (done,) = said(run(*arguments, "--update-column", "word", "--no-when-not-matched-insert-all"))
    assert [done[key] for key in counts] == [1, 0, 0, 0]


def test_rows_are_updated_to_values_as_they_are_shown(run: Run, catalog_options: Options) -> None:
    arguments = ("update", "ns.t", "--row-filter", "id < 3", "--output", "json", *catalog_options)
    (dry,) = said(run(*arguments, "--set", "word=x", "--dry-run"))
    assert (dry["snapshot_id"], dry["rows_updated"] > 0) == (None, True)
    for typed, expected in (("a=b c", "a=b c"), ('"null"', "null"), ("007", "007"), ("null", None)):
        (done,) = said(run(*arguments, "--set", f"word={typed}"))
        assert done["rows_updated"] == dry["rows_updated"]
        found = open_table(catalog_options).scan("id < 3").to_arrow()["word"].to_pylist()
        assert found == [expected] * done["rows_updated"]
    before = open_table(catalog_options).metadata_location
    for option, said_ in (("id=x", "id=x"), ("nothing=1", "nothing"), ("id", "COLUMN=VALUE")):
        result = run(*arguments, "--set", option)
        assert result.exit_code != 0
        assert said_ in result.output + result.stderr
    assert open_table(catalog_options).metadata_location == before


@pytest.mark.parametrize(
    ("text", "n_rows"),
    [
        ("id,word", 0),
        ("id,word\n", 0),
        ("\ufeffid,word\r\n5000,a\r\n", 1),
        ("id,word\n5000," + "x" * (5 << 20) + "\n5001,y", 2),
    ],
    ids=["header", "header and line end", "byte order mark", "long row"],
)
def test_csv_files_of_any_form_are_appended(
    run: Run, catalog_options: Options, tmp_path: Path, text: str, n_rows: int
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text, newline="")
    result = run("append", "ns.t", path, *catalog_options)
    assert result.exit_code == 0, result.stderr
    assert count(catalog_options) == 1000 + n_rows


def test_a_parquet_file_whose_pages_are_damaged_is_named(
    run: Run, catalog_options: Options, tmp_path: Path
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": range(1000), "word": ["a"] * 1000}), path, compression="zstd")
    data = bytearray(path.read_bytes())
    data[40:200] = bytes(160)
    path.write_bytes(data)
    result = run("append", "ns.t", path, *catalog_options)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert "rows.parquet" in result.stderr


def test_rows_that_lack_a_column_are_one_line(run: Run, catalog_options: Options, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id\n1\n")
    result = run("upsert", "ns.t", path, "--join-col", "id", *catalog_options)
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert "no column word" in result.output


@pytest.mark.parametrize(
    ("name", "text", "on", "named"),
    [
        ("keys.csv", "id\nx\n", ("--join-col", "id"), "keys.csv"),
        ("keys.csv", "a\n1\n", ("--join-col", "id"), "no column id"),
        ("keys.csv", "id\n1\n", ("--join-col", "nothing"), "no column nothing"),
        ("keys.csv", "id\n1\n", (), "identifier"),
        ("keys.csv", "", ("--join-col", "id"), "keys.csv"),
        ("keys.csv", "id,id\n1,2\n", ("--join-col", "id"), "column id: expected once, found 2"),
        ("keys.parquet", "no parquet", ("--join-col", "id"), "keys.parquet"),
        ("keys.arrow", "no arrow", ("--join-col", "id"), "keys.arrow"),
        ("keys.txt", "1", ("--join-col", "id"), "found .txt"),
    ],
)
def test_bad_keys_are_one_line_and_change_nothing(
    run: Run, catalog_options: Options, tmp_path: Path, name: str, text: str, on: tuple[str, ...], named: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    before = open_table(catalog_options).metadata_location
    result = run("delete-keys", "ns.t", path, *on, *catalog_options)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert named in result.stderr
    assert open_table(catalog_options).metadata_location == before


def test_scan_shows_counts_and_writes(run: Run, catalog_options: Options, tmp_path: Path) -> None:
    run("delete", "ns.t", "--row-filter", "id < 10", *catalog_options)
    shown = said(run("scan", "ns.t", "--selected-fields", "id,_pos", "--output", "json", *catalog_options))
    assert shown == [{"id": i, "_pos": i} for i in range(10, 30)]
    assert "w3" in run("scan", "ns.t", "--row-filter", "word = 'w3'", *catalog_options).output
    (counted,) = said(run("scan", "ns.t", "--count", "--output", "json", *catalog_options))
    assert counted["rows"] == 990
    for suffix in (".parquet", ".arrow", ".csv"):
        path = tmp_path / f"out{suffix}"
        (done,) = said(run("scan", "ns.t", "--to", path, "--output", "json", *catalog_options))
        assert done["rows"] == 990
        if suffix == ".parquet":
            assert pq.read_table(path)["id"].to_pylist() == list(range(10, 1000))
    limited = said(run("scan", "ns.t", "--limit", "3", "--output", "json", *catalog_options))
    assert [row["id"] for row in limited] == [10, 11, 12]


@pytest.mark.parametrize(
    "arguments",
    [
        ("scan", "ns.t", "--row-filter", "nothing = 1"),
        ("scan", "ns.t", "--selected-fields", "nothing"),
        ("scan", "ns.t", "--branch", "twig"),
        ("scan", "ns.t", "--snapshot-id", "7"),
        ("scan", "ns.t", "--to", "x.txt"),
        ("deletes", "ns.t", "--branch", "twig"),
        ("upgrade", "ns.other"),
    ],
)
def test_errors_are_one_line(run: Run, catalog_options: Options, arguments: tuple[str, ...]) -> None:
    result = run(*arguments, *catalog_options)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1


def test_deletes_are_listed(run: Run, catalog_options: Options) -> None:
    assert said(run("deletes", "ns.t", "--output", "json", *catalog_options)) == []
    run("delete", "ns.t", "--row-filter", "id < 10", *catalog_options)
    (listed,) = said(run("deletes", "ns.t", "--output", "json", *catalog_options))
    assert (listed["kind"], listed["deleted"], listed["rows"]) == ("vector", 10, 1000)
    assert "vector" in run("deletes", "ns.t", *catalog_options).output


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_upgrade_raises_the_version(run: Run, catalog_options: Options, version: str) -> None:
    catalog = load_catalog("c", uri=catalog_options[3], warehouse=catalog_options[5])
    if version != "3":
        catalog.drop_table("ns.t")
        catalog.create_table("ns.t", ROWS.schema, properties={"format-version": version}).append(ROWS)
    arguments = ("upgrade", "ns.t", "--output", "json", *catalog_options)
    (dry,) = said(run(*arguments, "--dry-run"))
    assert (dry["before"], dry["after"]) == (int(version), 3)
    assert open_table(catalog_options).metadata.format_version == int(version)
    (done,) = said(run(*arguments))
    assert (done["before"], done["after"]) == (int(version), 3)
    assert open_table(catalog_options).metadata.format_version == 3
    run("delete", "ns.t", "--row-filter", "id = 1", *catalog_options)
    assert count(catalog_options) == 999
    catalog.close()
