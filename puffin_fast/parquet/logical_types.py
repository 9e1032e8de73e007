"""Logical types that PyArrow does not write, set in the footer of a file: VARIANT, GEOMETRY and GEOGRAPHY.

    file   = pages | indexes of pages, Bloom filters | footer | length of the footer | PAR1
    footer = version, schema, number of rows, row groups, ...
                      ^ elements, in depth-first order; an annotated one gets field 10, its logical type

Only the footer changes. It is the last part of a file and nothing refers to its place, so all offsets stay. Values of
GEOMETRY and GEOGRAPHY have no order (Parquet's LogicalTypes.md): their column chunks lose the least and greatest bytes,
and the reference to the index of such bytes by page. Numbers of nulls and the offsets of pages stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from puffin_fast.errors import CorruptDataError
from puffin_fast.parquet.footer import AFTER_FOOTER
from puffin_fast.parquet.thrift import (
    BINARY,
    BYTE,
    I32,
    STRUCT,
    StoredField,
    ThriftReader,
    binary_bytes,
    integer_bytes,
    struct_bytes,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

ColumnPath: TypeAlias = tuple[str, ...]
"""The names of a column and of those around it in Parquet's schema: ``("l", "list", "element")``."""

_SCHEMA, _ROW_GROUPS = 2, 4  # FileMetaData
_NAME, _N_CHILDREN, _LOGICAL_TYPE = 4, 5, 10  # SchemaElement
_COLUMNS = 1  # RowGroup
_META_DATA, _COLUMN_INDEX = 3, (6, 7)  # ColumnChunk: its metadata; offset and length of its column index
_STATISTICS = 12  # ColumnMetaData
_COUNTS = (3, 4)  # Statistics: numbers of nulls and of distinct values

_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")
"""The ways to draw edges, in the order of the format's enumeration."""


class Annotation(NamedTuple):
    """A logical type.

    Attributes:
        member: its field in the union of logical types.
        value: the bytes of that field, a struct.
        is_ordered: whether the column has bounds.
    """

    member: int
    value: bytes
    is_ordered: bool


VARIANT = Annotation(16, struct_bytes([StoredField(1, BYTE, b"\1")]), is_ordered=True)
"""A variant of version 1. Its two columns of bytes are ordered as such."""


def geometry(crs: str) -> Annotation:
    """Returns the type of geometries.

    Args:
        crs: the coordinate reference system, as the table's type spells it.
    """
    return Annotation(17, struct_bytes([_text(1, crs)]), is_ordered=False)


def geography(crs: str, algorithm: str) -> Annotation:
    """Returns the type of geographies.

    Args:
        crs: as for `geometry`.
        algorithm: how edges are drawn: ``spherical``, ``vincenty``, ``thomas``, ``andoyer`` or ``karney``.
    """
    edges = StoredField(2, I32, integer_bytes(_ALGORITHMS.index(algorithm)))
    return Annotation(18, struct_bytes([_text(1, crs), edges]), is_ordered=False)


def _text(id: int, text: str) -> StoredField:
    return StoredField(id, BINARY, binary_bytes(text.encode()))


def annotated_footer(footer: bytes, annotations: Mapping[ColumnPath, Annotation]) -> bytes:
    """Returns a footer in which columns have other logical types.

    Args:
        footer: the bytes of a file's footer, without its length.
        annotations: the types by column.

    Raises:
        CorruptDataError: these are not the bytes of a footer, or there is no such column.
    """
    try:
        return _annotated(footer, annotations)
    except (IndexError, KeyError, ValueError) as error:
        raise CorruptDataError(f"Parquet: a footer that cannot be read: {error!r}") from error


def _annotated(footer: bytes, annotations: Mapping[ColumnPath, Annotation]) -> bytes:
    reader, parts, copied = ThriftReader(footer), list[bytes](), 0
    unordered = frozenset[int]()
    for id, kind in reader.fields():
        if id == _SCHEMA:
            elements = _Elements(reader, annotations)
            for start, stop, element in elements.changed():
                parts += [footer[copied:start], element]
                copied = stop
            unordered = frozenset(elements.unordered)
        elif id == _ROW_GROUPS and unordered:
            for start, stop, chunk in _chunks_without_bounds(reader, unordered):
                parts += [footer[copied:start], chunk]
                copied = stop
        else:
            reader.skip(kind)
    return b"".join((*parts, footer[copied:]))


class _Elements:
    """The elements of a schema.

    Attributes:
        unordered: the leaves whose annotation has no order, by their number, once `changed` ended.
    """

    def __init__(self, reader: ThriftReader, annotations: Mapping[ColumnPath, Annotation]) -> None:
        self._reader, self._annotations = reader, annotations
        self._n_leaves, self._n_annotated = 0, 0
        self.unordered: list[int] = []

    def changed(self) -> Iterator[tuple[int, int, bytes]]:
        """Yields the places of the elements that change, and their new bytes."""
        self._reader.list_head()
        yield from self._below(None)
        if self._n_annotated < len(self._annotations):
            raise ValueError(f"expected columns {[*self._annotations]}, found {self._n_annotated} of them")

    def _below(self, around: ColumnPath | None) -> Iterator[tuple[int, int, bytes]]:
        """The element at the reader's place, and those below it; `around` is None for the root, which has no path."""
        start = self._reader.at
        fields = self._reader.stored_fields()
        known = {field.id: ThriftReader(field.value) for field in fields}
        path = () if around is None else (*around, known[_NAME].binary().decode())
        found = self._annotations.get(path)
        if found is not None:
            self._n_annotated += 1
            logical = struct_bytes([StoredField(found.member, STRUCT, found.value)])
            others = [field for field in fields if field.id != _LOGICAL_TYPE]
            changed = sorted([*others, StoredField(_LOGICAL_TYPE, STRUCT, logical)])
            yield start, self._reader.at, struct_bytes(changed)
        n_children = known[_N_CHILDREN].integer() if _N_CHILDREN in known else 0
        if not n_children:
            if found is not None and not found.is_ordered:
                self.unordered.append(self._n_leaves)
            self._n_leaves += 1
        for _ in range(n_children):
            yield from self._below(path)


def _chunks_without_bounds(reader: ThriftReader, leaves: frozenset[int]) -> Iterator[tuple[int, int, bytes]]:
    """Yields the places of the column chunks of some leaves, and their bytes without bounds."""
    for _ in range(reader.list_head()):
        for id, kind in reader.fields():
            if id != _COLUMNS:
                reader.skip(kind)
                continue
            for leaf in range(reader.list_head()):
                start = reader.at
                if leaf in leaves:
                    chunk = _without_bounds(reader.stored_fields())
                    yield start, reader.at, chunk
                else:
                    reader.skip(STRUCT)


def _without_bounds(chunk: list[StoredField]) -> bytes:
    fields = [field for field in chunk if field.id not in _COLUMN_INDEX]
    return _with(fields, _META_DATA, lambda inner: _with(inner, _STATISTICS, _counts))


def _counts(statistics: list[StoredField]) -> bytes:
    return struct_bytes(field for field in statistics if field.id in _COUNTS)


def _with(fields: list[StoredField], id: int, change: Any) -> bytes:
    """Encodes a struct whose field of an id, a struct, is changed."""
    return struct_bytes(
        field._replace(value=change(ThriftReader(field.value).stored_fields())) if field.id == id else field
        for field in fields
    )


class AnnotatedStream:
    """A stream of a Parquet file that is being written: the footer is annotated before it is passed on.

    What the writer writes while it closes the file is held: indexes of pages and Bloom filters, which it had in memory
    until then, and the footer. All else is passed on at once.

    Args:
        stream: an open binary stream, which is closed with this one.
        annotations: as for `annotated_footer`.
    """

    def __init__(self, stream: Any, annotations: Mapping[ColumnPath, Annotation]) -> None:
        self._stream, self._annotations = stream, annotations
        self._held: list[bytes] | None = None
        self._n_bytes = 0
        self.closed = False

    def write(self, data: Buffer) -> int:
        """Appends all bytes of a buffer."""
        n_bytes = memoryview(data).nbytes
        if self._held is None:
            self._stream.write(data)
        else:
            self._held.append(bytes(data))
        self._n_bytes += n_bytes
        return n_bytes

    def tell(self) -> int:
        """The number of bytes that were written."""
        return self._n_bytes

    def flush(self) -> None:
        """Does nothing: `close` completes the file."""

    def writable(self) -> bool:
        """Whether bytes can be written."""
        return True

    def readable(self) -> bool:
        """Whether bytes can be read."""
        return False

    def seekable(self) -> bool:
        """Whether the place can be changed."""
        return False

    def hold(self) -> None:
        """From now on, bytes are held: the writer closes the file."""
        self._held = []

    def close(self) -> None:
        """Passes on what is held, with the annotated footer, and closes the stream."""
        if self.closed:
            return
        self.closed = True
        with self._stream as stream:
            if self._held:
                stream.write(annotated_end(b"".join(self._held), self._annotations))

    def __enter__(self) -> AnnotatedStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:  # what is held has no footer, or a part of one
            self._held = None
        self.close()


def annotated_end(data: bytes, annotations: Mapping[ColumnPath, Annotation]) -> bytes:
    """Returns the end of a file, or a whole one, whose footer is annotated.

    Args:
        data: at least the footer and what follows it.
        annotations: as for `annotated_footer`.

    Raises:
        CorruptDataError: as `annotated_footer`.
    """
    stop = len(data) - AFTER_FOOTER
    start = stop - int.from_bytes(data[stop : stop + 4], "little")
    if stop < 0 or start < 0:
        raise CorruptDataError(
            f"Parquet: expected the end of a file with its footer, found {len(data)} bytes"
        )
    footer = annotated_footer(data[start:stop], annotations)
    return b"".join((data[:start], footer, len(footer).to_bytes(4, "little"), data[-4:]))
