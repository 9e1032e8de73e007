"""Updates rows by a filter in one commit: vectors for the old rows, data files for the new ones."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from puffin_fast._show.html import HtmlFields
from puffin_fast.delta.dml.attempt import DeltaAttempt
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.rows.scan.explain import Explanation
from puffin_fast.verbs.options import OnConflict, Options
from puffin_fast.verbs.update import Update


@dataclass(frozen=True)
class UpdateResult(HtmlFields):
    """The result of an update.

    Attributes:
        version: the new version; None if no row matched, and nothing was committed.
        rows_updated: number of rows that matched.
        data_files: number of data files with newly deleted rows, removed ones included.
        data_files_written: number of data files with the new rows.
        vectors_written: number of deletion vectors written.
        n_bytes: size of the files of vectors.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the log already, and nothing was done.
        warning: on Spark, whether rows were updated that other engines do not update; else None.
        explanation: what was read, and what each step left out; None if no data file was searched, or if Spark
            evaluates the filter or a value.
    """

    version: int | None
    rows_updated: int = 0
    data_files: int = 0
    data_files_written: int = 0
    vectors_written: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False
    warning: str | None = None
    explanation: Explanation | None = field(default=None, repr=False, compare=False)


def update(
    table: Any,
    row_filter: Filter,
    values: Mapping[str, Any],
    *,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
    log_predicate: bool = True,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> UpdateResult:
    """Sets columns of the rows for which a filter is true, in one commit, without rewriting data files.

    The old rows are deleted by deletion vectors; the new rows are written to new data files and keep the row ids. The
    matching rows are held in memory. A table with a change data feed gets the rows before and after the update.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        row_filter: a PyIceberg expression, its text, or a PyArrow expression.
        values: for each column that is set, a value of Python or Arrow, or a PyArrow expression over the old row
            (``{"n": pc.field("n") + 1}``).
        case_sensitive, on_conflict, job_id, snapshot_properties, threads, workers, filesystem, storage_options: as
            `delete`.
        dry_run: count rows and compute their new values, write nothing.
        log_predicate: as `delete`. The new values are never in ``commitInfo``.

    Returns:
        The counts; `version` is None if no row matched.

    Raises:
        NotFoundError: the table or a column does not exist.
        InvalidInputError: there are no values, a value does not fit its column, or a required column gets a null.
        UnsupportedError: the table has CHECK constraints, generated or identity columns; also as `delete`.
        CorruptDataError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> pf.delta.update(path, "id < 10", {"state": "sent"}).rows_updated
        10
    """
    options = Options(
        verb="update",
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        workers=workers,
        dry_run=dry_run,
        log_predicate=log_predicate,
    )
    action = Update(row_filter, values, case_sensitive)
    return DeltaAttempt(table, options, filesystem, storage_options).run(action, UpdateResult)
