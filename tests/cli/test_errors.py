"""What a user may do wrong: each error is one line that names the option, the file or the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.cli.conftest import Shell
from tests.kit.cases import each
from tests.kit.tables import delta_table, parquet_file


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return parquet_file(tmp_path / "rows.parquet", pa.table({"id": [1]}))


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A table of deltalake's, without deletion vectors."""
    return delta_table(tmp_path / "d", {"id": [1, 2]}, by="deltalake")


def test_a_catalog_without_a_warehouse_needs_a_location(
    shell: Shell, tmp_path: Path, rows: Path, theirs: Path
) -> None:
    without = Shell(shell.options[:-2])
    for command in (
        ("create", "ns.new", rows),
        ("convert", theirs, "--to", "iceberg", "--name", "ns.new"),
    ):
        done = without.run(*command)
        assert (done.exit_code, len(done.stderr.splitlines())) == (1, 1)
        assert "--location or --warehouse" in done.stderr
    without.says("create", "ns.new", rows, "--location", tmp_path / "new")


@each("content", ["catalog: [", "some text", "catalog:\n  a: {b: c}\n"])
def test_a_configuration_that_pyiceberg_cannot_read_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / ".pyiceberg.yaml"
    path.write_text(content)
    command = [sys.executable, "-m", "puffin_fast", "scan", "ns.t"]
    environment = {**os.environ, "PYICEBERG_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert f"{path}: PyIceberg cannot read its configuration" in done.stderr


def test_a_command_without_its_package_names_the_extra(
    rows: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "pyiceberg"]:
        monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    for command in (("create", "ns.new", rows), ("delete-positions", theirs, rows)):
        assert "pip install 'puffin-fast[iceberg]'" in Shell().refused(*command)


@pytest.mark.parametrize("command", ["orphan-files", "remove-orphan-files", "expire-snapshots"])
def test_an_age_is_a_number_of_days(shell: Shell, command: str) -> None:
    for days in ("nan", "inf", "1e12", "-1"):
        assert "--older-than" in shell.refused(command, "ns.t", "--older-than", days, code=2), days
    shell.says(command, "ns.t", "--older-than", 99_999.5)


def test_a_conversion_with_a_name_needs_a_format(shell: Shell) -> None:
    assert "expected --to" in shell.refused("convert", "ns.t", "--name", "other", code=2)


@each("content", ["min_deleted = 7", "nothing = 1", "steps = ["])
def test_an_error_in_a_policy_names_its_file(shell: Shell, tmp_path: Path, content: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(content)
    assert f"{path}: " in shell.refused("maintain", "ns.t", "--policy", path)


def test_messages_advise_commands_and_not_functions(shell: Shell, rows: Path, theirs: Path) -> None:
    assert "--create-namespace creates it" in shell.refused("create", "missing.t", rows)
    delta, delete = Shell(), ("delete", theirs, "--row-filter", "id = 1")
    assert "`puffin-fast upgrade` enables them" in delta.refused(*delete)
    delta.says("upgrade", theirs)
    assert delta.one(*delete)["rows_deleted"] == 1


@each(
    "command, given, right",
    [
        ("delete", "option '--where'", "--row-filter"),
        ("upsert", "option '--on'", "--join-col"),
        ("scan", "option '--columns'", "--selected-fields"),
        ("select", "command 'select'", "scan"),
        ("merge", "command 'merge'", "upsert"),
        ("optimize", "command 'optimize'", "rewrite"),
    ],
)
def test_commands_and_options_of_other_tools_name_the_one_here(command: str, given: str, right: str) -> None:
    option = (given.split("'")[1], "x") if given.startswith("option") else ()
    said = Shell().refused(command, "ns.t", *option, code=2)
    assert f"No such {given}. Did you mean '{right}'?" in said
