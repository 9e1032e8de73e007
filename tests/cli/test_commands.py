"""What all commands have: an example that is right, options in PyIceberg's spelling; ``create`` and ``completion``."""

from __future__ import annotations

import inspect
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyiceberg.catalog import load_catalog

from puffin_fast import delta, iceberg
from puffin_fast.cli import main
from tests.cli.conftest import ROWS
from tests.cli.tables import count, open_table

Run = Callable[..., Result]
Options = tuple[str, ...]


@pytest.mark.parametrize("name", sorted(set(main.commands) - {"completion"}))
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


@pytest.mark.parametrize("name", main.commands)
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


@pytest.mark.parametrize("name", MAINTENANCE)
def test_maintenance_runs_on_a_number_of_threads(run: Run, catalog_options: Options, name: str) -> None:
    result = run(name, "ns.t", *MAINTENANCE[name], "--threads", 1, *catalog_options)
    assert result.exit_code == 0, result.stderr


def test_threads_change_no_result(run: Run, catalog_options: Options, tmp_path: Path) -> None:
    for threads in (1, 3):
        arguments = ("--row-filter", f"id = {threads}", "--threads", threads)
        assert run("delete", "ns.t", *arguments, *catalog_options).exit_code == 0
        said = run("scan", "ns.t", "--threads", threads, "--count", "--output", "json", *catalog_options)
        assert json.loads(said.stdout)[0]["rows"] == (999 if threads == 1 else 998)
    assert run("scan", "ns.t", "--threads", 0, *catalog_options).exit_code == 2


def test_options_are_given_before_the_command_as_in_pyiceberg(run: Run, catalog_options: Options) -> None:
    scan = ("scan", "ns.t", "--limit", 1)
    before = run("--output", "json", *catalog_options, *scan)
    assert json.loads(before.stdout) == json.loads(run(*scan, "--output", "json", *catalog_options).stdout)
    text = run("--output", "json", *catalog_options, *scan, "--output", "text").stdout
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)


def test_a_snapshot_property_has_both_spellings(run: Run, catalog_options: Options) -> None:
    for option in ("--snapshot-property", "--snapshot-properties"):
        given = ("--row-filter", f"id = {len(option)}", option, "who=me", option, "why=test")
        assert run("delete", "ns.t", *given, *catalog_options).exit_code == 0
        summary = open_table(catalog_options).current_snapshot().summary  # type: ignore[union-attr]
        assert (summary["who"], summary["why"]) == ("me", "test")  # type: ignore[index]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_create_makes_an_empty_table_with_the_columns_of_a_file(
    run: Run, catalog_options: Options, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"rows{suffix}"
    if suffix == ".parquet":
        pq.write_table(ROWS, path)
    else:
        path.write_text("id,word\n1,a\n" if suffix == ".csv" else '{"id": 1, "word": "a"}\n')
    spec = ("--partition-spec", "bucket[4](id)", "--partition-spec", "word", "--property", "a=b")
    result = run("create", "ns.new", path, *spec, "--output", "json", *catalog_options)
    assert json.loads(result.stdout)[0]["columns"] == 2
    table = load_catalog(
        "c", **dict(zip(("uri", "warehouse"), catalog_options[3::2], strict=True))
    ).load_table("ns.new")
    assert (table.metadata.format_version, table.current_snapshot()) == (3, None)
    assert [str(field.field_type) for field in table.schema().fields] == ["long", "string"]
    assert [str(field.transform) for field in table.spec().fields] == ["bucket[4]", "identity"]
    assert table.properties["a"] == "b"
    assert run("append", "ns.new", path, *catalog_options).exit_code == 0
    again = run("create", "ns.new", path, *catalog_options)
    assert (again.exit_code, "already exists" in again.stderr) == (1, True)


def test_create_makes_a_catalog_only_on_request(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1]}), path)
    (tmp_path / "tables").mkdir()
    options = ("--uri", f"sqlite:///{tmp_path}/new.db", "--warehouse", f"file://{tmp_path}/tables")
    assert "does not exist; --create-namespace creates it" in run("create", "ns.t", path, *options).stderr
    assert "missing.parquet" in run("create", "ns.t", tmp_path / "missing.parquet", *options).stderr
    damaged = tmp_path / "damaged.parquet"
    damaged.touch()
    assert run("create", "ns.t", damaged, "--create-namespace", *options).exit_code == 1
    assert not (tmp_path / "new.db").exists()
    assert run("create", "ns.t", path, "--create-namespace", *options).exit_code == 0
    assert run("create", "ns.u", path, "--create-namespace", *options).exit_code == 0
    assert run("append", "ns.t", path, *options).exit_code == 0
    assert run("create", tmp_path / "table", path).exit_code == 0  # a path is a Delta table
    assert (tmp_path / "table" / "_delta_log").is_dir()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(run: Run, shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_PUFFIN_FAST_COMPLETE" in result.stdout


def test_bash_completes_commands_and_options() -> None:
    script = (
        f'PATH="{Path(sys.executable).parent}:$PATH"; eval "$(puffin-fast completion bash)"; '
        'COMP_WORDS=(puffin-fast delete --dry); COMP_CWORD=2; _puffin_fast_completion "$@" puffin-fast; '
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert "--dry-run" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet", "arrow"])
def test_positions_that_scan_wrote_are_deleted(
    run: Run, catalog_options: Options, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"rows.{suffix}"
    chosen = ("--selected-fields", "_pos,_file", "--row-filter", "id < 7", "--to", path)
    assert run("scan", "ns.t", *chosen, *catalog_options).exit_code == 0
    assert run("delete-positions", "ns.t", path, *catalog_options).exit_code == 0
    assert count(catalog_options) == 993
    assert run("delete-positions", "ns.t", path, *catalog_options).exit_code == 0
    assert count(catalog_options) == 993


def test_positions_come_from_standard_input(catalog_options: Options) -> None:
    table = open_table(catalog_options)
    (file,) = table.inspect.files()["file_path"].to_pylist()
    rows: Any = "".join(json.dumps({"file_path": file, "pos": pos}) + "\n" for pos in (3, 4))
    command = [sys.executable, "-m", "puffin_fast", "delete-positions", "ns.t", "-", *catalog_options]
    done = subprocess.run(command, input=rows, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert count(catalog_options) == 998


def test_scan_explains_what_it_reads_and_what_not(run: Run, catalog_options: Options) -> None:
    found = run("scan", "ns.t", "--row-filter", "id = 7", "--explain", "--output", "json", *catalog_options)
    rows = {row["step"]: row for row in json.loads(found.stdout)}
    assert rows["table"]["rows"] == 1000
    assert rows["read"]["data_files"] == 1
    text = run("scan", "ns.t", "--explain", *catalog_options)
    assert "read" in text.stdout
    assert run("scan", "ns.t", "--explain", "--count", *catalog_options).exit_code == 2


def test_results_of_verbs_print_what_was_read(run: Run, catalog_options: Options) -> None:
    arguments = ("delete", "ns.t", "--row-filter", "id = 7", "--dry-run", *catalog_options)
    steps = [line.split()[1] for line in run(*arguments).stdout.splitlines() if line.startswith("│")]
    assert "table" in steps
    assert steps[-1] == "read"
    (found,) = json.loads(run(*arguments, "--output", "json").stdout)
    assert [row["step"] for row in found["explanation"]][:: len(found["explanation"]) - 1] == [
        "table",
        "read",
    ]


@pytest.mark.parametrize(
    ("given", "meant"), [("select", "scan"), ("merge", "upsert"), ("optimize", "rewrite")]
)
def test_commands_of_other_tools_are_answered(run: Run, given: str, meant: str) -> None:
    done = run(given, "ns.t")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (
        2,
        f"Error: No such command '{given}'. Did you mean '{meant}'?",
    )
