"""On executors: keys, and the rows that may have them, as columns that Spark can join.

Temporal values are sent as the integers that they are stored as, fixed-length values as binary: each key type has
a Spark type that represents it exactly. Spark compares the values; for floats its rule is the one of
`delete_keys`: NaN equals NaN, and -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.rows.keys.key_columns import key_schema, keys_of_batch, normalize_floats
from puffin_fast.spark.session.executor_calls import Batches, items_of
from puffin_fast.spark.worker.combine import combine
from puffin_fast.spark.worker.marked import partial_rows
from puffin_fast.spark.worker.tasks import Target

if TYPE_CHECKING:
    from pyiceberg.types import NestedField

    from puffin_fast.rows.keys.keys import KeyBounds

HELD_BYTES = 8 << 20
"""Bytes of keys that a task compares with each other at a time."""

MORE = "more"
"""The column of `up_to` that says whether keys were left out."""

_SAME = frozenset((pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64()))


def spark_schema(fields: list[tuple[str, NestedField]]) -> pa.Schema:
    """The columns of a key in the types in which Spark compares them."""
    return pa.schema([field.with_type(_spark_type(field.type)) for field in key_schema(fields)])


def candidate_schema(fields: list[tuple[str, NestedField]]) -> pa.Schema:
    """The columns of `candidates`."""
    return pa.schema([*spark_schema(fields), pa.field("file", pa.int32()), pa.field("pos", pa.int64())])


def _spark_type(storage: pa.DataType) -> pa.DataType:
    if pa.types.is_temporal(storage):
        return pa.int32() if storage.bit_width == 32 else pa.int64()
    if storage in _SAME or pa.types.is_decimal(storage):
        return storage
    return pa.string() if storage == pa.large_string() else pa.binary()


def for_spark(column: pa.Array) -> pa.Array:
    """Converts a column from its storage type to the type in `spark_schema`."""
    kind = column.type
    if pa.types.is_temporal(kind):
        return column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return column.cast(pa.binary()) if pa.types.is_fixed_size_binary(kind) else column


def from_spark(column: pa.Array, storage: pa.DataType) -> pa.Array:
    """Converts a column of `spark_schema` back to its storage type."""
    return column.view(storage) if pa.types.is_temporal(storage) else column.cast(storage)


def distinct(batches: Batches) -> Batches:
    """Leaves out most duplicates of the keys of one task."""
    held: list[pa.RecordBatch] = []
    n_bytes = 0
    for batch in batches:
        held.append(batch)
        n_bytes += batch.nbytes
        if n_bytes > HELD_BYTES:
            held = _distinct(held)
            n_bytes = sum(one.nbytes for one in held)
            if n_bytes > HELD_BYTES // 2:
                yield from held
                held, n_bytes = [], 0
    yield from _distinct(held)


def _distinct(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    rows = pa.Table.from_batches(batches) if batches else None
    if rows is None or not rows.num_rows:
        return []
    found: list[pa.RecordBatch] = rows.group_by(rows.schema.names).aggregate([]).to_batches()
    return found


def up_to(batches: Batches, *, n_bytes: int) -> Batches:
    """Returns the keys of one task until they exceed ``n_bytes`` bytes.

    Yields:
        The key's columns, and a boolean column that is true in the last batch if the limit is exceeded.
    """
    for batch in batches:
        if not batch.num_rows:
            continue
        n_bytes -= batch.nbytes
        yield batch.append_column(MORE, pa.repeat(pa.scalar(n_bytes < 0), batch.num_rows))
        if n_bytes < 0:
            return


def normalised(batches: Batches, *, fields: list[tuple[str, NestedField]], null_safe: bool) -> Batches:
    """Casts keys to the types of the table's columns; keys that a column cannot hold are left out.

    Args:
        batches: columns of the names in `fields`.
        fields: names and fields of the key's columns.
        null_safe: as in `delete_keys`. If false, keys with a null are left out.
    """
    for batch in batches:
        for rows in keys_of_batch(batch, fields, null_safe=null_safe).to_batches():
            yield pa.RecordBatch.from_arrays(list(map(for_spark, rows.columns)), rows.schema.names)


def candidates(
    batches: Batches, target: Target, *, bounds: KeyBounds, null_safe: bool, live: bool = False
) -> Batches:
    """Returns the rows of data files that may have a key.

    Args:
        batches: one binary column: packed lists of the number of a data file and its `FileTask`.
        bounds: the bounds of the keys: row groups outside of the bounds are not read.
        null_safe: if False, rows with a null in their key are left out.
        live: whether rows that are deleted by position are left out. Rows that are deleted by equality always are.

    Yields:
        the key's columns, file int, pos long.
    """
    return candidates_of(items_of(batches), target, bounds, null_safe=null_safe, live=live)


def candidates_of(
    items: Iterable[tuple[int, Any]], table: Target, matcher: KeyBounds, *, null_safe: bool, live: bool
) -> Batches:
    """`candidates` of data files; of one with candidates, only these rows are read.

    Args:
        items: the number of each data file, and its `FileTask`.
        null_safe, live: as for `candidates`.
    """
    finder = table.finder(matcher)
    names = [*(f"k{at}" for at in range(len(matcher.field_ids))), "file", "pos"]
    loader = table.loader()
    for number, task in items:
        dead = loader.of(task) if live and (task.vector or task.position_deletes) else PositionBitmap()
        for positions, keep, columns in finder.matches(task):
            if dead:
                keep = keep & ~dead.contains(positions)
            keys = [normalize_floats(columns)[field_id] for field_id in matcher.field_ids]
            if not null_safe:
                for key in keys:
                    keep = keep & key.is_valid().to_numpy(zero_copy_only=False)
            where = [pa.repeat(pa.scalar(number, pa.int32()), len(keep)), positions]
            arrays: list[Any] = [*map(for_spark, keys), *map(pa.array, where)]
            yield pa.RecordBatch.from_arrays(arrays, names).filter(pa.array(keep))


def matched(batches: Batches, *, files: Sequence[str], memory: int) -> Batches:
    """Encodes the rows that have a key as partial vectors.

    Args:
        batches: file int, pos long.
        files: the paths of the data files, by number.
        memory: limit of the buffers, in bytes.

    Yields:
        rows of `MARKED`.
    """
    paths = pa.array(files, pa.string())
    rows = (pa.RecordBatch.from_arrays([paths.take(b[0]), b[1]], ["file_path", "pos"]) for b in batches)
    yield from map(partial_rows, combine(rows, names=("file_path", "pos"), memory=memory))
