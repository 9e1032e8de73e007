"""On executors: given rows are checked, and replace the rows that have their key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.deletes.outcome import NewDeletes
from puffin_fast.rows.keys.key_columns import keys_of_batch
from puffin_fast.rows.match.change_feed import same_changes
from puffin_fast.rows.match.duplicate_keys import DuplicateKeys
from puffin_fast.rows.match.given_changes import with_deletes_and_order
from puffin_fast.rows.match.given_rows import RowWriterSchema
from puffin_fast.rows.match.matching import check_columns, written_schema
from puffin_fast.rows.match.same_values import same_values
from puffin_fast.spark.session.executor_calls import Batches
from puffin_fast.spark.worker.given import Given
from puffin_fast.spark.worker.keys import for_spark
from puffin_fast.spark.worker.replaced_rows import by_places, rows_at, write_replaced
from puffin_fast.spark.worker.reports import MatchedFile, Report
from puffin_fast.spark.worker.tasks import Target, deleted

if TYPE_CHECKING:
    from pyiceberg.types import NestedField

    from puffin_fast.rows.match.change_feed import ChangeFeed
    from puffin_fast.rows.tasks import Task

MATCH = ("file", "pos", "n", "first", "key")
"""The columns of a match: the number of the data file, the position, the number of rows that have the key, the number
of this one among them, from 1, and a number that these rows share."""

DELETES, ORDER = "is_delete", "order_value"
"""The columns of given rows that mark deletes of a key, and order the rows of one key."""


def marked(batches: Batches, *, changes: bool | str) -> Batches:
    """Converts changes to rows with a mark of deletes and an order; as `with_deletes_and_order`."""
    first = next(batches, None)
    if first is not None:
        rows = pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
        yield from with_deletes_and_order(rows, changes)


def keyed(
    batches: Batches,
    target: Target,
    *,
    columns: Sequence[str],
    fields: list[tuple[str, NestedField]],
    feed: ChangeFeed,
) -> Batches:
    """Checks given rows, and adds their keys as columns that Spark can compare.

    Args:
        batches: columns of the table, as Spark has them, `DELETES`, and `ORDER` if the feed has an order.
        columns: names of the columns of the table.
        fields: names and fields of the key's columns.
        feed: the columns of the caller's rows that mark deletes and order rows. If there are any, only these and the
            keys are checked.

    Yields:
        The same columns, and the columns of the key.

    Raises:
        InvalidInputError: a value does not fit its column, or a key has a null.
    """
    needed = written_schema(target.metadata.schema(), fields, () if feed else columns).fields
    given = Given(target, columns, [field.name for field in needed])
    named = {feed.delete_column: DELETES, feed.order_column: ORDER}
    for batch in batches:
        if not batch.num_rows:
            continue
        flags = pa.table({name: batch[own] for name, own in named.items() if name is not None})
        feed.deletes(flags)
        if feed.order_column is not None:
            feed.order(flags)
        (rows,) = given.rows([batch]).combine_chunks().to_batches()
        (keys,) = keys_of_batch(rows, fields, null_safe=True).combine_chunks().to_batches()
        for (name, _), column in zip(fields, keys.columns, strict=True):
            if column.null_count:
                raise InvalidInputError(
                    f"data: null in key column {name}: expected none, found {column.null_count}"
                )
        arrays = [*batch.columns, *map(for_spark, keys.columns)]
        yield pa.RecordBatch.from_arrays(arrays, [*batch.schema.names, *keys.schema.names])


def checked(
    batches: Batches, target: Target, *, columns: Sequence[str], wanted: Schema, last_of: Sequence[str]
) -> Batches:
    """Checks given rows that do not delete their key; leaves out repeated changes of a key.

    Args:
        batches: columns of the table, `DELETES`, and others.
        columns: names of the columns of the table.
        wanted: the columns that rows must have.
        last_of: the key's columns, if the rows are the last ones of their key, one after another; else none.

    Yields:
        The rows.

    Raises:
        InvalidInputError: a value does not fit its column, or a column is missing.
    """
    given = Given(target, columns)
    before: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        kept = batch.filter(pc.invert(batch[DELETES]))
        if kept.num_rows:
            check_columns(wanted, target.metadata.schema(), columns)
            given.rows([kept])
        if not last_of:
            yield batch
            continue
        rows = pa.Table.from_batches([*before, batch])
        left = np.arange(rows.num_rows - 1)
        for name in last_of:
            key = _array(rows[name])
            left = left[same_values(key.take(pa.array(left)), key.take(pa.array(left + 1)))]
        is_new = np.ones(rows.num_rows, np.bool_)
        is_new[left[same_changes(rows, _mask(rows[DELETES]), left, left + 1)] + 1] = False
        yield batch.filter(pa.array(is_new[-batch.num_rows :]))
        before = [batch.slice(batch.num_rows - 1)]


def replace(
    batches: Batches,
    target: Target,
    *,
    columns: Sequence[str],
    tasks: Sequence[Task],
    update: bool,
    compared: bool,
    set_columns: Sequence[str] | None,
) -> Iterator[Report]:
    """Replaces rows by the given rows of their keys, or deletes them.

    Args:
        batches: the columns of `MATCH`, `DELETES`, then the columns of the table that given rows have.
        columns: the names of these columns of the table.
        tasks: the data files, by number.
        update: whether rows are replaced; otherwise they are only counted.
        compared: whether a row that equals the given row is left as it is.
        set_columns: the columns that are set, in all rows that have the key; None to replace whole rows.
    """
    given, loader = Given(target, columns, first=len(MATCH) + 1), target.loader()
    matched: list[MatchedFile] = []
    deletes: list[NewDeletes] = []
    rows: list[pa.Table] = []
    ids: list[pa.Array] = []
    for number, own in by_places(batches):
        task, gone = tasks[number], _mask(own[DELETES])
        positions, first = own["pos"].to_numpy(), own["first"].to_numpy() == 1
        found = MatchedFile(task.data.file_path, n_deleted=int((gone & first).sum()))
        if not update:
            found = found._replace(n_unchanged=int((first & ~gone).sum()))
        elif not gone.all():
            kept = own.filter(pa.array(~gone))
            changes = _changes(target, task, kept, given, compared=compared, set_columns=set_columns)
            found = found._replace(**changes.counts)
            rows.append(changes.rows)
            ids.append(changes.row_ids)
            gone[np.flatnonzero(~gone)[changes.replaced]] = True
        matched.append(found)
        if gone.any():
            mine = PositionBitmap.from_positions(positions[gone])
            deletes.append(NewDeletes.merge(task, mine, loader))
    yield Report(matched=matched)
    if rows:
        yield from write_replaced(target, deletes, pa.concat_tables(rows), pa.concat_arrays(ids))
    elif deletes:
        yield from deleted(deletes, target)


class _Changes(NamedTuple):
    """Rows of a data file that given rows replace.

    Attributes:
        replaced: mask of the rows that are replaced.
        rows: the new rows.
        row_ids: the ids of the new rows.
        counts: values of the attributes of `MatchedFile`.
    """

    replaced: np.ndarray
    rows: pa.Table
    row_ids: pa.Array
    counts: dict[str, Any]


def _changes(
    table: Target,
    task: Task,
    own: pa.Table,
    given: Given,
    *,
    compared: bool,
    set_columns: Sequence[str] | None,
) -> _Changes:
    """Compares the rows of a data file with the given rows; arguments as in `replace`."""
    old, row_ids = rows_at(table, task, own["pos"].to_numpy())
    new = given.rows(own.to_batches()).combine_chunks()
    single, changed = own["n"].to_numpy() == 1, np.full(old.num_rows, not compared)
    if compared:
        for name in new.column_names if set_columns is None else set_columns:
            changed |= ~same_values(*(_array(rows.column(name)) for rows in (new, old)))
    if set_columns is None:
        changed |= ~single
        written = changed & (own["first"].to_numpy() == 1)
        counts: dict[str, Any] = {"n_updated": int(written.sum()), "n_unchanged": int((~changed).sum())}
        counts["duplicates"] = DuplicateKeys.of(own["n"].to_numpy()[written])
    else:
        for name in set_columns:
            old = old.set_column(old.column_names.index(name), name, new[name])
        new = RowWriterSchema(table.metadata.schema(), old.schema).table(old)
        written = changed
        several: dict[int, bool] = {}
        keys = own["key"].to_numpy()
        for key, is_changed in zip(keys[~single].tolist(), changed[~single].tolist(), strict=True):
            several[key] = several.get(key, False) or is_changed
        counts = {
            "n_updated": int((changed & single).sum()),
            "n_unchanged": int((~changed & single).sum()),
            "several": several,
        }
    mask = pa.array(written)
    return _Changes(changed, new.filter(mask), row_ids.filter(mask), counts)


def _mask(column: pa.ChunkedArray) -> np.ndarray:
    return np.array(column.to_numpy())


def _array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
