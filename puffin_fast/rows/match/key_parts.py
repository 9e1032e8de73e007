"""Given keys, and given rows with their keys, in parts that fit in memory.

The memory of work with rows is estimated from their size; docs/tables.md has what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin_fast.columns.row_parts import Division, RowParts, in_parts
from puffin_fast.limits import KEY_BYTES
from puffin_fast.rows.deletes.outcome import NewDeletes, united
from puffin_fast.rows.keys.integers import is_integral
from puffin_fast.rows.keys.key_columns import distinct_rows, key_fields, key_tables
from puffin_fast.rows.keys.key_hash import key_hashes
from puffin_fast.rows.keys.keys import KeyBounds, KeyEnds, Keys
from puffin_fast.rows.scan.finder import Finder
from puffin_fast.rows.tasks import Task

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

Part = TypeVar("Part")

INTEGER_KEY = 40
"""Bytes of memory for a key of one column of integers, dates or times; up to 100 where keys are far apart."""

KEY_COLUMN = 150
"""Bytes of memory for each column of another key, beside its values."""

KEY_COPIES = 3
"""Number of copies of the values of another key that are held at a time."""


@dataclass(frozen=True)
class KeyParts(Generic[Part]):
    """Given keys, or given rows with their keys.

    Attributes:
        parts: with the keys of each part.
        bounds: the bounds of all keys: the keys themselves if they fit in memory.
    """

    parts: RowParts[Part]
    bounds: KeyBounds


class KeyHashes:
    """Hashes of the keys of rows; the lowest and the highest keys are kept.

    Attributes:
        ends: the ends of all keys that were hashed.
    """

    def __init__(self, columns: Callable[[pa.Table], Sequence[pa.Array]]) -> None:
        self._columns = columns
        self.ends = KeyEnds()

    def __call__(self, rows: pa.Table) -> npt.NDArray[np.uint64]:
        columns = self._columns(rows)
        self.ends.add(columns)
        return key_hashes(columns)


def search_parts(
    parts: RowParts[Keys],
    tasks: Sequence[Task],
    finder: Callable[[Keys], Finder],
    threads: int | None,
    workers: Executor | None = None,
) -> Iterator[NewDeletes]:
    """Yields the deletes of data files, each file once. With several parts, the files are read once for each.

    Args:
        tasks, threads, workers: as `Finder.search`.
        finder: returns the finder of the rows with some keys.
    """
    if parts.in_memory:
        return finder(next(iter(parts))).search(tasks, threads, workers)

    def searches() -> Iterator[Iterator[NewDeletes]]:
        for keys in parts:
            yield finder(keys).search(tasks, threads, workers)
            del keys  # the next part needs the memory

    return united(searches())


@contextmanager
def key_parts(
    io: FileIO, metadata: TableMetadata, keys: Any, join_cols: str | Sequence[str] | None, *, null_safe: bool
) -> Iterator[KeyParts[Keys]]:
    """Binds keys to the current schema of a table; keys that memory does not hold are in temporary files until the end.

    Args:
        io: the FileIO of the table; a property of it is the limit of the memory.
        keys, join_cols, null_safe: as `delete_keys`.

    Raises:
        NotFoundError, InvalidInputError: as `delete_keys`.
        PuffinFastError: a temporary file could not be written or read.
    """
    fields = key_fields(metadata.schema(), join_cols)
    hashes = KeyHashes(lambda rows: [column.combine_chunks() for column in rows.columns])
    division = Division(hashes, _size, KEY_BYTES.of(io), distinct_rows)
    tables = key_tables(keys, fields, null_safe=null_safe)
    with in_parts(tables, division, lambda rows: Keys.of(metadata, fields, rows.columns), "keys") as parts:
        bounds = next(iter(parts)) if parts.in_memory else hashes.ends.bounds(metadata, fields)
        yield KeyParts(parts, bounds)


def _size(rows: pa.Table) -> int:
    """Estimated bytes of memory for a search for keys."""
    if rows.num_columns == 1 and is_integral(rows.schema.types[0]):
        return INTEGER_KEY * int(rows.num_rows)
    return KEY_COPIES * int(rows.nbytes) + KEY_COLUMN * int(rows.num_columns * rows.num_rows)
