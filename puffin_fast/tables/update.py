"""Sets columns of the rows for which a filter is true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from puffin_fast._api.keywords import public
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.tables.opening import open_table
from puffin_fast.verbs.options import OnConflict, Options
from puffin_fast.verbs.results import UpdateResult
from puffin_fast.verbs.update import Update

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from puffin_fast.tables.opening import TableLike


@public
def update(
    table: TableLike,
    row_filter: Filter,
    values: Mapping[str, Any],
    *,
    branch: str = "main",
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
    log_predicate: bool = True,
) -> UpdateResult:
    """Sets columns of the rows for which a filter is true, in one commit, without rewriting data files.

    The old rows are deleted by deletion vectors; the new rows are written to new data files, in the partitions of their
    new values. Updated rows keep their row ids, and get the commit's sequence number as their
    ``_last_updated_sequence_number`` (Iceberg's specification, "Row Lineage"). The matching rows are held in memory. A
    Delta table with a change data feed gets the rows before and after the update.

    Args:
        table: as `delete`.
        row_filter: a PyIceberg expression, its text, or a PyArrow expression.
        values: for each top-level column that is set, a value of Python or Arrow, or a PyArrow expression over the old
            row (``{"n": pc.field("n") + 1}``). Dates, times, decimals and UUIDs may be text. Expressions see the
            old values of all columns.
        case_sensitive: whether column names are compared with case, in the filter and in `values`.
        branch, on_conflict, job_id, snapshot_properties, threads, workers: as `delete`.
        dry_run: count rows and compute their new values, write nothing.
        log_predicate: as `delete`. The new values are never in the log.

    Returns:
        The counts; `commit` has no id when no row matched.

    Raises:
        NotFoundError: the table, a column or the branch does not exist.
        InvalidInputError: no value at all, a value that its column cannot hold, a null in a required column, or an
            identifier field: whether its new values are unique is not known.
        UnsupportedError: a Delta table has CHECK constraints, generated or identity columns; also as `delete`.
        CorruptDataError, ConflictError, CommitUnknownError: as `delete`. Iceberg's property
            ``write.update.isolation-level`` decides whether data files that a concurrent commit added conflict.

    Examples:
        >>> pf.update(table, "customer = 7", {"price": 0.0}).rows_updated  # Iceberg
        10
        >>> pf.update(path, "id < 10", {"state": "sent"}).rows_updated  # Delta
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
        log_predicate=log_predicate,
    )
    return open_table(table).run(Update(row_filter, values, case_sensitive), options, UpdateResult)
