"""Jobs that look after a table, killed at each step: the table reads as before, and the next run finishes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin_fast import iceberg
from tests.iceberg.test_convert import delete_by_file, three_files
from tests.iceberg.test_equality import delete_equal

if TYPE_CHECKING:
    from pyiceberg.table import Table

ROOT = Path(__file__).parents[2]


def to_convert(catalog: SqlCatalog) -> None:
    table, (first, second, _) = three_files(catalog)
    delete_by_file(table, [(first, 1), (second, 2)])
    delete_by_file(table, [(first, 5)])
    iceberg.upgrade(table)


def to_convert_equal(catalog: SqlCatalog) -> None:
    table: Table = iceberg.create_table(catalog, "n.t", pa.schema([("id", pa.int64())]))
    for first in (0, 100):
        iceberg.append(table, pa.table({"id": range(first, first + 100)}))
    delete_equal(table, [1], [(5,), (105,)])


def to_compact(catalog: SqlCatalog) -> None:
    table, _ = three_files(catalog)
    iceberg.upgrade(table)
    for id in (3, 103, 203):
        iceberg.delete(table, f"id = {id}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "make"),
    [
        ("convert_position_deletes", to_convert),
        ("convert_equality_deletes", to_convert_equal),
        ("compact", to_compact),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_a_killed_job_leaves_the_table_whole(tmp_path: Path, job: str, make: object) -> None:
    catalog = SqlCatalog("killed", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("n")
    assert callable(make)
    make(catalog)
    catalog.engine.dispose()
    command = [sys.executable, "-m", "tests.iceberg.killed", str(tmp_path), job]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split()[-1]) > 10
