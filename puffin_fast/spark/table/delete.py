"""Deletes by a filter or by positions, searched and written by executors.

The driver plans and commits. Executors read data files and earlier deletes, and write Puffin files, or Parquet
files in tables of format version 2. Each run writes to a folder of its own in the table's data folder. No jar is
needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue

from puffin_fast._api.arguments import check_flags
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.rows.filters.filters import Filter, RowFilter
from puffin_fast.rows.tasks import Task, columns_of, distinct_files, paths_of
from puffin_fast.spark.dataframe.transforms import TASK_MEMORY, by_file, check_memory
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.session.sessions import INTEGERS, check_dataframe, session_of, take
from puffin_fast.spark.session.with_session import of_dataframe, of_session
from puffin_fast.spark.table.caches import refreshing
from puffin_fast.spark.table.conditions import (
    PLACES,
    check_places,
    is_nan,
    nan_warning,
    rows_where,
    sql_condition,
    sql_errors,
)
from puffin_fast.spark.table.job import MAIN, checked_id, task_rows
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.table.search import searched
from puffin_fast.spark.table.start import start
from puffin_fast.spark.table.verb import Planned, Verb
from puffin_fast.spark.worker.known_files import mark, pack_files
from puffin_fast.spark.worker.marked import MARKED
from puffin_fast.spark.worker.tasks import extend
from puffin_fast.verbs.attempt import Purpose
from puffin_fast.verbs.options import OnConflict
from puffin_fast.verbs.results import DeleteResult

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import Column, DataFrame, SparkSession

_LOG = logging.getLogger(__name__)

POSITIONS = ("file_path", "pos")
"""The default names of the columns of positions."""


@of_session
@refreshing
def delete(
    spark: SparkSession | DataFrame,
    table: Table | Any,
    row_filter: Filter | Column,
    *,
    branch: str = MAIN,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    log_predicate: bool = True,
) -> DeleteResult:
    """`puffin_fast.iceberg.delete` on executors.

    One task searches a data file and writes its deletion vector, so nothing is shuffled. A task holds a batch of
    the filter's columns and the deletion vectors of one Puffin file.

    Text is Spark SQL with the settings of the session: it may have functions, arithmetic and subqueries, the case of
    names is ignored, and NaN is larger than every number. Text and Columns are evaluated by Spark on the live rows of
    all data files, with the columns of `scan`; the matching rows are deleted as by `delete_positions`. Simple text
    (columns of integers, strings, dates or booleans compared with literals of their type) means the same in Iceberg,
    and prunes data files. A PyIceberg expression always prunes data files, and compares NaN as in docs/filters.md.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs; or a Delta table: its name, a path,
            a URI, or deltalake's `DeltaTable`. It has no branches; `snapshot_properties` are entries of ``commitInfo``.
        row_filter: Spark's SQL, a Column, a PyIceberg expression or a PyArrow expression.
        branch, case_sensitive, on_conflict, job_id, snapshot_properties, dry_run: as in `puffin_fast.iceberg.delete`.
        log_predicate: as in `puffin_fast.delta.delete`. Snapshots of Iceberg never have the filter.

    Returns:
        The same result as `puffin_fast.iceberg.delete`, or for a Delta table as `puffin_fast.delta.delete`. `warning`
        says if rows with NaN were deleted that other engines do not delete.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.delete`.

    Examples:
        >>> pf.spark.delete(spark, table, "customer % 5 = 2").rows_deleted
        20
    """
    session = session_of(spark)
    table = table_in(session, table)
    check_flags(case_sensitive=case_sensitive, dry_run=dry_run, log_predicate=log_predicate)
    request = Request(
        verb="delete", branch=branch, job_id=checked_id(job_id), snapshot_properties=snapshot_properties
    )
    job = start(session, table, request)
    job.check_compared(row_filter)
    condition, row_filter = sql_condition(session, row_filter, job.schema())
    if condition is not None:
        check_places(job.schema())

        def rows() -> DataFrame:
            def read(names: Sequence[str]) -> DataFrame:
                return job.scan(session, (*names, *PLACES))

            columns = [field.name for field in job.schema().fields]
            found = rows_where(read, columns, condition, row_filter)
            return found.select(*PLACES, *is_nan(found, job.schema(), str(row_filter)))

        every = Purpose("DELETE", matcher=RowFilter.bind(AlwaysTrue(), job.schema()))
        with sql_errors(row_filter):
            return _by_position(
                job,
                rows,
                PLACES,
                on_conflict,
                strict=True,
                purpose=every,
                dry_run=dry_run,
            )

    bound = RowFilter.bind(row_filter, job.schema(), case_sensitive=case_sensitive)
    purpose = Purpose("DELETE", [str(row_filter)] if log_predicate else None, bound)

    def work(tasks: Sequence[Task]) -> Planned:
        part = job.part(purpose, dry_run=dry_run)
        return part.planned(searched(session, part, tasks, job.finder(bound)))

    return job.run_delete(bound, work, on_conflict)  # type: ignore[no-any-return]


@of_dataframe
@refreshing
def delete_positions(
    deletes_df: DataFrame,
    table: Table | Any,
    *,
    file_path: str = "file_path",
    pos: str = "pos",
    strict: bool = False,
    branch: str = MAIN,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    task_memory: int = TASK_MEMORY,
) -> DeleteResult:
    """`puffin_fast.iceberg.delete_positions` for the rows of a DataFrame.

    Rows are checked and encoded as partial vectors before the shuffle; no file is written before all rows were
    checked. When another commit comes first, the DataFrame is computed again.

    Args:
        deletes_df: one row per deleted position, in any order; duplicates and rows that are already deleted are
            allowed.
        table: as `delete` takes it.
        file_path: the column with the data file's path exactly as the table has it, string. A DataFrame without columns
            of the default names may have the columns ``_file`` and ``_pos`` of `scan`.
        pos: the column with the row's position in that file, 0-based; any integer type.
        strict: whether rows of files that the branch does not have are an error; otherwise they are skipped and
            counted.
        branch, on_conflict, job_id, snapshot_properties, dry_run: as in `puffin_fast.iceberg.delete_positions`.
        task_memory: as for `encode_deletes`.

    Returns:
        The same result as `puffin_fast.iceberg.delete_positions`; `rows_dangling` is the number of skipped rows.

    Raises:
        NotFoundError: a column does not exist; ``strict``, and a path is not a live data file.
        InvalidInputError: a column has another type; a null; a position is negative or past the end of its
            data file.
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as in
            `puffin_fast.iceberg.delete_positions`.

    Examples:
        >>> found = pf.spark.scan(spark, table, "id < 10", ["_file", "_pos"])
        >>> pf.spark.delete_positions(found, table).rows_deleted
        10
    """
    table = table_in(check_dataframe(deletes_df).sparkSession, table)
    columns = set(deletes_df.columns)
    if (file_path, pos) == POSITIONS and columns.isdisjoint(POSITIONS) and columns.issuperset(PLACES):
        file_path, pos = PLACES
    rows = deletes_df.select(
        take(deletes_df, file_path, ("string",), to="file_path"),
        take(deletes_df, pos, INTEGERS, to="pos", cast="long"),
    )
    check_memory(task_memory)
    check_flags(strict=strict, dry_run=dry_run)
    request = Request(
        verb="delete_positions",
        branch=branch,
        job_id=checked_id(job_id),
        snapshot_properties=snapshot_properties,
    )
    job = start(deletes_df.sparkSession, table, request)
    names = (file_path, pos)
    return _by_position(
        job,
        lambda: rows,
        names,
        on_conflict,
        strict=strict,
        purpose=Purpose("DELETE"),
        dry_run=dry_run,
        task_memory=task_memory,
    )


def _by_position(
    job: Verb,
    rows: Callable[[], DataFrame],
    names: tuple[str, str],
    on_conflict: OnConflict,
    *,
    strict: bool,
    dry_run: bool,
    purpose: Purpose,
    task_memory: int = TASK_MEMORY,
) -> DeleteResult:
    """Deletes the rows that a DataFrame names.

    Args:
        job: the job, before its first attempt.
        rows: returns (file_path string, pos long) for the current state of the table; called once for each attempt.
        names: the caller's names of these two columns, for errors.
    """

    n_nan = 0

    def plan(base: Any) -> Planned:
        nonlocal n_nan
        tasks = distinct_files(columns_of(job.tasks(base)))
        paths = paths_of(tasks)
        part, deletes = job.part(purpose, dry_run=dry_run), rows()
        marked = mapped(
            deletes,
            over_batches(
                mark,
                names=names,
                memory=task_memory,
                files=pack_files(paths, [*tasks.column("data").values("record_count")] if paths else []),
                strict=strict,
            ),
            MARKED,
        )
        rows_of_tasks, common = task_rows(deletes.sparkSession, paths, tasks)
        marked = marked.unionAll(rows_of_tasks)
        reports = part.reports(by_file(marked), extend, memory=task_memory, common=common)
        outcomes = part.run(reports, tasks)
        n_nan = part.report.n_nan
        return part.planned(outcomes)

    result: DeleteResult = job.run(plan, on_conflict, DeleteResult)
    if n_nan:
        result = replace(result, warning=nan_warning(job.name, n_nan, "delete"))
    if result.rows_dangling:
        _LOG.warning(
            "%s: %d rows name no data file of branch %s",
            job.name,
            result.rows_dangling,
            job.request.branch,
        )
    return result
