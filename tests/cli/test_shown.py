"""The output of commands: values can be used in a filter, control characters are escaped, one line if nothing was
done."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzType,
    UUIDType,
)

import puffin_fast as pf
from puffin_fast import iceberg
from puffin_fast._text import printable
from tests.cli.conftest import Shell
from tests.kit.cases import each

Options = tuple[str, ...]

HOSTILE = "a\x1b[2J\x1b]0;owned\x07\x9b31mb\r\n\u202ec[red]:smile:"


@pytest.fixture
def kinds(shell: Shell) -> Table:
    """The table ``ns.k``: one row of several types, and a row of nulls."""
    types = {
        "year": IntegerType(),
        "rate": DoubleType(),
        "f": FloatType(),
        "at": TimestamptzType(),
        "ns": TimestampNanoType(),
        "u": UUIDType(),
        "bytes": BinaryType(),
        "word": StringType(),
        "s": StructType(NestedField(20, "a", IntegerType(), required=False)),
        "l": ListType(21, TimestampNanoType(), element_required=False),
    }
    fields = [NestedField(at, name, kind, required=False) for at, (name, kind) in enumerate(types.items(), 1)]
    table = iceberg.create_table(shell.table.catalog, "ns.k", Schema(*fields))
    instant = 1_705_276_800_000_000
    columns = {
        "year": pa.array([2024, None], pa.int32()),
        "rate": pa.array([0.0012, None], pa.float64()),
        "f": pa.array([0.1, None], pa.float32()),
        "at": pa.array([instant, None], pa.timestamp("us", "UTC")),
        "ns": pa.array([instant * 1000 + 1, None], pa.timestamp("ns")),
        "u": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16), None], pa.binary(16))),
        "bytes": pa.array([b"\x00\xff", None], pa.large_binary()),
        "word": pa.array([HOSTILE, None], pa.large_string()),
        "s": pa.array([{"a": 1}, None], pa.struct([("a", pa.int32())])),
        "l": pa.array([[1, None], None], pa.large_list(pa.timestamp("ns"))),
    }
    iceberg.append(table, pa.table(columns))
    return table


EXPECTED = {
    "year": 2024,
    "rate": 0.0012,
    "f": 0.1,
    "at": "2024-01-15T00:00:00+00:00",
    "ns": "2024-01-15T00:00:00.000000001",
    "u": "00000000-0000-0000-0000-000000000000",
    "bytes": "00ff",
    "word": HOSTILE,
    "s": {"a": 1},
    "l": ["1970-01-01T00:00:00.000000001", None],
}


@pytest.mark.usefixtures("kinds")
def test_json_holds_each_value(shell: Shell) -> None:
    assert shell.ask("scan", "ns.k") == [EXPECTED, dict.fromkeys(EXPECTED)]


@pytest.mark.usefixtures("kinds")
def test_text_shows_each_value_as_it_is_typed(shell: Shell) -> None:
    output = shell.says("scan", "ns.k")
    for name, value in EXPECTED.items():
        text = value if isinstance(value, str) else json.dumps(value)
        assert printable(text) in output, name
    assert output.count("NULL") == len(EXPECTED)


@pytest.mark.parametrize("name", ["year", "rate", "f", "at", "u"])
@pytest.mark.usefixtures("kinds")
def test_a_value_that_is_shown_can_be_typed_back(shell: Shell, name: str) -> None:
    value = EXPECTED[name]
    literal = f"'{value}'" if isinstance(value, str) else value
    said = shell.says("scan", "ns.k", "--row-filter", f"{name} = {literal}", "--count")
    assert re.search(r"│ +1 │", said)


@pytest.mark.usefixtures("kinds")
def test_control_characters_do_not_reach_the_terminal(shell: Shell) -> None:
    shown = shell.says("scan", "ns.k")
    assert r"a\x1b[2J\x1b]0;owned\x07\x9b31mb\r\n\u202ec[red]:smile:" in shown
    for text in (shown, shell.refused("delete", "ns.k", "--row-filter", f"'{HOSTILE}' = 1")):
        assert all(part.isprintable() for part in text.split("\n")), text


def test_properties_of_a_puffin_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "x.puffin"
    with pf.PuffinWriter(path, properties={"k" + HOSTILE: HOSTILE}) as writer:
        writer.add(b"x", type=HOSTILE, properties={HOSTILE: HOSTILE})
    for command in ("inspect", "verify"):
        output = Shell().run(command, path).stdout
        assert r"\x1b[2J" in output
        assert all(line.isprintable() for line in output.split("\n"))
        assert json.loads(Shell().run(command, path, "--output", "json").stdout)


def test_a_snapshot_id_can_be_pasted_back(shell: Shell) -> None:
    output = shell.says("delete", "ns.t", "--row-filter", "id = 1")
    snapshot_id = shell.table.metadata.current_snapshot_id
    assert str(snapshot_id) in output
    assert "999" in shell.says("scan", "ns.t", "--snapshot-id", snapshot_id, "--count")


@each(
    "arguments, sentence",
    [
        ("verify", "no errors found; not checked: values of the rows (--level rows decodes them)"),
        ("orphan-files", "no orphan files older than 3 days"),
        ("deletes", "no deletes"),
        (("delete", "--row-filter", "id < 0"), "nothing done: no rows to change"),
        ("compact", "compact: nothing to do"),
        ("repair", "repair: nothing to do"),
        ("rewrite-manifests", "rewrite-manifests: nothing to do"),
        (("convert", "--only", "position"), "convert position deletes: nothing to do"),
        (("convert", "--only", "position", "--dry-run"), "convert position deletes: nothing to do"),
        ("upgrade", "nothing done: it already has format version 3"),
        (("scan", "--row-filter", "id < 0"), "no rows"),
    ],
)
def test_what_finds_or_changes_nothing_says_so_in_one_line(
    shell: Shell, arguments: str | tuple[str, ...], sentence: str
) -> None:
    command, *options = [arguments] if isinstance(arguments, str) else arguments
    assert shell.says(command, "ns.t", *options) == f"ns.t: {sentence}\n"


def test_a_job_that_was_done_before_says_so_in_one_line(shell: Shell) -> None:
    delete = ("delete", "ns.t", "--row-filter", "id = 1", "--job-id", "j")
    shell.says(*delete)
    head = shell.table.metadata.current_snapshot_id
    assert shell.says(*delete) == f"ns.t: nothing done: snapshot {head} has this job id\n"


def test_a_dry_run_says_that_nothing_was_written(shell: Shell) -> None:
    output = shell.says("delete", "ns.t", "--row-filter", "id = 1", "--dry-run")
    assert "dry run: nothing was written" in output


def test_nothing_but_the_answer_is_on_standard_output(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    delete = iceberg.delete

    def loud(*arguments: object, **options: object) -> object:
        print("a table of differences")
        return delete(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(iceberg, "delete", loud)
    result = shell.run("delete", "ns.t", "--row-filter", "id = 1", "--output", "json")
    assert json.loads(result.stdout)[0]["rows_deleted"] == 1
    assert "a table of differences" in result.stderr


@pytest.mark.parametrize("uri", ["sqlite:///{folder}/mistyped.db", "sqlite+pysqlite:///{folder}/mistyped.db"])
def test_a_mistyped_sqlite_path_creates_no_database(tmp_path: Path, uri: str) -> None:
    said = Shell().refused("scan", "ns.t", "--uri", uri.format(folder=tmp_path))
    assert "mistyped.db does not exist" in said
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_no_catalog_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    path.touch()
    Shell().refused("scan", "ns.t", "--uri", f"sqlite:///{path}")
    assert path.stat().st_size == 0


def test_a_table_that_another_catalog_has_is_found_by_its_name(shell: Shell) -> None:
    said = Shell().refused("scan", "ns.t", *shell.options[2:])
    assert "not in catalog 'default'" in said
    assert "use --catalog or --uri for another catalog" in said


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    text = Path(__file__).parents[2].joinpath("README.md").read_text()
    example = next(
        block for block in re.findall(r"```python\n(.*?)```", text, re.S) if "create_table" in block
    )
    subprocess.run([sys.executable, "-c", example], cwd=tmp_path, check=True, timeout=120)
    (line,) = re.findall(r"^puffin-fast delete .*$", text, re.M)
    command = [str(Path(sys.executable).with_name("puffin-fast")), *shlex.split(line)[1:], "--output", "json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["rows_deleted"] == 20


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "puffin_fast", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: puffin-fast ")


def test_logs_go_to_standard_error_when_they_are_asked_for(shell: Shell) -> None:
    delete = ("delete", "ns.t", "--row-filter")
    quiet = shell.run(*delete, "id = 1")
    assert "committed" not in quiet.stderr
    for option in (["--verbose"], ["--log-level", "info"], ["--verbose", "--log-level", "debug"]):
        loud = shell.run(*option, *delete, f"id = {2 + len(option)}", "--output", "json")
        assert loud.exit_code == 0, loud.stderr
        assert "INFO puffin_fast.iceberg.commit.protocol: ns.t: delete: snapshot" in loud.stderr
        assert isinstance(json.loads(loud.stdout), list)
    assert shell.run(*delete, "id = 9").stderr == ""


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_json_has_text_as_it_is_where_the_output_has_its_characters(shell: Shell, encoding: str) -> None:
    options = ("--row-filter", "word = 'ü☃\U0001f600'", "--count", "--output", "json")
    command = [sys.executable, "-m", "puffin_fast", "scan", "ns.k", *options, *shell.options]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, capture_output=True, env=environment, check=True)
    (row,) = json.loads(done.stdout.decode(encoding))
    assert row["row_filter"] == "word = 'ü☃\U0001f600'"
    assert ("ü☃\U0001f600".encode() in done.stdout) is (encoding == "utf-8")
