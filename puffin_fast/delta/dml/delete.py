"""Deletes rows without rewriting data files: by a filter, by data file and position, or by keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any
from urllib.parse import unquote

from puffin_fast._runtime.arguments import check_flags, check_texts
from puffin_fast._runtime.threads import check_threads, on_threads
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.delta.dml.changes import allowed, write_vectors
from puffin_fast.delta.dml.delete_plan import DeletePlan, DeleteResult
from puffin_fast.delta.log.commit import Job, OnConflict, commit
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.log.storage import storage_of
from puffin_fast.delta.read.plan import DeltaTable, plan_files
from puffin_fast.dv import delta as codec
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg.dml.delete import group_positions
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.outcome import NewDeletes
from puffin_fast.rows.filters.filters import Filter, RowFilter
from puffin_fast.rows.keys.keys import Keys
from puffin_fast.rows.match.key_parts import KeyParts, key_parts, search_parts

__all__ = ["delete", "delete_keys", "delete_positions"]


def delete(
    table: Any,
    row_filter: Filter,
    *,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
) -> DeleteResult:
    """Deletes the rows for which a filter is true, in one commit, without rewriting data files.

    Rows for which the filter is unknown, such as a comparison with NULL, are not deleted. Data files whose
    statistics or partition values exclude a match are not opened. Data files for which they prove that all rows match
    are removed unread.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        row_filter: a PyIceberg expression, its text, or a PyArrow expression.
        case_sensitive: whether column names are compared with case.
        on_conflict: what to do if a concurrent commit changed the same data files: ``"refuse"`` raises, ``"merge"``
            runs the delete again on top of it.
        job_id: recorded in the log as a transaction. A job whose id is in the log is not repeated.
        snapshot_properties: additional entries of the commit's `commitInfo`.
        threads: number of files read at a time; the number of processors by default.
        dry_run: count rows and data files, write nothing.
        filesystem: the pyarrow.fs.FileSystem or fsspec filesystem of the path. Commits on an object store need an
            fsspec filesystem with conditional writes (s3fs, gcsfs, adlfs).

    Returns:
        The counts; `version` is None if no row matched.

    Raises:
        NotFoundError: the table, a column or a data file does not exist.
        InvalidInputError: the filter cannot be parsed or does not fit its columns.
        UnsupportedError: deletion vectors must not be committed to the table; the message names the reason.
        CorruptDataError: the log or a file is damaged.
        ConflictError: a concurrent commit changed the same data files or the table's metadata; the table is unchanged.
        CommitUnknownError: the storage did not answer whether the commit happened; no file was removed.
    """

    check_flags(case_sensitive=case_sensitive)

    def find(base: DeltaTable) -> Iterable[NewDeletes]:
        matcher = RowFilter.bind(row_filter, base.schema.schema, case_sensitive=case_sensitive)
        plan = plan_files(base, matcher, case_sensitive=case_sensitive, metrics=True)
        return base.finder(matcher, case_sensitive=case_sensitive).search(plan.tasks, threads)

    return _run(
        table,
        find,
        predicate=row_filter if isinstance(row_filter, str) else str(row_filter),
        looks_at_rows=True,
        on_conflict=on_conflict,
        job=Job("delete", job_id),
        snapshot_properties=snapshot_properties,
        threads=threads,
        dry_run=dry_run,
        filesystem=filesystem,
    )


def delete_keys(
    table: Any,
    keys: Any,
    join_cols: str | Sequence[str],
    *,
    null_safe: bool = False,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
) -> DeleteResult:
    """Deletes the rows whose key is in a table of keys, in one commit, without rewriting data files.

    Only the key columns are read, from data files and row groups whose bounds include a key. Keys that would take more
    than 4 GiB are divided among temporary files, as by `puffin_fast.iceberg.delete_keys`.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        keys: Arrow rows (table, batch, reader, or an object with the Arrow C stream interface).
        join_cols: the key column or columns: names in the table, dotted for a field of a struct, and the same in
            `keys`.
        null_safe: whether null equals null; otherwise a key with a null matches no row.
        on_conflict, job_id, snapshot_properties, threads, dry_run, filesystem: as `delete`.

    Returns:
        The counts; `version` is None if no row matched.

    Raises:
        NotFoundError: the table or the keys do not have a column.
        InvalidInputError: a column cannot be a key, or the type of the keys cannot be compared with that of the column.
        PuffinFastError: a temporary file could not be written or read.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.
    """
    check_flags(null_safe=null_safe)
    names = [join_cols] if isinstance(join_cols, str) else check_texts("join_cols", join_cols)
    with ExitStack() as held:
        given: KeyParts[Keys] | None = None

        def find(base: DeltaTable) -> Iterable[NewDeletes]:
            nonlocal given
            if given is None:  # bound to the first version, because a stream of keys can be read only once
                storage = base.snapshot.storage
                given = held.enter_context(
                    key_parts(storage, base.metadata, keys, names, null_safe=null_safe)
                )
            plan = plan_files(base, given.bounds, metrics=True)
            return search_parts(given.parts, plan.tasks, partial(base.finder, case_sensitive=True), threads)

        return _run(
            table,
            find,
            predicate=f"key ({', '.join(names)}) in keys",
            looks_at_rows=True,
            on_conflict=on_conflict,
            job=Job("delete_keys", job_id),
            snapshot_properties=snapshot_properties,
            threads=threads,
            dry_run=dry_run,
            filesystem=filesystem,
        )


def delete_positions(
    table: Any,
    deletes: Any,
    *,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
) -> DeleteResult:
    """Deletes rows given by data file and position, in one commit; repeated and deleted positions are ignored.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        deletes: Arrow rows with columns ``file_path`` (as in ``_file`` of a scan, or relative to the table) and
            ``pos`` (integer), in any order.
        on_conflict, job_id, snapshot_properties, threads, dry_run, filesystem: as `delete`.

    Returns:
        The counts; `version` is None if all the rows were deleted already.

    Raises:
        InvalidInputError: a column is missing, or a row has a null, a negative position, or a position that is not less
            than the row count of its data file.
        NotFoundError: a path is not a live data file.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.
    """
    wanted = group_positions(deletes)

    def find(base: DeltaTable) -> Iterable[NewDeletes]:
        storage, tasks = base.snapshot.storage, plan_files(base).tasks
        paths = map(storage.location, base.snapshot.files["path"].to_pylist())
        numbers = {path: number for number, path in enumerate(paths)}
        found: dict[int, PositionBitmap] = {}
        for path, positions in wanted.items():
            names = (path, storage.location(path), f"{storage.root}/{unquote(path)}")
            number = next((numbers[name] for name in names if name in numbers), None)
            if number is None:
                raise NotFoundError(
                    f"{path}: expected a data file of version {base.snapshot.version}, found none"
                )
            n_rows = tasks[number].data.record_count
            if positions.max() >= n_rows:
                raise InvalidInputError(
                    f"{path}: expected positions below {n_rows} (rows), found {positions.max()}"
                )
            known = found.get(number)
            found[number] = positions if known is None else known | positions
        current = DeleteLoader(storage, codec.decode)

        def merge(number: int) -> NewDeletes:
            return NewDeletes.merge(tasks[number], found[number], current)

        return on_threads(merge, list(found), threads, label="merging deletes")

    return _run(
        table,
        find,
        predicate=None,
        looks_at_rows=False,
        threads=threads,
        on_conflict=on_conflict,
        job=Job("delete_positions", job_id),
        snapshot_properties=snapshot_properties,
        dry_run=dry_run,
        filesystem=filesystem,
    )


def _run(
    table: Any,
    find: Callable[[DeltaTable], Iterable[NewDeletes]],
    *,
    predicate: str | None,
    looks_at_rows: bool,
    on_conflict: OnConflict,
    job: Job,
    snapshot_properties: Mapping[str, str] | None,
    filesystem: Any,
    threads: int | None,
    dry_run: bool,
) -> DeleteResult:
    check_threads(threads)
    check_flags(dry_run=dry_run)
    started = time.perf_counter()
    storage = storage_of(table, filesystem)

    def plan(base: Snapshot) -> DeletePlan:
        written = write_vectors(storage, allowed(base, find(DeltaTable.of(base))), dry_run=dry_run)
        if dry_run:
            return DeletePlan(written)
        try:
            return DeletePlan.of(base, written, predicate=predicate, looks_at_rows=looks_at_rows)
        except BaseException:
            for path in written.files:
                storage.remove(path)
            raise

    planned, committed = commit(
        storage, plan, on_conflict=on_conflict, job=job, snapshot_properties=snapshot_properties
    )
    return DeleteResult.of(planned or DeletePlan(), committed, started)
