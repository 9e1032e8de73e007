"""Updates of rows by a filter, on executors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue

from puffin_fast._api.arguments import check_flags
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.rows.filters.filters import Filter, RowFilter
from puffin_fast.rows.tasks import columns_of, distinct_files
from puffin_fast.spark.dataframe.transforms import by_file
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.session.sessions import session_of
from puffin_fast.spark.session.with_session import of_session
from puffin_fast.spark.session.workers import spread
from puffin_fast.spark.table.caches import refreshing
from puffin_fast.spark.table.conditions import (
    PLACES,
    check_places,
    is_nan,
    nan_warning,
    rows_where,
    selected_from,
    sql_condition,
    sql_errors,
)
from puffin_fast.spark.table.job import MAIN, checked_id, is_small
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.table.search import bins_to_search
from puffin_fast.spark.table.spelling import timestamp_cast, values_as_in_table
from puffin_fast.spark.table.start import start
from puffin_fast.spark.table.verb import Planned
from puffin_fast.spark.worker import located
from puffin_fast.spark.worker import update as worker
from puffin_fast.spark.worker.column_types import spark_schema
from puffin_fast.spark.worker.update import PLACE, ColumnNumber
from puffin_fast.verbs.attempt import Purpose
from puffin_fast.verbs.options import OnConflict
from puffin_fast.verbs.results import UpdateResult
from puffin_fast.verbs.update import bound_values

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import Column, DataFrame, SparkSession

    from puffin_fast.rows.deletes.outcome import Outcome

_SHUFFLES = re.compile("over|window|select|exists", re.IGNORECASE)
"""The words of values whose computation may shuffle the rows: window functions and subqueries."""


@of_session
@refreshing
def update(
    spark: SparkSession | DataFrame,
    table: Table | Any,
    row_filter: Filter | Column,
    values: Mapping[str, Any],
    *,
    branch: str = MAIN,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    log_predicate: bool = True,
) -> UpdateResult:
    """`puffin_fast.iceberg.update` or `puffin_fast.delta.update` on executors.

    With filters of Iceberg and values of Python, Arrow or PyArrow, one task reads the rows of about 128 MiB of data
    files, and writes their deletes and the new rows: nothing is shuffled. Up to 256 data files of up to 32 MiB
    are updated by the driver. If Spark evaluates a value, the data files with updated rows are read once more; if it
    evaluates the filter, or a value has a window or a subquery, the positions of the rows and the values are shuffled
    before. A task holds the rows that it updates.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs; or a Delta table: its name, a path,
            a URI, or deltalake's `DeltaTable`. Its change data feed has an updated row as a delete and an insert.
        row_filter: as `delete` takes it: text is Spark's SQL.
        values: as in `puffin_fast.iceberg.update`; also Columns of Spark over the old row, with the types of `scan`.
            Their values must fit the columns exactly: cast them if Spark computes them in other types. Text is a value,
            not SQL.
        branch, case_sensitive, on_conflict, job_id, snapshot_properties, dry_run: as in `puffin_fast.iceberg.update`.
        log_predicate: as in `delete`.

    Returns:
        The same result as `puffin_fast.iceberg.update` or `puffin_fast.delta.update`. `warning` says if rows with NaN
        were updated that other engines do not update.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.update`.

    Examples:
        >>> pf.spark.update(spark, table, "customer = 7", {"price": 0.0}).rows_updated
        10
    """
    session = session_of(spark)
    table = table_in(session, table)
    check_flags(case_sensitive=case_sensitive, dry_run=dry_run, log_predicate=log_predicate)
    request = Request(
        verb="update", branch=branch, job_id=checked_id(job_id), snapshot_properties=snapshot_properties
    )

    from pyspark.sql import Column

    job = start(session, table, request)
    schema = job.schema()
    values = values_as_in_table(session, values, schema)
    assignments = bound_values(values, schema, case_sensitive=case_sensitive)
    columns = {name: value for name, value in assignments.values.items() if isinstance(value, Column)}
    job.check_compared(row_filter)
    condition, row_filter = sql_condition(session, row_filter, schema)
    matcher = RowFilter.bind(
        row_filter if condition is None else AlwaysTrue(), schema, case_sensitive=case_sensitive
    )
    if condition is not None or columns:
        check_places(schema)
    job.check_rows()
    shown = ", ".join(map(str, columns.values()))
    logged = [str(row_filter)] if log_predicate else None
    purpose = Purpose("UPDATE", logged, matcher, isolation="update", inserts=True)

    def rows() -> DataFrame:
        def read(names: Sequence[str]) -> DataFrame:
            return job.scan(session, (*names, *PLACES))

        def matching(names: Sequence[str]) -> DataFrame:
            return job.scan(session, (*names, *PLACES), row_filter, case_sensitive=case_sensitive)

        names = [field.name for field in schema.fields]
        if condition is None:
            found = selected_from(matching, names, [*PLACES, *columns.values()], shown)
        elif columns:
            with sql_errors(row_filter):
                selected = read(names).where(condition)
            with sql_errors(shown):
                found = selected.select(
                    *PLACES, *columns.values(), *is_nan(selected, schema, str(row_filter))
                )
        else:
            selected = rows_where(read, names, condition, row_filter)
            found = selected.select(*PLACES, *is_nan(selected, schema, str(row_filter)))
        return named(found)

    def named(found: DataFrame) -> DataFrame:
        found = found.toDF(*PLACE, *(f"v{at}" for at in range(len(found.columns) - len(PLACE))))
        casts = {  # a column more is that of `is_nan`
            field.name: found[field.name].cast(to)
            for name, field in zip(columns, found.schema.fields[len(PLACE) :], strict=False)
            if (to := timestamp_cast(field.dataType, schema.find_type(name)))
        }
        return found.withColumns(casts) if casts else found

    def numbered(part: Any, tasks: Sequence[Any]) -> DataFrame:
        names = [*(field.name for field in schema.fields), *PLACES]
        first_two = ["_" * (1 + max(map(len, names))) + name for name in ("number", "packed")]

        def read(some: Sequence[str]) -> DataFrame:
            view = part.executor_view()
            found = [pa.field(first_two[0], pa.int64()), pa.field(first_two[1], pa.binary())]
            body = over_batches(located.numbered, target=view, matcher=matcher, names=[*some])
            kinds = spark_schema(pa.schema([*found, *located.column_schema(view, some)]))
            return mapped(spread(session, bins_to_search(tasks)), body, kinds)

        return named(selected_from(read, names, [*first_two, *columns.values()], shown))

    n_nan = 0

    def plan(base: Any) -> Planned:
        nonlocal n_nan
        job.check_schema(schema)
        tasks = distinct_files(columns_of(job.pruned(base, matcher)))
        part = job.part(purpose, dry_run=dry_run, kind="update")
        outcomes: list[Outcome] = []
        if tasks and condition is None and not columns:
            if is_small(tasks):
                every = [*tasks]
                outcomes = part.run_here(
                    lambda target: worker.updated(every, target, matcher, assignments), tasks
                )
            else:
                bins = spread(session, bins_to_search(tasks))
                reports = part.reports(bins, worker.by_filter, matcher=matcher, values=assignments)
                outcomes = part.run(reports, tasks)
        elif tasks:
            job.reads = None
            numbers = {name: ColumnNumber(len(PLACE) + at) for at, name in enumerate(columns)}
            given = replace(assignments, values={**assignments.values, **numbers})
            with sql_errors(row_filter):
                if condition is None and not _SHUFFLES.search(shown):
                    found = numbered(part, tasks)
                    reports = part.reports(found, worker.with_values, values=given)
                else:
                    selected = rows()
                    n_columns = len(PLACE) + len(columns)
                    nan = n_columns if len(selected.columns) > n_columns else None
                    reports = part.reports(
                        by_file(selected), worker.at_positions, tasks=tasks, values=given, nan=nan
                    )
                outcomes = part.run(reports, tasks)
        n_nan = part.report.n_nan
        if job.reads is not None:
            job.reads += part.report.reads
        updated = frozenset(outcome.task.data.file_path for outcome in outcomes)
        metrics = {"numUpdatedRows": sum(one.n_new for one in outcomes)}
        planned = part.planned(outcomes, part.report.entries, updated, metrics)
        return planned.counting(rows_updated=planned.counts.rows_deleted)

    result = job.run(plan, on_conflict, UpdateResult)
    if n_nan:
        result = replace(result, warning=nan_warning(job.name, n_nan, "update"))
    return result  # type: ignore[no-any-return]
