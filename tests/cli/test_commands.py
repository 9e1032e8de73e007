"""What all commands have: an example that is right, options in PyIceberg's spelling; ``create`` and ``completion``."""

from __future__ import annotations

import inspect
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from puffin_fast import delta, iceberg
from puffin_fast.cli import main
from tests.cli.conftest import ROWS, Shell
from tests.kit.cases import each

Run = Callable[..., Result]


@each("name", sorted(set(main.commands) - {"completion"}))
def test_the_help_has_one_example_that_the_command_accepts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = main.commands[name]
    shown = command.get_help(click.Context(command, info_name=name))
    (example,) = (line.strip() for line in shown.splitlines() if "Example: " in line)
    program, given, *arguments = shlex.split(example.removeprefix("Example: "))
    assert (program, given) == ("puffin-fast", name)
    for argument in arguments:
        if Path(argument).suffix in (".parquet", ".csv", ".jsonl", ".toml"):
            Path(argument).touch()
    command.make_context(name, arguments)


FUNCTIONS = {
    "convert": "convert_position_deletes",
    "ndv": "collect_ndv",
    "rewrite": "rewrite_data_files",
}
"""The functions of commands that have another name."""


@each("name", main.commands)
def test_the_number_of_threads_is_an_option_of_commands_whose_function_takes_it(name: str) -> None:
    called = FUNCTIONS.get(name, name.replace("-", "_"))
    function = getattr(iceberg, called, None) or getattr(delta, called, None)
    takes = function is not None and "threads" in inspect.signature(function).parameters
    assert any(option.name == "threads" for option in main.commands[name].params) is takes


MAINTENANCE = {
    "compact": (),
    "convert": (),
    "expire-snapshots": (),
    "index-keys": ("--join-col", "id"),
    "maintain": (),
    "ndv": ("--collect",),
    "orphan-files": (),
    "remove-orphan-files": (),
    "repair": (),
    "rewrite": (),
    "verify": (),
}


def test_maintenance_runs_on_a_number_of_threads(shell: Shell) -> None:
    for name, options in MAINTENANCE.items():
        shell.says(name, "ns.t", *options, "--threads", 1)


def test_threads_change_no_result(shell: Shell) -> None:
    for threads, n_rows in ((1, 999), (3, 998)):
        shell.says("delete", "ns.t", "--row-filter", f"id = {threads}", "--threads", threads)
        assert shell.one("scan", "ns.t", "--threads", threads, "--count")["rows"] == n_rows
    assert "--threads" in shell.refused("scan", "ns.t", "--threads", 0, code=2)


def test_options_are_given_before_the_command_as_in_pyiceberg(shell: Shell) -> None:
    scan, plain = ("scan", "ns.t", "--limit", 1), Shell()
    before = plain.says("--output", "json", *shell.options, *scan)
    assert json.loads(before) == shell.ask(*scan)
    text = plain.says("--output", "json", *shell.options, *scan, "--output", "text")
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)


def test_a_snapshot_property_has_both_spellings(shell: Shell) -> None:
    for option in ("--snapshot-property", "--snapshot-properties"):
        given = ("--row-filter", f"id = {len(option)}", option, "who=me", option, "why=test")
        shell.says("delete", "ns.t", *given)
        summary = shell.table.current_snapshot().summary  # type: ignore[union-attr]
        assert (summary["who"], summary["why"]) == ("me", "test")  # type: ignore[index]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_create_makes_an_empty_table_with_the_columns_of_a_file(
    shell: Shell, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"rows{suffix}"
    if suffix == ".parquet":
        pq.write_table(ROWS, path)
    else:
        path.write_text("id,word\n1,a\n" if suffix == ".csv" else '{"id": 1, "word": "a"}\n')
    spec = ("--partition-spec", "bucket[4](id)", "--partition-spec", "word", "--property", "a=b")
    assert shell.one("create", "ns.new", path, *spec)["columns"] == 2
    table = shell.table.catalog.load_table("ns.new")
    assert (table.metadata.format_version, table.current_snapshot()) == (3, None)
    assert [str(field.field_type) for field in table.schema().fields] == ["long", "string"]
    assert [str(field.transform) for field in table.spec().fields] == ["bucket[4]", "identity"]
    assert table.properties["a"] == "b"
    shell.says("append", "ns.new", path)
    assert "already exists" in shell.refused("create", "ns.new", path)


def test_create_makes_a_catalog_only_on_request(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1]}), path)
    (tmp_path / "tables").mkdir()
    (tmp_path / "damaged.parquet").touch()
    options = ("--uri", f"sqlite:///{tmp_path}/new.db", "--warehouse", f"file://{tmp_path}/tables")
    for arguments, code, said in (
        ((path,), 1, "does not exist; --create-namespace creates it"),
        ((tmp_path / "missing.parquet",), 2, "missing.parquet"),
        ((tmp_path / "damaged.parquet", "--create-namespace"), 1, "damaged.parquet"),
    ):
        done = run("create", "ns.t", *arguments, *options)
        assert (done.exit_code, said in done.stderr) == (code, True), done.stderr
    assert not (tmp_path / "new.db").exists()
    for command in (("create", "ns.t"), ("create", "ns.u"), ("append", "ns.t")):
        more = ("--create-namespace",) * (command[0] == "create")
        assert run(*command, path, *more, *options).exit_code == 0
    Shell().says("create", tmp_path / "table", path)  # a path is a Delta table
    assert (tmp_path / "table" / "_delta_log").is_dir()


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell_name: str) -> None:
    assert "_PUFFIN_FAST_COMPLETE" in Shell().says("completion", shell_name)


def test_bash_completes_commands_and_options() -> None:
    script = (
        f'PATH="{Path(sys.executable).parent}:$PATH"; eval "$(puffin-fast completion bash)"; '
        'COMP_WORDS=(puffin-fast delete --dry); COMP_CWORD=2; _puffin_fast_completion "$@" puffin-fast; '
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert "--dry-run" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet", "arrow"])
def test_positions_that_scan_wrote_are_deleted(shell: Shell, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows.{suffix}"
    shell.says("scan", "ns.t", "--selected-fields", "_pos,_file", "--row-filter", "id < 7", "--to", path)
    for _ in range(2):
        shell.says("delete-positions", "ns.t", path)
        assert shell.count() == 993


def test_positions_come_from_standard_input(shell: Shell) -> None:
    (file,) = shell.table.inspect.files()["file_path"].to_pylist()
    rows = "".join(json.dumps({"file_path": file, "pos": pos}) + "\n" for pos in (3, 4))
    command = [sys.executable, "-m", "puffin_fast", "delete-positions", "ns.t", "-", *shell.options]
    done = subprocess.run(command, input=rows, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert shell.count() == 998


def test_scan_explains_what_it_reads_and_what_not(shell: Shell) -> None:
    found = shell.ask("scan", "ns.t", "--row-filter", "id = 7", "--explain")
    rows = {row["step"]: row for row in found}
    assert (rows["table"]["rows"], rows["read"]["data_files"]) == (1000, 1)
    assert "read" in shell.says("scan", "ns.t", "--explain")
    shell.refused("scan", "ns.t", "--explain", "--count", code=2)


def test_results_of_verbs_print_what_was_read(shell: Shell) -> None:
    delete = ("delete", "ns.t", "--row-filter", "id = 7", "--dry-run")
    steps = [line.split()[1] for line in shell.says(*delete).splitlines() if line.startswith("│")]
    assert ("table" in steps, steps[-1]) == (True, "read")
    explained = shell.one(*delete)["explanation"]
    assert (explained[0]["step"], explained[-1]["step"]) == ("table", "read")
