"""What a user may do wrong: each error is one line that names the option, the file or the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from deltalake import write_deltalake

from tests.cli.tables import open_table

Run = Callable[..., Result]
Options = tuple[str, ...]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1]}), path)
    return path


@pytest.mark.parametrize("command", ["create", "convert"])
def test_a_catalog_without_a_warehouse_needs_a_location(
    run: Run, catalog_options: Options, tmp_path: Path, rows: Path, command: str
) -> None:
    without = catalog_options[:-2]
    if command == "create":
        result = run("create", "ns.new", rows, *without)
        assert run("create", "ns.new", rows, *without, "--location", tmp_path / "new").exit_code == 0
    else:
        write_deltalake(str(tmp_path / "d"), pa.table({"id": [1, 2]}))
        result = run("convert", tmp_path / "d", "--to", "iceberg", "--name", "ns.new", *without)
    assert result.exit_code == 1
    assert "--location or --warehouse" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("content", ["catalog: [", "some text", "catalog:\n  a: {b: c}\n"])
def test_a_configuration_that_pyiceberg_cannot_read_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / ".pyiceberg.yaml"
    path.write_text(content)
    command = [sys.executable, "-m", "puffin_fast", "scan", "ns.t"]
    environment = {**os.environ, "PYICEBERG_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert f"{path}: PyIceberg cannot read its configuration" in done.stderr


@pytest.mark.parametrize("command", ["create", "delete-positions"])
def test_a_command_without_its_package_names_the_extra(
    run: Run, tmp_path: Path, rows: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    write_deltalake(str(tmp_path / "d"), pa.table({"id": [1, 2]}))
    for module in [name for name in sys.modules if name.partition(".")[0] == "pyiceberg"]:
        monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    table = "ns.new" if command == "create" else tmp_path / "d"
    result = run(command, table, rows)
    assert result.exit_code == 1
    assert "pip install 'puffin-fast[iceberg]'" in result.stderr


@pytest.mark.parametrize("command", ["orphan-files", "remove-orphan-files", "expire-snapshots"])
@pytest.mark.parametrize("days", ["nan", "inf", "1e12", "-1"])
def test_an_age_is_a_number_of_days(run: Run, catalog_options: Options, command: str, days: str) -> None:
    result = run(command, "ns.t", "--older-than", days, *catalog_options)
    assert (result.exit_code, "--older-than" in result.stderr) == (2, True)
    assert run(command, "ns.t", "--older-than", 99_999.5, *catalog_options).exit_code == 0


def test_a_conversion_with_a_name_needs_a_format(run: Run, catalog_options: Options) -> None:
    before = open_table(catalog_options).metadata_location
    result = run("convert", "ns.t", "--name", "other", *catalog_options)
    assert (result.exit_code, "expected --to" in result.stderr) == (2, True)
    assert open_table(catalog_options).metadata_location == before


@pytest.mark.parametrize("content", ["min_deleted = 7", "nothing = 1", "steps = ["])
def test_an_error_in_a_policy_names_its_file(
    run: Run, catalog_options: Options, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(content)
    result = run("maintain", "ns.t", "--policy", path, *catalog_options)
    assert (result.exit_code, f"{path}: " in result.stderr) == (1, True)


def test_messages_advise_commands_and_not_functions(
    run: Run, catalog_options: Options, tmp_path: Path, rows: Path
) -> None:
    result = run("create", "missing.t", rows, *catalog_options)
    assert "--create-namespace creates it" in result.stderr
    write_deltalake(str(tmp_path / "d"), pa.table({"id": [1, 2]}))
    result = run("delete", tmp_path / "d", "--row-filter", "id = 1")
    assert "`puffin-fast upgrade` enables them" in result.stderr
    assert run("upgrade", tmp_path / "d").exit_code == 0
    made = run("delete", tmp_path / "d", "--row-filter", "id = 1", "--output", "json")
    assert json.loads(made.stdout)[0]["rows_deleted"] == 1


@pytest.mark.parametrize(
    ("command", "given", "right"),
    [
        ("delete", "--where", "--row-filter"),
        ("upsert", "--on", "--join-col"),
        ("scan", "--columns", "--selected-fields"),
    ],
)
def test_options_of_other_tools_name_the_one_here(run: Run, command: str, given: str, right: str) -> None:
    result = run(command, "ns.t", given, "x")
    assert result.exit_code == 2
    assert f"No such option '{given}'. Did you mean '{right}'?" in result.stderr
