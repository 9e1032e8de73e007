"""Deletes rows by key: reads the key columns only, and prunes files by the range of the keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast._runtime.arguments import check_flags
from puffin_fast._runtime.threads import check_threads
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.deletes.writer import WrittenDeletes
from puffin_fast.iceberg.dml.delete_job import (
    ConflictFilter,
    DeleteResult,
    OnConflict,
    check_on_conflict,
    start,
)
from puffin_fast.iceberg.plan.files import FileTask
from puffin_fast.rows.match.key_parts import key_parts, search_parts

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["delete_keys"]


def delete_keys(
    table: Table,
    keys: Any,
    join_cols: str | Sequence[str] | None = None,
    *,
    null_safe: bool = False,
    branch: str = MAIN_BRANCH,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
) -> DeleteResult:
    """Deletes the rows whose key is in a table of keys, in one commit, without rewriting data files.

    Only the key columns are read, from data files and row groups whose bounds include a key. The distinct
    keys and one batch per thread are held in memory: about 40 bytes for each key of one column of integers, dates or
    times (up to 100 where keys are more than 65,000 apart), more for other keys. Keys that are estimated to take more
    than 4 GiB are divided among temporary files, and the table is searched for one part of them after another (see
    "Many keys" in the guide).

    Args:
        table: a PyIceberg table of format version 3, or 2 (which gets position-delete files). It is refreshed
            first, and has the new metadata afterwards.
        keys: rows as for `append`, or, for one key column, its values (``[1, 2, 3]``, a column of Arrow, pandas, Polars
            or NumPy). Other columns than the key columns and repeated keys are ignored.
        join_cols: the key column or columns: names in the table, dotted for a field of a struct, and the same in
            `keys` (a column of that dotted name, or a field of a struct). By default the identifier fields of
            the table's schema.
        null_safe: whether null equals null; otherwise a key with a null matches no row.
        branch: an existing branch.
        on_conflict, job_id, snapshot_properties, threads: as `delete`.
        dry_run: count rows and data files, write nothing.

    Returns:
        The counts; `snapshot_id` is None when no row matched.

    Raises:
        NotFoundError: the table or the keys do not have a column.
        InvalidInputError: there are no key columns, a column cannot be a key, or the type of the keys cannot
            be compared with that of the column.
        PuffinFastError: a temporary file could not be written or read.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.
    """
    check_threads(threads)
    check_on_conflict(on_conflict)
    check_flags(null_safe=null_safe, dry_run=dry_run)
    request = Request(
        verb="delete_keys", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties
    )
    job = start(table, request, oldest=2)
    table = job.table
    with key_parts(table.io, table.metadata, keys, join_cols, null_safe=null_safe) as given:

        def work(tasks: list[FileTask], conflict_filter: ConflictFilter) -> WrittenDeletes:
            found = search_parts(given.parts, tasks, job.finder, threads)
            return job.write(found, conflict_filter, dry_run=dry_run)

        return job.run_pruned(given.bounds, work, on_conflict)
