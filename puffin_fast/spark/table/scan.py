"""The live rows of a table as a DataFrame, read by executors with PyArrow; no jar is needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from puffin_fast.delta.log.protocol import check_text_compared
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.scans.version_state import VersionState
from puffin_fast.errors import InvalidInputError, UnsupportedError
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.rows.scan.scan import Scan
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.session.sessions import session_of
from puffin_fast.spark.session.with_session import of_session
from puffin_fast.spark.session.workers import spread
from puffin_fast.spark.table.conditions import rows_where, sql_condition
from puffin_fast.spark.table.job import bins_of_shares, shares_of
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.worker import scan as worker
from puffin_fast.spark.worker.column_types import spark_schema
from puffin_fast.tables.opening import open_table

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import Column, DataFrame, SparkSession


@of_session
def scan(
    spark: SparkSession | DataFrame,
    table: Table | Any,
    row_filter: Filter | Column = AlwaysTrue(),  # noqa: B008
    selected_fields: str | Sequence[str] = ("*",),
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
    limit: int | None = None,
    case_sensitive: bool = True,
) -> DataFrame:
    """`puffin_fast.scan` as a DataFrame: all deletes are applied.

    The scan is planned when this is called, so the snapshot is fixed; rows are read each time Spark computes the
    DataFrame. Each task reads about 128 MiB of data files; large files are split by row groups. A task holds a
    batch of 131,072 rows of the selected columns, and the deletes of its data files. Spark does not push filters
    and columns into this DataFrame: pass them here.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs; or a Delta table: its name, a path,
            a URI, deltalake's `DeltaTable`, or a `Snapshot` of `puffin_fast.delta`.
        row_filter: as in `delete`: text is Spark's SQL.
        selected_fields: as in `puffin_fast.scan`, or one name.
        snapshot_id, branch, tag, as_of, limit, case_sensitive: as in `puffin_fast.scan`.

    Returns:
        The rows in no particular order; every column is nullable. A uuid is a string, fixed is binary, a time is bigint
        (microseconds), timestamps of nanoseconds are bigint, the metadata column ``_file`` is a string; all
        others have the type of the same name.

    Raises:
        NotFoundError, InvalidInputError, UnsupportedError, CorruptDataError: as in
            `puffin_fast.scan`; errors of data files and deletes when the DataFrame is computed.
        MissingExtraError: when the DataFrame is computed, a package is missing on an executor.

    Examples:
        >>> pf.spark.scan(spark, table, "customer = 7").count()
        10
    """
    session = session_of(spark)
    opened = open_table(table_in(session, table))
    opened.need("scan", branch=branch, tag=tag)
    state = opened.state(snapshot_id=snapshot_id, branch=branch, tag=tag, as_of=as_of)
    if isinstance(state, VersionState):
        check_compared(state.snapshot, row_filter)
    if isinstance(selected_fields, str):
        selected_fields = (selected_fields,)
    condition, row_filter = sql_condition(session, row_filter, state.schema)
    if condition is None:
        found = Scan(state, row_filter, selected_fields, limit=limit, case_sensitive=case_sensitive)
        rows = _dataframe(session, found)
    else:
        answer = Scan(state, selected_fields=selected_fields, case_sensitive=case_sensitive).schema.names
        columns = Scan(state).schema.names
        nested = [name for name in selected_fields if "." in name and name not in columns]
        if nested:
            raise InvalidInputError(
                f"selected_fields {nested}: expected top-level columns, because Spark evaluates the filter"
            )

        def read(names: Sequence[str]) -> DataFrame:
            wanted = (*names, *selected_fields)
            return _dataframe(session, Scan(state, selected_fields=wanted, case_sensitive=case_sensitive))

        rows = rows_where(read, columns, condition, row_filter)
        rows = rows.select(*(f"`{name.replace('`', '``')}`" for name in answer))
    return rows if limit is None else rows.limit(limit)


def _dataframe(session: SparkSession, found: Scan) -> DataFrame:
    """The rows of a scan, read by executors."""
    schema = spark_schema(found.schema)
    shares = shares_of(found.tasks())
    if not shares:
        return session.createDataFrame([], schema)
    body = over_batches(worker.rows, reader=found.file_reader(), schema=found.schema)
    tasks = spread(session, bins_of_shares(shares))
    if schema.fields:
        return mapped(tasks, body, schema)
    return mapped(tasks, body, pa.schema([(worker.ROW, pa.bool_())])).drop(worker.ROW)


def check_compared(table: Snapshot, row_filter: object) -> None:
    """Refuses text, Columns and names of columns on columns that Spark pads; raises as `check_text_compared`."""
    if not isinstance(row_filter, BooleanExpression | ds.Expression):
        check_text_compared(table.delta_schema["fields"], str(row_filter), table.root)


def is_delta(table: Any) -> bool:
    """Whether a table is a Delta table: a path, a URI, a snapshot, or deltalake's `DeltaTable`."""
    return isinstance(table, str | os.PathLike | Snapshot) or hasattr(table, "table_uri")


def refuse(table: object, kind: str, **options: object) -> None:
    """Checks that options that a format does not have are not given.

    Raises:
        UnsupportedError: an option is given; the message names the first.
    """
    for name, value in options.items():
        if value is not None:
            raise UnsupportedError(f"{table}: a table of {kind} has no {name}, found {name}={value!r}")
