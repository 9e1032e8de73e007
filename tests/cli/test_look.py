"""Commands that show what a catalog and a table have, and how rows look on a terminal of 80 columns."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import Result

from puffin_fast import delta
from puffin_fast.cli import main
from tests.cli.conftest import Shell
from tests.conftest import require_module
from tests.kit.cases import each
from tests.kit.tables import delta_table, folder_of

Run = Callable[..., Result]


@pytest.fixture
def changed(shell: Shell) -> Shell:
    """Ten rows of the table of the catalog are deleted."""
    shell.says("delete", "ns.t", "--row-filter", "id < 10")
    return shell


def test_a_catalog_lists_namespaces_and_tables(shell: Shell, run: Run) -> None:
    assert shell.ask("list") == [{"kind": "namespace", "name": "ns"}]
    assert shell.ask("list", "ns") == [{"kind": "table", "name": "ns.t"}]
    for command in ("list", "describe"):
        said = shell.refused(command, "nope")
        assert "namespace nope: not in catalog 'c'" in said
        assert "no namespace nope, but ns" in said
    assert "but of c" in run("list", *shell.options[2:]).stdout


def test_a_table_and_a_namespace_are_described(changed: Shell) -> None:
    found = changed.ask("describe", "ns.t")
    assert (found["records"], found["position deletes"]) == (1000, 10)
    assert [column["column"] for column in found["columns"]] == ["id", "word"]
    assert changed.ask("schema", "ns.t") == found["columns"]
    assert changed.ask("describe", "ns")["namespace"] == "ns"
    changed.refused("describe", "ns.t", "--entity", "namespace")
    assert "ns.x" in changed.refused("describe", "ns.x")


def test_snapshots_and_history_follow_the_table(changed: Shell) -> None:
    first, second = changed.ask("snapshots", "ns.t")
    assert (first["operation"], first["added"]) == ("append", 1000)
    assert (second["operation"], second["deleted"]) == ("delete", 10)
    assert second["parent_id"] == first["snapshot_id"]
    assert (first["refs"], second["refs"]) == ("", "main")
    log = changed.ask("history", "ns.t")
    assert [entry["snapshot_id"] for entry in log] == [first["snapshot_id"], second["snapshot_id"]]
    assert all(entry["is_current_ancestor"] for entry in log)


def test_files_have_their_rows_and_deletes(changed: Shell) -> None:
    file = changed.one("files", "ns.t")
    assert (file["rows"], file["deleted"], file["delete_files"]) == (1000, 10, 0)
    assert folder_of(file["file_path"]).stat().st_size == file["bytes"]
    first = changed.ask("snapshots", "ns.t")[0]["snapshot_id"]
    assert changed.one("files", "ns.t", "--snapshot-id", first)["deleted"] == 0


def test_a_delta_table_has_them_too(tmp_path: Path) -> None:
    ask, path = Shell().ask, delta_table(tmp_path / "d1", {"id": range(100)})
    delta.delete(path, "id < 10")
    found = ask("describe", path)
    assert (found["version"], found["data files"]) == (2, 1)
    assert (found["records"], found["position deletes"]) == (100, 10)
    assert found["features"] == "appendOnly, deletionVectors, invariants"
    assert [row["version"] for row in ask("history", path)] == [0, 1, 2]
    assert ask("snapshots", path)[2]["operation"] == "DELETE"
    (file,) = ask("files", path)
    assert (file["rows"], file["deleted"]) == (100, 10)
    assert [column["type"] for column in ask("schema", path)] == ["long"]


def test_an_unknown_catalog_names_those_of_the_configuration(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text("catalog:\n  prod:\n    uri: sqlite:///x.db\n")
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    assert "the configuration has prod" in run("list", "--catalog", "prodd").stderr


def test_a_change_of_a_folder_asks_for_the_name_in_the_catalog(changed: Shell) -> None:
    folder = folder_of(changed.table)
    for command in (("compact", folder), ("delete", folder, "--row-filter", "id = 1")):
        assert "name of the table in its catalog" in changed.refused(*command)


def test_statistics_of_a_column_have_one_line(changed: Shell) -> None:
    lines = on_terminal("ndv", "ns.t", "--collect", *changed.options)
    assert max(map(len, lines)) <= 80
    (row,) = [line for line in lines if "│ id " in line]
    assert str(changed.table.metadata.current_snapshot_id) in row


@pytest.mark.parametrize("total", ["n/a", "", "1.5", "9" * 5000])
def test_totals_that_are_no_numbers_are_left_out(changed: Shell, total: str) -> None:
    path, ask = folder_of(changed.table.metadata_location), Shell().ask
    document = json.loads(path.read_text())
    document["snapshots"][-1]["summary"] |= {"total-records": total, "added-position-deletes": total}
    path.write_text(json.dumps(document))
    assert ask("describe", path)["records"] is None
    assert ask("snapshots", path)[-1]["rows"] is None


@pytest.mark.parametrize("command", ["scan", "report", "deletes", "files"])
def test_a_time_of_too_many_digits_is_an_error(shell: Shell, command: str) -> None:
    assert "expected ISO 8601" in shell.refused(command, "ns.t", "--as-of", "9" * 5000)


PAIMON = Path(__file__).parents[1] / "golden" / "paimon" / "d.db"
"""Tables that Paimon in Java wrote."""


@pytest.mark.parametrize("name", ["app_v1_part", "app_v2", "app_mix", "pk_v2", "app_null_part"])
def test_a_paimon_table_has_them_too(name: str) -> None:
    path, ask = PAIMON / name, Shell().ask
    newest = max((path / "snapshot").glob("snapshot-*"), key=lambda file: int(file.name.partition("-")[2]))
    stated = json.loads(newest.read_text())
    found, files = ask("describe", path), ask("files", path)
    assert found["records"] == sum(file["rows"] for file in files) == stated["totalRecordCount"]
    assert found["position deletes"] == sum(file["deleted"] for file in files)
    assert {"column": "id", "type": "BIGINT"}.items() <= ask("schema", path)[0].items()
    history = ask("history", path)
    assert [row["snapshot_id"] for row in history] == list(range(1, stated["id"] + 1))
    assert ask("snapshots", path) == history
    first = ask("files", path, "--snapshot-id", 1)
    assert sum(file["rows"] for file in first) == history[0]["rows"]


def test_a_lance_dataset_has_them_too(tmp_path: Path) -> None:
    lance = require_module("lance", "pip install 'puffin-fast[lance]'")
    path, ask = tmp_path / "d.lance", Shell().ask
    lance.write_dataset(pa.table({"id": pa.array(range(100), pa.int64())}), path)
    lance.dataset(path).delete("id < 10")
    found = ask("describe", path)
    assert (found["version"], found["records"], found["position deletes"]) == (2, 100, 10)
    (file,) = ask("files", path)
    assert (file["rows"], file["deleted"]) == (100, 10)
    assert (path / file["file_path"]).stat().st_size == file["bytes"]
    assert [row["rows"] for row in ask("history", path)] == [100, 90]
    assert [(column["column"], column["type"]) for column in ask("schema", path)] == [("id", "int64")]


@each(
    "command, advice",
    [
        ("scan", "pypaimon, DuckDB or Spark read its rows"),
        ("upgrade", "convert --to paimon-v2"),
        ("report", "tables of Paimon have no report"),
    ],
)
def test_a_command_that_a_format_has_not_says_what_to_use(command: str, advice: str) -> None:
    assert advice in Shell().refused(command, PAIMON / "app_v2")


def on_terminal(*arguments: str, columns: int = 80) -> list[str]:
    """The lines that a command prints on a terminal, without colours."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "dumb", "PUFFIN_FAST_PROGRESS": "0"}
    command = [sys.executable, "-m", "puffin_fast", *arguments]
    with subprocess.Popen(command, stdout=follower, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(follower)
        parts = []
        try:
            while data := os.read(leader, 1 << 16):
                parts.append(data)
        except OSError:  # the other end is closed
            pass
        os.close(leader)
    assert process.returncode == 0
    return b"".join(parts).decode().replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize("command", ["snapshots", "history"])
def test_a_narrow_terminal_shows_which_snapshot_a_row_is(changed: Shell, command: str) -> None:
    for columns in (28, 40, 80):
        lines = on_terminal(command, "ns.t", *changed.options, columns=columns)
        assert max(map(len, lines)) <= columns
        assert any("snapshot" in line for line in lines)
        assert any(re.search(r"[0-9]{15,}", line) for line in lines), lines


@pytest.mark.parametrize("command", ["describe", "schema", "files", "snapshots"])
def test_no_line_is_wider_than_the_terminal(changed: Shell, command: str) -> None:
    for columns in (40, 80):
        assert max(map(len, on_terminal(command, "ns.t", *changed.options, columns=columns))) <= columns


def test_help_has_the_whole_line_of_each_command() -> None:
    shown = " ".join(" ".join(on_terminal("--help")).split())
    for name, command in main.commands.items():
        assert f"{name} {' '.join((command.help or '').split(chr(10) * 2)[0].split())}" in shown


def test_a_row_has_one_line_on_a_terminal(changed: Shell) -> None:
    lines = on_terminal("files", "ns.t", *changed.options)
    assert max(map(len, lines)) <= 80
    (row,) = [line for line in lines if "parquet" in line]
    assert "…" in row
    assert "1000" in row
    name = changed.table.inspect.data_files()["file_path"][0].as_py().rpartition("/")[2]
    assert any(name in line for line in on_terminal("files", "ns.t", "--wide", *changed.options))


def test_a_table_of_many_columns_has_one_line_a_row_and_names_those_that_do_not_fit(changed: Shell) -> None:
    lines = on_terminal("deletes", "ns.t", *changed.options)
    assert max(map(len, lines)) <= 80
    assert [line.count("1000") for line in lines if "parquet" in line] == [1]
    assert any(line.startswith("not shown for lack of room: ") and "offset" in line for line in lines)
    assert any(
        "offset" in line and "┃" in line
        for line in on_terminal("deletes", "ns.t", "--wide", *changed.options)
    )


def test_a_report_has_one_line_for_each_data_file(changed: Shell) -> None:
    lines = on_terminal("report", "ns.t", *changed.options)
    (row,) = [line for line in lines if ".parquet" in line]
    assert ("1.0%" in row, len(row) <= 80) == (True, True)
    assert not any(" 0" in line for line in lines if "data files" in line)


def test_a_vector_of_a_puffin_file_has_one_line(changed: Shell) -> None:
    entries = changed.table.inspect.delete_files()["file_path"]
    lines = on_terminal("inspect", entries[0].as_py().removeprefix("file://"))
    assert max(map(len, lines)) <= 80
    (row,) = [line for line in lines if ".parquet" in line]
    assert ("10" in row, "1 array" in row or "1 run" in row) == (True, True)


@each("command", ["describe", "schema", "history", "snapshots", "files"])
def test_the_folder_of_an_iceberg_table_has_what_the_catalogs_table_has(changed: Shell, command: str) -> None:
    ask, folder = Shell().ask, str(folder_of(changed.table))
    found, expected = ask(command, folder), changed.ask(command, "ns.t")
    assert ask(command, ask("describe", folder)["metadata"]) == found
    if isinstance(expected, dict):
        expected |= {"table": folder, "metadata": expected["metadata"].removeprefix("file://")}
    assert found == expected


def test_a_snapshot_deletes_what_the_vectors_before_it_did_not_have(changed: Shell) -> None:
    changed.says("delete", "ns.t", "--row-filter", "id < 15")
    assert [one["deleted"] for one in changed.ask("snapshots", "ns.t")] == [None, 10, 5]


def test_rows_say_how_many_there_are_and_their_types(changed: Shell) -> None:
    text = changed.says("scan", "ns.t")
    assert text.endswith("20 of 990 rows\n")
    assert "int64" in text
    filtered = ("scan", "ns.t", "--row-filter", "id < 12")
    assert changed.says(*filtered).endswith("\n2 rows\n")
    assert changed.says(*filtered, "--limit", "1").endswith("first 1 rows; --count counts all\n")


def test_zeros_are_left_out(shell: Shell) -> None:
    text = shell.says("delete", "ns.t", "--row-filter", "id < 3")
    assert "rows deleted" in text
    assert "│ 0 " not in text.replace("0.", "")
    assert "false" not in text


def test_a_finding_is_a_sentence_that_fits_a_terminal(run: Run, tmp_path: Path) -> None:
    table = delta_table(tmp_path / "d", {"id": [1]})
    (path,) = table.glob("*.parquet")
    path.unlink()
    done = run("verify", table)
    assert (done.exit_code, "1 finding;" in done.stdout) == (1, True), done.stdout
    (row,) = [line for line in done.stdout.splitlines() if "corrupt" in line or "missing" in line]
    assert row.count(path.name) == 1
