"""Position-delete files and equality-delete files of a table turned into deletion vectors.

Rows are the same before and after; what readers open is not: one vector for a data file in place of all the
files that somebody wrote about it. A delete file goes only when no live data file needs it any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.iceberg._changes import key_of
from puffin_fast.iceberg._current import CurrentDeletes
from puffin_fast.iceberg._datafile import Columns
from puffin_fast.iceberg._job import on_threads
from puffin_fast.iceberg._rewrite import REPLACE, RewriteResult, Rewritten, older_than, rewrite
from puffin_fast.iceberg.equality import EqualityDeletes
from puffin_fast.iceberg.manifests import EQUALITY_DELETES, ManifestEntry
from puffin_fast.iceberg.vectors import NewDeletes, VectorChanges, write_changes

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.iceberg._survey import FileDeletes, Survey

__all__ = ["convert_equality_deletes", "convert_position_deletes"]


def convert_position_deletes(
    table: Table,
    *,
    branch: str = MAIN_BRANCH,
    job_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
) -> RewriteResult:
    """Turns all position-delete files of a branch into deletion vectors, in one commit.

    For each data file all position deletes that apply become one vector, or, where none of them names a row
    of it, none. A data file of which no row is left is dropped. All position-delete files go, those that
    apply to nothing among them. One exception: where a vector hides positions that it does not hold (a writer
    that broke the specification lost these deletes), the file that has them stays, for `repair`.

    Args:
        table: a PyIceberg table of format version 3 (see `upgrade`); loaded anew first, and moved to the new
            metadata.
        branch: an existing branch.
        job_id: recorded in the summary; a job that the branch's history holds is not done again.
        properties: more entries for the snapshot's summary.
        threads: delete files read at a time; the number of processors by default.
        dry_run: read and encode everything, write and commit nothing.

    Raises:
        UnsupportedError: the table is not of format version 3, or a delete file is not Parquet.
        CorruptDataError: a delete file that is not what the table says, a position that its data file does
            not have, or a data file with two vectors (see `repair`).
        NotFoundError: no such branch, or a delete file is gone.
        ConflictError: races with other commits did not end; the table is as before.
        CommitUnknownError: see `commit`.
    """

    def work(survey: Survey) -> Rewritten:
        return _convert_positions(table, survey, threads, dry_run)

    return rewrite(table, work, branch=branch, job_id=job_id, properties=properties, dry_run=dry_run)


def _convert_positions(table: Table, survey: Survey, threads: int | None, dry_run: bool) -> Rewritten:
    entries = {key_of(entry): entry for file in survey.files for entry in file.position_deletes}
    for entry in survey.dangling:
        if not entry.is_vector and entry.content != EQUALITY_DELETES:
            entries[key_of(entry)] = entry
    current = CurrentDeletes(table.io)
    result = Rewritten(VectorChanges())
    needed: set[tuple[str, int | None]] = set()

    def deletes(file: FileDeletes) -> NewDeletes | None:
        task = file.task
        if not file.hidden:
            return NewDeletes(task, current.of(task), 0)
        lost = current.by_files(file.data.file_path, file.hidden) - current.of(task)
        if lost:
            needed.update(map(key_of, file.hidden))
            result.left.append(
                f"{file.data.file_path}: its vector hides {len(lost)} deleted positions that it does not hold; "
                "puffin_fast.iceberg.repair adds them"
            )
        return None

    def found() -> Iterator[NewDeletes]:
        for new in on_threads(deletes, [file for file in survey.files if file.position_deletes], threads):
            if new is not None and new.positions:
                yield new

    result.written = write_changes(
        table,
        found(),
        only_new=False,
        dry_run=dry_run,
        also_removed=(entry for key, entry in entries.items() if key not in needed),
        operation=REPLACE,
        matters=older_than(entries.values(), same=True),
    )
    return result


def convert_equality_deletes(
    table: Table,
    *,
    branch: str = MAIN_BRANCH,
    job_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
) -> RewriteResult:
    """Turns all equality-delete files of a branch into deletion vectors, in one commit.

    The key columns of each data file that is older than an equality delete of its partition are read; the
    rows that are found join the positions that are deleted already in one vector. All equality-delete files
    go then: nothing older is left that they could apply to.

    Args:
        table, branch, job_id, properties, dry_run: as `convert_position_deletes`.
        threads: data files read at a time; the number of processors by default.

    Raises:
        As `convert_position_deletes`; also UnsupportedError for a data file that is not Parquet.
    """

    def work(survey: Survey) -> Rewritten:
        return _convert_equality(table, survey, threads, dry_run)

    return rewrite(table, work, branch=branch, job_id=job_id, properties=properties, dry_run=dry_run)


def _convert_equality(table: Table, survey: Survey, threads: int | None, dry_run: bool) -> Rewritten:
    entries: dict[str, ManifestEntry] = {}
    for file in survey.files:
        entries.update((entry.file_path, entry) for entry in file.equality_deletes)
    entries.update((e.file_path, e) for e in survey.dangling if e.content == EQUALITY_DELETES)
    current = CurrentDeletes(table.io)
    equality = EqualityDeletes(table.io, table.metadata)
    columns = Columns(table.io, table.metadata, table.schema(), (), lambda metrics: True)

    def deletes(file: FileDeletes) -> NewDeletes:
        mask = np.zeros(file.data.record_count, np.bool_)
        keys = equality.of(file.equality_deletes)
        fields = {field.field_id: field for key in keys for field in key.fields}
        for first, count, values in columns.open(file.data, fields.values()).batches():
            found = mask[first : first + count]
            for key in keys:
                found |= key.contains(values).to_numpy(zero_copy_only=False)
        return NewDeletes.merge(file.task, PositionBitmap.from_mask(mask), current)

    older = [file for file in survey.files if file.equality_deletes]
    written = write_changes(
        table,
        on_threads(deletes, older, threads),
        dry_run=dry_run,
        also_removed=entries.values(),
        operation=REPLACE,
        matters=older_than(entries.values(), same=False),
    )
    return Rewritten(written)
