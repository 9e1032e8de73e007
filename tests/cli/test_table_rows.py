"""``scan``, ``deletes``, ``delete-keys`` and ``upgrade`` from the shell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from puffin_fast import iceberg
from tests.cli.conftest import ROWS, Shell
from tests.kit.cases import each
from tests.kit.rows import by_pyiceberg, by_us

WRITE: dict[str, Callable[[pa.Table, Path], object]] = {
    ".parquet": pq.write_table,
    ".csv": csv.write_csv,
    ".arrow": lambda rows, path: feather.write_feather(rows, str(path), compression="uncompressed"),
    ".feather": lambda rows, path: feather.write_feather(rows, str(path), compression="uncompressed"),
}


def file_of(folder: Path, suffix: str, rows: pa.Table) -> Path:
    path = folder / f"rows{suffix}"
    WRITE[suffix](rows, path)
    return path


def csv_of(folder: Path, text: str) -> Path:
    path = folder / "rows.csv"
    path.write_text(text, newline="")
    return path


def dry_then_done_once(shell: Shell, *arguments: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs a command as a dry run, which changes nothing, and twice as one job, which is done once."""
    before = shell.table.metadata_location
    dry = shell.one(*arguments, "--dry-run")
    assert (dry["commit"]["id"], shell.table.metadata_location) == (None, before)
    done, again = (shell.one(*arguments, "--job-id", "j") for _ in range(2))
    assert (done["commit"]["repeated"], again["commit"]["repeated"], again["commit"]["id"]) == (
        False,
        True,
        done["commit"]["id"],
    )
    return dry, done


@pytest.mark.parametrize("suffix", WRITE)
def test_keys_come_from_files_of_each_kind(shell: Shell, tmp_path: Path, suffix: str) -> None:
    path = file_of(tmp_path, suffix, pa.table({"id": [1, 5, 5, 4000], "note": ["a", "b", "c", "d"]}))
    dry, done = dry_then_done_once(shell, "delete-keys", "ns.t", path, "--join-col", "id")
    assert (dry["rows_deleted"], dry["data_files"]) == (2, 1)
    assert (done["rows_deleted"], done["vectors_written"], shell.count()) == (2, 1, 998)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_rows_are_appended_from_files(shell: Shell, tmp_path: Path, suffix: str) -> None:
    path = file_of(tmp_path, suffix, pa.table({"id": [5000, 5001], "word": ["a", "b"]}))
    dry, done = dry_then_done_once(shell, "append", "ns.t", path)
    assert dry["rows_appended"] is None  # no row was read
    assert (done["rows_appended"], done["data_files_written"], shell.count()) == (2, 1, 1002)
    assert "2" in shell.says("append", "ns.t", path)
    path.write_text("nothing\n")
    shell.refused("append", "ns.t", path)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_positions_come_from_files(shell: Shell, tmp_path: Path, suffix: str) -> None:
    places = iceberg.scan(shell.table, "id < 10", ["_file", "_pos"]).to_arrow()
    path = file_of(tmp_path, suffix, places.rename_columns(["file_path", "pos"]))
    dry, done = dry_then_done_once(shell, "delete-positions", "ns.t", path)
    assert dry["rows_deleted"] == done["rows_deleted"] == 10
    assert by_us(shell.table, row_filter="id < 10") == []
    wrong = file_of(tmp_path, ".parquet", pa.table({"file_path": ["nowhere"], "pos": [1]}))
    assert "nowhere" in shell.refused("delete-positions", "ns.t", wrong)


def test_a_csv_column_is_read_in_the_table_s_type(shell: Shell, tmp_path: Path) -> None:
    for text, n_rows in (("word,id\nw1,0008\n", 1), ("word\n007\n", 0)):
        path = csv_of(tmp_path, text)
        on = [part for name in text.split("\n")[0].split(",") for part in ("--join-col", name)]
        assert shell.one("delete-keys", "ns.t", path, *on)["rows_deleted"] == n_rows


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_rows_are_upserted_from_files(shell: Shell, tmp_path: Path, suffix: str) -> None:
    path = file_of(tmp_path, suffix, pa.table({"word": ["w1", "new", "newer"], "id": [1, 2, 1000]}))
    dry, done = dry_then_done_once(shell, "upsert", "ns.t", path, "--join-col", "id")
    for found in (dry, done):
        names = ("rows_updated", "rows_inserted", "rows_unchanged", "rows_deleted")
        assert [found[name] for name in names] == [1, 1, 1, 1]
    assert (dry["data_files_written"], dry["vectors_written"]) == (0, 0)
    expected = {row["id"]: row["word"] for row in ROWS.to_pylist()} | {2: "new", 1000: "newer"}
    assert {row["id"]: row["word"] for row in by_pyiceberg(shell.table)} == expected


def test_rows_are_overwritten_from_files(shell: Shell, tmp_path: Path) -> None:
    arguments = ("overwrite", "ns.t", csv_of(tmp_path, "id,word\n1,new\n2000,newer\n"))
    for wrong in ((), ("--row-filter", "id < 5", "--dynamic-partitions")):
        assert "expected either --row-filter or --dynamic-partitions" in shell.refused(
            *arguments, *wrong, code=2
        )
    assert "expected a partitioned table" in shell.refused(*arguments, "--dynamic-partitions")
    for found in dry_then_done_once(shell, *arguments, "--row-filter", "id < 100"):
        assert (found["rows_deleted"], found["rows_appended"]) == (100, 2)
    assert shell.count() == 902


@pytest.mark.parametrize(
    ("option", "expected"),
    [("--no-when-matched-update-all", [0, 1, 2]), ("--no-when-not-matched-insert-all", [1, 0, 1])],
)
def test_an_upsert_can_leave_out_half(shell: Shell, tmp_path: Path, option: str, expected: list[int]) -> None:
    path = csv_of(tmp_path, "id,word\n1,w1\n2,new\n1000,newer\n")
    upsert = ("upsert", "ns.t", path, "--join-col", "id")
    done = shell.one(*upsert, option)
    assert [done[key] for key in ("rows_updated", "rows_inserted", "rows_unchanged")] == expected
    assert shell.count() == 1000 + expected[1]
    both = ("--no-when-matched-update-all", "--no-when-not-matched-insert-all")
    assert "expected at least one of them" in shell.refused(*upsert, *both)


def test_an_upsert_replaces_several_rows_by_one_only_if_told(shell: Shell, tmp_path: Path) -> None:
    path = csv_of(tmp_path, "id,word\n1,again\n")
    shell.says("append", "ns.t", path)
    upsert = ("upsert", "ns.t", path, "--join-col", "id")
    for more in ((), ("--dry-run",), ("--duplicate-keys", "refuse")):
        said = shell.refused(*upsert, *more)
        assert "found id: 1 of the given keys have several rows there, 2 in all" in said
    shell.refused(*upsert, "--duplicate-keys", "all", code=2)
    done = shell.one(*upsert, "--duplicate-keys", "replace")
    assert (done["rows_updated"], done["rows_deleted"], shell.count()) == (1, 2, 1000)


def test_a_change_feed_is_upserted(shell: Shell, tmp_path: Path) -> None:
    counts = ("rows_updated", "rows_inserted", "keys_deleted", "rows_superseded")
    for text, options, expected in (
        (
            "id,word,gone,at\n1,a,false,1\n1,b,false,2\n5,,true,1\n2000,new,false,1\n",
            ("--delete-column", "gone", "--order-column", "at"),
            [1, 1, 1, 1],
        ),
        (
            "id,word\n1,c\n3000,new\n",
            ("--update-column", "word", "--no-when-not-matched-insert-all"),
            [1, 0, 0, 0],
        ),
    ):
        done = shell.one("upsert", "ns.t", csv_of(tmp_path, text), "--join-col", "id", *options)
        assert [done[key] for key in counts] == expected
        assert shell.count() == 1000


def test_rows_are_updated_to_values_as_they_are_shown(shell: Shell) -> None:
    update = ("update", "ns.t", "--row-filter", "id < 3")
    assert shell.one(*update, "--set", "word=x", "--dry-run")["rows_updated"] == 3
    for typed, expected in (("a=b c", "a=b c"), ('"null"', "null"), ("007", "007"), ("null", None)):
        assert shell.one(*update, "--set", f"word={typed}")["rows_updated"] == 3
        found = by_pyiceberg(shell.table, "word", row_filter="id < 3")
        assert found == [{"word": expected}] * 3
    for option, said, code in (("id=x", "id=x", 1), ("nothing=1", "nothing", 1), ("id", "COLUMN=VALUE", 2)):
        assert said in shell.refused(*update, "--set", option, code=code)


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
def test_csv_files_of_any_form_are_appended(shell: Shell, tmp_path: Path, text: str, n_rows: int) -> None:
    shell.says("append", "ns.t", csv_of(tmp_path, text))
    assert shell.count() == 1000 + n_rows


def test_a_parquet_file_whose_pages_are_damaged_is_named(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": range(1000), "word": ["a"] * 1000}), path, compression="zstd")
    data = bytearray(path.read_bytes())
    data[40:200] = bytes(160)
    path.write_bytes(data)
    assert "rows.parquet" in shell.refused("append", "ns.t", path)


def test_rows_that_lack_a_column_are_refused(shell: Shell, tmp_path: Path) -> None:
    path = csv_of(tmp_path, "id\n1\n")
    assert "no column word" in shell.refused("upsert", "ns.t", path, "--join-col", "id")


@each(
    "name, text, on, named",
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
    shell: Shell, tmp_path: Path, name: str, text: str, on: tuple[str, ...], named: str
) -> None:
    (tmp_path / name).write_text(text)
    assert named in shell.refused("delete-keys", "ns.t", tmp_path / name, *on)


def test_scan_shows_counts_and_writes(shell: Shell, tmp_path: Path) -> None:
    shell.says("delete", "ns.t", "--row-filter", "id < 10")
    shown = shell.ask("scan", "ns.t", "--selected-fields", "id,_pos")
    assert shown == [{"id": i, "_pos": i} for i in range(10, 30)]
    assert "w3" in shell.says("scan", "ns.t", "--row-filter", "word = 'w3'")
    assert shell.one("scan", "ns.t", "--count")["rows"] == 990
    for suffix in (".parquet", ".arrow", ".csv"):
        assert shell.one("scan", "ns.t", "--to", tmp_path / f"out{suffix}")["rows"] == 990
    assert pq.read_table(tmp_path / "out.parquet")["id"].to_pylist() == list(range(10, 1000))
    assert [row["id"] for row in shell.ask("scan", "ns.t", "--limit", "3")] == [10, 11, 12]


@each(
    "arguments, named",
    [
        (("scan", "ns.t", "--row-filter", "nothing = 1"), "nothing"),
        (("scan", "ns.t", "--selected-fields", "nothing"), "nothing"),
        (("scan", "ns.t", "--branch", "twig"), "twig"),
        (("scan", "ns.t", "--snapshot-id", "7"), "7"),
        (("scan", "ns.t", "--to", "x.txt"), "x.txt"),
        (("deletes", "ns.t", "--branch", "twig"), "twig"),
        (("upgrade", "ns.other"), "ns.other"),
    ],
)
def test_errors_are_one_line(shell: Shell, arguments: tuple[str, ...], named: str) -> None:
    assert named in shell.refused(*arguments)


def test_deletes_are_listed(shell: Shell) -> None:
    assert shell.ask("deletes", "ns.t") == []
    shell.says("delete", "ns.t", "--row-filter", "id < 10")
    listed = shell.one("deletes", "ns.t")
    assert (listed["kind"], listed["deleted"], listed["rows"]) == ("vector", 10, 1000)
    assert "vector" in shell.says("deletes", "ns.t")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_upgrade_raises_the_version(shell: Shell, version: int) -> None:
    if version != 3:
        catalog = shell.table.catalog
        catalog.drop_table("ns.t")
        catalog.create_table("ns.t", ROWS.schema, properties={"format-version": str(version)}).append(ROWS)
    for more, now in (("--dry-run",), version), ((), 3):
        found = shell.one("upgrade", "ns.t", *more)
        assert (found["before"], found["after"]) == (version, 3)
        assert shell.table.metadata.format_version == now
    shell.says("delete", "ns.t", "--row-filter", "id = 1")
    assert shell.count() == 999
