"""Rows of a stream in parts that fit in memory; all rows of one key are in one part.

```
rows up to the limit     -> memory                                    one part, if these are all rows
    and all other rows   -> by the hash of the key, 128 temporary files -> adjacent files up to the limit: a part
```
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin_fast._runtime.groups import split_by_size
from puffin_fast._runtime.temporary_rows import read_rows, rows_writer
from puffin_fast.errors import PuffinFastError

__all__ = ["Parted", "RowParts", "in_parts"]

_LOG = logging.getLogger(__name__)

FILE_BITS = 7
"""Upper bits of a hash that are the number of a file."""

CHUNK_BYTES = 64 << 20
"""Bytes of rows that are divided at a time."""

LEAST_BYTES = 64 << 20
"""Bytes from which on repeated rows are dropped while rows are collected."""

Made = TypeVar("Made")


def _same(rows: pa.Table) -> pa.Table:
    return rows


@dataclass(frozen=True)
class Parted:
    """How rows are divided.

    Attributes:
        hashes: returns a hash for each row; rows of one key have the same.
        size: returns the bytes of memory that work with some rows takes, these included.
        limit: of the size of a part. A key with more rows is in a part above the limit.
        distinct: drops repeated rows.
        movable: converts rows to types that PyArrow can take rows of, before they are divided.
    """

    hashes: Callable[[pa.Table], npt.NDArray[np.uint64]]
    size: Callable[[pa.Table], int]
    limit: int
    distinct: Callable[[pa.Table], pa.Table] = _same
    movable: Callable[[pa.Table], pa.Table] = _same

    def joined(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Returns the distinct rows of some tables."""
        return self.distinct(pa.concat_tables(tables))


class RowParts(Generic[Made]):
    """What is made of each part; parts in files are read again each time. `len` is their number."""

    def __init__(self, parts: Sequence[Callable[[], Made]]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Made]:
        return (part() for part in self._parts)


@contextmanager
def in_parts(
    rows: Iterable[pa.Table], terms: Parted, make: Callable[[pa.Table], Made], what: str
) -> Iterator[RowParts[Made]]:
    """Reads a stream, and yields its parts. Temporary files are removed at the end.

    Args:
        rows: at least one table; all have one schema.
        terms: how the rows are divided.
        make: what is made of a part; called once if all rows fit in memory, else whenever a part is read.
        what: the rows, for errors.

    Raises:
        PuffinFastError: a temporary file could not be written.
    """
    rows = iter(rows)
    found, complete = _collected(rows, terms)
    if complete:
        made = make(terms.joined(found))
        del found
        yield RowParts([lambda: made])
        return
    with ExitStack() as held:
        with _temporary(what):
            folder = Path(held.enter_context(TemporaryDirectory(prefix="puffin_fast-keys-")))
        files = _Files(folder, terms, terms.movable(found[0][:0]).schema, what)
        files.write(_chunks(map(terms.movable, _batches(chain(_taken(found), rows)))))
        parts = files.parts()
        _LOG.info(
            "%s: %d parts in temporary files, each of at most %d bytes in memory",
            what,
            len(parts),
            terms.limit,
        )
        yield RowParts([lambda part=part: make(files.read(part)) for part in parts])  # type: ignore[misc]


def _collected(rows: Iterator[pa.Table], terms: Parted) -> tuple[list[pa.Table], bool]:
    """Takes rows up to the limit; returns them, and whether they are all."""
    found: list[pa.Table] = []
    size, checked = 0, min(LEAST_BYTES, terms.limit)
    for table in rows:
        found.append(table)
        size += terms.size(table)
        if size <= checked:
            continue
        if terms.distinct is not _same:
            found = [terms.joined(found)]
            size = terms.size(found[0])
        if size > terms.limit - (terms.limit >> 4):
            return found, False
        checked = min(max(2 * size, LEAST_BYTES), terms.limit)
    return found, True


@contextmanager
def _temporary(what: str) -> Iterator[None]:
    """Around what is done with temporary files; errors of the caller's stream are not of them."""
    try:
        yield
    except OSError as error:
        raise PuffinFastError(f"{what}: could not be written to temporary files: {error}") from error


def _taken(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """Yields the items of a list, which is emptied."""
    while tables:
        yield tables.pop(0)


def _batches(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yields the rows in tables of one batch of at most `CHUNK_BYTES`."""
    for table in tables:
        n_rows = max(1, CHUNK_BYTES * table.num_rows // max(table.nbytes, 1))
        for batch in table.to_batches(max_chunksize=n_rows):
            yield pa.Table.from_batches([batch])


def _chunks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yields the rows in tables of at most `CHUNK_BYTES`, or of a single table."""
    for group in split_by_size(tables, CHUNK_BYTES, lambda table: table.nbytes):
        yield pa.concat_tables(group)


@dataclass
class _Files:
    """Rows by the upper bits of their hashes."""

    folder: Path
    terms: Parted
    schema: pa.Schema
    what: str
    sizes: dict[int, int] = field(default_factory=dict)

    def path(self, number: int) -> Path:
        return self.folder / str(number)

    def write(self, chunks: Iterable[pa.Table]) -> None:
        writers: dict[int, pa.RecordBatchStreamWriter] = {}
        with ExitStack() as opened:
            for chunk in chunks:
                for number, rows in self._divided(chunk):
                    self.sizes[number] = self.sizes.get(number, 0) + self.terms.size(rows)
                    with _temporary(self.what):
                        if number not in writers:
                            writers[number] = opened.enter_context(
                                rows_writer(self.path(number), self.schema)
                            )
                        writers[number].write_table(rows)
            with _temporary(self.what):
                opened.close()

    def _divided(self, chunk: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Yields numbers of files, and the rows of a chunk that belong there."""
        numbers = (self.terms.hashes(chunk) >> np.uint64(64 - FILE_BITS)).astype(np.uint8)
        order = np.argsort(numbers, kind="stable")
        chunk, numbers = chunk.take(pa.array(order)), numbers[order]
        starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
        for start, stop in pairwise([*starts.tolist(), len(order)]):
            yield int(numbers[start]), chunk.slice(start, stop - start)

    def parts(self) -> list[list[int]]:
        """Returns the numbers of the files of each part."""
        groups = split_by_size(sorted(self.sizes), self.terms.limit, self.sizes.__getitem__)
        return [list(group) for group in groups]

    def read(self, part: list[int]) -> pa.Table:
        """Returns the distinct rows of a part."""
        batches = [batch for number in part for batch in read_rows(self.path(number))]
        return self.terms.joined([pa.Table.from_batches(batches, self.schema)])
