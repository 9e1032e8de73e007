"""The start of the program: what a command does not need is not imported."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.conftest import Shell
from tests.kit.cases import each

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
    "puffin_fast.iceberg.patches",
    "puffin_fast.spark",
)
"""Modules that take long to import, and that a scan of a table in a SQLite catalog does not need."""

PROGRAM = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from puffin_fast.__main__ import main
main()
"""


def test_a_scan_imports_only_what_it_needs(shell: Shell) -> None:
    command = [sys.executable, "-c", PROGRAM, "scan", "ns.t", "--row-filter", "id < 7", "--count"]
    done = subprocess.run([*command, *shell.options], capture_output=True, text=True, check=False)
    assert (done.returncode, "7" in done.stdout) == (0, True), done.stderr
    imported = set(done.stderr.splitlines()[-1].split())
    assert imported.isdisjoint(SLOW), imported.intersection(SLOW)


@each("command", ["describe", "schema", "history", "snapshots", "files", "scan", "deletes", "verify"])
def test_a_table_in_sqlite_is_what_its_client_loads(shell: Shell, command: str) -> None:
    shell.says("delete", "ns.t", "--row-filter", "id < 7")
    through_client = Shell(tuple(one.replace("sqlite:///", "sqlite+pysqlite:///") for one in shell.options))
    assert shell.ask(command, "ns.t") == through_client.ask(command, "ns.t")


@each("name", ["ns.x", "other.t"])
def test_a_table_that_sqlite_has_not_is_an_error_of_the_client(shell: Shell, name: str) -> None:
    assert f"table {name}: not in catalog 'c'" in shell.refused("scan", name)
