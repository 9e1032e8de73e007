"""The interpreter ends without delay when a scan was not read to its end."""

from __future__ import annotations

import subprocess
import sys
import time

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin_fast import iceberg

N_FILES, N_ROWS = 6, 1_000_000

READ = """
import sys, threading
from pyiceberg.table import StaticTable
from puffin_fast import iceberg
table = StaticTable.from_metadata(sys.argv[1])
"""

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
from puffin_fast._runtime.threads import on_threads
found = on_threads(lambda item: threading.Event().wait(item and 0.5), range(1000), 2)
next(found)
""",
}


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of files of many batches."""
    folder = tmp_path_factory.mktemp("exit")
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/wh")
    catalog.create_namespace("n")
    table = iceberg.create_table(catalog, "n.t", pa.schema([("id", pa.int64())]))
    for _ in range(N_FILES):
        iceberg.append(table, pa.table({"id": range(N_ROWS)}))
    catalog.engine.dispose()
    return table.metadata_location


@pytest.mark.parametrize("left", PARTLY_READ)
def test_a_partly_read_scan_does_not_keep_the_interpreter(left: str, metadata: str) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", READ + PARTLY_READ[left], metadata], capture_output=True, text=True, timeout=60
    )
    fails = left in ("uncaught exception", "sys.exit")
    assert done.returncode == fails, done.stderr
    assert "Fatal" not in done.stderr
    assert (done.stderr.strip() == "") == (left != "uncaught exception"), done.stderr
    assert time.monotonic() - began < 30


def test_a_thread_that_reads_on_after_the_main_thread_gets_all_rows_or_an_error(metadata: str) -> None:
    program = """
found = iceberg.scan(table, threads=4).to_batches()
def read():
    threading.main_thread().join()
    print(sum(batch.num_rows for batch in found))
next(found)
threading.Thread(target=read).start()
"""
    done = subprocess.run(
        [sys.executable, "-c", READ + program, metadata], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == ""
    assert "RuntimeError: the interpreter is shutting down" in done.stderr
