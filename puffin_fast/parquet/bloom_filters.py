"""Bloom filters of column chunks: which of some values a column chunk may have.

    filter = header | blocks of 32 bytes; a value sets bits of one of them

A filter answers for the bytes of values as they are stored, so that it is asked only where the stored type is known
to be the type of the values, or wider or narrower by a promotion. It has no checksum: it is not asked if its header
is not that of the format, or contradicts the footer, or if it does not have a value that the column chunk has.

Source: Parquet format specification, "Bloom Filter".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._kernels.parquet import bloom, pages
from puffin_fast.parquet.column_layout import TEXTS

if TYPE_CHECKING:
    from puffin_fast._io import Source
    from puffin_fast.parquet.column_layout import Layout
    from puffin_fast.parquet.footer import Chunk

Flags = npt.NDArray[np.bool_]

_HEADER_BYTES = 64
"""Bytes that are read for a header; the format's own has 15 to 20."""

_READ_BYTES = 1 << 20
"""Most bytes of a filter that are read along with its header from an object store, where a request costs more."""

_BLOCK_READ = 1 << 12
"""A filter is read whole if it has fewer bytes than this for each value: reading a block costs as much."""


@dataclass(frozen=True, slots=True)
class Hashes:
    """The hashes of values as they are stored in a column.

    Attributes:
        hashes: uint64, one for each value.
        fits: whether the column can store the value.
        is_null: whether it is null; filters have no nulls.
        are_plain: whether all values fit, and none is null.
    """

    hashes: npt.NDArray[np.uint64]
    fits: Flags
    is_null: Flags
    are_plain: bool

    @classmethod
    def of(cls, values: pa.Array, layout: Layout) -> Hashes | None:
        """Returns the hashes of values; None if filters cannot be asked for them.

        Args:
            values: in the storage type of a column of the table.
            layout: the layout of the column in the file.
        """
        n, is_null = len(values), values.is_null().to_numpy(zero_copy_only=False)
        hashes, fits = np.empty(n, np.uint64), np.ones(n, np.bool_)
        if layout.stored == 0:
            if layout.width == 1 or values.type not in TEXTS:
                return None
            texts = pc.fill_null(values.cast(pa.large_binary()), b"")
            offsets = np.frombuffer(texts.buffers()[1], np.int64, n + 1, 8 * texts.offset)
            bloom.hash_texts(offsets, texts.buffers()[2] or b"", hashes)
        else:
            cells = _cells(values, layout)
            if cells is None:
                return None
            stored, fits = cells
            bloom.hash_fixed(np.ascontiguousarray(stored), layout.stored, hashes)
        return cls(hashes, fits, is_null, bool((fits & ~is_null).all()))

    def kinds(self) -> npt.NDArray[np.uint8]:
        """Returns what is known of each value before a filter is asked, as `bloom.FileQuestion` takes it."""
        kinds = np.where(self.fits, bloom.ASKED, bloom.NOWHERE)
        return np.where(self.is_null, bloom.ANYWHERE, kinds).astype(np.uint8)


class BloomFilter:
    """The filter of a column chunk.

    Args:
        source: the file.
        start: where its blocks start.
        n_bytes: the number of bytes of its blocks.
        blocks: they, if they were read.
    """

    def __init__(self, source: Source, start: int, n_bytes: int, blocks: bytes = b"") -> None:
        self._source, self._start, self.n_bytes, self._blocks = source, start, n_bytes, blocks

    @classmethod
    def of(cls, source: Source, chunk: Chunk, *, is_remote: bool) -> BloomFilter | None:
        """Opens the filter of a column chunk; None if it has none, or none of the expected form.

        Args:
            is_remote: whether a request costs more than the bytes of a filter.
        """
        left = source.size - chunk.bloom
        if chunk.bloom < 4 or left <= 0:
            return None
        most = min(left, chunk.bloom_bytes if chunk.bloom_bytes > 0 else left)
        head = source.read_at(chunk.bloom, min(most, _READ_BYTES if is_remote else _HEADER_BYTES))
        found = bloom.header(head[:_HEADER_BYTES])
        if found is None or sum(found) > left or (chunk.bloom_bytes > 0 and sum(found) != chunk.bloom_bytes):
            return None
        size, n_bytes = found
        blocks = head[size : size + n_bytes]
        return cls(source, chunk.bloom + size, n_bytes, blocks if len(blocks) == n_bytes else b"")

    def pays(self, n_values: int, n_rows: int) -> bool:
        """Whether it probably excludes a column chunk that has none of some values: each is found with a probability.

        Args:
            n_values: number of values.
            n_rows: the number of rows of the row group, which has at most as many distinct values.
        """
        return 8 * self.n_bytes >= least_bits(n_values) * max(n_rows, 1)

    def contains(self, hashes: npt.NDArray[np.uint64]) -> Flags:
        """Returns which hashes it has: the chunk has no value of another hash."""
        found = np.empty(len(hashes), np.uint8)
        if not self._blocks and len(hashes) * _BLOCK_READ < self.n_bytes:
            bloom.contains(self._read_blocks(hashes), hashes, found, is_whole=False)
        else:
            self._blocks = self._blocks or self._source.read_at(self._start, self.n_bytes)
            bloom.contains(self._blocks, hashes, found, is_whole=True)
        return found.view(np.bool_)

    def _read_blocks(self, hashes: npt.NDArray[np.uint64]) -> bytes:
        """The block of each hash."""
        numbers = np.empty(len(hashes), np.int64)
        bloom.blocks_of(hashes, self.n_bytes // bloom.BLOCK_BYTES, numbers)
        ranges = [(self._start + bloom.BLOCK_BYTES * at, bloom.BLOCK_BYTES) for at in numbers.tolist()]
        if self._source.is_local or len(ranges) == 1:  # to find near ones takes longer than these reads
            return b"".join([self._source.read_at(*block) for block in ranges])
        parts = dict(self._source.read_ranges(ranges))
        return b"".join(parts[at] for at in range(len(ranges)))


def hash_of_least(chunk: Chunk, layout: Layout) -> npt.NDArray[np.uint64] | None:
    """Returns the hash of the least value of a column chunk; None for texts, whose bounds may be no values.

    Args:
        layout: the layout of the column in the file.
    """
    if layout.stored == 0 or len(chunk.least) != layout.stored:
        return None
    found = np.empty(1, np.uint64)
    bloom.hash_fixed(chunk.least, layout.stored, found)
    return found


def least_bits(n_values: int) -> float:
    """Returns from how many bits for each row on a filter pays for some values: each is found with a probability."""
    return -8 / math.log1p(-(n_values ** (-1 / 8))) if n_values > 1 else 0.0


def _cells(values: pa.Array, layout: Layout) -> tuple[npt.NDArray[Any], Flags] | None:
    """Values of a fixed width as they are stored, and which of them can be; None for types that are not the same."""
    kind, n, types = layout.type, len(values), pa.types
    every = np.ones(n, np.bool_)
    if types.is_decimal128(kind):
        same = types.is_decimal128(values.type) and values.type.scale == kind.scale
        return _unscaled(values, layout) if same else None
    if types.is_fixed_size_binary(kind):
        if values.type != kind:
            return None
        return np.frombuffer(
            values.buffers()[1], np.uint8, n * layout.stored, values.offset * layout.stored
        ), every
    if types.is_integer(kind) and types.is_integer(values.type):
        numbers = pc.fill_null(values, 0).to_numpy()
        limits = np.iinfo(kind.to_pandas_dtype())
        return numbers.astype(kind.to_pandas_dtype()), (numbers >= limits.min) & (numbers <= limits.max)
    is_time = types.is_date32(kind) or types.is_time(kind) or types.is_timestamp(kind)
    if (
        not is_time
        or values.type.id != kind.id
        or getattr(values.type, "unit", 0) != getattr(kind, "unit", 0)
    ):
        return None
    integers = pa.int32() if layout.stored == 4 else pa.int64()
    return pc.fill_null(values.view(integers), 0).to_numpy(), every


def _unscaled(values: pa.Array, layout: Layout) -> tuple[npt.NDArray[Any], Flags]:
    """Decimals as integers of the stored number of bytes, in the stored order."""
    width, n = layout.stored, len(values)
    words = np.frombuffer(values.buffers()[1], np.uint8, 16 * n, 16 * values.offset).reshape(n, 16)
    low = words[:, :width]
    sign = np.where(low[:, -1:] & 0x80, 0xFF, 0).astype(np.uint8)
    fits = (words[:, width:] == sign).all(axis=1)
    return (low[:, ::-1] if layout.conversion == pages.BIG_ENDIAN_TO_INT128 else low), fits
