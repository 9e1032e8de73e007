"""The live rows of a table as a DataFrame, read by executors with PyArrow; no jar is needed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue

from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.predicate.filters import Filter
from puffin_fast.iceberg.scan.scan import scan as scan_here
from puffin_fast.spark.session.executor_calls import over_batches
from puffin_fast.spark.session.sessions import session_of
from puffin_fast.spark.table.conditions import rows_where, sql_condition
from puffin_fast.spark.table.job import bins_of, forgetful, share_bytes, shares_of, spread, without_metrics
from puffin_fast.spark.worker.column_types import spark_schema
from puffin_fast.spark.worker.scan import ROW
from puffin_fast.spark.worker.tasks import pack

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["scan"]


def scan(
    spark: SparkSession | DataFrame,
    table: Table,
    row_filter: Filter | Column = AlwaysTrue(),  # noqa: B008
    selected_fields: Sequence[str] = ("*",),
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
    limit: int | None = None,
    case_sensitive: bool = True,
) -> DataFrame:
    """`puffin_fast.iceberg.scan` as a DataFrame: all deletes are applied.

    The scan is planned when this is called, so the snapshot is fixed; rows are read each time Spark computes the
    DataFrame. Each task reads about 128 MiB of data files; large files are split by row groups. A task holds a
    batch of 131,072 rows of the selected columns, and the deletes of its data files. Spark does not push filters
    and columns into this DataFrame: pass them here.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO.
        row_filter: as `delete` takes it: text is Spark's SQL.
        selected_fields, snapshot_id, branch, tag, as_of, limit, case_sensitive: as there.

    Returns:
        The rows in no particular order; every column is nullable. A uuid is a string, fixed is binary, a time is bigint
        (microseconds), timestamps of nanoseconds are bigint, the metadata column ``_file`` is a string; all
        others have the type of the same name.

    Raises:
        NotFoundError, InvalidInputError, UnsupportedError, CorruptDataError: as there; errors of data files and
            deletes when the DataFrame is computed.
        MissingExtraError: when the DataFrame is computed, a package is missing on an executor.
    """
    session = session_of(spark)
    condition = sql_condition(row_filter, table.schema())
    if condition is not None:
        options: dict[str, Any] = {
            "snapshot_id": snapshot_id,
            "branch": branch,
            "tag": tag,
            "as_of": as_of,
            "case_sensitive": case_sensitive,
        }
        answer = scan_here(table, selected_fields=selected_fields, **options).schema.names
        columns = scan_here(table, **options).schema.names
        nested = [name for name in selected_fields if "." in name and name not in columns]
        if nested:
            raise InvalidInputError(
                f"selected_fields {nested}: whole columns where Spark evaluates the filter"
            )

        def read(names: Sequence[str]) -> DataFrame:
            return scan(session, table, selected_fields=(*names, *selected_fields), **options)

        rows = rows_where(read, columns, condition, row_filter)
        rows = rows.select(*(f"`{name.replace('`', '``')}`" for name in answer))
        return rows if limit is None else rows.limit(limit)
    found = scan_here(
        table,
        row_filter,
        selected_fields,
        snapshot_id=snapshot_id,
        branch=branch,
        tag=tag,
        as_of=as_of,
        limit=limit,
        case_sensitive=case_sensitive,
    )
    schema = spark_schema(found.schema)
    shares = [share for task in found.plan.tasks for share in shares_of(without_metrics(task))]
    if not shares:
        return session.createDataFrame([], schema)
    body = over_batches(
        "puffin_fast.spark.worker.scan",
        "rows",
        reader=pack(found.reader(forgetful(table.metadata))),
        schema=pack(found.schema),
    )
    tasks = spread(session, bins_of(shares, share_bytes))
    rows = (
        tasks.mapInArrow(body, schema)
        if schema.fields
        else tasks.mapInArrow(body, f"{ROW} boolean").drop(ROW)
    )
    return rows if limit is None else rows.limit(limit)
