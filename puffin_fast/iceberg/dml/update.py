"""Updates rows by a filter: commits deletes of the old rows and data files of the new rows together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast._show.html import HtmlFields
from puffin_fast.iceberg.dml.attempt import IcebergAttempt
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.verbs.options import OnConflict, Options
from puffin_fast.verbs.update import Update

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.table import Table

    from puffin_fast.rows.scan.explain import Explanation


@dataclass(frozen=True)
class UpdateResult(HtmlFields):
    """The result of an update.

    Attributes:
        snapshot_id: the new snapshot; None when no row matched, and nothing was committed.
        rows_updated: number of rows that matched.
        data_files: number of data files with updated rows, removed ones included.
        data_files_written: number of data files with the new rows.
        delete_files_written: number of deletion vectors, or of position-delete files in a table of format version 2.
        n_bytes: size of the new delete files in bytes.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the branch's history already, and nothing was done.
        warning: on Spark, whether rows were updated that other engines do not update; else None.
        explanation: what was read, and what each step left out; None if no data file was searched, or if Spark
            evaluates the filter or a value.
    """

    snapshot_id: int | None
    rows_updated: int = 0
    data_files: int = 0
    data_files_written: int = 0
    delete_files_written: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False
    warning: str | None = None
    explanation: Explanation | None = field(default=None, repr=False, compare=False)


def update(
    table: Table,
    row_filter: Filter,
    values: Mapping[str, Any],
    *,
    branch: str = MAIN_BRANCH,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
) -> UpdateResult:
    """Sets columns of the rows for which a filter is true, in one commit, without rewriting data files.

    The old rows are deleted by deletion vectors; the new rows are written to new data files, in the partitions of their
    new values.
    Updated rows keep their row ids, and have the commit's sequence number as their ``_last_updated_sequence_number``
    (format version 3, specification, "Row Lineage"). The matching rows are held in memory.

    Args:
        table: a PyIceberg table of format version 3, or 2 (which gets position-delete files). It is refreshed first,
            and has the new metadata afterwards.
        row_filter: a PyIceberg expression, its text, or a PyArrow expression, as for `scan`.
        values: for each top-level column that is set, a value of Python or Arrow, or a PyArrow expression over the old
            row (``{"n": pc.field("n") + 1}``). Dates, times, decimals and UUIDs may be text. Expressions see the
            old values of all columns.
        branch, on_conflict, job_id, snapshot_properties, threads, workers: as `delete`.
        case_sensitive: whether column names are compared with case, in the filter and in `values`.
        dry_run: count rows and compute their new values, write nothing.

    Returns:
        The counts; `snapshot_id` is None when no row matched.

    Raises:
        NotFoundError: a column or the branch does not exist.
        InvalidInputError: no value at all, a value that its column cannot hold, a null in a required column, or an
            identifier field: whether its new values are unique is not known.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`. Property
            ``write.update.isolation-level`` decides whether data files that a concurrent commit added conflict.

    Examples:
        >>> pf.iceberg.update(table, "customer = 7", {"price": 0.0}).rows_updated
        10
    """
    options = Options(
        verb="update",
        branch=branch,
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        workers=workers,
        dry_run=dry_run,
    )
    action = Update(row_filter, values, case_sensitive)
    return IcebergAttempt(table, options).run(action, UpdateResult)
