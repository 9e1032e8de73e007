"""Jobs that write, killed at each step: the table reads as before or as after, and the next run finishes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.index.build import MOST_SEGMENTS
from puffin_fast.iceberg.index.properties import KEY_INDEXES
from tests.iceberg.conftest import set_properties
from tests.iceberg.maintenance.delete_files import delete_by_file, three_files
from tests.iceberg.maintenance.maintained import add_vector, tasks
from tests.kit.tables import path_of
from tests.rows.deletes.equality_deletes import delete_equal

ROOT = Path(__file__).parents[3]


def to_write(catalog: SqlCatalog, version: int = 3) -> Table:
    """Two data files of 100 ids, the first one with a delete."""
    schema = pa.schema([("id", pa.int64()), ("w", pa.string())])
    with v3_metadata(catalog):
        table = catalog.create_table("n.t", schema, properties={"format-version": str(version)})
    for first in (0, 100):
        ids = range(first, first + 100)
        iceberg.append(table, pa.table({"id": ids, "w": [f"w{id % 9}" for id in ids]}, schema))
    iceberg.delete(table, "id = 7")
    return table


def to_write_v2(catalog: SqlCatalog) -> None:
    to_write(catalog, 2)


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


def to_repair(catalog: SqlCatalog) -> None:
    table = to_write(catalog)
    add_vector(table, tasks(table)[0].data, [8, 9])


def to_index(catalog: SqlCatalog) -> None:
    """A table with sketches and an index of another column."""
    table = to_write(catalog)
    iceberg.collect_ndv(table, ["id"])
    iceberg.index_keys(table, "w")
    iceberg.remove_orphan_files(table, older_than=timedelta(), dry_run=False)  # the replaced file


def to_merge(catalog: SqlCatalog) -> None:
    """So many segments that the next one has some of them merged."""
    table = iceberg.create_table(catalog, "n.t", pa.schema([("id", pa.int64()), ("w", pa.string())]))
    for first in range(0, 200, 200 // MOST_SEGMENTS):
        ids = range(first, first + 200 // MOST_SEGMENTS)
        iceberg.append(table, pa.table({"id": ids, "w": [f"w{id}" for id in ids]}))
        iceberg.index_keys(table, "id")
    iceberg.append(table, pa.table({"id": [300], "w": ["w"]}))
    iceberg.delete(table, "id = 7")


def to_drop_segments(catalog: SqlCatalog) -> None:
    """A segment with rows of a data file that is gone."""
    table = to_write(catalog)
    iceberg.index_keys(table, "id")
    iceberg.delete(table, "id < 90")
    iceberg.rewrite_data_files(table, min_deleted=0.4, min_file_size=0)
    iceberg.delete(table, "id = 105")


def to_keep_indexes(catalog: SqlCatalog) -> None:
    """Two indexes that a property names, and data files to be rewritten, one of which they do not cover."""
    table = to_write(catalog)
    set_properties(table, {KEY_INDEXES: "id; w"})
    iceberg.index_keys(table, "id")
    iceberg.index_keys(table, "w")
    iceberg.append(table, pa.table({"id": [300, 301], "w": ["w", "x"]}))
    iceberg.delete(table, "id = 301")
    iceberg.remove_orphan_files(table, older_than=timedelta(), dry_run=False)  # the replaced file


def to_expire(catalog: SqlCatalog) -> None:
    """Files of every kind that only old snapshots need."""
    table = to_write(catalog)
    iceberg.collect_ndv(table, ["id"])
    iceberg.delete(table, "id >= 150")
    iceberg.rewrite_data_files(table, min_deleted=0.4, min_file_size=0)
    iceberg.delete(table, "id = 8")


def to_clean(catalog: SqlCatalog) -> None:
    table = to_write(catalog)
    for name in ("data/a.parquet", "data/b.puffin", "metadata/c.avro", "metadata/d.metadata.json"):
        (path_of(table.location()) / name).write_bytes(b"x")


Killed = Callable[[str, Path], list[str]]
ROW_JOBS = ("append", "delete", "delete_positions", "delete_keys", "transaction", "update", "upsert")


@pytest.fixture(scope="module")
def killed() -> Iterator[Killed]:
    """Kills a job in a folder's table at each step; returns the steps."""
    command = [sys.executable, "-c", "from tests.iceberg.faults.killed import main; main()"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        stdin, stdout = server.stdin, server.stdout

        def ask(job: str, folder: Path) -> list[str]:
            print(job, folder, file=stdin, flush=True)
            answer: list[str] | str = json.loads(stdout.readline())
            assert isinstance(answer, list), answer
            return [what.partition(" ")[0] for what in answer]

        yield ask
        stdin.close()


def made(folder: Path, make: Callable[[SqlCatalog], object]) -> None:
    """A catalog in a folder, with a table."""
    catalog = SqlCatalog("killed", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/wh")
    catalog.create_namespace("n")
    make(catalog)
    catalog.engine.dispose()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "make"),
    [
        *((job, to_write) for job in ROW_JOBS),
        *((job, to_write_v2) for job in ROW_JOBS),
        ("upgrade", to_write_v2),
        ("convert_position_deletes", to_convert),
        ("convert_equality_deletes", to_convert_equal),
        ("compact", to_compact),
        ("repair", to_repair),
        ("rewrite_data_files", to_write),
        ("rewrite_data_files", to_write_v2),
        ("sort", to_write),
        ("sort", to_write_v2),
    ],
    ids=lambda item: item if isinstance(item, str) else item.__name__,
)
def test_a_killed_job_leaves_the_table_whole_and_the_next_run_finishes_it(
    killed: Killed, tmp_path: Path, job: str, make: Callable[[SqlCatalog], object]
) -> None:
    made(tmp_path, make)
    steps = killed(job, tmp_path)
    assert steps[-2:] == ["commit", "return"]
    n_files = 1 if job == "upgrade" else 4
    assert steps.count("create") == steps.count("finish") >= n_files


@pytest.mark.slow
@pytest.mark.parametrize("make", [to_index, to_write_v2, to_merge, to_drop_segments])
def test_a_killed_build_of_an_index_changes_no_row_and_the_next_run_finishes_it(
    killed: Killed, tmp_path: Path, make: Callable[[SqlCatalog], object]
) -> None:
    made(tmp_path, make)
    steps = killed("index_keys", tmp_path)
    assert steps[-2:] == ["commit", "return"]
    assert steps.count("create") == steps.count("finish") == 2
    assert steps.count("merge") == steps.count("merged") == int(make is to_merge)


@pytest.mark.slow
@pytest.mark.parametrize(("job", "n_commits"), [("maintain", 4), ("rewrite_and_index", 3)])
def test_a_killed_job_that_keeps_indexes_changes_no_row_and_the_next_run_finishes_it(
    killed: Killed, tmp_path: Path, job: str, n_commits: int
) -> None:
    made(tmp_path, to_keep_indexes)
    steps = killed(job, tmp_path)
    assert steps.count("commit") == n_commits
    assert steps[-1] == "return"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "make"), [("expire_snapshots", to_expire), ("remove_orphan_files", to_clean)]
)
def test_a_killed_removal_loses_no_live_file_and_the_next_run_finishes_it(
    killed: Killed, tmp_path: Path, job: str, make: Callable[[SqlCatalog], object]
) -> None:
    made(tmp_path, make)
    steps = killed(job, tmp_path)
    assert (steps.count("commit"), steps[-1]) == (int(job == "expire_snapshots"), "return")
    assert steps.count("remove") >= 4
