"""What a shell offers for the arguments of a command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from click.shell_completion import ShellComplete

from puffin_fast import delta
from puffin_fast.cli import main

Options = tuple[str, ...]


def offered(arguments: list[str], incomplete: str) -> list[str]:
    program = ShellComplete(main, {}, "puffin-fast", "_PUFFIN_FAST_COMPLETE")
    return [item.value for item in program.get_completions(arguments, incomplete)]


@pytest.mark.parametrize("incomplete", ["", "n", "ns.", "ns.t"])
def test_names_of_tables(catalog_options: Options, incomplete: str) -> None:
    assert offered([*catalog_options, "scan"], incomplete) == ["ns.t"]
    for command in ("scan", "describe", "verify"):
        assert offered([command, *catalog_options], incomplete) == ["ns.t"]


def test_names_of_columns(catalog_options: Options) -> None:
    upsert = ["upsert", *catalog_options, "ns.t"]
    assert offered([*upsert, "--join-col"], "") == ["id", "word"]
    assert offered([*upsert, "--update-column"], "w") == ["word"]
    assert offered(["scan", *catalog_options, "ns.t", "--selected-fields"], "id,w") == ["id,word"]
    assert offered(["rewrite", *catalog_options, "ns.t", "--sort-by"], "w") == ["word"]
    assert offered(["ndv", *catalog_options, "ns.t", "--columns"], "id,w") == ["id,word"]


def test_columns_of_a_folder(tmp_path: Path) -> None:
    path = str(tmp_path / "d1")
    delta.create_table(path, pa.schema([("id", pa.int64())]))
    assert offered(["scan", path, "--selected-fields"], "i") == ["id"]


def test_an_error_offers_folders(tmp_path: Path) -> None:
    missing = ["scan", "--uri", f"sqlite:///{tmp_path}/missing.db"]
    assert offered(missing, "x") == ["x"]
    assert offered([*missing, "ns.t", "--selected-fields"], "x") == []
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_of_a_completion_prints_no_traceback() -> None:
    program = """
import os
from puffin_fast import cli
from puffin_fast.__main__ import main

def interrupted(*_, **__):
    raise KeyboardInterrupt

cli.main.make_context = interrupted
os.environ |= {"_PUFFIN_FAST_COMPLETE": "bash_complete", "COMP_WORDS": "puffin-fast s", "COMP_CWORD": "1"}
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
