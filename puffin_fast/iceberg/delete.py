"""Rows deleted from tables of format version 3, as deletion vectors: by a filter, or by file and position."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast import arrow
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg as codec
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.iceberg._current import CurrentDeletes
from puffin_fast.iceberg._datafile import Columns
from puffin_fast.iceberg._pyiceberg import check_version, metrics_evaluator, proves_all_rows
from puffin_fast.iceberg.commit import Committed, commit, head_of, repeated
from puffin_fast.iceberg.equality import EqualityDeletes
from puffin_fast.iceberg.filters import Filter, RowFilter
from puffin_fast.iceberg.plan import FileTask, plan_files
from puffin_fast.iceberg.vectors import NewDeletes, VectorChanges, write_changes

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg._changes import Changes
    from puffin_fast.iceberg.manifests import ManifestEntry

__all__ = [
    "DeleteJob",
    "DeleteResult",
    "Finder",
    "Matters",
    "OnConflict",
    "delete",
    "delete_positions",
    "start",
]

ISOLATION = "write.delete.isolation-level"

OnConflict = Literal["refuse", "merge"]

Matters: TypeAlias = "Callable[[ManifestEntry], bool] | None"
"""As in `Changes`."""


@dataclass(frozen=True)
class DeleteResult:
    """What a delete did.

    Attributes:
        snapshot_id: the new snapshot; None when no row was there to delete, and so nothing was committed.
        rows_deleted: rows that were not deleted before (of a data file that is dropped unread because its
            metrics prove that all rows match, those that only an equality delete hid count too).
        data_files: data files that lost rows, those that lost all of them included.
        data_files_dropped: data files that lost all rows and left the table.
        vectors_written: deletion vectors written.
        vectors_merged: those of them that took over earlier deletes of their data file.
        n_bytes: bytes of Puffin files written.
        seconds: wall time.
        attempts: commits tried; 1 without a race, 0 without a commit.
        repeated: the job id was in the branch's history already, and nothing was done.
        rows_dangling: rows given that name no data file of the branch, where a job passes them over.
    """

    snapshot_id: int | None
    rows_deleted: int = 0
    data_files: int = 0
    data_files_dropped: int = 0
    vectors_written: int = 0
    vectors_merged: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False
    rows_dangling: int = 0


def delete(
    table: Table,
    filter: Filter,
    *,
    branch: str = MAIN_BRANCH,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    threads: int | None = None,
) -> DeleteResult:
    """Deletes the rows for which a filter is true, in one commit, without rewriting data files.

    Rows for which the filter is unknown, as a comparison with NULL is, stay. Data files that cannot hold a
    match are not opened; those whose metrics prove that every row matches are dropped unread.

    Args:
        table: a PyIceberg table of format version 3; loaded anew first, and moved to the new metadata.
        filter: a PyIceberg expression, its text, or a PyArrow expression (see `RowFilter`).
        branch: an existing branch.
        case_sensitive: whether column names must agree in case.
        on_conflict: what to do when another commit meanwhile deleted from the same data files or removed one:
            refuse, or run the delete again on top of it.
        job_id: recorded in the summary; a job that the branch's history holds is not done again.
        properties: more entries for the snapshot's summary.
        threads: files read at a time; the number of processors by default.

    Returns:
        What was done; `snapshot_id` is None when no row matched.

    Raises:
        NotFoundError: a column or branch that is not there, or a data file that is gone.
        InvalidInputError: a filter that does not parse or fit its columns.
        UnsupportedError: the table is not of format version 3, or a data file is not Parquet.
        CorruptDataError: a file that is not what the table says.
        ConflictError: another commit changed the same data files; the table is as before.
        CommitUnknownError: see `commit`.
    """
    job = start(table, branch, job_id)

    def work(tasks: list[FileTask], finder: Finder, matters: Matters) -> VectorChanges:
        return write_changes(table, _on_threads(finder.deletes, tasks, threads), matters=matters)

    return job.run_filter(filter, work, on_conflict, properties, case_sensitive=case_sensitive)


def delete_positions(
    table: Table,
    deletes: Any,
    *,
    branch: str = MAIN_BRANCH,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    threads: int | None = None,
) -> DeleteResult:
    """Deletes rows named by data file and position, in one commit; repeats and deleted rows do no harm.

    Args:
        table: a PyIceberg table of format version 3; loaded anew first, and moved to the new metadata.
        deletes: Arrow rows (table, batch, reader, or anything with the Arrow C stream interface) with columns
            ``file_path`` (string: the path exactly as the table has it) and ``pos`` (integer), in any order.
        branch, on_conflict, job_id, properties, threads: as `delete`.

    Returns:
        What was done; `snapshot_id` is None when all the rows were deleted already.

    Raises:
        InvalidInputError: a column is missing, a null, a negative position, or one that its data file does
            not have.
        NotFoundError: a path that is no live data file of the branch.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.
    """
    job = start(table, branch, job_id)
    wanted = _grouped(deletes)

    def plan(base: Snapshot | None) -> VectorChanges:
        tasks = {}
        if base is not None:
            tasks = {t.data.file_path: t for t in plan_files(table, snapshot_id=base.snapshot_id).tasks}
        for path, positions in wanted.items():
            task = tasks.get(path)
            if task is None:
                raise NotFoundError(f"{path}: no data file of branch {branch!r}")
            if positions.max() >= task.data.record_count:
                raise InvalidInputError(
                    f"{path}: position {positions.max()}, but the file has {task.data.record_count} rows"
                )
        current = CurrentDeletes(table.io)

        def merge(path: str) -> NewDeletes:
            return NewDeletes.merge(tasks[path], wanted[path], current)

        return write_changes(table, _on_threads(merge, list(wanted), threads))

    return job.run(plan, on_conflict, properties)


class Finder:
    """Finds the rows of a data file that match a filter."""

    def __init__(
        self, io: FileIO, metadata: TableMetadata, row_filter: RowFilter, case_sensitive: bool
    ) -> None:
        schema = metadata.schema()
        self._filter = row_filter
        may_match = metrics_evaluator(schema, row_filter.expression, case_sensitive)
        self._columns = Columns(io, metadata, schema, row_filter.field_ids, may_match)
        self._equality = EqualityDeletes(io, metadata)
        self._proved = proves_all_rows(schema, row_filter.certain(), case_sensitive)
        self._current = CurrentDeletes(io)

    def proves(self, task: FileTask) -> bool:
        """Whether the file's metrics alone say that every row matches."""
        return self._filter.everything or self._proved(task.data)

    def deletes(self, task: FileTask) -> NewDeletes:
        """What becomes of a data file; it is read unless `proves` holds."""
        n_rows = task.data.record_count
        if self.proves(task):
            if task.vector is None and task.position_deletes:
                before = len(self._current.of(task))
            else:
                before = 0 if task.vector is None else task.vector.record_count
            return NewDeletes(task, None, n_rows - before)
        mask = np.zeros(n_rows, np.bool_)
        keys = self._equality.of(task.equality_deletes) if task.equality_deletes else []
        key_fields = [field for key in keys for field in key.fields]
        for first, count, columns in self._columns.batches(task.data, key_fields):
            found = self._filter.mask(columns, count)
            for key in keys:  # what equality deletes hide they go on hiding: no vector need name it
                found &= ~key.contains(columns).to_numpy(zero_copy_only=False)
            mask[first : first + count] = found
        return NewDeletes.merge(task, PositionBitmap.from_mask(mask), self._current)


def _on_threads(
    work: Callable[[Any], NewDeletes], items: list[Any], threads: int | None
) -> Iterator[NewDeletes]:
    """Results in order; what waits to be written is bitmaps, not columns."""
    workers = min(threads or os.cpu_count() or 1, len(items))
    if workers <= 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="delete") as pool:
        try:
            yield from pool.map(work, items)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _grouped(deletes: Any) -> dict[str, PositionBitmap]:
    """One bitmap per path; a stream is taken batch by batch, its blobs united at the end."""
    blobs: dict[str, list[bytes]] = {}
    for rows in _batches(deletes):
        grouped = arrow.encode_grouped(rows["file_path"], rows["pos"])
        for path, blob in zip(grouped["file_path"].to_pylist(), grouped["blob"].to_pylist(), strict=True):
            blobs.setdefault(path, []).append(blob)
    if all(len(parts) == 1 for parts in blobs.values()):
        return {path: codec.decode(parts[0]) for path, parts in blobs.items()}
    united = arrow.union(pa.array(list(blobs.values()), pa.list_(pa.binary())))
    return {path: codec.decode(blob) for path, blob in zip(blobs, united.to_pylist(), strict=True)}


def _batches(deletes: Any) -> Iterable[pa.Table]:
    if isinstance(deletes, pa.RecordBatch):
        deletes = pa.Table.from_batches([deletes])
    elif not isinstance(deletes, pa.Table | pa.RecordBatchReader):
        if not hasattr(deletes, "__arrow_c_stream__"):
            raise InvalidInputError(f"deletes: expected Arrow rows, found {type(deletes).__name__}")
        deletes = pa.RecordBatchReader.from_stream(deletes)
    missing = {"file_path", "pos"} - set(deletes.schema.names)
    if missing:
        raise InvalidInputError(
            f"deletes: expected columns file_path and pos, found {', '.join(deletes.schema.names)}"
        )
    if isinstance(deletes, pa.Table):
        return [deletes] if deletes.num_rows else []
    return (pa.Table.from_batches([batch]) for batch in deletes if batch.num_rows)


@dataclass
class DeleteJob:
    """What all deletes share: the base, the clock, the race, the result."""

    table: Table
    branch: str
    job_id: str | None
    started: float

    def run(
        self,
        plan: Callable[[Snapshot | None], VectorChanges],
        on_conflict: OnConflict,
        properties: Mapping[str, str] | None,
    ) -> DeleteResult:
        if on_conflict not in ("refuse", "merge"):
            raise InvalidInputError(f"on_conflict: expected 'refuse' or 'merge', found {on_conflict!r}")
        table = self.table
        done = repeated(table.metadata, self.branch, self.job_id)
        if done is not None:
            return self.result(VectorChanges(), None, snapshot_id=done.snapshot_id, repeated=True)
        base = head_of(table.metadata, self.branch)
        planned = plan(base)
        if not planned.changes:
            return self.result(planned, None)

        def again(head: Snapshot | None) -> Changes:
            nonlocal planned
            planned = plan(head)
            return planned.changes

        committed = commit(
            table,
            planned.changes,
            base=base,
            branch=self.branch,
            job_id=self.job_id,
            properties=properties,
            rebuild=again,
            merge=on_conflict == "merge",
        )
        return self.result(planned, committed)

    def run_filter(
        self,
        filter: Filter,
        work: Callable[[list[FileTask], Finder, Matters], VectorChanges],
        on_conflict: OnConflict,
        properties: Mapping[str, str] | None,
        *,
        case_sensitive: bool,
    ) -> DeleteResult:
        """Plans a delete by a filter; `work` searches the data files that are left, and writes the vectors."""
        table = self.table
        schema = table.schema()
        bound = RowFilter.bind(filter, schema, case_sensitive=case_sensitive)
        matters = None
        if table.properties.get(ISOLATION, "serializable") != "snapshot":
            matters = metrics_evaluator(schema, bound.expression, case_sensitive)

        def plan(base: Snapshot | None) -> VectorChanges:
            if base is None:
                return VectorChanges()
            files = plan_files(
                table,
                snapshot_id=base.snapshot_id,
                row_filter=bound,
                case_sensitive=case_sensitive,
                metrics=True,
            )
            finder = Finder(table.io, table.metadata, bound, case_sensitive)
            return work(files.tasks, finder, matters)

        return self.run(plan, on_conflict, properties)

    def result(
        self,
        planned: VectorChanges,
        committed: Committed | None,
        *,
        snapshot_id: int | None = None,
        repeated: bool = False,
    ) -> DeleteResult:
        if committed is not None and committed.repeated:
            planned, repeated = VectorChanges(), True
        return DeleteResult(
            snapshot_id=snapshot_id if committed is None else committed.snapshot_id,
            rows_deleted=planned.rows,
            data_files=planned.vectors + planned.dropped,
            data_files_dropped=planned.dropped,
            vectors_written=planned.vectors,
            vectors_merged=planned.merged,
            n_bytes=planned.n_bytes,
            seconds=time.perf_counter() - self.started,
            attempts=0 if committed is None else committed.attempts,
            repeated=repeated,
        )


def start(table: Table, branch: str, job_id: str | None) -> DeleteJob:
    """Checks that the table can take vectors, and moves it to its newest metadata."""
    started = time.perf_counter()
    check_version()
    table.refresh()
    version = table.metadata.format_version
    if version != 3:
        raise UnsupportedError(
            f"{'.'.join(table.name())}: format version {version} has no deletion vectors; "
            "puffin_fast.iceberg.upgrade(table) makes it version 3"
        )
    return DeleteJob(table, branch, job_id, started)
