"""Live rows of data files in memory, each with its file, its position and its metadata columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.types import NestedField

from puffin_fast._runtime.groups import split_by_size
from puffin_fast._runtime.streams import in_order
from puffin_fast.iceberg.datafile.conversion import arrow_type
from puffin_fast.iceberg.datafile.files import BATCH_ROWS
from puffin_fast.iceberg.datafile.metadata_columns import METADATA_COLUMNS
from puffin_fast.iceberg.plan.files import FileTask
from puffin_fast.iceberg.scan.file_reader import ReaderFactory
from puffin_fast.iceberg.scan.splits import Split, splits_of, threads_of

__all__ = ["LocatedRows", "from_located_batches", "located_batches"]

Made = TypeVar("Made")


@dataclass(frozen=True)
class LocatedRows:
    """Rows of data files, in the order of the files.

    Attributes:
        rows: all columns of the table.
        file: index of each row's data file among those that were read.
        position: position of each row in its file.
        metadata: the requested metadata columns, by name.
    """

    rows: pa.Table
    file: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]
    metadata: Mapping[str, pa.ChunkedArray]

    @classmethod
    def read(
        cls,
        open_reader: ReaderFactory,
        fields: Sequence[NestedField],
        tasks: Sequence[FileTask],
        metadata: Sequence[str] = (),
        *,
        threads: int | None = None,
    ) -> LocatedRows:
        """Reads the live rows that a reader selects.

        Args:
            open_reader: makes the reader of the data files.
            fields: the columns of the table.
            tasks: the data files.
            metadata: names of metadata columns to read.
            threads: number of files read at a time.
        """
        schema = _schema_of(fields, metadata)
        numbers: list[int] = []
        counts: list[int] = []

        def found() -> Iterator[pa.RecordBatch]:
            for number, batch in located_batches(open_reader, fields, tasks, metadata, threads=threads):
                numbers.append(number)
                counts.append(batch.num_rows)
                yield batch

        batches = list(_joined(found()))
        n = len(fields)
        columns = [
            pa.chunked_array([batch.column(at) for batch in batches], kind)
            for at, kind in enumerate(schema.types)
        ]
        return cls(
            pa.Table.from_arrays(columns[:n], schema=pa.schema([schema.field(at) for at in range(n)])),
            np.repeat(np.array(numbers, np.int64), counts),
            columns[n].to_numpy(),
            dict(zip(metadata, columns[n + 1 :], strict=True)),
        )


def located_batches(
    open_reader: ReaderFactory,
    fields: Sequence[NestedField],
    tasks: Sequence[FileTask],
    metadata: Sequence[str] = (),
    *,
    threads: int | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Reads the live rows that a reader selects, in the order of the data files; arguments as `LocatedRows.read`.

    Yields:
        The index of a data file, and rows of it: the columns of the table, ``_pos``, and the metadata columns.
    """
    return from_located_batches(
        lambda number, batch: (number, batch), open_reader, fields, tasks, metadata, threads=threads
    )


def from_located_batches(
    make: Callable[[int, pa.RecordBatch], Made],
    open_reader: ReaderFactory,
    fields: Sequence[NestedField],
    tasks: Sequence[FileTask],
    metadata: Sequence[str] = (),
    *,
    threads: int | None = None,
) -> Iterator[Made]:
    """Yields what `make` returns for each pair that `located_batches` would yield. It is called by reading threads."""
    extra = [METADATA_COLUMNS[name] for name in ("_pos", *metadata)]
    reader = open_reader(fields, extra, _schema_of(fields, metadata))
    numbers = {id(task): number for number, task in enumerate(tasks)}

    def work(split: Split) -> Iterator[Made]:
        for batch in reader.read(split):
            yield make(numbers[id(split.task)], batch)

    workers = threads_of(reader.io, tasks, threads)
    splits = [split for task in tasks for split in splits_of(task, len(tasks), workers)]
    return in_order(splits, work, workers, label="reading data files")


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Joins batches to larger ones: each batch of a few rows costs as much as thousands of rows later."""
    for group in split_by_size(batches, BATCH_ROWS, lambda batch: batch.num_rows):
        yield from pa.Table.from_batches(group).combine_chunks().to_batches()


def _schema_of(fields: Sequence[NestedField], metadata: Sequence[str]) -> pa.Schema:
    extra = [METADATA_COLUMNS[name] for name in ("_pos", *metadata)]
    own = [pa.field(field.name, arrow_type(field.field_type)) for field in fields]
    # not by name: a table may have a `_pos` of its own
    return pa.schema([*own, *(pa.field(column.name, column.type) for column in extra)])
