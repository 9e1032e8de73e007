"""Updates of rows by a filter, on executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue

from puffin_fast._run.arguments import check_flags
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.dml.update import UpdateResult
from puffin_fast.iceberg.plan.files import plan_snapshot
from puffin_fast.rows.filters.filters import Filter, RowFilter
from puffin_fast.spark.dataframe.transforms import by_file
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.session.sessions import session_of
from puffin_fast.spark.table.conditions import PLACES, check_places, rows_where, sql_condition, sql_errors
from puffin_fast.spark.table.iceberg_jobs import Replaced, open_job
from puffin_fast.spark.table.job import MAIN, Job, checked_id, spread, without_metrics
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.table.scan import scan
from puffin_fast.spark.table.search import bins_to_search
from puffin_fast.spark.worker.rows import REPORT
from puffin_fast.spark.worker.tasks import pack
from puffin_fast.spark.worker.update import PLACE, ColumnNumber
from puffin_fast.verbs.options import OnConflict
from puffin_fast.verbs.update import bound_values

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyspark.sql import Column, DataFrame, SparkSession

_BODIES = "puffin_fast.spark.worker.update"


def update(
    spark: SparkSession | DataFrame,
    table: Table,
    row_filter: Filter | Column,
    values: Mapping[str, Any],
    *,
    branch: str = MAIN,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> UpdateResult:
    """`puffin_fast.iceberg.update` on executors.

    With filters of Iceberg and values of Python, Arrow or PyArrow, one task reads the rows of about 128 MiB of data
    files, and writes their deletes and the new rows: nothing is shuffled. If Spark evaluates the filter or a value, the
    positions of the rows and the values are shuffled, and the data files with updated rows are read once more. A
    task holds the rows that it updates.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs.
        row_filter: as `delete` takes it: text is Spark's SQL.
        values: as in `puffin_fast.iceberg.update`; also Columns of Spark over the old row, with the types of `scan`.
            Their values must fit the columns exactly: cast them if Spark computes them in other types. Text is a value,
            not SQL.
        branch, case_sensitive, on_conflict, job_id, snapshot_properties, dry_run: as in `puffin_fast.iceberg.update`.

    Returns:
        The same result as `puffin_fast.iceberg.update`.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.update`.

    Examples:
        >>> pf.spark.update(spark, table, "customer = 7", {"price": 0.0}).rows_updated
        10
    """
    session = session_of(spark)
    table = table_in(session, table)
    check_flags(case_sensitive=case_sensitive, dry_run=dry_run)
    request = Request(
        verb="update", branch=branch, job_id=checked_id(job_id), snapshot_properties=snapshot_properties
    )

    from pyspark.sql import Column

    job = open_job(table, request)
    assignments = bound_values(values, job.table.schema(), case_sensitive=case_sensitive)
    schema = job.table.schema()
    columns = {name: value for name, value in assignments.values.items() if isinstance(value, Column)}
    condition, row_filter = sql_condition(session, row_filter, schema)
    if condition is None and not columns:
        matcher = RowFilter.bind(row_filter, schema, case_sensitive=case_sensitive)
    else:
        check_places(schema)
        matcher = RowFilter.bind(AlwaysTrue(), schema)
    may_match = job.conflict_filter(matcher, isolation="update")

    def rows() -> DataFrame:
        def read(names: Sequence[str]) -> DataFrame:
            return scan(session, job.table, selected_fields=(*names, *PLACES), branch=request.branch)

        names = [field.name for field in schema.fields]
        if condition is None:
            selected = scan(
                session,
                job.table,
                row_filter,
                (*names, *PLACES),
                branch=request.branch,
                case_sensitive=case_sensitive,
            )
        elif columns:
            with sql_errors(row_filter):
                selected = read(names).where(condition)
        else:
            selected = rows_where(read, names, condition, row_filter)
        with sql_errors(", ".join(map(str, columns.values()))):
            return selected.select(*PLACES, *columns.values()).toDF(
                *PLACE, *(f"v{at}" for at in range(len(columns)))
            )

    def plan(base: Snapshot | None) -> Replaced:
        if base is None:
            return Replaced()
        files = plan_snapshot(
            job.table, base, schema, matcher, case_sensitive=case_sensitive, metrics=True
        ).tasks
        tasks = {task.data.file_path: without_metrics(task) for task in files}
        part = Job(job.table, job_id, "update", dry_run=dry_run)
        if not tasks:
            return Replaced()
        if condition is None and not columns:
            body = over_batches(
                _BODIES,
                "by_filter",
                target=part.target(),
                matcher=pack(matcher),
                values=pack(assignments),
                case_sensitive=case_sensitive,
            )
            report = mapped(spread(session, bins_to_search(tasks.values())), body, REPORT)
            outcomes = part.run(report, tasks)
        else:
            numbers = {name: ColumnNumber(len(PLACE) + at) for at, name in enumerate(columns)}
            body = over_batches(
                _BODIES,
                "at_positions",
                target=part.target(),
                tasks=pack(tasks),
                values=pack(replace(assignments, values={**assignments.values, **numbers})),
            )
            with sql_errors(row_filter):
                outcomes = part.run(mapped(by_file(rows()), body, REPORT), tasks)
        updated = frozenset(outcome.task.data.file_path for outcome in outcomes)
        return Replaced.of(part.changes(outcomes, may_match), part.data_files, updated)

    planned, committed = job.commit(plan, on_conflict)
    planned = planned or Replaced()
    result = job.result(planned.written, committed)
    return UpdateResult(
        rows_updated=result.rows_deleted, data_files=result.data_files, **planned.facts(result)
    )
