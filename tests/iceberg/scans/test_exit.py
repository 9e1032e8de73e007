"""The interpreter ends without delay when a scan was not read to its end."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from tests.kit.tables import sqlite_catalog

N_FILES, N_ROWS = 6, 1_000_000

FORKS = """
import os, sys, threading
from pyiceberg.table import StaticTable
from puffin_fast import iceberg
from puffin_fast._concurrency.threads import on_threads

for line in sys.stdin:
    program, out, err = eval(line)
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
for path, number in ((out, 1), (err, 2)):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
table = StaticTable.from_metadata(sys.argv[1])
exec(program)
"""
"""An interpreter that imports once: each program runs in a fork, which ends as an interpreter ends."""

PARTLY_READ = {
    "batches": "found = iceberg.scan(table, threads=4).to_batches(); next(found)",
    "reader": "found = iceberg.scan(table, threads=4).to_reader(); found.read_next_batch()",
    "uncaught exception": """
def use(batches):
    for batch in batches:
        raise ValueError("not mine")
use(iceberg.scan(table, threads=4).to_batches())
""",
    "sys.exit": "found = iceberg.scan(table, threads=4).to_batches(); next(found); sys.exit(1)",
    "several": "found = [iceberg.scan(table, threads=4).to_batches() for _ in range(3)]; [next(one) for one in found]",
    "pending work": """
found = on_threads(lambda item: threading.Event().wait(item and 0.5), range(1000), 2)
next(found)
""",
}


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of files of many batches."""
    folder = tmp_path_factory.mktemp("exit")
    catalog = sqlite_catalog(folder)
    table = iceberg.create_table(catalog, "n.t", pa.schema([("id", pa.int64())]))
    for _ in range(N_FILES):
        iceberg.append(table, pa.table({"id": range(N_ROWS)}))
    catalog.engine.dispose()
    return table.metadata_location


class Ended(NamedTuple):
    """How a program ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def run(metadata: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Ended]]:
    """Runs a program that has `table`."""
    folder = tmp_path_factory.mktemp("said")
    command = [sys.executable, "-c", FORKS, metadata]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks:
        assert forks.stdin is not None
        assert forks.stdout is not None
        stdin, stdout = forks.stdin, forks.stdout

        def run(program: str) -> Ended:
            out, err = folder / "out", folder / "err"
            for path in (out, err):
                path.write_text("")
            print(repr((program, str(out), str(err))), file=stdin, flush=True)
            return Ended(int(stdout.readline()), out.read_text(), err.read_text())

        yield run
        stdin.close()


@pytest.mark.parametrize("left", PARTLY_READ)
def test_a_partly_read_scan_does_not_keep_the_interpreter(left: str, run: Callable[[str], Ended]) -> None:
    began = time.monotonic()
    done = run(PARTLY_READ[left])
    fails = left in ("uncaught exception", "sys.exit")
    assert done.returncode == fails, done.stderr
    assert "Fatal" not in done.stderr
    assert (done.stderr.strip() == "") == (left != "uncaught exception"), done.stderr
    assert time.monotonic() - began < 30


def test_a_thread_that_reads_on_after_the_main_thread_gets_all_rows_or_an_error(
    run: Callable[[str], Ended],
) -> None:
    done = run("""
found = iceberg.scan(table, threads=4).to_batches()
def read():
    threading.main_thread().join()
    print(sum(batch.num_rows for batch in found))
next(found)
threading.Thread(target=read).start()
""")
    assert done.stdout == ""
    assert "RuntimeError: the interpreter is shutting down" in done.stderr
