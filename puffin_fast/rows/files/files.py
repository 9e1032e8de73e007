"""Opens data and delete files, and turns the errors of reading them into those of this package."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._io import unbuffered
from puffin_fast._io.location import new_input, resolve
from puffin_fast._io.source import stat_of
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.columns.plain_types import plain
from puffin_fast.errors import (
    CorruptDataError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)
from puffin_fast.rows.files.conversion import ProjectionError, ShreddedVariantError

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema

    from puffin_fast.parquet.column_pages import Rows
    from puffin_fast.parquet.page_index import Spans
    from puffin_fast.rows.files.projection import FileSchema
    from puffin_fast.rows.filters.pruning import Pruner

BATCH_ROWS = 1 << 17
"""Default maximum number of rows of a batch."""

_ROW_BYTES = 128
"""Bytes that count as one row of `BATCH_ROWS` when batches are joined: a batch then has at most 16 MiB."""


def size_in_rows(batch: pa.RecordBatch) -> int:
    """Returns the number of rows of a batch, or more if its rows are wide."""
    return int(max(batch.num_rows, batch.get_total_buffer_size() // _ROW_BYTES))


class Columns(Protocol):
    """Columns of a row group, read in order."""

    def read(self, first: int, n_rows: int, rows: Rows | None) -> dict[str, pa.Array]:
        """Returns wanted rows of each column, by name, in plain types.

        Calls are in the order of the rows; some rows may be skipped.

        Args:
            first: the first row, in the row group.
            rows: the wanted ones of them, as ascending indexes from `first`; None: all.
        """
        ...


class FormatReader(Protocol):
    """An open file of one format. Not safe for use by several threads at once.

    Attributes:
        schema: its columns as Arrow reads them, with Iceberg's field ids in the metadata `PARQUET:field_id`.
        schema_bytes: the same, serialized.
        n_rows: number of rows of the file.
        group_rows: number of rows of each row group, in the order of the file.
    """

    schema: pa.Schema
    schema_bytes: bytes
    n_rows: int
    group_rows: tuple[int, ...]

    def groups_that_may_match(
        self,
        known: FileSchema,
        schema: Schema,
        field_ids: Iterable[int],
        may_match: Callable[[Any], bool],
        pruner: Pruner | None = None,
    ) -> Iterable[int]:
        """Returns the numbers of the row groups whose statistics do not exclude a match.

        Args:
            known: the file's columns by field id.
            schema: the schema that the filter is bound to.
            field_ids: the columns of the filter.
            may_match: an inclusive evaluator of metrics.
            pruner: the same filter, for the bounds of many row groups.
        """
        ...

    def batches(
        self, group: int, columns: Sequence[str], batch_rows: int, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a row group in order; `columns` are names of top-level columns, at least one."""
        ...

    def columns(
        self,
        group: int,
        names: Sequence[str],
        batch_rows: int,
        *,
        use_threads: bool,
        views: bool = False,
        wanted: Spans | None = None,
        is_late: bool = False,
        ahead: Sequence[str] = (),
        codes: Collection[str] = (),
    ) -> Columns:
        """Returns columns of a row group.

        Args:
            group: its number.
            names: names of top-level columns, at least one; a Parquet file also has paths of fields of structs, which
                are read as structs with the only field.
            batch_rows: maximum number of rows that are read at once.
            use_threads: whether columns are decoded in parallel.
            views: whether texts and bytes may be views, where that is faster.
            wanted: the only rows of the row group that may be read; None: all.
            is_late: whether only some of these are read, which is known later.
            ahead: columns that are read next, with the same rows wanted.
            codes: those of the columns whose texts may be dictionary arrays of plain texts, where that is faster.
        """
        ...

    def rows_at_once(self, first: int, n_rows: int) -> int:
        """Returns how many rows of a row group are read at once from the columns that were requested last.

        Args:
            first: the first row, in the row group.
            n_rows: the maximum.
        """
        ...

    def reopen(self) -> FormatReader:
        """Opens the same file again, for another thread."""
        ...


class BatchColumns:
    """Columns of a row group that are read in batches; wanted rows are taken from them.

    Args:
        batches: all rows of the row group.
        group: its number.
        n_rows: its declared number of rows.
        path: the path of the file.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], group: int, n_rows: int, path: str) -> None:
        self._batches, self._group, self._n_rows, self._path = batches, group, n_rows, path
        self._batch: pa.RecordBatch | None = None
        self._first = self._stop = 0

    def read(self, first: int, n_rows: int, rows: Rows | None) -> dict[str, pa.Array]:
        """Returns wanted rows of each column; see `Columns`.

        Raises:
            CorruptDataError: the batches have more or fewer rows than declared.
        """
        stop, at = first + n_rows, first
        parts: list[dict[str, pa.Array]] = []
        while at < stop:
            while self._stop <= at:
                self._batch = next(self._batches, None)
                if self._batch is None:
                    raise wrong_count(self._path, self._group, self._n_rows, self._stop)
                self._first, self._stop = self._stop, self._stop + self._batch.num_rows
            assert self._batch is not None
            end = min(stop, self._stop)
            columns = self._batch
            if (at, end) != (self._first, self._stop):
                columns = columns.slice(at - self._first, end - at)
            names = columns.schema.names
            part = {name: plain(array) for name, array in zip(names, columns.columns, strict=True)}
            if rows is not None:
                here = rows
                if end - at < n_rows:
                    low, high = rows.searchsorted(np.array([at - first, end - first], np.int32))
                    here = rows[low:high] - (at - first)
                indexes = pa.array(here)
                parts.append(
                    {name: pc.take(array, indexes, boundscheck=False) for name, array in part.items()}
                )
            else:
                parts.append(part)
            at = end
        if stop == self._n_rows:
            found = self._stop + sum(batch.num_rows for batch in self._batches)
            if found != self._n_rows:
                raise wrong_count(self._path, self._group, self._n_rows, found)
        if len(parts) == 1:
            return parts[0]
        return {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}


def wrong_count(path: str, group: int, expected: int, found: int) -> CorruptDataError:
    """Makes the error for a row group with more or fewer rows than declared."""
    return CorruptDataError(f"rows of row group {group}", path=path, expected=expected, found=found)


def open_input(io: FileIO, location: str) -> Any:
    """Opens a file of a table for Arrow. Reads are not buffered: exactly the requested ranges are read.

    Raises:
        InvalidInputError: the path is not a regular file.
        UnsupportedError: the FileIO does not know the scheme of the location.
    """
    kind, _, path = resolve(location, io)
    if kind != "local":
        return unbuffered(new_input(io, location).open())
    stat_of(path)
    return pa.OSFile(path)


def reading(path: str, format: str = "PARQUET") -> AbstractContextManager[None]:
    """Turns errors raised while a data or delete file is read into those of this package.

    Args:
        format: the format of the file: PARQUET, ORC or AVRO.

    Raises:
        NotFoundError: there is no such file.
        CorruptDataError: the file's bytes do not agree with its format or with the table's schema.
        UnsupportedError: Arrow cannot read the contents of the file.
        PuffinFastError: the operating system reported an error.
    """
    return _Reading(path, format)


class _Reading:
    """See `reading`; each file is read in eight such blocks, and a generator takes several times as long."""

    __slots__ = ("_format", "_path")

    def __init__(self, path: str, format: str) -> None:
        self._path, self._format = path, format

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or isinstance(error, PuffinFastError | MemoryError) or is_from_outside(error):
            return
        path, format = self._path, _NAMES.get(self._format, self._format)
        if isinstance(error, FileNotFoundError):
            raise NotFoundError(f"{path}: no such file, but the snapshot that is read lists it") from error
        if isinstance(error, pa.ArrowNotImplementedError | pa.ArrowCapacityError):
            raise UnsupportedError(f"{path}: PyArrow {pa.__version__} cannot read this: {error}") from error
        if isinstance(error, pa.ArrowInvalid):
            raise CorruptDataError(f"{format} file: {error}", path=path) from error
        if isinstance(error, ShreddedVariantError):
            raise UnsupportedError(f"{path}: {error}") from error
        if isinstance(error, ProjectionError):
            raise CorruptDataError(str(error), path=path) from error
        if isinstance(error, OSError):
            if error.errno is not None or isinstance(error, TimeoutError):
                raise PuffinFastError(f"{path}: could not be read: {error}") from error
            raise CorruptDataError(f"{format} file: {error}", path=path) from error
        if isinstance(error, _DAMAGED):
            raise CorruptDataError(f"{format} file: {error!r}", path=path) from error


_NAMES = {"PARQUET": "Parquet", "AVRO": "Avro"}
"""Of formats, in messages."""

_DAMAGED = (pa.ArrowException, LookupError, ValueError, ArithmeticError, struct.error)
"""What else decoders raise for damaged bytes."""
