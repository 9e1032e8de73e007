"""Collects theta sketches of a snapshot's columns and commits them as its statistics file.

    per column   the snapshot's own file has it            -> taken as it is
                 an ancestor's file has it                 -> files added since are sketched, and united with it
                 neither, or the type changed, or a uuid of a foreign writer, or its file cannot be read
                                                           -> all data files are sketched
    file         written beside the metadata: these blobs, and those of other columns from the nearest file
    commit       lost to another commit                    -> file removed, table loaded again, written and tried again
                 the snapshot no longer exists             -> file removed, NotFoundError
                 outcome unknown                           -> nothing removed, CommitUnknownError

The previous statistics file of the snapshot is not removed: the commit makes it an orphan file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from puffin_fast._api.arguments import check_flags
from puffin_fast._concurrency.workers import Threads, workers_of
from puffin_fast._pyiceberg.metadata import without_history
from puffin_fast._pyiceberg.versions import check_version
from puffin_fast._text import shown_argument
from puffin_fast.errors import (
    InvalidInputError,
    NotFoundError,
)
from puffin_fast.iceberg.catalogs.working_table import WorkingTable
from puffin_fast.iceberg.index.blobs import commit_blobs, write_statistics
from puffin_fast.iceberg.index.stored import NAME_END, has_segments
from puffin_fast.iceberg.plan.files import metadata_of, plan_files, resolve
from puffin_fast.iceberg.scans.snapshot_state import SnapshotState
from puffin_fast.iceberg.statistics.columns import SketchedColumn, columns_of
from puffin_fast.iceberg.statistics.history import History
from puffin_fast.iceberg.statistics.sketch_files import SketchReader
from puffin_fast.iceberg.statistics.stored import (
    NDV,
    OWN_WRITER,
    UPPER_BOUND,
    WRITER,
    StoredSketch,
)
from puffin_fast.puffin import PuffinWriter
from puffin_fast.rows.scan.scan import Scan
from puffin_fast.rows.tasks import columns_of as columns_of_tasks
from puffin_fast.theta import BLOB_TYPE, ThetaSketch
from puffin_fast.verbs.maintenance import NdvResult
from puffin_fast.verbs.results import Commit

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.statistics import StatisticsFile
    from pyspark.sql import SparkSession

    from puffin_fast.iceberg.plan.delete_index import FileTask

    Sketch = Callable[[Sequence[SketchedColumn], Sequence[FileTask]], Mapping[int, ThetaSketch]]
    """Sketches of columns over the live rows of data files, on this machine or on executors."""


def collect_ndv(
    table: Table,
    columns: Sequence[str] | None = None,
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
    incremental: Literal["auto", False] = "auto",
    case_sensitive: bool = True,
    threads: int | None = None,
    workers: Executor | SparkSession | None = None,
    dry_run: bool = False,
) -> NdvResult:
    """Counts the distinct values of a snapshot's columns and commits the sketches as its statistics.

    Args:
        table: a PyIceberg table of format version 1 to 3; it has the new metadata afterwards.
        columns: names, dotted inside structs, lists (``tags.element``) and maps (``m.key``, ``m.value``); by default
            all columns of primitive types, also those in structs.
        snapshot_id, branch, tag, as_of: the snapshot, as in `scan`; the current one by default. Values are counted in
            the types of the schema that the snapshot was committed with.
        incremental: ``"auto"`` unites the sketches of the nearest earlier statistics with those of the data files added
            since. After deletes such a count is an upper bound, and marked as one. False reads all data files.
        case_sensitive: whether column names are compared with case.
        threads: number of reading threads; `pyarrow.cpu_count()` by default.
        workers: an executor of ``concurrent.futures`` or a SparkSession, which reads the data files instead of threads.
        dry_run: count the values and write nothing.

    Raises:
        NotFoundError: a column, snapshot or reference does not exist, or the table has no snapshots.
        InvalidInputError: a column is a struct, list or map, or an argument is invalid.
        CorruptDataError, UnsupportedError: as a scan.
        ConflictError: other commits came first in all attempts; the table is unchanged.
        CommitUnknownError: it is unknown whether the commit happened; no file was removed.

    Examples:
        >>> pf.iceberg.collect_ndv(table, ["id", "customer"]).ndv
        {'id': 100, 'customer': 10}
    """
    who = workers_of(workers, threads)
    check_flags(case_sensitive=case_sensitive, dry_run=dry_run)
    n_threads = pa.cpu_count() if threads is None else threads
    selection = select(
        table,
        columns,
        snapshot_id=snapshot_id,
        branch=branch,
        tag=tag,
        as_of=as_of,
        case_sensitive=case_sensitive,
    )

    def sketch(chosen: Sequence[SketchedColumn], tasks: Sequence[FileTask]) -> Mapping[int, ThetaSketch]:
        if not isinstance(who, Threads):
            reader = selection.reader(chosen, without_history(selection.table.metadata))
            return reader.sketches_by(who, columns_of_tasks(tasks))
        return selection.reader(chosen, selection.table.metadata).sketches(tasks, n_threads)

    return collect(selection, sketch, incremental=incremental, dry_run=dry_run)


@dataclass(frozen=True)
class Selection:
    """Columns of a snapshot.

    Attributes:
        table: an object that no other thread refreshes.
        snapshot: whose rows are counted.
        schema: that it was committed with.
        columns: with the names of the schema that the caller selects by.
    """

    table: WorkingTable
    snapshot: Snapshot
    schema: Schema
    columns: Sequence[SketchedColumn]

    def reader(self, columns: Sequence[SketchedColumn], metadata: TableMetadata) -> SketchReader:
        """Returns the reader that makes sketches of columns from the snapshot's data files.

        Args:
            columns: to sketch.
            metadata: the metadata of the table; its history is not used.
        """
        names = [self.schema.find_column_name(column.field_id) or column.name for column in columns]
        state = SnapshotState(self.table, snapshot_id=self.snapshot.snapshot_id)
        reader = Scan(state, selected_fields=names).reader(metadata)
        return SketchReader(self.table.io, metadata, tuple(columns), reader)


def select(
    table: Table,
    columns: Sequence[str] | None,
    *,
    case_sensitive: bool = True,
    repeated: bool = False,
    **snapshot: Any,
) -> Selection:
    """Finds a snapshot and its columns.

    Args:
        columns, case_sensitive: as in `collect_ndv`.
        repeated: whether columns inside lists and maps are included if `columns` is None.
        **snapshot: at most one of snapshot_id, branch, tag and as_of.

    Raises:
        NotFoundError, InvalidInputError: as `collect_ndv`.
    """
    metadata_of(table)
    working = WorkingTable.of(table)
    found, named = resolve(working, **snapshot)
    if found is None:
        raise NotFoundError("the table has no snapshots: there is nothing to count")
    schema = resolve(working, snapshot_id=found.snapshot_id)[1]
    chosen = columns_of(named, columns, counted=schema, case_sensitive=case_sensitive, repeated=repeated)
    return Selection(working, found, schema, chosen)


def collect(
    selection: Selection, sketch: Sketch, *, incremental: Literal["auto", False], dry_run: bool
) -> NdvResult:
    """`collect_ndv` of selected columns, with a function that sketches data files."""
    started = time.perf_counter()
    if incremental not in ("auto", False):
        raise InvalidInputError(f"incremental: expected 'auto' or False, found {shown_argument(incremental)}")
    check_version()
    table, snapshot, columns = selection.table, selection.snapshot, selection.columns
    history = History(selection.table, selection.snapshot, selection.schema)
    found: dict[int, StoredSketch] = {}
    groups: dict[int | None, list[SketchedColumn]] = {}
    for column in columns:
        base = history.usable(column) if incremental else None
        if base is not None and base[0].snapshot_id == snapshot.snapshot_id:
            found[column.field_id] = base[1]
        else:
            groups.setdefault(None if base is None else base[0].snapshot_id, []).append(column)
    now = plan_files(table, snapshot_id=snapshot.snapshot_id).tasks if groups else []
    n_read = 0
    for base_id, group in groups.items():
        tasks, upper_bound = now, False
        if base_id is not None:
            before = {task.data.file_path for task in plan_files(table, snapshot_id=base_id).tasks}
            tasks = [task for task in now if task.data.file_path not in before]
            upper_bound = history.lost_rows_since(base_id)
        n_read += len(tasks)
        sketches = sketch(group, tasks) if tasks else {}
        for column in group:
            earlier = history.usable(column) if base_id is not None else None
            made = sketches.get(column.field_id, ThetaSketch())
            found[column.field_id] = StoredSketch(
                column.field_id,
                made if earlier is None else made | earlier[1].sketch,
                snapshot.snapshot_id,
                snapshot.sequence_number or 0,
                upper_bound or (earlier is not None and earlier[1].upper_bound),
                OWN_WRITER,
            )
    computed = {column.field_id: found[column.field_id] for group in groups.values() for column in group}
    path, commit = (None if computed else history.path), Commit()
    if computed and not dry_run:
        path, commit = _commit(selection, computed, history)
    return NdvResult(
        commit=replace(commit, seconds=time.perf_counter() - started),
        snapshot_id=snapshot.snapshot_id,
        statistics_path=path,
        ndv={column.name: int(found[column.field_id].sketch.estimate) for column in columns},
        upper_bounds=tuple(column.name for column in columns if found[column.field_id].upper_bound),
        data_files_read=n_read,
        notes=tuple(history.notes),
        dry_run=dry_run,
    )


def _commit(
    selection: Selection, computed: Mapping[int, StoredSketch], history: History
) -> tuple[str, Commit]:
    """Writes and commits a statistics file; returns its path."""
    working, snapshot = selection.table, selection.snapshot

    def end(earlier: StatisticsFile | None) -> str:
        return NAME_END if earlier is not None and has_segments(earlier) else ".stats"

    def write(path: str, earlier: StatisticsFile | None) -> StatisticsFile:
        # includes the columns of a statistics file that was committed concurrently
        blobs = {**history.others(earlier), **computed}
        return _write(working, path, snapshot, blobs, earlier, history.notes)

    return commit_blobs(working, snapshot.snapshot_id, end, write, "statistics were")


def _write(
    table: Table,
    path: str,
    snapshot: Snapshot,
    sketches: Mapping[int, StoredSketch],
    earlier: StatisticsFile | None,
    notes: list[str],
) -> StatisticsFile:
    """Writes a Puffin file with one zstd blob per field, and the blobs of the earlier file that are not sketches.

    Returns:
        its entry for the table's metadata.
    """

    def add(writer: PuffinWriter) -> list[Any]:
        blobs: list[Any] = []
        for field_id, stored in sorted(sketches.items()):
            properties = {**stored.properties, NDV: str(int(stored.sketch.estimate))}
            if stored.upper_bound:
                properties[UPPER_BOUND] = "true"
            if not stored.writer.startswith(OWN_WRITER):
                properties[WRITER] = stored.writer
            blob = writer.add(
                stored.sketch.to_bytes(),
                type=BLOB_TYPE,
                fields=[field_id],
                snapshot_id=stored.snapshot_id,
                sequence_number=stored.sequence_number,
                properties=properties,
                compression="zstd",
            )
            blobs.append(
                {
                    "type": BLOB_TYPE,
                    "snapshot-id": blob.snapshot_id,
                    "sequence-number": blob.sequence_number,
                    "fields": [field_id],
                    "properties": properties,
                }
            )
        return blobs

    return write_statistics(
        table.io,
        path,
        snapshot.snapshot_id,
        add,
        earlier=earlier,
        wanted=lambda blob: blob.type != BLOB_TYPE,
        notes=notes,
    )
