"""Rows deleted without rewriting data files: by a filter, by file and position, or by keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from puffin_fast._runtime.arguments import check_flags, check_texts
from puffin_fast._runtime.threads import check_threads, on_threads
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.delta.dml.changes import write_vectors
from puffin_fast.delta.dml.delete_plan import DeletePlan, DeleteResult
from puffin_fast.delta.log.commit import Job, OnConflict, commit
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.log.storage import storage_of
from puffin_fast.delta.read.plan import DeltaTable, plan_files
from puffin_fast.dv import delta as codec
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg.deletes.loader import DeleteLoader
from puffin_fast.iceberg.deletes.outcome import NewDeletes
from puffin_fast.iceberg.dml.delete import group_positions
from puffin_fast.iceberg.dml.delete_keys import Keys
from puffin_fast.iceberg.predicate.filters import Filter, Matcher, RowFilter

__all__ = ["delete", "delete_keys", "delete_positions"]


def delete(
    table: Any,
    row_filter: Filter,
    *,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    commit_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
) -> DeleteResult:
    """Deletes the rows for which a filter is true, in one commit, without rewriting data files.

    Rows for which the filter is unknown, as a comparison with NULL is, stay. Data files that cannot hold a match are
    not opened; those whose partition values or statistics prove that every row matches are removed unread.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        row_filter: a PyIceberg expression, its text, or a PyArrow expression.
        case_sensitive: whether column names must agree in case.
        on_conflict: what to do when another commit meanwhile changed the same data files: refuse, or run the delete
            again on top of it.
        job_id: recorded in the log as a transaction of this application; a job that the log holds is not done again.
        commit_properties: more entries for the commit's `commitInfo`.
        threads: files read at a time; the number of processors by default.
        dry_run: count rows and data files, write nothing.
        filesystem: a pyarrow.fs.FileSystem or an fsspec filesystem on which the path lies. Commits on an object store
            need one that writes a file only where there is none (s3fs, gcsfs, adlfs).

    Returns:
        What was done; `version` is None when no row matched.

    Raises:
        NotFoundError: no such table or column, or a data file that is gone.
        InvalidInputError: a filter that does not parse or fit its columns.
        UnsupportedError: a table to which a delete through vectors must not be committed; the reason is named.
        CorruptDataError: a log or a file that is not what it should be.
        ConflictError: another commit changed the same data files or the table's metadata; the table is as before.
        CommitUnknownError: the storage did not say whether the commit happened; nothing was removed.
    """

    check_flags(case_sensitive=case_sensitive)

    def bind(base: DeltaTable) -> Matcher:
        return RowFilter.bind(row_filter, base.schema.schema, case_sensitive=case_sensitive)

    return _delete_matching(
        table,
        bind,
        predicate=row_filter if isinstance(row_filter, str) else str(row_filter),
        case_sensitive=case_sensitive,
        on_conflict=on_conflict,
        job=Job("delete", job_id),
        commit_properties=commit_properties,
        threads=threads,
        dry_run=dry_run,
        filesystem=filesystem,
    )


def delete_keys(
    table: Any,
    keys: Any,
    on: str | Sequence[str],
    *,
    null_safe: bool = False,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    commit_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
) -> DeleteResult:
    """Deletes the rows whose key stands in a table of keys, in one commit, without rewriting data files.

    Only the key's columns are read, of data files and row groups whose statistics some key lies in.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        keys: Arrow rows (table, batch, reader, or anything with the Arrow C stream interface).
        on: the key's column or columns: names in the table, dotted for a field of a struct, and the same in `keys`.
        null_safe: null equals null; else a key with a null matches no row.
        on_conflict, job_id, commit_properties, threads, dry_run, filesystem: as `delete`.

    Returns:
        What was done; `version` is None when no row matched.

    Raises:
        NotFoundError: a column that is not there, in the table or in the keys.
        InvalidInputError: a column that cannot be a key, or keys of a type that does not compare with the column's.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.
    """
    check_flags(null_safe=null_safe)
    names = [on] if isinstance(on, str) else check_texts("on", on)
    return _delete_matching(
        table,
        _KeyBinding(keys, names, null_safe).bind,
        predicate=f"key ({', '.join(names)}) in keys",
        case_sensitive=True,
        on_conflict=on_conflict,
        job=Job("delete_keys", job_id),
        commit_properties=commit_properties,
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
    commit_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
) -> DeleteResult:
    """Deletes rows named by data file and position, in one commit; repeats and deleted rows do no harm.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        deletes: Arrow rows with columns ``file_path`` (as a scan's ``_file`` has it, or relative to the table) and
            ``pos`` (integer), in any order.
        on_conflict, job_id, commit_properties, threads, dry_run, filesystem: as `delete`.

    Returns:
        What was done; `version` is None when all the rows were deleted already.

    Raises:
        InvalidInputError: a column is missing, a null, a negative position, or one that its data file does not have.
        NotFoundError: a path that is no live data file.
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
                raise NotFoundError(f"{path}: no data file of version {base.snapshot.version}")
            n_rows = tasks[number].data.record_count
            if positions.max() >= n_rows:
                raise InvalidInputError(f"{path}: position {positions.max()}, but the file has {n_rows} rows")
            known = found.get(number)
            found[number] = positions if known is None else known | positions
        current = DeleteLoader(storage, codec.decode)

        def merge(number: int) -> NewDeletes:
            return NewDeletes.merge(tasks[number], found[number], current)

        return on_threads(merge, list(found), threads)

    return _run(
        table,
        find,
        predicate=None,
        looks_at_rows=False,
        threads=threads,
        on_conflict=on_conflict,
        job=Job("delete_positions", job_id),
        commit_properties=commit_properties,
        dry_run=dry_run,
        filesystem=filesystem,
    )


class _KeyBinding:
    """Keys, bound to the first version that a delete is planned on: a stream of keys can be read once."""

    def __init__(self, keys: Any, on: Sequence[str], null_safe: bool) -> None:
        self._keys, self._on, self._null_safe = keys, on, null_safe
        self._bound: Keys | None = None

    def bind(self, base: DeltaTable) -> Keys:
        if self._bound is None:
            self._bound = Keys.bind(base.metadata, self._keys, self._on, null_safe=self._null_safe)
        return self._bound


def _delete_matching(
    table: Any,
    bind: Callable[[DeltaTable], Matcher],
    *,
    predicate: str,
    case_sensitive: bool,
    threads: int | None,
    **options: Any,
) -> DeleteResult:
    """Deletes what a matcher picks."""

    def find(base: DeltaTable) -> Iterable[NewDeletes]:
        matcher = bind(base)
        plan = plan_files(base, matcher, case_sensitive=case_sensitive, metrics=True)
        return base.finder(matcher, case_sensitive=case_sensitive).search(plan.tasks, threads)

    return _run(table, find, predicate=predicate, looks_at_rows=True, threads=threads, **options)


def _run(
    table: Any,
    find: Callable[[DeltaTable], Iterable[NewDeletes]],
    *,
    predicate: str | None,
    looks_at_rows: bool,
    on_conflict: OnConflict,
    job: Job,
    commit_properties: Mapping[str, str] | None,
    filesystem: Any,
    threads: int | None,
    dry_run: bool,
) -> DeleteResult:
    check_threads(threads)
    check_flags(dry_run=dry_run)
    started = time.perf_counter()
    storage = storage_of(table, filesystem)

    def plan(base: Snapshot) -> DeletePlan:
        written = write_vectors(storage, find(DeltaTable.of(base)), dry_run=dry_run)
        if dry_run:
            return DeletePlan(written)
        return DeletePlan.of(base, written, predicate=predicate, looks_at_rows=looks_at_rows)

    planned, committed = commit(
        storage, plan, on_conflict=on_conflict, job=job, commit_properties=commit_properties
    )
    return DeleteResult.of(planned or DeletePlan(), committed, started)
