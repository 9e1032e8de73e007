"""On executors: given rows are checked, replace the rows that have their key, and are inserted."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._runtime.groups import split_by_size
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.deletes.loader import DeleteLoader
from puffin_fast.iceberg.deletes.outcome import NewDeletes
from puffin_fast.iceberg.dml.given_rows import RowWriterSchema
from puffin_fast.iceberg.dml.matching import same_values
from puffin_fast.iceberg.dml.replacement import write_new_rows
from puffin_fast.iceberg.predicate.key_columns import keys_of_batch
from puffin_fast.spark.worker.data_files import TaskTable, data_file_rows
from puffin_fast.spark.worker.keys import for_spark
from puffin_fast.spark.worker.replaced_rows import by_places, rows_at, write_replaced
from puffin_fast.spark.worker.rows import INSERTED, MATCHED, ReportRow, report_rows
from puffin_fast.spark.worker.tasks import Target, unpack

if TYPE_CHECKING:
    from pyiceberg.types import NestedField

    from puffin_fast.iceberg.plan.files import FileTask

__all__ = ["MATCH", "MatchedFile", "insert", "keyed", "replace"]

Batches = Iterator[pa.RecordBatch]

MATCH = ("file", "pos", "n", "first")
"""The columns of a match: the number of the data file, the position, the number of rows that have the key, and the
number of this one among them, from 1."""

INSERT_BYTES = 128 << 20
"""Bytes of inserted rows that a task holds before it writes them."""


class MatchedFile(NamedTuple):
    """A data file with rows that have a given key; numbers of given rows that are updated or unchanged there."""

    path: str
    n_updated: int
    n_unchanged: int


class _Given:
    """Given rows as rows of the table. Spark's columns are named by their number, in the order of the table's."""

    def __init__(self, table: Target, columns: Sequence[str]) -> None:
        self._schema, self._names = table.metadata.schema(), columns

    def rows(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        """Returns the rows in the types of the table.

        Raises:
            InvalidInputError: a value does not fit its column.
        """
        named = [pa.RecordBatch.from_arrays(batch.columns, self._names) for batch in batches]
        return RowWriterSchema(self._schema, named[0].schema).table(pa.Table.from_batches(named))


def keyed(batches: Batches, *, target: bytes, columns: Sequence[str], fields: bytes) -> Batches:
    """Checks given rows, and adds their keys as columns that Spark can compare.

    Args:
        batches: the columns of the table, as Spark has them.
        target: packed `Target`.
        columns: names of the columns.
        fields: packed names and fields of the key's columns.

    Yields:
        the same columns, and the key's.

    Raises:
        InvalidInputError: a value does not fit its column, or a key has a null.
    """
    given = _Given(unpack(target), columns)
    wanted: list[tuple[str, NestedField]] = unpack(fields)
    for batch in batches:
        if not batch.num_rows:
            continue
        for rows in given.rows([batch]).combine_chunks().to_batches():
            (keys,) = keys_of_batch(rows, wanted, null_safe=True).combine_chunks().to_batches()
            for (name, _), column in zip(wanted, keys.columns, strict=True):
                if column.null_count:
                    raise InvalidInputError(
                        f"data: null in key column {name}: expected none, found {column.null_count}"
                    )
            arrays = [*batch.columns, *map(for_spark, keys.columns)]
            yield pa.RecordBatch.from_arrays(arrays, [*batch.schema.names, *keys.schema.names])


def replace(
    batches: Batches, *, target: bytes, columns: Sequence[str], tasks: bytes, update: bool, compared: bool
) -> Batches:
    """Replaces rows by the given rows of their keys.

    Args:
        batches: the columns of `MATCH`, then those of the given row.
        target: packed `Target`.
        columns: names of the given rows' columns.
        tasks: packed list of `FileTask`, by number.
        update: whether rows are replaced; otherwise they are only counted.
        compared: whether a row that equals the given one stays.

    Yields:
        rows of `REPORT`.
    """
    part: Target = unpack(target)
    known: list[FileTask] = unpack(tasks)
    table, given, loader = TaskTable(part), _Given(part, columns), DeleteLoader(part.io)
    matched: list[MatchedFile] = []
    deletes: list[NewDeletes] = []
    rows: list[pa.Table] = []
    ids: list[pa.Array] = []
    for number, own in by_places(batches):
        task, first = known[number], own["first"].to_numpy() == 1
        if not update:
            matched.append(MatchedFile(task.data.file_path, 0, int(first.sum())))
            continue
        positions = own["pos"].to_numpy()
        old, row_ids = rows_at(table, task, positions)
        new = given.rows(own.select(list(range(len(MATCH), own.num_columns))).to_batches()).combine_chunks()
        unchanged = np.full(len(positions), compared)
        if compared:
            unchanged &= own["n"].to_numpy() == 1
            for name in new.column_names:
                unchanged &= same_values(*(_array(table.column(name)) for table in (new, old)))
        written = pa.array(~unchanged & first)
        matched.append(MatchedFile(task.data.file_path, pc.sum(written).as_py() or 0, int(unchanged.sum())))
        if not unchanged.all():
            deletes.append(
                NewDeletes.merge(task, PositionBitmap.from_positions(positions[~unchanged]), loader)
            )
            rows.append(new.filter(written))
            ids.append(row_ids.filter(written))
    yield from report_rows([ReportRow(MATCHED, entry=pickle.dumps(file)) for file in matched])
    if deletes:
        yield from write_replaced(part, table, deletes, pa.concat_tables(rows), pa.concat_arrays(ids))


def _array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def insert(batches: Batches, *, target: bytes, columns: Sequence[str]) -> Batches:
    """Writes given rows whose key is new.

    Args:
        batches: the given rows.
        target: packed `Target`.
        columns: names of their columns.

    Yields:
        rows of `REPORT`.
    """
    part: Target = unpack(target)
    table, given, n_rows = TaskTable(part), _Given(part, columns), 0
    some = (batch for batch in batches if batch.num_rows)
    for group in split_by_size(some, INSERT_BYTES, lambda batch: batch.nbytes):
        rows = given.rows(list(group))
        n_rows += rows.num_rows
        if not part.place.dry_run:
            none = pa.nulls(rows.num_rows, pa.int64())
            yield from data_file_rows(write_new_rows(table, rows, none))
    yield from report_rows([ReportRow(INSERTED, n_rows=n_rows)])
