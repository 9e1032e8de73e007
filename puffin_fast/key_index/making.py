"""Makes segments of key indexes: of keys, and of other segments. See `segment` for the bytes."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zstandard

from puffin_fast._kernels import checksum
from puffin_fast._kernels.key_index import blocks as kernel
from puffin_fast._kernels.key_index.entries import Entries, Source
from puffin_fast._kernels.key_index.entries import merge as merge_blocks
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import CorruptDataError, InvalidInputError
from puffin_fast.key_index import canonical
from puffin_fast.key_index.segment import (
    EXACT_BITS,
    HEADER,
    MAGIC,
    MAX_BLOCK_BITS,
    MAX_ROWS,
    SUM_BYTES,
    VERSION,
    ChunkPages,
    CoveredFile,
    KeyWords,
    Read,
    Segment,
    in_memory,
)

SLOT_BITS, BLOCK_ENTRIES_BITS = 8, 8
REMAINDER_BITS = 16
"""Bits of a remainder of hashed keys: in a full segment, one in 50,000 absent keys has an entry."""

_LEAST_HASH_BITS = 40

MERGED_ENTRIES = 1 << 20
"""Approximate entries that a merge reads and writes at a time."""

_COARSE_BITS = 12
"""Bits of the number of ordinals whose data file is looked up in advance, if files are dropped."""

_Form = tuple[int, int, int, int]


def encode(
    columns: Sequence[pa.Array],
    files: Sequence[CoveredFile],
    fields: Sequence[int] = (),
    *,
    stored_row_ids: Sequence[int] = (),
    pages: Sequence[Sequence[ChunkPages]] = (),
    slot_bits: int = SLOT_BITS,
    remainder_bits: int | None = None,
) -> bytes:
    """Encodes a segment.

    Args:
        columns: the key columns, with the rows of all data files one after another.
        files: the data files.
        fields: the field ids of the key columns in the table's schema.
        stored_row_ids: the indexes of the data files with a column of row ids.
        pages: for each data file, where the pages of its column chunks of keys are; none if no place is known.
        slot_bits, remainder_bits: as for `encode_words`.

    Raises:
        InvalidInputError: the columns have another number of rows than the files, more than 2^32 - 1, or values that
            cannot be keys.
    """
    kinds = [canonical.kind_of(column.type) for column in columns]
    if len({len(column) for column in columns}) > 1:
        raise InvalidInputError(f"columns: expected one length, found {[len(c) for c in columns]}")
    return encode_words(
        kinds,
        [KeyWords.of(columns)],
        files,
        fields,
        stored_row_ids=stored_row_ids,
        pages=pages,
        slot_bits=slot_bits,
        remainder_bits=remainder_bits,
    )


def encode_words(
    kinds: Sequence[str],
    parts: list[KeyWords],
    files: Sequence[CoveredFile],
    fields: Sequence[int] = (),
    *,
    stored_row_ids: Sequence[int] = (),
    pages: Sequence[Sequence[ChunkPages]] = (),
    slot_bits: int = SLOT_BITS,
    remainder_bits: int | None = None,
) -> bytes:
    """Encodes a segment of keys in their canonical form.

    Memory: at most 24 bytes for each row, the parts included.

    Args:
        kinds: the forms of the key columns.
        parts: the keys of the rows of all data files, one after another; taken out of the list.
        files: the data files.
        fields: the field ids of the key columns.
        stored_row_ids: the indexes of the data files with a column of row ids.
        pages: for each data file, where the pages of its column chunks of keys are; none if no place is known.
        slot_bits: of the layout.
        remainder_bits: of hashed keys; by default enough for few collisions.

    Raises:
        InvalidInputError: as `encode`.
    """
    n_rows = sum(part.n_rows for part in parts)
    expected = sum(file.n_rows for file in files)
    if n_rows != expected or n_rows > MAX_ROWS:
        raise InvalidInputError(f"columns: expected {expected} rows, less than 2^32, found {n_rows}")
    n = sum(len(part.words) for part in parts)
    if canonical.is_exact(kinds):
        bits = _bits_of(part.words.view(np.int64) for part in parts)
        form = _form(n, n_rows, bits, slot_bits)
        for part in parts:
            kernel.mix(part.words, bits)
    else:
        form = _form(n, n_rows, canonical.HASH_BITS, slot_bits, _least(n, slot_bits, remainder_bits))
        for part in parts:
            np.right_shift(part.words, np.uint64(canonical.HASH_BITS - sum(form[:3])), out=part.words)
    tables = _Tables(kinds, fields, files, stored_row_ids, pages, _nulls_of(parts))
    entries = Entries((*form, tables.seal), 0, 1 << form[0])
    for part in parts:
        entries.count(part.words)
    parts.reverse()
    first = 0
    while parts:
        part = parts.pop()
        entries.add(part.words, None if part.rows is None else part.rows.astype(np.uint32), first)
        first += part.n_rows
    packed = entries.pack()
    del entries
    return tables.segment(form, n, *packed)


def _bits_of(numbers: Iterable[npt.NDArray[np.int64]]) -> int:
    """The bits of the mixed words of integers."""
    bounds = [(int(some.min()), int(some.max())) for some in numbers if len(some)]
    most = max((max(high, ~low) for low, high in bounds), default=0)
    return next(bits for bits in EXACT_BITS if most < 1 << (bits - 1))


def _block_bits(n: int) -> int:
    return max(0, min(MAX_BLOCK_BITS, round(math.log2(max(1, n))) - BLOCK_ENTRIES_BITS))


def _least(n: int, slot_bits: int, remainder_bits: int | None) -> int:
    """The bits of a remainder of hashed keys; by default enough for few collisions."""
    return remainder_bits or max(REMAINDER_BITS, _LEAST_HASH_BITS - _block_bits(n) - slot_bits)


def _form(n: int, n_rows: int, bits: int, slot_bits: int, remainder_bits: int | None = None) -> _Form:
    """The bits of a block, a slot, a remainder and an ordinal.

    Args:
        n: the number of entries.
        n_rows: the number of rows.
        bits: of the hashes.
        slot_bits: of the layout.
        remainder_bits: of hashes that may be cut; None for exact keys.
    """
    b = min(bits - slot_bits, _block_bits(n))
    if remainder_bits is not None:
        bits = min(bits, b + slot_bits + remainder_bits)
    return b, slot_bits, bits - b - slot_bits, max(0, n_rows - 1).bit_length()


def _nulls_of(parts: Sequence[KeyWords]) -> PositionBitmap:
    """The ordinals of rows without a key."""
    found: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
    first = 0
    for part in parts:
        if part.rows is not None:
            is_null = np.ones(part.n_rows, np.bool_)
            is_null[part.rows] = False
            found.append(np.flatnonzero(is_null) + first)
        first += part.n_rows
    return PositionBitmap.from_positions(np.concatenate(found))


class _Tables:
    """What a segment says of its keys and data files.

    Attributes:
        seal: of the blocks.
    """

    def __init__(
        self,
        kinds: Sequence[str],
        fields: Sequence[int],
        files: Sequence[CoveredFile],
        stored_row_ids: Sequence[int],
        pages: Sequence[Sequence[ChunkPages]],
        nulls: PositionBitmap,
    ) -> None:
        found: dict[str, object] = {
            "kinds": list(kinds),
            "fields": list(fields),
            "files": list(map(list, files)),
            "stored_row_ids": list(stored_row_ids),
        }
        if any(pages):
            found["pages"] = list(pages)
        text = json.dumps(found).encode()
        self._exact = canonical.is_exact(kinds)
        self._n_rows = sum(file.n_rows for file in files)
        self._tables = zstandard.ZstdCompressor().compress(text)
        self._nulls = nulls.to_bytes() if nulls else b""
        self.seal = checksum.crc32(self._nulls, checksum.crc32(text))

    def head(self, form: _Form, n: int, before: bytearray) -> bytes:
        """What a segment has before its blocks.

        Args:
            form: bits of a block, a slot, a remainder and an ordinal.
            n: the number of entries.
            before: the number of entries before each block.
        """
        directory = before + n.to_bytes(4, "little")
        head = HEADER.pack(
            MAGIC, VERSION, not self._exact, *form, len(self._tables), len(self._nulls),
            checksum.crc32(directory), n, self._n_rows, 0, 0,
        )[: -SUM_BYTES]  # fmt: skip
        total = checksum.crc32(self._nulls, checksum.crc32(self._tables, checksum.crc32(head)))
        return b"".join([head, total.to_bytes(SUM_BYTES, "little"), self._tables, self._nulls, directory])

    def segment(self, form: _Form, n: int, before: bytearray, blocks: bytearray) -> bytes:
        """A segment of these, as `head`, and of blocks."""
        return b"".join([self.head(form, n, before), blocks])


def widened(segment: Segment, read: Read, bits: int) -> tuple[Segment, Read]:
    """Returns the same entries of exact keys, whose integers have more bits.

    Raises:
        CorruptDataError: as `Segment.entries`.
    """
    parts, step = [], MERGED_ENTRIES >> BLOCK_ENTRIES_BITS
    for first in range(0, segment.n_blocks, step):
        words, ordinals = segment.entries(read, first, min(first + step, segment.n_blocks))
        kernel.unmix(words, segment.hash_bits)
        kernel.mix(words, bits)
        parts.append((words, ordinals))
    about = segment.kinds, segment.fields, segment.files, sorted(segment.stored_row_ids), segment.pages
    tables = _Tables(*about, segment.nulls)
    form = _form(segment.n_entries, segment.n_rows, bits, segment.slot_bits)
    entries = Entries((*form, tables.seal), 0, 1 << form[0])
    for words, _ in parts:
        entries.count(words)
    while parts:
        entries.add(*parts.pop())
    packed = entries.pack()
    del entries
    blob = tables.segment(form, segment.n_entries, *packed)
    return Segment(in_memory(blob), len(blob)), in_memory(blob)


def merge(
    segments: Sequence[tuple[Segment, Read]], keep: Callable[[CoveredFile], bool] = lambda file: True
) -> bytes:
    """Makes one segment of several, as `merge_into`; memory is that of the merged segment in addition."""
    merged = io.BytesIO()
    merge_into(merged, segments, keep)
    return merged.getvalue()


def merge_into(
    out: IO[bytes],
    segments: Sequence[tuple[Segment, Read]],
    keep: Callable[[CoveredFile], bool] = lambda file: True,
) -> int:
    """Writes one segment of several with equal kinds of keys; their data files must be different ones.

    They are read in ranges of hashes, one after another. Memory: 4 bytes for each block of the merged segment, and some
    MiB. A segment of exact keys with fewer bits than others is made anew before, in 24 bytes for each of its rows.

    Args:
        out: a seekable file, written from its position on.
        segments: each with its reader.
        keep: whether a data file is kept.

    Returns:
        The bytes of the segment.

    Raises:
        CorruptDataError: a block is damaged, or the entries of a segment are not those of its rows.
        InvalidInputError: the kinds of keys differ.
    """
    first = segments[0][0]
    kinds, fields = first.kinds, first.fields
    same = (kinds, fields, first.exact)
    if any((segment.kinds, segment.fields, segment.exact) != same for segment, _ in segments):
        raise InvalidInputError("segments: expected keys of one kind, found several")
    every = [segment.hash_bits for segment, _ in segments]
    bits = max(every) if first.exact else min(every)
    if first.exact:
        segments = [
            (segment, read) if segment.hash_bits == bits else widened(segment, read, bits)
            for segment, read in segments
        ]
    files: list[CoveredFile] = []
    nulls: list[npt.NDArray[np.int64]] = []
    stored_row_ids: list[int] = []
    pages: list[Sequence[ChunkPages]] = []
    n_rows = 0
    moves = []
    for segment, _ in segments:
        moved = _Moved(segment, keep, n_rows)
        moves.append(moved)
        stored_row_ids += [len(files) + number for number in moved.stored_row_ids]
        files += moved.files
        pages += moved.pages
        n_rows += sum(file.n_rows for file in moved.files)
        nulls.append(moved.of(segment.nulls.to_numpy().astype(np.int64)))
    if n_rows > MAX_ROWS:
        raise InvalidInputError(f"segments: expected less than 2^32 rows, found {n_rows}")
    absent = PositionBitmap.from_positions(np.concatenate(nulls))
    n, t = n_rows - len(absent), first.slot_bits
    form = _form(n, n_rows, bits, t, None if first.exact else _least(n, t, None))
    tables = _Tables(kinds, fields, files, stored_row_ids, pages, absent)
    start = out.tell()
    at = out.seek(len(tables.head(form, n, bytearray(4 << form[0]))), 1)
    before, n_before, step = bytearray(), 0, max(1, MERGED_ENTRIES >> BLOCK_ENTRIES_BITS)
    for block in range(0, 1 << form[0], step):
        last = min(block + step, 1 << form[0])
        sources = [
            moved.source(read, form[0], block, last) for (_, read), moved in zip(segments, moves, strict=True)
        ]
        wrong, number, counts, blocks, n_some = merge_blocks(
            sources, (*form, tables.seal), block, last, n_before
        )
        if wrong >= 0:
            raise segments[wrong][0].damaged(number)
        n_before += n_some
        before += counts
        at += out.write(blocks)
    if n_before != n:
        raise CorruptDataError("key index: entries of merged segments", expected=n, found=n_before)
    out.seek(start)
    out.write(tables.head(form, n, before))
    out.seek(at)
    return at - start


class _Moved:
    """The ordinals of a segment's rows in a merged one, where the rows of its kept files begin at `first`."""

    def __init__(self, segment: Segment, keep: Callable[[CoveredFile], bool], first: int) -> None:
        self._segment, self._first = segment, first
        kept = np.array([keep(file) for file in segment.files], np.bool_)
        _, counts = segment.sizes
        rows = np.where(kept, counts, 0)
        self._moved = np.where(kept, np.cumsum(rows) - rows + first, -1)
        numbers = np.flatnonzero(kept).tolist()
        self.files = [segment.files[number] for number in numbers]
        self.pages = [segment.pages[number] for number in numbers]
        self.stored_row_ids = [at for at, number in enumerate(numbers) if number in segment.stored_row_ids]
        self._how: tuple[Any, ...] = (None, b"", b"", 0, first)
        if not kept.all():
            firsts = np.append(np.cumsum(counts) - counts, segment.n_rows)
            o = max(0, segment.n_rows - 1).bit_length()
            shift = max(0, o - max(_COARSE_BITS, len(counts).bit_length()))
            coarse = np.searchsorted(firsts, np.arange(0, segment.n_rows, 1 << shift), "right") - 1
            self._how = self._moved, firsts.astype(np.uint32), coarse.astype(np.uint32), shift, 0

    def of(self, ordinals: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The new ordinals of the rows that are in kept files."""
        file, position = self._segment.places(ordinals)
        first = self._moved[file]
        return (first + position)[first >= 0]

    def source(self, read: Read, block_bits: int, first: int, last: int) -> Source:
        """The segment's blocks that have entries of some blocks of a segment with 2^`block_bits` blocks."""
        more = self._segment.block_bits - block_bits
        if more >= 0:
            first, last = first << more, last << more
        else:
            first, last = first >> -more, -(-last >> -more)
        return self._segment.source(read, first, last, *self._how)
