"""Laws of NDV statistics with concurrent commits: they belong to the snapshot that was counted, and none is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.iceberg.statistics.sketch_files import SketchReader
from puffin_fast.theta import ThetaSketch
from tests.iceberg.conftest import rows_of
from tests.iceberg.statistics.statistics import make
from tests.kit.faults import RacingCatalog
from tests.kit.tables import files_of


def numbers(start: int, stop: int) -> pa.Table:
    return pa.table({"id": pa.array(range(start, stop), pa.int64())})


def true_counts(table: Table) -> dict[int, int]:
    """The count of `id` in each snapshot that has statistics, by the snapshot's rows."""
    return {
        known.snapshot_id: int(
            ThetaSketch.from_arrow(
                iceberg.scan(table, snapshot_id=known.snapshot_id).to_arrow()["id"]
            ).estimate
        )
        for known in table.metadata.statistics
    }


def stated_counts(table: Table) -> dict[int, int]:
    return {
        known.snapshot_id: int((known.blob_metadata[0].properties or {})["ndv"])
        for known in table.metadata.statistics
    }


def test_a_delete_through_the_same_table_while_files_are_read(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(racing, numbers(0, 100))
    counted = table.metadata.current_snapshot_id
    sketches = SketchReader.sketches

    def meanwhile(self: SketchReader, tasks: Sequence[Any], threads: int) -> Mapping[int, ThetaSketch]:
        iceberg.delete(table, "id < 40")
        return sketches(self, tasks, threads)

    monkeypatch.setattr(SketchReader, "sketches", meanwhile)
    result = iceberg.collect_ndv(table)
    assert (result.snapshot_id, result.ndv) == (counted, {"id": 100})
    fresh = racing.load_table("n.t")
    assert stated_counts(fresh) == {counted: 100}
    assert fresh.metadata.current_snapshot_id == table.metadata.current_snapshot_id != counted
    assert rows_of(fresh).num_rows == 60
    monkeypatch.undo()
    assert iceberg.collect_ndv(table).upper_bounds == ("id",)
    assert iceberg.collect_ndv(table, incremental=False).ndv == {"id": 60}


def test_threads_that_share_a_table_count_what_their_snapshot_has(racing: RacingCatalog) -> None:
    table = make(racing, numbers(0, 4_000))
    for start in range(4_000, 12_000, 4_000):
        iceberg.append(table, numbers(start, start + 4_000))
    failed: list[BaseException] = []

    def run(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    def delete() -> None:
        for start in range(0, 9_000, 3_000):
            iceberg.delete(table, f"id >= {start} and id < {start + 1_000}")

    def collect() -> None:
        for _ in range(3):
            iceberg.collect_ndv(table, incremental=False)

    threads = [threading.Thread(target=run, args=(work,)) for work in (delete, collect, collect)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    fresh = racing.load_table("n.t")
    assert rows_of(fresh).num_rows == 9_000
    assert stated_counts(fresh) == true_counts(fresh)
    assert len(files_of(fresh)) == len({path for path in files_of(fresh) if path.stat().st_size})


KILLED = """
import os, sys
from pyiceberg.catalog.sql import SqlCatalog
from puffin_fast import iceberg
from puffin_fast.iceberg.index import blobs

catalog = SqlCatalog("racing", uri=sys.argv[1], warehouse=sys.argv[2])
commit = blobs.commit_statistics

def killed(*arguments, **options):
    if sys.argv[3] == "after":
        commit(*arguments, **options)
    os.kill(os.getpid(), 9)

blobs.commit_statistics = killed
iceberg.collect_ndv(catalog.load_table("n.t"), incremental=False)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_is_killed_leaves_the_old_or_the_new_statistics(
    racing: RacingCatalog, when: str
) -> None:
    table = make(racing, numbers(0, 50))
    iceberg.collect_ndv(table)
    old = table.metadata.statistics[0].statistics_path
    where = [racing.properties["uri"], racing.properties["warehouse"], when]
    done = subprocess.run([sys.executable, "-c", KILLED, *where], check=False, timeout=120)
    assert done.returncode == -9
    table = racing.load_table("n.t")
    (statistics,) = table.metadata.statistics
    assert (statistics.statistics_path == old) == (when == "before")
    assert iceberg.ndv(table)["ndv"].to_pylist() == [50]
    assert len([path for path in files_of(table) if path.suffix == ".stats"]) == 2  # one of them is an orphan
    assert iceberg.collect_ndv(table, incremental=False).commit.id is not None
