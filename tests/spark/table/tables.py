"""Tables, readers and cases that several tests share with `test_tables`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast import iceberg
from puffin_fast.iceberg.plan.files import plan_files
from tests.kit.tables import files_of

if TYPE_CHECKING:
    from pyiceberg.table import Table


N = 3000


ROWS = pa.table(
    {
        "id": pa.array(range(N), pa.int64()),
        "word": pa.array([None if i % 11 == 0 else f"w{i % 3}" for i in range(N)]),
        "small": pa.array([None if i % 7 == 0 else i % 50 for i in range(N)], pa.int32()),
    }
)


FILES = 5


def made(
    catalog: Any, namespace: str, *, spec: tuple[str, ...] = (), name: str = "t", **properties: str
) -> Table:
    """Returns a table to which `ROWS` were appended in `FILES` commits."""
    table = iceberg.create_table(
        catalog, f"{namespace}.{name}", ROWS.schema, partition_spec=spec, properties=properties
    )
    for start in range(0, N, N // FILES):
        iceberg.append(table, ROWS.slice(start, N // FILES))
    return table


def positions_of(table: Table, ids: set[int]) -> list[tuple[str, int]]:
    """Returns the data files and positions of rows of an unpartitioned table from `made`."""
    tasks = plan_files(table).tasks
    first = {
        t.data.file_path: int.from_bytes(t.data.lower_bounds[1], "little")
        for t in plan_files(table, metrics=True).tasks
    }
    places = []
    for task in tasks:
        start = first[task.data.file_path]
        places += [(task.data.file_path, pos) for pos in range(task.data.record_count) if start + pos in ids]
    assert len(places) == len(ids)
    return places


def puffin_files(table: Table) -> set[Path]:
    return {path for path in files_of(table) if path.suffix == ".puffin"}


def referenced(table: Table) -> set[Path]:
    return {
        Path(t.vector.file_path.removeprefix("file://"))
        for t in plan_files(table).tasks
        if t.vector is not None
    }
