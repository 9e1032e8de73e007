"""The start of the program: what a command does not need is not imported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

SLOW = (
    "pandas",
    "requests",
    "sqlalchemy",
    "pyiceberg.catalog.rest",
    "boto3",
    "botocore",
    "polars",
    "duckdb",
    "pyspark",
    "puffin_fast.delta",
    "puffin_fast.iceberg.changelog",
    "puffin_fast.iceberg.dml",
    "puffin_fast.iceberg.maintenance",
    "puffin_fast.iceberg.patches",
    "puffin_fast.spark",
    "puffin_fast.verbs",
)
"""Modules that take long to import, and that a scan of a table in a SQLite catalog does not need."""

PROGRAM = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from puffin_fast.__main__ import main
main()
"""


def test_a_scan_imports_only_what_it_needs(catalog_options: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", PROGRAM, "scan", "ns.t", "--row-filter", "id < 7", "--count"]
    done = subprocess.run([*command, *catalog_options], capture_output=True, text=True, check=False)
    assert (done.returncode, "7" in done.stdout) == (0, True), done.stderr
    imported = set(done.stderr.splitlines()[-1].split())
    assert imported.isdisjoint(SLOW), imported.intersection(SLOW)


@pytest.mark.parametrize(
    "command", ["describe", "schema", "history", "snapshots", "files", "scan", "deletes", "verify"]
)
def test_a_table_in_sqlite_is_what_its_client_loads(
    run: Callable[..., Any], catalog_options: tuple[str, ...], command: str
) -> None:
    assert run("delete", "ns.t", "--row-filter", "id < 7", *catalog_options).exit_code == 0
    through_client = [option.replace("sqlite:///", "sqlite+pysqlite:///") for option in catalog_options]
    found, expected = (
        json.loads(run(command, "ns.t", "--output", "json", *options).stdout)
        for options in (catalog_options, through_client)
    )
    assert found == expected


@pytest.mark.parametrize("name", ["ns.x", "other.t"])
def test_a_table_that_sqlite_has_not_is_an_error_of_the_client(
    run: Callable[..., Any], catalog_options: tuple[str, ...], name: str
) -> None:
    done = run("scan", name, *catalog_options)
    assert (done.exit_code, f"table {name}: not in catalog 'c'" in done.stderr) == (1, True), done.stderr
