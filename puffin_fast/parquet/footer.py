"""The footer of a Parquet file: its row groups and column chunks, read by the kernel, and the schema, read by PyArrow.

    footer = version, schema | number of rows, row groups | metadata, writer …
             ^ layout, first part                         ^ layout, second part

The files of a table mostly have the same layout. PyArrow reads each layout once: opening a file with PyArrow takes
longer than reading a column of 40,000 numbers.

The column chunks are compared with the schema before PyArrow makes objects of them: `RowGroupMetaData.column` ends
the process if a column chunk contradicts the schema, because C++ raises an exception that the binding does not expect.
(Functions that read rows report the same contradictions as errors.)
"""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from puffin_fast._kernels.parquet import footers
from puffin_fast._process.cached import cached_property
from puffin_fast.columns.plain_types import plain_type
from puffin_fast.errors import CorruptDataError, UnsupportedError
from puffin_fast.parquet.column_layout import (
    BIT_PACKED,
    ENCODINGS,
    IN_DICTIONARY,
    WITHOUT_VALUES,
    Layout,
    ListLayout,
    NumberLayouts,
    items_of,
    layout_of,
)
from puffin_fast.parquet.page_codecs import CODECS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from puffin_fast._io import Source

Integers: TypeAlias = npt.NDArray[np.int64]

_WIDTHS = {
    "BOOLEAN": 1,
    "INT32": 4,
    "INT64": 8,
    "INT96": 12,
    "FLOAT": 4,
    "DOUBLE": 8,
    "BYTE_ARRAY": 0,
    "FIXED_LEN_BYTE_ARRAY": 0,
}
"""Bytes of a value, 0 if these vary; the physical types are in the order of the format's enumeration."""
_NUMBERS = {name: number for number, name in enumerate(_WIDTHS)}

CODEC_NAMES = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4_HADOOP", "ZSTD", "LZ4")
"""The compressions in the order of the format's enumeration, by the names of `page_codecs`."""

AFTER_FOOTER = 8
"""Bytes of the footer's length and of the magic."""
_MAGIC = b"PAR1"
_STOP = b"\0"  # Thrift, compact protocol: the end of a struct

SIGNATURE = 28
"""Bytes of the signature after a plaintext footer of encrypted columns (Parquet's Encryption.md, section 4.2)."""

_MOST_LAYOUTS = 64
"""Number of layouts that are remembered."""
_MOST_BYTES = 8 << 20
"""Maximum bytes of all layouts that are remembered; a layout of 5,000 columns has 1 MiB."""

_MOST_SELECTIONS = 8
"""Number of selections of columns that a layout remembers."""

_N_VALUES, _RAW_BYTES, _N_BYTES, _DICTIONARY, _BLOOM, _LOWER, _UPPER, _NULLS = 2, 3, 4, 6, 7, 10, 12, 14
"""The words of a column chunk that have its number of values, its bytes, the offset of its dictionary and that of its
Bloom filter, its bounds and its number of nulls."""


class Chunk(NamedTuple):
    """A column chunk; numbers are -1 where the footer does not have them.

    Attributes:
        codec: its compression; a name that `CODECS` may not have.
        encodings: bit n is set for encoding n of the format.
        n_values: number of values, nulls included.
        raw_bytes: bytes of its pages without compression.
        n_bytes: bytes of its pages.
        start: offset of its first page.
        dictionary_bytes: bytes of the page of its dictionary, which is then the first page; 0: there is none.
        bloom, bloom_bytes: offset of its Bloom filter, and the bytes of that with its header.
        values_in: what its page encoding statistics say, as in the kernel.
        least: its least value as it is stored; empty if that is not known.
        offsets, offsets_bytes: offset and bytes of its offset index.
        bounds, bounds_bytes: offset and bytes of its column index.
    """

    codec: str
    encodings: int
    n_values: int
    raw_bytes: int
    n_bytes: int
    start: int
    dictionary_bytes: int
    bloom: int
    bloom_bytes: int
    values_in: int
    least: bytes
    offsets: int
    offsets_bytes: int
    bounds: int
    bounds_bytes: int

    @property
    def has_bit_packed_levels(self) -> bool:
        """Whether levels may have the deprecated encoding, which has no length."""
        return bool(self.encodings & 1 << BIT_PACKED)

    @property
    def is_in_dictionary(self) -> bool | None:
        """Whether all values are in its dictionary, so that no data page has another encoding; None if not known."""
        if self.values_in != footers.IN_UNKNOWN:
            return bool(self.values_in == footers.IN_DICTIONARY)
        if not self.encodings & IN_DICTIONARY or self.encodings & ~ENCODINGS:
            return False
        return True if not self.encodings & ~WITHOUT_VALUES else None  # PLAIN may be that of the dictionary

    def is_known(self, layout: Layout) -> bool:
        """Whether `column_pages` decodes its compression and its encodings."""
        return self.codec in CODECS and not self.encodings & ~layout.encodings


class Chunks(NamedTuple):
    """The column chunks of one column in several row groups, as arrays; see `Chunk`."""

    codec: Integers
    encodings: Integers
    n_values: Integers
    raw_bytes: Integers
    n_bytes: Integers
    start: Integers

    def known_codec(self, layout: Layout, n_rows: Integers) -> str | None:
        """The compression of all, if `column_pages` decodes all; else None.

        Args:
            layout: of the column.
            n_rows: number of rows of each row group.
        """
        codec = CODEC_NAMES[int(self.codec[0])]
        is_known = (
            (self.codec == self.codec[0])
            & (self.encodings & ~layout.encodings == 0)
            & (self.n_values == n_rows)
            & (self.start >= 4)
            & (self.n_bytes > 0)
        )
        return codec if codec in CODECS and is_known.all() else None


class FileLayout:
    """What the files of one schema and writer have in common.

    Attributes:
        schema: the columns as PyArrow reads them.
        schema_bytes: the same, serialized.
        stored: the columns as they are stored.
        leaves: words that describe the leaf columns, which `footers.read_groups` compares with column chunks.
        parts: the bytes of footers with this layout before and after the number of rows and the row groups; None if
            they are not remembered.
    """

    parts: tuple[bytes, bytes] | None = None

    def __init__(self, file: pq.ParquetFile) -> None:
        self.schema: pa.Schema = file.schema_arrow
        self.schema_bytes: bytes = self.schema.serialize().to_pybytes()
        self.stored: pq.ParquetSchema = file.metadata.schema
        self.leaves = _leaves_of(self.stored)
        self._paths = _leaf_paths(self.schema, self.stored)
        self._layouts: dict[tuple[str, bool], tuple[int, Layout] | None] = {}
        self._lists: dict[str, ListLayout | None] = {}
        self._numbers: dict[tuple[str, ...], NumberLayouts] = {}

    def column(self, name: str, *, views: bool) -> tuple[int, Layout] | None:
        """Returns the leaf of a column that `column_pages` decodes, and how; None for other columns.

        Args:
            name: the name of a column, or the path of a leaf of structs with dots.
            views: as for `layout_of`.
        """
        key = name, views
        if key not in self._layouts:
            found = self._paths.get(name)
            layout = None
            if found is not None:
                leaf, fields = found
                layout = layout_of(self.stored.column(leaf), fields, views=views)
            self._layouts[key] = None if found is None or layout is None else (leaf, layout)
        return self._layouts[key]

    def numbers(self, names: Sequence[str]) -> NumberLayouts:
        """Returns how those of some columns are decoded that are numbers or booleans."""
        key = tuple(names)
        found = self._numbers.get(key)
        if found is None:
            if len(self._numbers) >= _MOST_SELECTIONS:
                self._numbers.clear()
            columns = ((name, self.column(name, views=False)) for name in key)
            found = NumberLayouts.of((name, *column) for name, column in columns if column is not None)
            self._numbers[key] = found
        return found

    def lists(self, name: str) -> ListLayout | None:
        """Returns how `list_pages` decodes a column of lists or maps; None for other columns.

        Args:
            name: the name of a column, or the path of a field of structs with dots.
        """
        if name not in self._lists:
            self._lists[name] = self._list_layout(name)
        return self._lists[name]

    def _list_layout(self, name: str) -> ListLayout | None:
        names = [name] if name in self.columns else name.split(".")
        fields, inner = [], list(self.schema)
        for part in names:
            found = [field for field in inner if field.name == part]
            if len(found) != 1:
                return None
            fields.append(found[0])
            inner = list(found[0].type) if pa.types.is_struct(found[0].type) else []
        *around, field = fields
        paths, leaves, kind = items_of(field.type), self.leaves_of(name), plain_type(field.type)
        levels = list(accumulate(int(field.nullable) for field in fields))
        if paths is None or len(paths) != len(leaves):
            return None
        layouts = [
            layout_of(self.stored.column(leaf), path, list_level=levels[-1])
            for leaf, path in zip(leaves, paths, strict=True)
        ]
        if None in layouts:
            return None
        structs, child = [], field.with_type(kind)
        for outer, level in zip(reversed(around), levels[-2::-1], strict=True):
            structs.append((pa.struct([child]), level))
            child = outer.with_type(structs[-1][0])
        known = tuple(layout for layout in layouts if layout is not None)
        return ListLayout(kind, levels[-1], tuple(leaves), known, tuple(structs))

    @cached_property
    def columns(self) -> frozenset[str]:
        """The names of the columns; other names are paths of fields of structs."""
        return frozenset(self.schema.names)

    @cached_property
    def _leaves_below(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for leaf in range(len(self.stored)):
            path = self.stored.column(leaf).path
            at = path.find(".")
            while at >= 0:
                found.setdefault(path[:at], []).append(leaf)
                at = path.find(".", at + 1)
            found.setdefault(path, []).append(leaf)
        return found

    @cached_property
    def texts(self) -> frozenset[int]:
        """The leaves whose values have no fixed width."""
        every = range(len(self.stored))
        return frozenset(leaf for leaf in every if self.stored.column(leaf).physical_type == "BYTE_ARRAY")

    def leaves_of(self, name: str) -> list[int]:
        """Returns the leaves of a column, or below the path of a field of structs."""
        return self._leaves_below.get(name, [])


class ChunkPlaces:
    """Where the column chunks of a file are.

    Args:
        words: the words of `footers.read_groups`, which found no fault.
        n_groups: number of row groups.
    """

    def __init__(self, words: bytes | memoryview, n_groups: int) -> None:
        groups = np.frombuffer(words, np.int64).reshape(max(n_groups, 1), -1)[:, 1:]
        self._n_leaves = groups.shape[1] // footers.CHUNK_WORDS
        chunks = groups.reshape(-1, footers.CHUNK_WORDS)
        self._n_values, self._n_bytes = chunks[:, 2], chunks[:, 4]
        data, dictionary = chunks[:, 5], chunks[:, 6]
        self._starts = np.where((dictionary > 0) & (dictionary < data), dictionary, data)
        self._order = np.argsort(self._starts, kind="stable")
        self._sorted = self._starts[self._order]

    @classmethod
    def of(cls, footer: pq.FileMetaData, source: Source, path: str) -> ChunkPlaces | None:
        """Reads them, as `check_footer` does; None if they contradict the schema."""
        status, n_groups, words = _read_groups(footer, source, path)
        return None if status else cls(words, n_groups)

    def at(self, start: int) -> tuple[int, int, int] | None:
        """The longest column chunk that starts at an offset: its leaf, bytes and number of values."""
        first, stop = np.searchsorted(self._sorted, [start, start + 1])
        if first == stop:
            return None
        found = max(self._order[first:stop].tolist(), key=self._n_bytes.__getitem__)
        return found % self._n_leaves, int(self._n_bytes[found]), int(self._n_values[found])

    def ranges(self, groups: Iterable[int], leaves: Sequence[int] | None) -> list[tuple[int, int]]:
        """The offset and the bytes of column chunks of some row groups; of all leaves, if none are given."""
        wanted = range(self._n_leaves) if leaves is None else sorted(set(leaves))
        chosen = [group * self._n_leaves + leaf for group in groups for leaf in wanted]
        return list(zip(self._starts[chosen].tolist(), self._n_bytes[chosen].tolist(), strict=True))


_layouts: dict[tuple[bytes, bytes], FileLayout] = {}
"""The remembered layouts, by their two parts."""


class Footer:
    """The footer of a file; may be shared by threads.

    Args:
        data: its bytes.
        layout: the layout of the file.
        metadata: the footer in PyArrow, if it was made.

    Attributes:
        layout: the same.
        status: the status of `footers.read_groups`: 0 if the column chunks agree with the schema.
        n_rows: number of rows of the file; -1 if it is not known.
        group_rows: number of rows of each row group.
    """

    def __init__(self, data: bytes, layout: FileLayout, metadata: pq.FileMetaData | None = None) -> None:
        self._data, self.layout = data, layout
        self.status, self.n_rows, n_groups, words = footers.read_groups(data, layout.leaves)
        self._words = memoryview(words).cast("q")
        if metadata is not None:
            self.metadata = metadata
            if (self.n_rows, n_groups) != (metadata.num_rows, metadata.num_row_groups):
                self.status = self.status or footers.CONTRADICTION
            self.n_rows, n_groups = metadata.num_rows, metadata.num_row_groups
        self._step = len(self._words) // n_groups if n_groups > 0 else 1
        if self.status == 0 or metadata is None:
            self.group_rows: tuple[int, ...] = tuple(self._words[:: self._step].tolist())
        else:
            self.group_rows = tuple(metadata.row_group(number).num_rows for number in range(n_groups))

    @classmethod
    def known(cls, data: bytes) -> Footer | None:
        """Reads a footer whose layout is remembered; None if it is not, or the footer contradicts itself."""
        parts = _parts_of(data)
        layout = None if parts is None else _layouts.get(parts)
        if layout is None:
            return None
        found = cls(data, layout)
        is_whole = found.status == 0 and found.n_rows >= 0 and min(found.group_rows, default=0) >= 0
        return found if is_whole else None

    @classmethod
    def of(cls, file: pq.ParquetFile, data: bytes) -> Footer:
        """Returns the footer of a file that PyArrow has opened, and remembers its layout.

        Args:
            data: the bytes of its footer.
        """
        found = cls(data, FileLayout(file), file.metadata)
        parts = None if found.status else _parts_of(data)
        if parts is not None and (n_bytes := sum(map(len, parts))) <= _MOST_BYTES:
            known = [*_layouts]  # other threads may add some
            n_known = sum(len(part) for one in known for part in one)
            if len(_layouts) >= _MOST_LAYOUTS or n_known + n_bytes > _MOST_BYTES:
                _layouts.clear()
            found.layout.parts = parts
            _layouts[parts] = found.layout
        return found

    @cached_property
    def metadata(self) -> pq.FileMetaData:
        """The footer in PyArrow; row groups may be made of it if the status is 0."""
        return pq.read_metadata(
            pa.BufferReader(_MAGIC + self._data + len(self._data).to_bytes(4, "little") + _MAGIC)
        )

    @cached_property
    def places(self) -> ChunkPlaces | None:
        """Where the column chunks are; None if they contradict the schema."""
        return None if self.status else ChunkPlaces(self._words, len(self.group_rows))

    @cached_property
    def has_bloom_filters(self) -> bool:
        """Whether a column chunk has a Bloom filter."""
        words = self._words
        return self.status == 0 and any(
            max(words[at + 1 + _BLOOM : at + self._step : footers.CHUNK_WORDS].tolist(), default=0) > 0
            for at in range(0, len(words), self._step)
        )

    def has_dictionaries(self, least: int) -> bool:
        """Whether a column chunk of at least some number of bytes has a dictionary."""
        words, step = self._words, footers.CHUNK_WORDS
        return self.status == 0 and any(
            dictionary > 0 and n_bytes >= least
            for at in range(1, len(words), self._step)
            for dictionary, n_bytes in zip(
                words[at + _DICTIONARY : at + self._step - 1 : step].tolist(),
                words[at + _N_BYTES : at + self._step - 1 : step].tolist(),
                strict=True,
            )
        )

    def n_bytes(self, group: int, leaves: Iterable[int] | None = None) -> int | None:
        """Returns the bytes of a row group's column chunks, or of some leaves; None if they contradict the schema."""
        if self.status:
            return None
        found = self._words[
            group * self._step + 1 + _N_BYTES : (group + 1) * self._step : footers.CHUNK_WORDS
        ]
        return sum(found.tolist() if leaves is None else [found[leaf] for leaf in {*leaves}])

    def chunk_words(self, group: int) -> Integers:
        """Returns the words of `footers.read_groups` of the column chunks of a row group; the status must be 0."""
        return self.words[group, 1:].reshape(-1, footers.CHUNK_WORDS)

    @cached_property
    def words(self) -> Integers:
        """The words, a line for each row group."""
        words: Integers = np.frombuffer(self._words, np.int64)
        return words.reshape(-1, self._step)

    def raw_bytes(self, groups: Sequence[int], leaves: Iterable[int]) -> list[int]:
        """Returns the bytes of some leaves without compression in each of some row groups; the status must be 0."""
        found: list[int] = self._sizes(groups, leaves, _RAW_BYTES).sum(axis=1).tolist()
        return found

    def most_bytes(self, groups: Sequence[int], leaves: Iterable[int]) -> list[int]:
        """As `raw_bytes`, but the most that texts may have as an array: each row may have the longest value."""
        texts = self.layout.texts.intersection(leaves)
        if not texts:
            return [0] * len(groups)
        n_values = self._sizes(groups, texts, _N_VALUES)
        has_dictionary = self._sizes(groups, texts, _DICTIONARY) >= 0
        most = self._sizes(groups, texts, _RAW_BYTES) * np.where(has_dictionary, n_values, 1)
        found: list[int] = most.sum(axis=1).tolist()
        return found

    def _sizes(self, groups: Sequence[int], leaves: Iterable[int], word: int) -> Integers:
        words = np.array([1 + leaf * footers.CHUNK_WORDS + word for leaf in dict.fromkeys(leaves)], np.int64)
        return self.words[np.array(groups, np.int64)[:, np.newaxis], words]

    @staticmethod
    def chunks(words: Integers, leaf: int) -> Chunks:
        """Returns the column chunks of a leaf in row groups that have some words; the status must be 0."""
        at = 1 + leaf * footers.CHUNK_WORDS
        codec, encodings, n_values, raw_bytes, n_bytes, data, dictionary = words[:, at : at + _BLOOM].T
        start = np.where(dictionary < 0, data, np.minimum(data, dictionary))
        return Chunks(codec, encodings, n_values, raw_bytes, n_bytes, start)

    def bounds(self, leaf: int, *, upper: bool) -> tuple[bytes, Integers, Integers]:
        """Finds the bounds of a leaf in all row groups, as they are stored; the status must be 0.

        Returns:
            the bytes of the footer, and the offset in them and the bytes of each bound, -1 for an unknown one.
        """
        at = 1 + leaf * footers.CHUNK_WORDS
        is_known = self.words[:, at + _UPPER] >= 0  # a deprecated lower bound comes without an upper one
        before_end, sizes = self.words[:, at + (_UPPER if upper else _LOWER) :][:, :2].T
        return self._data, len(self._data) - before_end, np.where(is_known, sizes, -1)

    def nulls(self, leaf: int) -> Integers:
        """Returns the number of nulls of a leaf in each row group, -1 for an unknown one; the status must be 0."""
        return self.words[:, 1 + leaf * footers.CHUNK_WORDS + _NULLS]

    def chunk(self, group: int, leaf: int) -> Chunk:
        """Returns a column chunk; the status must be 0.

        Args:
            group: number of the row group.
            leaf: number of the leaf column.
        """
        at = group * self._step + 1 + leaf * footers.CHUNK_WORDS
        words = self._words[at : at + footers.CHUNK_WORDS].tolist()
        codec, encodings, n_values, raw_bytes, n_bytes, data, dictionary, *some = words
        bloom, bloom_bytes, values_in, least, least_bytes, _, _, _, *indexes = some
        start = data if dictionary < 0 else min(data, dictionary)
        in_front = data - dictionary if 4 <= dictionary < data else 0
        head = CODEC_NAMES[codec], encodings, n_values, raw_bytes, n_bytes, start, in_front
        before = max(len(self._data) - least, 0)
        value = self._data[before : before + least_bytes] if least > 0 else b""
        return Chunk(*head, bloom, bloom_bytes, values_in, value, *indexes)


def footer_bytes(source: Source, first: int) -> bytes:
    """Reads the footer of a file, in one read if it is not long.

    Args:
        first: how many bytes at the end of the file are read first.

    Raises:
        ValueError: the file does not end like a Parquet file.
        CorruptDataError: a long footer has no fields; it is not read, as a sparse file may state any length.
    """
    tail = source.read_tail(first)
    n_bytes = int.from_bytes(tail[-AFTER_FOOTER : -len(_MAGIC)], "little") + AFTER_FOOTER
    if not tail.endswith(_MAGIC) or n_bytes > source.size:
        raise ValueError("no Parquet footer at the end of the file")
    if len(tail) < n_bytes:
        at = source.size - n_bytes
        if source.is_local and source.read_at(at, 1) == _STOP:
            raise CorruptDataError(
                "Parquet footer", path=source.path, offset=at, expected="fields", found="none"
            )
        tail = source.read_tail(n_bytes)
    return tail[-n_bytes:-AFTER_FOOTER]


def check_footer(footer: pq.FileMetaData, source: Source, path: str) -> None:
    """Checks the column chunks of all row groups. Reads the footer once more.

    Args:
        path: the path of the file, for messages.

    Raises:
        CorruptDataError: a column chunk contradicts the schema.
        UnsupportedError: a column chunk is encrypted.
    """
    status, *_ = _read_groups(footer, source, path)
    check_status(status, path)


def _read_groups(footer: pq.FileMetaData, source: Source, path: str) -> tuple[int, int, bytes]:
    """Status, number of row groups, and words of `footers.read_groups`."""
    n_bytes = footer.serialized_size
    tail = source.read_tail(n_bytes + SIGNATURE + AFTER_FOOTER)
    stated = int.from_bytes(tail[-AFTER_FOOTER : -len(_MAGIC)], "little")
    if stated not in (n_bytes, n_bytes + SIGNATURE):
        raise CorruptDataError("bytes of a Parquet footer", path=path, expected=stated, found=n_bytes)
    status, _, n_groups, words = footers.read_groups(
        tail[-stated - AFTER_FOOTER :], _leaves_of(footer.schema)
    )
    return status, n_groups, words


def check_status(status: int, path: str) -> None:
    """Raises what is wrong with column chunks.

    Args:
        status: the status of `footers.read_groups`.
        path: the path of the file, for messages.

    Raises:
        CorruptDataError: a column chunk contradicts the schema.
        UnsupportedError: a column chunk is encrypted.
    """
    if status == footers.ENCRYPTED:
        raise UnsupportedError(f"{path}: columns are encrypted")
    if status:
        expected = (
            "types, levels and bounds of the schema" if status == footers.CONTRADICTION else "Thrift structs"
        )
        raise CorruptDataError(
            "column chunks of a Parquet footer", path=path, expected=expected, found="others"
        )


def _parts_of(data: bytes) -> tuple[bytes, bytes] | None:
    span = footers.find_groups(data)
    return None if span is None else (data[: span[0]], data[span[1] :])


def _leaves_of(schema: pq.ParquetSchema) -> array[int]:
    leaves = array("i")
    for column in map(schema.column, range(len(schema))):
        kind = column.physical_type
        width = column.length if kind == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(kind, 0)
        leaves.extend(
            (_NUMBERS.get(kind, -1), column.max_repetition_level, column.max_definition_level, width)
        )
    return leaves


def _leaf_paths(schema: pa.Schema, stored: pq.ParquetSchema) -> dict[str, tuple[int, tuple[pa.Field, ...]]]:
    """The leaf of each column that is not inside lists and maps, with the structs around it and itself, by path.

    Columns and leaves whose path is not unique are left out.
    """
    paths = [stored.column(at).path for at in range(len(stored.names))]
    leaves = {path: at for at, path in enumerate(paths)}
    found = [
        (".".join(field.name for field in fields), fields) for field in schema for fields in _below(field)
    ]
    times, path_times = Counter(path for path, _ in found), Counter(paths)
    return {
        path: (leaves[path], fields) for path, fields in found if times[path] == 1 and path_times[path] == 1
    }


def _below(field: pa.Field) -> Iterator[tuple[pa.Field, ...]]:
    """Yields the fields from a field of a struct down to each of its leaves, but for those inside lists and maps."""
    if pa.types.is_struct(field.type):
        for child in field.type:
            yield from ((field, *fields) for fields in _below(child))
    elif not pa.types.is_nested(field.type):
        yield (field,)
