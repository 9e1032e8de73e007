"""Rows deleted without rewriting data files: by a filter, by file and position, or by keys."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from puffin_fast._runtime.threads import check_threads, on_threads
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.delta.dml.changes import Written, actions_of, write_vectors
from puffin_fast.delta.log.commit import Changes, OnConflict, commit
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.log.storage import storage_of
from puffin_fast.delta.read.plan import DeltaPlan, DeltaTable, plan_files
from puffin_fast.dv import delta as codec
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg.deletes.loader import DeleteLoader
from puffin_fast.iceberg.deletes.outcome import NewDeletes
from puffin_fast.iceberg.dml.delete import group_positions
from puffin_fast.iceberg.dml.delete_keys import Keys
from puffin_fast.iceberg.dml.row_search import Finder
from puffin_fast.iceberg.predicate.filters import Filter, Matcher, RowFilter

__all__ = ["DeleteResult", "delete", "delete_keys", "delete_positions"]


@dataclass(frozen=True)
class DeleteResult:
    """What a delete did.

    Attributes:
        version: the new version; None when no row was there to delete, and so nothing was committed.
        rows_deleted: rows that were not deleted before.
        data_files: data files that lost rows, those that lost all of them included.
        data_files_dropped: data files that lost all rows and left the table.
        vectors_written: deletion vectors written.
        vectors_merged: those of them that took over earlier deletes of their data file.
        n_bytes: bytes of the files of vectors.
        seconds: wall time.
        attempts: versions tried; 1 without a race, 0 without a commit.
        repeated: the job id was in the log already, and nothing was done.
    """

    version: int | None
    rows_deleted: int = 0
    data_files: int = 0
    data_files_dropped: int = 0
    vectors_written: int = 0
    vectors_merged: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False


def delete(
    table: Any,
    row_filter: Filter,
    *,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    commit_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
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

    def bind(base: DeltaTable) -> Matcher:
        return RowFilter.bind(row_filter, base.schema.schema, case_sensitive=case_sensitive)

    return _delete_matching(
        table,
        bind,
        predicate=row_filter if isinstance(row_filter, str) else str(row_filter),
        case_sensitive=case_sensitive,
        on_conflict=on_conflict,
        job_id=job_id,
        commit_properties=commit_properties,
        threads=threads,
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
        on_conflict, job_id, commit_properties, threads, filesystem: as `delete`.
        dry_run: count rows and data files, write nothing.

    Returns:
        What was done; `version` is None when no row matched.

    Raises:
        NotFoundError: a column that is not there, in the table or in the keys.
        InvalidInputError: a column that cannot be a key, or keys of a type that does not compare with the column's.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.
    """
    names = [on] if isinstance(on, str) else list(on)
    bound: Keys | None = None

    def bind(base: DeltaTable) -> Matcher:
        nonlocal bound
        if bound is None:  # a stream of keys can be read once
            bound = Keys.bind(base.metadata, keys, names, null_safe=null_safe)
        return bound

    return _delete_matching(
        table,
        bind,
        predicate=f"key ({', '.join(names)}) in keys",
        case_sensitive=True,
        on_conflict=on_conflict,
        job_id=job_id,
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
    filesystem: Any = None,
) -> DeleteResult:
    """Deletes rows named by data file and position, in one commit; repeats and deleted rows do no harm.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        deletes: Arrow rows with columns ``file_path`` (as a scan's ``_file`` has it, or relative to the table) and
            ``pos`` (integer), in any order.
        on_conflict, job_id, commit_properties, threads, filesystem: as `delete`.

    Returns:
        What was done; `version` is None when all the rows were deleted already.

    Raises:
        InvalidInputError: a column is missing, a null, a negative position, or one that its data file does not have.
        NotFoundError: a path that is no live data file.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.
    """
    wanted = group_positions(deletes)

    def find(base: DeltaTable) -> tuple[DeltaPlan, Iterable[NewDeletes]]:
        plan = plan_files(base)
        storage = base.snapshot.storage
        tasks = {task.data.file_path: task for task in plan.tasks}
        found: dict[str, PositionBitmap] = {}
        for path, positions in wanted.items():
            location = path if path in tasks else storage.location(path)
            task = tasks.get(location) or tasks.get(f"{storage.root}/{unquote(path)}")
            if task is None:
                raise NotFoundError(f"{path}: no data file of version {base.snapshot.version}")
            if positions.max() >= task.data.record_count:
                raise InvalidInputError(
                    f"{path}: position {positions.max()}, but the file has {task.data.record_count} rows"
                )
            known = found.get(task.data.file_path)
            found[task.data.file_path] = positions if known is None else known | positions
        current = DeleteLoader(storage, codec.decode)

        def merge(path: str) -> NewDeletes:
            return NewDeletes.merge(tasks[path], found[path], current)

        return plan, on_threads(merge, list(found), threads)

    return _run(
        table,
        find,
        predicate=None,
        looks_at_rows=False,
        threads=threads,
        on_conflict=on_conflict,
        job_id=job_id,
        commit_properties=commit_properties,
        filesystem=filesystem,
    )


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

    def find(base: DeltaTable) -> tuple[DeltaPlan, Iterable[NewDeletes]]:
        matcher = bind(base)
        plan = plan_files(base, matcher, case_sensitive=case_sensitive, metrics=True)
        finder = Finder(
            base.snapshot.storage,
            base.metadata,
            matcher,
            case_sensitive,
            by_name=base.schema.by_name,
            decode=codec.decode,
        )
        return plan, finder.search(plan.tasks, threads)

    return _run(table, find, predicate=predicate, looks_at_rows=True, threads=threads, **options)


def _run(
    table: Any,
    find: Callable[[DeltaTable], tuple[DeltaPlan, Iterable[NewDeletes]]],
    *,
    predicate: str | None,
    looks_at_rows: bool,
    on_conflict: OnConflict,
    job_id: str | None,
    commit_properties: Mapping[str, str] | None,
    filesystem: Any,
    threads: int | None,
    dry_run: bool = False,
) -> DeleteResult:
    check_threads(threads)
    started = time.perf_counter()
    storage = storage_of(table, filesystem)
    written = Written()

    def plan(base: Snapshot) -> Changes | None:
        nonlocal written
        files, found = find(DeltaTable.of(base))
        written = write_vectors(storage, found, dry_run=dry_run)
        if dry_run or not written.changes:
            return None
        actions, touched = actions_of(base, files, written)
        return Changes(
            actions,
            "DELETE",
            touched,
            written.files,
            {"predicate": json.dumps([] if predicate is None else [predicate])},
            {
                "numDeletedRows": written.rows,
                "numRemovedFiles": written.dropped,
                "numAddedFiles": 0,
                "numDeletionVectorsAdded": len(written.changes) - written.dropped,
                "numDeletionVectorsRemoved": sum(new.task.vector is not None for new, _ in written.changes),
                "numDeletionVectorsUpdated": written.merged,
            },
            looks_at_rows,
        )

    done = commit(storage, plan, on_conflict=on_conflict, job_id=job_id, commit_properties=commit_properties)
    if done.repeated:
        written = Written()
    return DeleteResult(
        done.version,
        written.rows,
        len(written.changes),
        written.dropped,
        len(written.changes) - written.dropped,
        written.merged,
        written.n_bytes,
        time.perf_counter() - started,
        done.attempts,
        done.repeated,
    )
