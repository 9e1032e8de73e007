"""The changes of a table as a DataFrame: planned on the driver, read by executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue

from puffin_fast._pyiceberg.metadata import without_history
from puffin_fast.rows.changes.states import CommitChanges, FileChange
from puffin_fast.rows.scan.bins import bins_of_tasks
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.session.sessions import session_of
from puffin_fast.spark.session.with_session import of_session
from puffin_fast.spark.session.workers import TASK_BYTES, spread
from puffin_fast.spark.table.conditions import check_meaning
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.worker.changes import lines
from puffin_fast.spark.worker.column_types import spark_schema
from puffin_fast.tables.changes import changes as changes_here

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from puffin_fast.rows.changes.change_scan import Changes
    from puffin_fast.rows.changes.lines import ChangeReader
    from puffin_fast.rows.filters.filters import Filter
    from puffin_fast.rows.tasks import Task


PAIRED_BYTES = 256 << 20
"""Memory in which a task pairs rows, bytes."""


@of_session
def changes(
    spark: SparkSession | DataFrame,
    table: Table | Any,
    from_snapshot_id_exclusive: int | None = None,
    to_snapshot_id_inclusive: int | None = None,
    *,
    from_timestamp_exclusive: int | str | datetime | None = None,
    to_timestamp_inclusive: int | str | datetime | None = None,
    branch: str | None = None,
    tag: str | None = None,
    net: bool = False,
    updates: bool = True,
    join_cols: str | Sequence[str] | None = None,
    row_filter: Filter = AlwaysTrue(),  # noqa: B008
    selected_fields: Sequence[str] = ("*",),
    case_sensitive: bool = True,
) -> DataFrame:
    """`puffin_fast.changes` as a DataFrame.

    The changes are planned when this is called, so the range is fixed; rows are read each time Spark computes the
    DataFrame. Each task reads commits, or parts of a commit that only inserts or only deletes, whose data files have
    about 128 MiB. A commit that does both is read by one task, which pairs its rows in 256 MiB, or the memory that
    ``puffin-fast.limit.key-bytes`` sets if that is less, and divides more among temporary files.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs; or a Delta table: its name, a path,
            a URI, deltalake's `DeltaTable`, or a `Snapshot` of `puffin_fast.delta`.
        from_snapshot_id_exclusive, to_snapshot_id_inclusive, from_timestamp_exclusive, to_timestamp_inclusive, branch,
            tag: as in `puffin_fast.changes`.
        net, updates, join_cols, selected_fields, case_sensitive: as in `puffin_fast.changes`.
        row_filter: as in `puffin_fast.changes`. Text that may have another meaning in Spark's SQL is refused.

    Returns:
        The lines in no particular order; every column is nullable. Their types are those of `puffin_fast.spark.scan`.

    Raises:
        NotFoundError, InvalidInputError, UnsupportedError, CorruptDataError: as in `puffin_fast.changes`;
            errors of data files and deletes when the DataFrame is computed.
        MissingExtraError: when the DataFrame is computed, a package is missing on an executor.

    Examples:
        >>> before = table.current_snapshot().snapshot_id
        >>> pf.iceberg.delete(table, "id = 7").rows_deleted
        1
        >>> pf.spark.changes(spark, table, before).select("id", "_change_type").collect()
        [Row(id=7, _change_type='delete')]
    """
    session = session_of(spark)
    found = changes_here(
        table_in(session, table),
        from_snapshot_id_exclusive,
        to_snapshot_id_inclusive,
        from_timestamp_exclusive=from_timestamp_exclusive,
        to_timestamp_inclusive=to_timestamp_inclusive,
        branch=branch,
        tag=tag,
        net=net,
        updates=updates,
        join_cols=join_cols,
        row_filter=row_filter,
        selected_fields=selected_fields,
        case_sensitive=case_sensitive,
    )
    check_meaning(row_filter, found.table_schema)
    schema, bins = spark_schema(found.schema), change_bins(found)
    if not bins:
        return session.createDataFrame([], schema)
    body = over_batches(lines, reader=reader_of(found))
    return mapped(spread(session, bins), body, schema)


def reader_of(found: Changes) -> ChangeReader:
    """Returns the reader of changes for executors."""
    reader = found.change_reader(without_history(found.metadata))
    pairing = replace(reader.pairing, limit=min(reader.pairing.limit, PAIRED_BYTES))
    return replace(reader, pairing=pairing, threads=1)


def change_bins(found: Changes) -> list[list[CommitChanges]]:
    """Groups the changes of commits, or parts of them, so that each group is a task of `TASK_BYTES` or one item."""
    parts = [part for changes in found.plan for part in _parts_of(changes, found)]
    return bins_of_tasks(parts, _tasks_of, TASK_BYTES)


def _tasks_of(changes: CommitChanges) -> list[Task]:
    return [*changes.feed, *(side for change in changes.files for side in _sides(change))]


def _parts_of(changes: CommitChanges, found: Changes) -> Iterator[CommitChanges]:
    """Splits a large commit into its data files if none of its rows can be paired; otherwise yields the commit."""
    n_bytes = sum(task.data.file_size_in_bytes for task in _tasks_of(changes))
    if n_bytes > TASK_BYTES and not changes.feed and _has_one_side(changes.files, found):
        yield from (replace(changes, files=[change]) for change in changes.files)
    elif changes.files or changes.feed:
        yield changes


def _has_one_side(files: Sequence[FileChange], found: Changes) -> bool:
    """Whether rows are only inserted or only deleted. Reads deletion vectors, but no data files."""
    deletes = any(change.after is None for change in files)
    inserts = any(change.before is None for change in files)
    both = [change for change in files if change.before is not None and change.after is not None]
    if (deletes and inserts) or any(task.equality_deletes for change in both for task in _sides(change)):
        return False
    rows = found.change_reader().states.changed_rows(both)
    return not ((deletes or rows.deleted) and (inserts or rows.inserted))


def _sides(change: FileChange) -> list[Task]:
    return [side for side in (change.before, change.after) if side is not None]
