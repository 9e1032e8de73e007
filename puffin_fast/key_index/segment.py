"""A segment of a key index: finds the rows of some data files by their keys. It stays valid as long as the files exist.

```
byte 0     "PFKI" | u8 version 2 | u8 form: 0 exact, 1 hash | u8 bits of block b, slot t, remainder r, ordinal o | 0, 0
     12    u32 bytes of the tables | u32 bytes of the nulls | u32 CRC-32 of the directory | u64 entries | u64 rows
     40    u32 0 | u32 CRC-32 of bytes 0 to 43, the tables and the nulls
     48    tables: zstd of JSON {"kinds": […], "fields": [id, …], "files": [[location, bytes, rows], …],
                                 "stored_row_ids": [index of a file whose rows have ids of their own, …],
                                 "pages": [[[offset of a column chunk, bytes of the page of its dictionary,
                                             bytes and rows of each data page, …], …], …], of each file; optional}
           nulls: 64-bit portable Roaring bitmap of the ordinals of rows with a null in a key column
           directory: (2^b + 1) × u32, entries before each block and after the last
           blocks: block i from byte i·K + ⌊entries before it · (1 + r + o) / 8⌋ on, K = 4 + ⌈2^t / 8⌉ + 1
```
All words are little-endian. An ordinal counts the rows of the data files, in their order. An entry is the hash of a
key and an ordinal; they are sorted. A block has the entries whose hash has its number in the b upper bits:

```
u32 checksum | for each slot, by the next t bits, a 1 per entry, then a 0 | remainders, r bits | ordinals, o bits
```
Bits are written from the least significant on. The checksum is the CRC-32 of the bytes after it, combined with the
number of the block, the number of its entries, and the seal: the CRC-32 of the JSON and the nulls.
So a block of another segment is not accepted.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zstandard

from puffin_fast import limits
from puffin_fast._kernels import checksum
from puffin_fast._kernels.key_index import blocks as kernel
from puffin_fast._kernels.key_index.entries import Source
from puffin_fast._kernels.rows.texts import Texts
from puffin_fast._process.cached import cached_property
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import CorruptDataError, InvalidInputError, UnsupportedError
from puffin_fast.key_index import canonical

BLOB_TYPE = "puffin-fast-key-index-v1"
"""The type of Puffin blobs that are segments."""

MAGIC, VERSION = b"PFKI", 2
HEADER = struct.Struct("<4sBBBBBBxxIIIQQII")
SUM_BYTES = 4

MAX_BLOCK_BITS = 30
EXACT_BITS = (32, 40, 48, 64)
MAX_ROWS = (1 << 32) - 1
_WHOLE = 16
"""If at least one in this number of blocks has a key, all blocks are read, in pieces."""

PIECE_BYTES = 1 << 20
"""Approximate bytes of such a piece, and of the blocks that are checked at a time."""

PART_BITS = 12
PARTS = 1 << PART_BITS
"""Parts of the blocks, by which keys are divided among executors."""

Ordinals = npt.NDArray[np.uint32]
Words = npt.NDArray[np.uint64]
Numbers = TypeVar("Numbers", Ordinals, Words)
Read = Callable[[Sequence[tuple[int, int]]], Iterable[tuple[int, bytes]]]
"""Reads ranges (offset, length) of a segment; yields the index of each range, and its bytes."""


ChunkPages = Sequence[int]
"""Where the pages of a column chunk of keys are: its offset in the file, the bytes of the page of its dictionary (0:
none), and the bytes and the rows of each data page, one after the other."""


class CoveredFile(NamedTuple):
    """A data file whose rows are in a segment."""

    location: str
    n_bytes: int
    n_rows: int


@dataclass(frozen=True)
class KeyMatches:
    """Rows that a lookup found.

    Attributes:
        ordinals: the ordinals of the rows, ascending and distinct.
        keys: the keys of these rows, as the integers of their canonical form; None if they are not known.
    """

    ordinals: Ordinals
    keys: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class KeyWords:
    """The keys of consecutive rows in their canonical form.

    Attributes:
        words: for the rows without a null in a column: integers if the form is exact, else hashes.
        rows: the indexes of these rows; None if they are all rows.
        n_rows: number of rows.
    """

    words: Words
    rows: npt.NDArray[np.int64] | None
    n_rows: int

    @classmethod
    def of(cls, columns: Sequence[pa.Array], kinds: Sequence[str] | None = None) -> KeyWords:
        """Returns the keys of columns of equal length, in their own canonical forms or in those of an index.

        Raises:
            InvalidInputError: values cannot be keys.
        """
        kinds = kinds or [canonical.kind_of(column.type) for column in columns]
        n_rows, rows = len(columns[0]), None
        if (valid := canonical.not_null(columns)) is not None:
            rows = np.flatnonzero(valid.to_numpy(zero_copy_only=False))
            columns = [column.filter(valid) for column in columns]
        if canonical.is_exact(kinds):
            return cls(canonical.integers(columns[0], kinds[0])[0].view(np.uint64), rows, n_rows)
        return cls(canonical.hashes(columns), rows, n_rows)

    @classmethod
    def joined(cls, parts: Sequence[KeyWords]) -> KeyWords:
        """Returns the keys of several parts, one after another."""
        words = np.concatenate([np.empty(0, np.uint64), *(part.words for part in parts)])
        n_rows = sum(part.n_rows for part in parts)
        if len(words) == n_rows:
            return cls(words, None, n_rows)
        firsts = np.cumsum([0, *(part.n_rows for part in parts)])
        rows, at = np.empty(len(words), np.int64), 0
        for part, first in zip(parts, firsts.tolist(), strict=False):
            stop = at + len(part.words)
            rows[at:stop] = np.arange(part.n_rows) if part.rows is None else part.rows
            rows[at:stop] += first
            at = stop
        return cls(words, rows, n_rows)


class Segment:
    """A segment whose header, tables and directory are in memory. Safe to use from several threads.

    Attributes:
        kinds: the canonical forms of the key columns.
        fields: the field ids of the key columns.
        files: the data files that the segment covers.
        stored_row_ids: the indexes of the data files with a column of row ids; for others, manifests state the ids.
        pages: for each data file, where the pages of its column chunks of keys are, as far as this is known.
        n_rows: number of rows of the data files.
        n_entries: number of rows without a null in a key column.
        nulls: ordinals of the other rows.
        exact: whether keys are stored without hashing.
        n_bytes: size of the segment.

    Args:
        read: reads ranges of the segment.
        n_bytes: the size of the segment.
        path: the location of the segment, for messages.

    Raises:
        CorruptDataError: the bytes are not a segment, or are damaged.
        UnsupportedError: another version.
    """

    def __init__(self, read: Read, n_bytes: int, path: str | None = None) -> None:
        self._path, self.n_bytes = path, n_bytes
        if n_bytes < HEADER.size:
            raise self._corrupt("header", 0, f"{HEADER.size} bytes", n_bytes)
        head = _one(read, 0, HEADER.size)
        magic, version, hashed, *form, tables, absent, dir_sum, self.n_entries, self.n_rows, zero, total = (
            HEADER.unpack(head)
        )
        if magic != MAGIC:
            raise self._corrupt("magic", 0, MAGIC.hex(), magic.hex())
        if version != VERSION:
            raise UnsupportedError(f"{path}: key index of version {version}; expected {VERSION}")
        b, t, r, o = form
        bits = b + t + r
        fits = 0 < bits <= canonical.HASH_BITS if hashed else bits in EXACT_BITS
        if hashed > 1 or b > MAX_BLOCK_BITS or t > 16 or not fits or zero or self.n_rows > MAX_ROWS:
            raise self._corrupt("header", 5, "bits of a layout", head[5:10].hex())
        if self.n_entries > self.n_rows or o != max(0, self.n_rows - 1).bit_length():
            raise self._corrupt("rows", 24, f"{self.n_entries} entries and {o} bits", self.n_rows)
        self.exact = not hashed
        at = HEADER.size + tables + absent
        self._blocks_at = at + 4 * ((1 << b) + 1)
        if self._blocks_at > n_bytes:
            raise self._corrupt("size", 12, f"{self._blocks_at} bytes at least", n_bytes)
        rest = _one(read, HEADER.size, self._blocks_at - HEADER.size)
        meta, directory = rest[: tables + absent], rest[tables + absent :]
        found = checksum.crc32(meta, checksum.crc32(head[:-SUM_BYTES]))
        if found != total:
            raise self._corrupt("checksum", 44, f"{total:#010x}", f"{found:#010x}")
        if (found := checksum.crc32(directory)) != dir_sum:
            raise self._corrupt("checksum of the directory", at, f"{dir_sum:#010x}", f"{found:#010x}")
        seal = checksum.crc32(meta[tables:], self._read_tables(meta[:tables]))
        self._form = (b, t, r, o, seal)
        self._before = np.frombuffer(directory, "<u4")
        starts = kernel.block_starts(self._before, 0, self._form)
        self._starts = np.frombuffer(starts, np.uint64)
        ends = int(self._before[0]), int(self._before[-1]), self._blocks_at + int(self._starts[-1])
        if (self._before[1:] < self._before[:-1]).any() or ends != (0, self.n_entries, n_bytes):
            raise self._corrupt("directory", at, f"0, {self.n_entries}, {n_bytes}", ends)
        self.nulls = PositionBitmap()
        if absent:
            self.nulls = PositionBitmap.from_bytes(meta[tables:], path=path, offset=HEADER.size + tables)
        if len(self.nulls) + self.n_entries != self.n_rows or (
            self.nulls and self.nulls.max() >= self.n_rows
        ):
            raise self._corrupt("nulls", at, self.n_rows - self.n_entries, len(self.nulls))

    def _read_tables(self, data: bytes) -> int:
        """Reads the tables; returns the CRC-32 of their JSON."""
        most = limits.most_inflated(len(data))
        try:
            declared = zstandard.frame_content_size(data)
            if not 0 <= declared <= most:
                raise self._corrupt("tables", HEADER.size, f"at most {most} bytes", declared)
            text = zstandard.ZstdDecompressor().decompress(data, max_output_size=most)
            found = json.loads(text)
            kinds, files = found["kinds"], [CoveredFile(*file) for file in found["files"]]
            fields, stored_ids = found["fields"], found["stored_row_ids"]
            if not all(type(field) is int for field in fields) or len(fields) not in (0, len(kinds)):
                raise ValueError("fields")
            if not kinds or not all(type(kind) is str and kind.strip() for kind in kinds):
                raise ValueError("kinds")
            if not all(map(_is_file, files)) or len({file.location for file in files}) < len(files):
                raise ValueError("files")
            if not all(type(number) is int and 0 <= number < len(files) for number in stored_ids):
                raise ValueError("stored_row_ids")
            pages = found.get("pages", [[]] * len(files))
            if len(pages) != len(files) or not all(_is_chunk(chunk) for chunks in pages for chunk in chunks):
                raise ValueError("pages")
        except CorruptDataError:
            raise
        except (ValueError, TypeError, LookupError, RecursionError, zstandard.ZstdError) as error:
            raise self._corrupt("tables", HEADER.size, "kinds and files", type(error).__name__) from error
        self.kinds, self.fields, self.files = tuple(kinds), tuple(fields), tuple(files)
        self.stored_row_ids = frozenset(stored_ids)
        self.pages: tuple[Sequence[ChunkPages], ...] = tuple(pages)
        self._firsts = np.cumsum([0, *(file.n_rows for file in files)], dtype=np.int64)
        if self._firsts[-1] != self.n_rows:
            raise self._corrupt("rows of the files", HEADER.size, self.n_rows, int(self._firsts[-1]))
        if self.exact and not canonical.is_exact(self.kinds):
            raise self._corrupt("form", 5, "hashed", "exact")
        return checksum.crc32(text)

    def _corrupt(self, what: str, offset: int, expected: object, found: object) -> CorruptDataError:
        return CorruptDataError(
            f"key index: {what}", path=self._path, offset=offset, expected=expected, found=found
        )

    def may_hold(self, kinds: Sequence[str]) -> bool:
        """Whether keys of these forms can be looked up."""
        if not self.exact:  # hashes depend on the form
            return self.kinds == tuple(kinds)
        return len(kinds) == len(self.kinds) and all(map(canonical.may_hold, self.kinds, kinds))

    def find(self, read: Read, columns: Sequence[pa.Array]) -> KeyMatches:
        """Finds the rows that may have one of the keys.

        Args:
            read: reads ranges of the segment.
            columns: the keys. A key with a null in a column matches all rows with a null in any key column.

        Raises:
            CorruptDataError: a block is damaged.
        """
        has_null = False
        if (valid := canonical.not_null(columns)) is not None:
            has_null, columns = True, [column.filter(valid) for column in columns]
        wanted = _distinct(self._hashes_of(columns))
        hits = [np.empty(0, np.uint64), *self._blocks(read, wanted)]
        found = _distinct(np.concatenate(hits))
        ordinals = (found >> np.uint64(32)).astype(np.uint32)
        if has_null:
            return KeyMatches(_distinct(np.append(ordinals, self.nulls.to_numpy().astype(np.uint32))))
        if not self.exact or (ordinals[1:] == ordinals[:-1]).any():
            return KeyMatches(_distinct(ordinals))
        words = wanted[found & np.uint64(0xFFFFFFFF)]
        kernel.unmix(words, self.hash_bits)
        return KeyMatches(ordinals, words.view(np.int64))

    def parts_of(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.int32]:
        """Returns for each key the number of the part of the blocks, of `PARTS` equal ones, that it is looked up in.

        A key with a null, which has no hash, and one that the segment cannot hold have any part.
        """
        found = np.zeros(len(columns[0]), np.int32)
        rows: slice | npt.NDArray[np.int64] = slice(None)
        if (valid := canonical.not_null(columns)) is not None:
            rows = np.flatnonzero(valid.to_numpy(zero_copy_only=False))
            columns = [column.filter(valid) for column in columns]
        if self.exact:
            words: Words = canonical.integers(columns[0], self.kinds[0])[0].view(np.uint64).copy()
            kernel.mix(words, self.hash_bits)
            words <<= np.uint64(64 - self.hash_bits)
        else:
            words = canonical.hashes(columns) << np.uint64(64 - canonical.HASH_BITS)
        found[rows] = (words >> np.uint64(64 - PART_BITS)).astype(np.int32)
        return found

    def _hashes_of(self, columns: Sequence[pa.Array]) -> Words:
        b, t, r, *_ = self._form
        bits = b + t + r
        if not self.exact:
            return canonical.hashes(columns) >> np.uint64(canonical.HASH_BITS - bits)
        numbers, fits = canonical.integers(columns[0], self.kinds[0])
        if fits is not None:
            numbers = numbers[fits]
        if bits < 64:
            numbers = numbers[(numbers >= -(1 << (bits - 1))) & (numbers < 1 << (bits - 1))]
        words: Words = numbers.view(np.uint64).copy()
        kernel.mix(words, bits)
        return words

    def _blocks(self, read: Read, wanted: Words) -> Iterable[Words]:
        """Returns the ordinals for ascending hashes, each with the index of its hash in the lower half of a word.

        If there are many hashes, neighboring blocks are read and searched together.
        """
        b, t, r, *_ = self._form
        numbers = np.zeros(len(wanted), np.int64)
        if t + r < 64:
            numbers = (wanted >> np.uint64(t + r)).astype(np.int64)
        if len(wanted) * _WHOLE >= 1 << b:
            groups = self._pieces()
        else:
            groups = np.unique(np.concatenate([numbers, numbers + 1]))
        cuts = np.searchsorted(numbers, groups)
        places = self._starts[groups].tolist()
        some = np.flatnonzero(cuts[1:] > cuts[:-1]).tolist()
        ranges = [(self._blocks_at + places[at], places[at + 1] - places[at]) for at in some]
        for index, data in read(ranges):
            at = some[index]
            some_wanted = wanted[cuts[at] : cuts[at + 1]]
            wrong, keys, ordinals = kernel.find(
                data, places[at], self._before, some_wanted, self._form, self.n_rows
            )
            if wrong >= 0:
                raise self.damaged(wrong)
            number = np.frombuffer(keys, np.uint32).astype(np.uint64) + np.uint64(cuts[at])
            row: Words = np.frombuffer(ordinals, np.uint32).astype(np.uint64)
            yield row << np.uint64(32) | number

    def damaged(self, number: int) -> CorruptDataError:
        """Returns the error that a block is damaged."""
        offset = self._blocks_at + int(self._starts[number])
        return self._corrupt(f"block {number}", offset, "its checksum", "another")

    def places(
        self, ordinals: Ordinals | npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Returns for each row the index of its data file and its position in that file."""
        file = np.searchsorted(self._firsts, ordinals, "right") - 1
        return file, ordinals.astype(np.int64) - self._firsts[file]

    def by_file(
        self, found: KeyMatches
    ) -> dict[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None]]:
        """Returns the positions and keys of found rows, by the index of their data file."""
        ordinals, keys = found.ordinals, found.keys
        stops = np.searchsorted(ordinals, self._firsts)
        some = np.flatnonzero(stops[1:] > stops[:-1])
        wide = ordinals.astype(np.int64)
        bounds = (values.tolist() for values in (some, self._firsts[some], stops[some], stops[some + 1]))
        return {
            number: (wide[start:end] - first, None if keys is None else keys[start:end])
            for number, first, start, end in zip(*bounds, strict=True)
        }

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The index of each data file, by its location."""
        return {file.location: number for number, file in enumerate(self.files)}

    @cached_property
    def texts(self) -> Texts:
        """The locations of the data files, in their order."""
        encoded = [file.location.encode(errors="surrogatepass") for file in self.files]
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        texts = Texts()
        texts.add(b"".join(encoded), np.cumsum(sizes) - sizes, sizes, np.empty(len(sizes), np.int64))
        return texts

    @cached_property
    def sizes(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The bytes and the rows of each data file."""
        n_bytes = np.fromiter((file.n_bytes for file in self.files), np.int64, len(self.files))
        return n_bytes, np.diff(self._firsts)

    def check(self, read: Read) -> None:
        """Reads all blocks, some at a time, and compares their checksums.

        Raises:
            CorruptDataError: a block is damaged.
        """
        groups = self._pieces()
        starts = self._starts[groups].tolist()
        ranges = [(self._blocks_at + start, end - start) for start, end in pairwise(starts)]
        for at, data in read(ranges):
            first, last = int(groups[at]), int(groups[at + 1])
            wrong = kernel.check(data, starts[at], self._before, first, last, self._form)
            if wrong >= 0:
                raise self.damaged(wrong)

    def _pieces(self) -> npt.NDArray[np.int64]:
        """The numbers of the first blocks of pieces that all blocks are read in, and the number of blocks."""
        ends = np.arange(0, int(self._starts[-1]), PIECE_BYTES, dtype=np.uint64)
        return np.append(np.searchsorted(self._starts, ends), self.n_blocks)

    def entries(self, read: Read, first: int, last: int) -> tuple[Words, Ordinals]:
        """Reads and checks the entries of consecutive blocks: hashes in their order, and ordinals.

        Args:
            read: reads ranges of the segment.
            first, last: the number of the first block, and that of the block after the last.

        Raises:
            CorruptDataError: a block is damaged, or its entries are not rows of the segment.
        """
        n = int(self._before[last] - self._before[first])
        hashes, ordinals = np.empty(n + 1, np.uint64), np.empty(n, np.uint32)
        data, start = self._bytes_of(read, first, last)
        wrong = kernel.unpack(
            data, start, self._before, first, last, self._form, self.n_rows, hashes, ordinals
        )
        if wrong >= 0:
            raise self.damaged(wrong)
        return hashes[:n], ordinals

    def source(self, read: Read, first: int, last: int, *moves: Any) -> Source:
        """Reads consecutive blocks that are merged.

        Args:
            read: reads ranges of the segment.
            first, last: as for `entries`.
            moves: where the rows are in the merged segment.
        """
        data, start = self._bytes_of(read, first, last)
        return Source(data, start, self._before, self._form, self.n_rows, first, last, *moves)

    def _bytes_of(self, read: Read, first: int, last: int) -> tuple[bytes, int]:
        """The bytes of consecutive blocks, and where they begin."""
        start = int(self._starts[first])
        return _one(read, self._blocks_at + start, int(self._starts[last]) - start), start

    def keys_by_file(self, read: Read) -> Iterator[tuple[CoveredFile, KeyWords]]:
        """Yields the keys of each data file in the order of its rows; hashes without their `cut_bits` lower bits.

        Raises:
            CorruptDataError: as `entries`, or a row has several entries, or neither an entry nor a null.
        """
        words, ordinals = self.entries(read, 0, self.n_blocks)
        order = np.argsort(ordinals)
        ordinals, words = ordinals[order], words[order]
        if self.exact:
            kernel.unmix(words, self.hash_bits)
        if (ordinals[1:] == ordinals[:-1]).any() or (self.nulls and self.nulls.contains(ordinals).any()):
            raise self._corrupt("entries", self._blocks_at, "one for each row", "two")
        stops = np.searchsorted(ordinals, self._firsts)
        for number, file in enumerate(self.files):
            some = slice(int(stops[number]), int(stops[number + 1]))
            rows = ordinals[some].astype(np.int64) - self._firsts[number]
            yield file, KeyWords(words[some], rows, file.n_rows)

    @property
    def cut_bits(self) -> int:
        """The lower bits of a hash that are not stored."""
        return 0 if self.exact else canonical.HASH_BITS - self.hash_bits

    @property
    def n_blocks(self) -> int:
        """The number of blocks."""
        return 1 << int(self._form[0])

    @property
    def hash_bits(self) -> int:
        """The bits of a hash."""
        return sum(self._form[:3])

    @property
    def block_bits(self) -> int:
        """The bits of a block."""
        return int(self._form[0])

    @property
    def slot_bits(self) -> int:
        """The bits of a slot."""
        return int(self._form[1])


def _is_file(file: CoveredFile) -> bool:
    numbers = (file.n_bytes, file.n_rows)
    return type(file.location) is str and all(type(n) is int and 0 <= n < 1 << 63 for n in numbers)


def _is_chunk(chunk: Sequence[object]) -> bool:
    """Whether numbers may be places of pages."""
    return len(chunk) % 2 == 0 and len(chunk) > 2 and all(type(n) is int and 0 <= n < 1 << 48 for n in chunk)


def _distinct(values: Numbers) -> Numbers:
    """The distinct values in order, like `np.unique`, whose hash table is slower than a sort."""
    ordered: Numbers = np.sort(values)
    is_new = np.append(ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1])
    distinct: Numbers = ordered if is_new.all() else ordered[is_new]
    return distinct


def _one(read: Read, offset: int, length: int) -> bytes:
    ((_, data),) = read([(offset, length)])
    return data


def in_memory(blob: bytes) -> Read:
    """Returns a reader for ranges of the bytes of a segment."""
    return lambda ranges: ((at, blob[start : start + n]) for at, (start, n) in enumerate(ranges))


def lookup(blob: bytes, columns: Sequence[pa.Array]) -> Ordinals:
    """Returns the ordinals of the rows of a segment that may have one of the keys, ascending and distinct.

    Args:
        blob: the segment.
        columns: the keys, as in `Segment.find`.

    Raises:
        CorruptDataError, UnsupportedError: as `Segment` and its `find`.
        InvalidInputError: keys of these types cannot be looked up in it.
    """
    segment = Segment(in_memory(blob), len(blob))
    kinds = [canonical.kind_of(column.type) for column in columns]
    if not segment.may_hold(kinds):
        raise InvalidInputError(f"columns: expected {', '.join(segment.kinds)}, found {', '.join(kinds)}")
    return segment.find(in_memory(blob), columns).ordinals
