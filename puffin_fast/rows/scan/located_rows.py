"""Live rows of data files in memory, each with its file, its position and its metadata columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.types import NestedField

from puffin_fast._concurrency.groups import filled_groups
from puffin_fast._concurrency.streams import in_order
from puffin_fast._concurrency.workers import Pool
from puffin_fast.columns.plain_types import check_text, text_columns
from puffin_fast.errors import CorruptDataError
from puffin_fast.rows.files.conversion import arrow_type
from puffin_fast.rows.files.files import BATCH_ROWS, size_in_rows
from puffin_fast.rows.files.metadata_columns import METADATA_COLUMNS
from puffin_fast.rows.scan.explain import Reads
from puffin_fast.rows.scan.file_reader import FileReader, ReaderFactory
from puffin_fast.rows.scan.splits import Split, data_bytes, jobs_of, threads_of
from puffin_fast.rows.tasks import Task

if TYPE_CHECKING:
    from concurrent.futures import Executor

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
        tasks: Sequence[Task],
        metadata: Sequence[str] = (),
        *,
        threads: int | None = None,
        workers: Executor | None = None,
    ) -> LocatedRows:
        """Reads the live rows that a reader selects.

        Args:
            open_reader: makes the reader of the data files.
            fields: the columns of the table.
            metadata: names of metadata columns to read.
            threads: number of files read at a time.
            workers: reads the data files instead of threads.
        """
        parts = located_groups(
            lambda group: [*joined(group)],
            open_reader,
            fields,
            tasks,
            metadata,
            threads=threads,
            workers=workers,
        )
        return cls.of([part for group in parts for part in group], fields, metadata)

    @classmethod
    def of(
        cls,
        found: Sequence[tuple[npt.NDArray[np.int64], pa.RecordBatch]],
        fields: Sequence[NestedField],
        metadata: Sequence[str] = (),
    ) -> LocatedRows:
        """Joins what `joined` yields for the columns of the table and some metadata columns."""
        schema = _schema_of(fields, metadata)
        batches = [batch for _, batch in found]
        n = len(fields)
        columns = [
            pa.chunked_array([batch.column(at) for batch in batches], kind)
            for at, kind in enumerate(schema.types)
        ]
        return cls(
            pa.Table.from_arrays(columns[:n], schema=pa.schema([schema.field(at) for at in range(n)])),
            np.concatenate([np.empty(0, np.int64), *(file for file, _ in found)]),
            columns[n].to_numpy(),
            dict(zip(metadata, columns[n + 1 :], strict=True)),
        )

    def sorted(self) -> LocatedRows:
        """The rows in the order of the files, and those of a file as they are."""
        if (self.file[1:] >= self.file[:-1]).all():
            return self
        order = np.argsort(self.file, kind="stable")
        metadata = {name: column.take(pa.array(order)) for name, column in self.metadata.items()}
        return LocatedRows(self.rows.take(pa.array(order)), self.file[order], self.position[order], metadata)


def located_batches(
    open_reader: ReaderFactory,
    fields: Sequence[NestedField],
    tasks: Sequence[Task],
    metadata: Sequence[str] = (),
    *,
    threads: int | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Reads the live rows that a reader selects, in the order of the data files; arguments as `LocatedRows.read`.

    Yields:
        The index of a data file, and rows of it: the columns of the table, ``_pos``, and the metadata columns.
    """
    for group in located_groups(lambda group: group, open_reader, fields, tasks, metadata, threads=threads):
        yield from group


def located_groups(
    make: Callable[[list[tuple[int, pa.RecordBatch]]], Made],
    open_reader: ReaderFactory,
    fields: Sequence[NestedField],
    tasks: Sequence[Task],
    metadata: Sequence[str] = (),
    *,
    threads: int | None = None,
    workers: Executor | None = None,
) -> Iterator[Made]:
    """Yields what `make` returns for groups of what `located_batches` would yield. It is called by reading threads,
    or here, if workers read.

    A group has about `BATCH_ROWS` rows, fewer if they are wide. Small data files share a group, because calls and the
    synchronization of threads cost more than a few rows.
    """
    extra = [METADATA_COLUMNS[name] for name in ("_pos", *metadata)]
    schema = _schema_of(fields, metadata)
    reader, texts = open_reader(fields, extra, schema), text_columns(schema)
    numbers = {id(task): number for number, task in enumerate(tasks)}

    def made(found: Iterable[tuple[int, pa.RecordBatch]]) -> Iterator[Made]:
        return map(make, filled_groups(found, BATCH_ROWS, lambda part: size_in_rows(part[1])))

    def work(job: Sequence[Split]) -> Iterator[Made]:
        return made(
            (numbers[id(split.task)], batch) for split in job for batch in _checked(reader, texts, split)
        )

    label = "reading data files"
    if workers is not None:
        parts = Pool(workers).each(partial(_read, reader, texts), tasks, data_bytes, label)
        return made(
            (numbers[id(task)], batch)
            for task, batches in zip(tasks, _received(reader, tasks, parts), strict=True)
            for batch in batches
        )
    n_threads = threads_of(reader.io, tasks, threads)
    return in_order([*jobs_of(tasks, n_threads)], work, n_threads, label=label)


def _read(reader: FileReader, texts: Sequence[int], task: Task) -> tuple[list[pa.RecordBatch], Reads]:
    reads = Reads()
    return [*_checked(reader, texts, Split.of(task, 0, 1), reads)], reads


def _received(
    reader: FileReader, tasks: Sequence[Task], parts: Iterable[tuple[list[pa.RecordBatch], Reads]]
) -> Iterator[list[pa.RecordBatch]]:
    """Yields the batches that workers read of each data file."""
    for task, (batches, reads) in zip(tasks, parts, strict=True):
        if reader.reads is not None:
            reader.reads.opened_there(task, reads)
        yield batches


def _checked(
    reader: FileReader, texts: Sequence[int], split: Split, reads: Reads | None = None
) -> Iterator[pa.RecordBatch]:
    batches = reader.read(split, reads=reads)
    return (with_text(batch, split.task.data.file_path, texts) for batch in batches) if texts else batches


def with_text(batch: pa.RecordBatch, path: str, texts: Sequence[int] | None = None) -> pa.RecordBatch:
    """Returns rows of a data file after a check of their text: if it is not UTF-8, it could not be written.

    Args:
        batch: the rows.
        path: the path of the data file.
        texts: the numbers of the columns that have text, if they are known.

    Raises:
        CorruptDataError: it is not.
    """
    for at in text_columns(batch.schema) if texts is None else texts:
        try:
            check_text(batch.column(at))
        except pa.ArrowInvalid as error:
            name = batch.schema.field(at).name
            raise CorruptDataError(
                f"column {name}", path=path, expected="text in UTF-8", found=error
            ) from error
    return batch


def joined(
    group: Sequence[tuple[int, pa.RecordBatch]],
) -> Iterator[tuple[npt.NDArray[np.int64], pa.RecordBatch]]:
    """Joins the batches of a group to one, or a few if they have much text; gives the index of each row's data file."""
    numbers, batches = zip(*group, strict=True)
    file = np.repeat(np.array(numbers, np.int64), [batch.num_rows for batch in batches])
    start = 0
    for batch in pa.Table.from_batches(batches).combine_chunks().to_batches():
        yield file[start : start + batch.num_rows], batch
        start += batch.num_rows


def _schema_of(fields: Sequence[NestedField], metadata: Sequence[str]) -> pa.Schema:
    extra = [METADATA_COLUMNS[name] for name in ("_pos", *metadata)]
    own = [pa.field(field.name, arrow_type(field.field_type)) for field in fields]
    # not by name: a table may have a `_pos` of its own
    return pa.schema([*own, *(pa.field(column.name, column.type) for column in extra)])
