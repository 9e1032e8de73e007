"""Divides the rows of a stream into parts that fit in memory; all rows of one key are in one part.

```
rows up to the limit     -> memory                                    one part, if these are all rows
    and all other rows   -> by the hash of the key, 128 temporary files -> adjacent files up to the limit: a part
                              a file above the limit                      -> again 128 files, by the next bits
```
"""

from __future__ import annotations

import logging
import sys
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

from puffin_fast._concurrency.groups import split_by_size
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.columns.even_tables import cut
from puffin_fast.columns.temporary_rows import read_rows, rows_writer
from puffin_fast.errors import PuffinFastError

_LOG = logging.getLogger(__name__)

FILE_BITS = 7
"""Number of bits of a hash that select a file, the upper bits first."""

HASH_BITS = 64

CHUNK_BYTES = (1 << 20, 64 << 20)
"""Minimum and maximum bytes of the rows that are divided at a time."""

LEAST_BYTES = 64 << 20
"""Bytes from which on repeated rows are dropped while rows are collected."""

T = TypeVar("T")


@dataclass(frozen=True)
class Division:
    """How rows are divided.

    Attributes:
        hashes: returns a hash for each row; rows of one key have the same hash.
        size: returns the estimated memory, in bytes, that is needed to process some rows, including the rows.
        limit: maximum size of a part. If the rows of one key exceed it, their part does, too.
        distinct: drops repeated rows.
    """

    hashes: Callable[[pa.Table], npt.NDArray[np.uint64]]
    size: Callable[[pa.Table], int]
    limit: int
    distinct: Callable[[pa.Table], pa.Table] | None = None

    @property
    def chunk_bytes(self) -> int:
        """Bytes of the rows that are divided at a time."""
        return int(np.clip(self.limit, *CHUNK_BYTES))

    def joined(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Returns the rows of some tables, distinct if repeated rows are dropped."""
        rows = pa.concat_tables(tables)
        return rows if self.distinct is None else self.distinct(rows)


class RowParts(Generic[T]):
    """The parts; each is opened when iteration reaches it. Each iteration reads the temporary files anew.

    Attributes:
        in_memory: whether all rows are one part in memory.
    """

    def __init__(self, parts: Sequence[Callable[[], T]], *, in_memory: bool = False) -> None:
        self._parts = parts
        self.in_memory = in_memory

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[T]:
        return (part() for part in self._parts)


@contextmanager
def in_parts(
    rows: Iterable[pa.Table], division: Division, open_part: Callable[[pa.Table], T], argument: str
) -> Iterator[RowParts[T]]:
    """Reads a stream, and yields its parts. Temporary files are removed at the end.

    Args:
        rows: at least one table; all have one schema.
        division: how the rows are divided.
        open_part: makes an item from the rows of a part; called once if all rows fit in memory, else whenever a part
            is reached.
        argument: the name of the rows in errors.

    Raises:
        PuffinFastError: a temporary file could not be written or read.
    """
    rows = iter(rows)
    found, complete = _collected(rows, division, division.limit)
    if complete:
        part = open_part(division.joined(found))
        del found
        yield RowParts([lambda: part], in_memory=True)
        return
    with ExitStack() as held:
        with _temporary(argument, "written to"):
            folder = Path(held.enter_context(TemporaryDirectory(prefix="puffin_fast-keys-")))
        files = _Files(folder, division, found[0].schema, argument)
        files.write(chain(_drained(found), rows))
        parts = files.parts()
        largest = max(sum(size for _, size in part) for part in parts)
        _LOG.info(
            "%s: %d parts in temporary files, the largest needs %d bytes", argument, len(parts), largest
        )
        yield RowParts([lambda part=part: open_part(files.read(part)) for part in parts])  # type: ignore[misc]


def _collected(rows: Iterator[pa.Table], division: Division, limit: int) -> tuple[list[pa.Table], bool]:
    """Takes rows up to a limit; returns them and whether they are all rows."""
    found: list[pa.Table] = []
    size, checked = 0, min(LEAST_BYTES, limit)
    for table in rows:
        found.append(table)
        size += division.size(table)
        if size <= checked:
            continue
        if division.distinct is not None:
            found = [division.joined(found)]
            size = division.size(found[0])
        if size > limit - (limit >> 4):
            return found, False
        checked = min(max(2 * size, LEAST_BYTES), limit)
    return found, True


@contextmanager
def _temporary(argument: str, how: str) -> Iterator[None]:
    """Adds the folder to errors of temporary files. Errors of the caller's stream are not changed."""
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        if is_from_outside(error):
            raise
        raise PuffinFastError(f"{argument}: could not be {how} temporary files: {error}") from error


def _drained(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """Yields the items of a list, which is emptied."""
    while tables:
        yield tables.pop(0)


@dataclass
class _Files:
    """Files of rows, which some bits of the rows' hashes select."""

    folder: Path
    division: Division
    schema: pa.Schema
    argument: str
    bit: int = 0
    sizes: dict[Path, int] = field(default_factory=dict)
    ends: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def write(self, tables: Iterable[pa.Table]) -> None:
        """Divides rows among the files."""
        most = self.division.chunk_bytes
        pieces = (piece for table in tables for piece in cut(table, most))
        with ExitStack() as opened:
            writers: dict[Path, pa.RecordBatchStreamWriter] = {}
            for group in split_by_size(pieces, most, lambda table: table.nbytes):
                for path, rows in self._divided(pa.concat_tables(group)):
                    with _temporary(self.argument, "written to"):
                        if path not in writers:
                            writers[path] = opened.enter_context(rows_writer(path, self.schema))
                        writers[path].write_table(rows)
            with _temporary(self.argument, "written to"):
                opened.close()

    def _divided(self, rows: pa.Table) -> Iterator[tuple[Path, pa.Table]]:
        """Yields files and the rows that belong to them."""
        hashes = self.division.hashes(rows)
        numbers = (hashes << np.uint64(self.bit) >> np.uint64(HASH_BITS - FILE_BITS)).astype(np.uint8)
        order = np.argsort(numbers, kind="stable")
        rows, numbers, hashes = rows.take(pa.array(order)), numbers[order], hashes[order]
        starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
        for start, stop in pairwise([*starts.tolist(), len(order)]):
            path, part, of_part = (
                self.folder / str(numbers[start]),
                rows.slice(start, stop - start),
                hashes[start:stop],
            )
            low, high = self.ends.get(path, (of_part[0], of_part[0]))
            self.ends[path] = min(low, of_part.min()), max(high, of_part.max())
            self.sizes[path] = self.sizes.get(path, 0) + self.division.size(part)
            yield path, part

    def parts(self) -> list[list[tuple[Path, int]]]:
        """Returns the files of each part, with their sizes; divides files above the limit that have several keys."""
        limit, last = self.division.limit, self.bit + FILE_BITS >= HASH_BITS
        whole, parts = [], []
        for path, size in sorted(self.sizes.items()):
            low, high = self.ends[path]
            if size > limit and low != high and not last:
                parts += self._again(path)
            else:
                whole.append((path, size))
        groups = split_by_size(whole, limit, lambda file: file[1])
        return [list(group) for group in groups] + parts

    def _again(self, path: Path) -> list[list[tuple[Path, int]]]:
        folder = path.with_name(f"{path.name}-divided")
        with _temporary(self.argument, "written to"):
            folder.mkdir()
        files = _Files(folder, self.division, self.schema, self.argument, self.bit + FILE_BITS)
        files.write(self._rows(path))
        path.unlink()
        return files.parts()

    def _rows(self, path: Path) -> Iterator[pa.Table]:
        with _temporary(self.argument, "read from"):
            for batch in read_rows(path):
                yield pa.Table.from_batches([batch], self.schema)

    def read(self, part: list[tuple[Path, int]]) -> pa.Table:
        """Returns the rows of a part, distinct if repeated rows are dropped."""
        rows = chain.from_iterable(self._rows(path) for path, _ in part)
        found, _ = _collected(rows, self.division, sys.maxsize)
        return self.division.joined(found)
