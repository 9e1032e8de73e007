"""The start of the program: what a command does not need is not imported."""

from __future__ import annotations

import subprocess
import sys

SLOW = ("pandas", "requests", "pyiceberg.catalog.rest", "boto3", "botocore", "polars", "duckdb", "pyspark")
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
    assert "pyiceberg.catalog.sql" in imported
    assert imported.isdisjoint(SLOW), imported.intersection(SLOW)
