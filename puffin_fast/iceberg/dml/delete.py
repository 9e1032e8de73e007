"""Deletes rows without rewriting data files: by a row filter, or by data file and position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast import arrow
from puffin_fast._runtime.arguments import check_flags
from puffin_fast._runtime.threads import check_threads, on_threads
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.columns.arrow_rows import arrow_rows, position_rows
from puffin_fast.dv import iceberg as codec
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.deletes.writer import WrittenDeletes
from puffin_fast.iceberg.dml.delete_job import ConflictFilter, DeleteJob, DeleteResult, OnConflict, start
from puffin_fast.iceberg.plan.files import FileTask, plan_snapshot
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.outcome import NewDeletes
from puffin_fast.rows.filters.filters import Filter, RowFilter
from puffin_fast.rows.scan.finder import Finder

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

__all__ = [
    "ConflictFilter",
    "DeleteJob",
    "DeleteResult",
    "Finder",
    "OnConflict",
    "delete",
    "delete_positions",
    "group_positions",
    "start",
]


def delete(
    table: Table,
    row_filter: Filter,
    *,
    branch: str = MAIN_BRANCH,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
) -> DeleteResult:
    """Deletes the rows for which a filter is true, in one commit, without rewriting data files.

    Rows for which the filter is unknown, such as a comparison with NULL, are not deleted. Data files whose
    metrics exclude a match are not opened. Data files whose metrics prove that all rows match are removed
    unread.

    Args:
        table: a PyIceberg table of format version 3, or 2 (which gets position-delete files, see
            `write_deletes`). It is refreshed first, and has the new metadata afterwards.
        row_filter: a PyIceberg expression, its text, or a PyArrow expression (see `RowFilter`).
        branch: an existing branch.
        case_sensitive: whether column names are compared with case.
        on_conflict: what to do if a concurrent commit deleted rows of the same data files or removed one:
            ``"refuse"`` raises, ``"merge"`` runs the delete again on top of it.
        job_id: recorded in the snapshot's summary. A job whose id is in the branch's history is not repeated.
        snapshot_properties: additional entries of the snapshot's summary.
        threads: number of files read at a time; the number of processors by default.
        dry_run: count rows and data files, write nothing.

    Returns:
        The counts; `snapshot_id` is None when no row matched.

    Raises:
        NotFoundError: a column, the branch or a data file does not exist.
        InvalidInputError: the filter cannot be parsed or does not fit its columns.
        UnsupportedError: the table is not of format version 2 or 3, or the format of a file is not supported.
        CorruptDataError: a file does not agree with the table's metadata.
        ConflictError: a concurrent commit changed the same data files; the table is unchanged.
        CommitUnknownError: see `commit`.
    """
    check_threads(threads)
    check_flags(case_sensitive=case_sensitive, dry_run=dry_run)
    request = Request(verb="delete", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties)
    job = start(table, request, oldest=2)
    table = job.table

    def work(tasks: list[FileTask], finder: Finder, conflict_filter: ConflictFilter) -> WrittenDeletes:
        found = finder.search(tasks, threads)
        return job.write(found, conflict_filter, dry_run=dry_run)

    return job.run_filter(row_filter, work, on_conflict, case_sensitive=case_sensitive)


def delete_positions(
    table: Table,
    deletes: Any,
    *,
    branch: str = MAIN_BRANCH,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
) -> DeleteResult:
    """Deletes rows given by data file and position, in one commit; repeated and deleted positions are ignored.

    Args:
        table: a PyIceberg table of format version 3, or 2 (which gets position-delete files, see
            `write_deletes`). It is refreshed first, and has the new metadata afterwards.
        deletes: rows as for `append` with columns ``file_path`` (string: the path exactly as in the table's metadata)
            and ``pos`` (integer), in any order; or a mapping of paths to positions (``{path: [0, 7]}``).
        branch, on_conflict, job_id, snapshot_properties, threads, dry_run: as `delete`.

    Returns:
        The counts; `snapshot_id` is None when all the rows were deleted already.

    Raises:
        InvalidInputError: a column is missing, or a row has a null, a negative position, or a position that
            is not less than the row count of its data file.
        NotFoundError: a path is not a live data file of the branch.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.
    """
    check_threads(threads)
    check_flags(dry_run=dry_run)
    request = Request(
        verb="delete_positions", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties
    )
    job = start(table, request, oldest=2)
    table = job.table
    wanted = group_positions(deletes)

    def plan(base: Snapshot | None) -> WrittenDeletes:
        tasks = {}
        if base is not None:
            every_row = RowFilter.bind(AlwaysTrue(), table.schema())
            every = plan_snapshot(table, base, table.schema(), every_row).tasks
            tasks = {task.data.file_path: task for task in every}
        for path, positions in wanted.items():
            task = tasks.get(path)
            if task is None:
                raise NotFoundError(f"{path}: expected a data file of branch {branch!r}, found none")
            if positions.max() >= task.data.record_count:
                raise InvalidInputError(
                    f"{path}: expected positions below {task.data.record_count} (rows), found {positions.max()}"
                )
        current = DeleteLoader(table.io)

        def merge(path: str) -> NewDeletes:
            return NewDeletes.merge(tasks[path], wanted[path], current)

        found = on_threads(merge, list(wanted), threads, label="merging deletes")
        return job.write(found, dry_run=dry_run)

    return job.run(plan, on_conflict)


def group_positions(deletes: Any) -> dict[str, PositionBitmap]:
    """Returns one bitmap per path; a stream is read batch by batch, and the blobs are united at the end."""
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
    deletes = arrow_rows(position_rows(deletes), "deletes", streamed=True)
    missing = {"file_path", "pos"} - set(deletes.schema.names)
    if missing:
        raise InvalidInputError(
            f"deletes: expected columns file_path and pos, found {', '.join(deletes.schema.names)}"
        )
    for name in ("file_path", "pos"):
        if (found := len(deletes.schema.get_all_field_indices(name))) > 1:
            raise InvalidInputError(f"deletes: column {name}: expected once, found {found}")
    if isinstance(deletes, pa.Table):
        return [deletes] if deletes.num_rows else []
    return (pa.Table.from_batches([batch]) for batch in deletes if batch.num_rows)
