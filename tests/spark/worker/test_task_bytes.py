"""What is sent to executors is linear in data files and delete files: the delete files they share are sent once."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest

from puffin_fast._concurrency.workers import OPEN_BYTES
from puffin_fast.iceberg.maintenance import convert
from puffin_fast.iceberg.manifest import EQUALITY_DELETES, POSITION_DELETES
from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.iceberg.plan.inventory import take_inventory
from puffin_fast.rows.tasks import columns_of
from puffin_fast.spark.session.executor_calls import unpack
from puffin_fast.spark.session.workers import Spark
from puffin_fast.spark.table import job
from puffin_fast.spark.table.search import bins_to_search
from puffin_fast.spark.worker.marked import _TaskUnpickler, pickled_tasks
from tests.iceberg.delete_files.many_deletes import table_of

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

N = 60


def dumped(value: Any) -> bytes:
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def deletes_of(tasks: Iterable[Any]) -> list[tuple[str, set[str]]]:
    return [
        (
            task.data.file_path,
            {entry.file_path for entry in (*task.position_deletes, *task.equality_deletes)},
        )
        for task in tasks
    ]


@pytest.mark.parametrize("content", [POSITION_DELETES, EQUALITY_DELETES], ids=["positions", "equality"])
def test_tasks_take_linear_bytes(
    shared_catalog: SqlCatalog, namespace: str, monkeypatch: pytest.MonkeyPatch, content: int
) -> None:
    monkeypatch.setattr(job, "TASK_BYTES", 6 * OPEN_BYTES)
    in_bins, in_rows, in_lists, in_places = [], [], [], []
    for n in (N, 2 * N):
        table, _ = table_of(shared_catalog, f"{namespace}.t{n}", n, content)
        tasks = plan_files(table).tasks
        bins = [dumped(some) for some in bins_to_search(tasks)]
        assert len(bins) < n // 4
        assert deletes_of(task for some in bins for task in pickle.loads(some)) == deletes_of(tasks)
        rows, common = pickled_tasks(columns_of(tasks))
        none, shared = unpack(common)
        values = (_TaskUnpickler(BytesIO(row), shared).load() for row in rows)
        sent = (none.with_lists(([one] for one in some), 1)[0] for some in values)
        assert deletes_of(sent) == deletes_of(tasks)
        in_bins.append(sum(map(len, bins)))
        in_rows.append(sum(map(len, rows)))
        in_lists.append(len(dumped(shared)))
        if content == POSITION_DELETES:
            files = take_inventory(table, table.current_snapshot()).files
            no_session: Any = None
            converted = [dumped(some) for some in convert._bins_of_positions(files, Spark(no_session))]
            sent_files = (file for some in converted for file in pickle.loads(some))
            assert dict(deletes_of(sent_files)) == dict(deletes_of(files))
            in_places.append(sum(map(len, converted)))
    for once, twice in filter(None, (in_bins, in_rows, in_lists, in_places)):
        assert twice < 2.3 * once
