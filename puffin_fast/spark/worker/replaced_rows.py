"""On executors: the old rows at given positions, and the deletes and data files that replace rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import PuffinFastError
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.scan.located_rows import LocatedRows
from puffin_fast.spark.worker.data_files import new_rows
from puffin_fast.spark.worker.reports import Report
from puffin_fast.spark.worker.tasks import deleted

if TYPE_CHECKING:
    from puffin_fast.rows.deletes.outcome import NewDeletes
    from puffin_fast.rows.tasks import Task
    from puffin_fast.spark.worker.tasks import Target


def by_places(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, pa.Table]]:
    """Groups the rows of one task by data file.

    Args:
        batches: the first two columns are the data file and the position of a row. All rows of a data file are in one
            task.

    Yields:
        A data file, and its rows by ascending position.
    """
    given = [batch for batch in batches if batch.num_rows]
    if not given:
        return
    rows = pa.Table.from_batches(given)
    rows = rows.sort_by([(name, "ascending") for name in rows.schema.names[:2]])
    files = rows.column(0).to_numpy()
    starts = np.flatnonzero(np.r_[True, files[1:] != files[:-1]]).tolist()
    for start, stop in zip(starts, [*starts[1:], len(files)], strict=True):
        yield files[start], rows.slice(start, stop - start)


def rows_at(table: Target, task: Task, positions: np.ndarray) -> tuple[pa.Table, pa.Array]:
    """Returns the live rows of a data file at some positions, which ascend, and their row ids.

    Raises:
        PuffinFastError: a row is not live.
    """
    schema, names = table.metadata.schema(), table.lineage
    every = RowFilter.bind(AlwaysTrue(), schema)
    chosen = replace(task, candidates=PositionBitmap.from_positions(positions))
    found = LocatedRows.read(table.reader_factory(every), schema.fields, [chosen], names, threads=1)
    if found.rows.num_rows != len(positions):
        raise PuffinFastError(
            f"{task.data.file_path}: expected {len(positions)} live rows to update, found {found.rows.num_rows}"
        )
    ids = found.metadata[names[0]].combine_chunks() if names else pa.nulls(found.rows.num_rows, pa.int64())
    return found.rows, ids


def write_replaced(
    part: Target, deletes: Iterable[NewDeletes], rows: pa.Table, row_ids: Any
) -> Iterator[Report]:
    """Writes the deletes of old rows, and the new rows unless in a dry run."""
    yield from deleted(deletes, part)
    if not part.place.dry_run:
        yield Report(data_files=new_rows(part).write(rows, row_ids))
