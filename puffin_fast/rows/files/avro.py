"""Reads Avro data and delete files: columns of data files with a kernel (`avro_rows`), everything else with fastavro.

Field ids are the attributes ``field-id``, ``element-id``, ``key-id`` and ``value-id``; a map whose keys are
not strings is an array of records of the logical type ``map`` (specification, "Appendix A: Avro"). Files of
other writers have no ids; the table's name mapping then gives them. All logical types except decimal are removed
from the header's schema before the rows are read. Dates and times are then read as integers, which Arrow accepts
without conversion. Logical types that are unknown, or that do not fit their type, are ignored, as Avro's specification
demands.

A schema that `avro_schema` refuses is refused here too. Blocks are decompressed one at a time, up to a limit that
follows from their size, and fastavro reads the decompressed blocks.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.types import (
    ListType,
    MapType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
)
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from puffin_fast._io import open_source
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast._pyiceberg.v3_types import schema_to_arrow
from puffin_fast.avro.blocks import Block, FileBytes, as_long, read_block, too_many_records
from puffin_fast.avro.file import AVRO_ERRORS, HEADER, MAGIC
from puffin_fast.avro.schema import PlainSchema
from puffin_fast.columns.plain_types import plain_schema
from puffin_fast.columns.uuid_text import UuidText
from puffin_fast.errors import CorruptDataError, PuffinFastError, UnsupportedError
from puffin_fast.limits import MAX_SCHEMA_TYPES, most_inflated
from puffin_fast.rows.files.avro_rows import (
    LEAST_ALLOWED,
    FieldDecoder,
    HeldRows,
    NotDecodedError,
    SharedBlocks,
    null_bytes,
    rows_at_once,
    too_wide,
    value_bytes,
)
from puffin_fast.rows.files.files import BATCH_ROWS, BatchColumns, Columns, reading, wrong_count

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

    from puffin_fast.parquet.column_pages import Rows
    from puffin_fast.rows.files.projection import FileSchema
    from puffin_fast.rows.filters.pruning import Pruner


class AvroReader:
    """An open Avro file; see `FormatReader`.

    Attributes:
        io: PyIceberg's file access.
        location: the location of the file.
        stored: the schema of its records, without logical types except decimal.

    The header of an Avro file has no row count: `n_rows` is the record count of the manifest entry. It is
    compared with the number of rows read.
    """

    def __init__(self, io: FileIO, location: str, n_rows: int) -> None:
        self.io, self.location = io, location
        _, header, _ = self._open()
        with self._decoding("header"):
            metadata = {key: value.decode() for key, value in header["meta"].items()}
            self._codec, self._sync = metadata.get("avro.codec", "null"), header["sync"]
            written = json.loads(metadata["avro.schema"])
            written = _OwnNames().of(written)
            self._n_stored = len(PlainSchema(written, {}).record["fields"])
        try:
            iceberg = _SchemaConversion().avro_to_iceberg(written)
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            if is_from_outside(error):
                raise
            raise UnsupportedError(
                f"{location}: AVRO; expected a schema of Iceberg's types, found {error!r}"
            ) from error
        self.stored = _without_logical_types(written)
        found = plain_schema(schema_to_arrow(iceberg, include_field_ids=True))
        fields = zip(found, written["fields"], strict=True)
        self.schema = pa.schema(
            [field.with_type(_as_written(field.type, node["type"])) for field, node in fields]
        )
        self.schema_bytes: bytes = self.schema.serialize().to_pybytes()
        self.n_rows = n_rows
        self.group_rows: tuple[int, ...] = (n_rows,)
        self._shared: SharedBlocks | None = None
        self._at_once = BATCH_ROWS

    def groups_that_may_match(
        self,
        known: FileSchema,
        schema: Schema,
        field_ids: Iterable[int],
        may_match: Callable[[Any], bool],
        pruner: Pruner | None = None,
    ) -> Iterable[int]:
        """Returns the only row group: Avro files have no statistics."""
        return (0,)

    def batches(
        self, group: int, columns: Sequence[str], batch_rows: int, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of all blocks; only the requested columns are decoded."""
        wanted = plain_schema(pa.schema([self.schema.field(name) for name in columns]))
        names = set(columns)
        fields = [field for field in self.stored["fields"] if field["name"] in names]
        head = BytesIO()
        metadata = {"avro.schema": json.dumps(self.stored).encode(), "avro.codec": b"null"}
        header = {"magic": MAGIC, "meta": metadata, "sync": self._sync}
        fastavro.schemaless_writer(head, HEADER, header)
        with self._decoding("rows"):
            source: Any = _Parts(itertools.chain([head.getvalue()], map(self._as_stored, self._blocks())))
            records: Iterator[Any] = fastavro.reader(source, {**self.stored, "fields": fields})
            n_rows = rows_at_once(wanted.types, min(batch_rows, BATCH_ROWS))
            while rows := list(itertools.islice(records, n_rows)):
                self._check_bytes(rows, wanted)
                arrays = [
                    pa.array([_value(row[field.name], field.type) for row in rows], field.type)
                    for field in wanted
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=wanted)

    def _check_bytes(self, rows: Sequence[Any], wanted: pa.Schema) -> None:
        """Refuses rows of fastavro whose values would take too many bytes in arrays."""
        n_bytes = 0
        for field in wanted:
            if pa.types.is_nested(field.type):
                n_bytes += sum(value_bytes(row[field.name], field.type) for row in rows)
            else:
                n_bytes += null_bytes(field.type) * len(rows)
        if n_bytes > LEAST_ALLOWED:
            raise too_wide(self.location, len(rows), LEAST_ALLOWED)

    def rows_at_once(self, first: int, n_rows: int) -> int:
        """Returns how many of some rows are read at once; see `FormatReader`."""
        n_rows = min(n_rows, self._at_once)
        return n_rows if self._shared is None else self._shared.rows_at_once(first, n_rows)

    def _blocks(self) -> Iterator[Block]:
        """Yields the blocks that have records, decompressed up to the limit for their size."""
        data, _, at = self._open()
        while at < len(data):
            start = at
            block, at = read_block(
                data,
                at,
                codec=self._codec,
                sync=self._sync,
                path=self.location,
                offset=0,
                io=self.io,
            )
            if block.n_records * max(self._n_stored, 1) > len(block.data):
                raise too_many_records(self.location, block.n_records, len(block.data), self._n_stored, start)
            if block.n_records:
                yield block

    def _as_stored(self, block: Block) -> bytes:
        return b"".join((as_long(block.n_records), as_long(len(block.data)), block.data, self._sync))

    def _open(self) -> tuple[FileBytes, Any, int]:
        """Opens the file; returns its bytes, its header, and where the first block begins."""
        with self._decoding("header"):
            data = FileBytes(open_source(self.location, filesystem=self.io))
            source: Any = _Cursor(data)
            return data, fastavro.schemaless_reader(source, HEADER, None), source.at

    def columns(
        self,
        group: int,
        names: Sequence[str],
        batch_rows: int,
        *,
        use_threads: bool,
        views: bool = False,
        wanted: object = None,
        is_late: bool = False,
        ahead: Sequence[str] = (),
        codes: Collection[str] = (),
    ) -> Columns:
        """Returns columns of the file. Those that are requested before the first row is read share its blocks."""

        def by_fastavro() -> BatchColumns:
            batches = self.batches(group, names, batch_rows, use_threads=use_threads)
            return BatchColumns(batches, group, self.n_rows, self.location)

        if self._shared is None or not self._shared.is_new:
            self._shared, self._at_once = SharedBlocks(self._blocks()), BATCH_ROWS
        kinds = plain_schema(pa.schema([self.schema.field(name) for name in names])).types
        self._at_once = min(self._at_once, rows_at_once(kinds, batch_rows))
        try:
            return AvroColumns(self, names, self._shared, by_fastavro)
        except NotDecodedError:
            return by_fastavro()

    def reopen(self) -> AvroReader:
        """Opens the same file again, for another thread."""
        return AvroReader(self.io, self.location, self.n_rows)

    @contextmanager
    def _decoding(self, what: str) -> Iterator[None]:
        """Turns the errors of fastavro and Arrow into this package's; damaged bytes can raise any exception type."""
        try:
            with reading(self.location, "AVRO"):
                yield
        except PuffinFastError:
            raise
        except (*AVRO_ERRORS, pa.ArrowException) as error:
            if is_from_outside(error):
                raise
            if "need to install" in str(error) or "nrecognized codec" in str(error):
                raise UnsupportedError(f"{self.location}: AVRO; {error}") from error
            raise CorruptDataError(f"{what} of an Avro file: {error!r}", path=self.location) from error


class AvroColumns:
    """Columns of an Avro file, read in order; see `Columns`.

    Args:
        reader: the file.
        names: names of its columns.
        shared: the blocks, for all columns of one read.
        others: reads the columns with fastavro.

    Raises:
        NotDecodedError: the kernel does not know the schema.
    """

    def __init__(
        self, reader: AvroReader, names: Sequence[str], shared: SharedBlocks, others: Callable[[], Columns]
    ) -> None:
        fields = [reader.schema.field(name) for name in names]
        self._decoder = FieldDecoder(reader.stored, list(plain_schema(pa.schema(fields))))
        self._reader, self._shared, self._others = reader, shared, others
        self._walker: FieldDecoder | None = None
        self._by_fastavro: Columns | None = None

    def read(self, first: int, n_rows: int, rows: Rows | None) -> dict[str, pa.Array]:
        """Returns wanted rows of each column; see `Columns`.

        Raises:
            CorruptDataError: the blocks have more or fewer rows than declared, or are damaged.
            LimitExceededError: the values take more bytes than allowed for the bytes of the blocks.
        """
        if self._by_fastavro is None:
            try:
                return self._read(first, n_rows, rows)
            except PuffinFastError:
                raise
            except OverflowError as error:
                held = self._shared.of(first, n_rows)
                raise too_wide(self._reader.location, n_rows, self._most(held)) from error
            except (ValueError, pa.ArrowException):
                self._by_fastavro = self._others()
        return self._by_fastavro.read(first, n_rows, rows)

    def _read(self, first: int, n_rows: int, rows: Rows | None) -> dict[str, pa.Array]:
        stop, expected = first + n_rows, self._reader.n_rows
        blocks = self._shared.of(first, n_rows)
        most = self._most(blocks)
        if self._shared.n_rows < stop:
            raise wrong_count(self._reader.location, 0, expected, self._shared.n_rows)
        for block in blocks:
            low, high = max(first - block.first, 0), min(stop - block.first, block.n_rows)
            if rows is not None:
                at = rows.searchsorted(np.array([low, high], np.int64) + (block.first - first))
                here = rows[at[0] : at[1]].astype(np.int64) + (first - block.first)
                if len(here):
                    self._decoder.pick(block.data, self._starts(block)[here], most)
            elif block.starts is None and high - low == block.n_rows:
                starts = np.empty(block.n_rows, np.int64)
                self._decoder.scan(block.data, starts, most)
                block.starts = starts
            else:
                self._decoder.pick(block.data, self._starts(block)[low:high], most)
        if stop == expected and (found := self._shared.count_all()) != expected:
            raise wrong_count(self._reader.location, 0, expected, found)
        return self._decoder.arrays()

    def _most(self, blocks: Sequence[HeldRows]) -> int:
        """The maximum number of bytes of the values of some blocks."""
        return max(LEAST_ALLOWED, most_inflated(sum(len(block.data) for block in blocks), self._reader.io))

    def _starts(self, block: HeldRows) -> npt.NDArray[np.int64]:
        """The offsets of the records of a block."""
        if block.starts is None:
            if self._walker is None:
                self._walker = FieldDecoder(self._reader.stored, [])
            starts = np.empty(block.n_rows, np.int64)
            self._walker.scan(block.data, starts)
            block.starts = starts
        return block.starts


class _SchemaConversion(AvroSchemaConversion):
    """PyIceberg's, with the types of format version 3 and of other writers. Where a field has no id, it is negative."""

    def __init__(self) -> None:
        self._missing_ids = itertools.count(-1, -1)

    def _with_ids(self, node: dict[str, Any], *names: str) -> dict[str, Any]:
        return {**{name: next(self._missing_ids) for name in names}, **node}

    def _resolve_union(self, type_union: Any) -> tuple[str | dict[str, Any], bool]:
        if isinstance(type_union, list):  # Spark writes null last
            type_union = sorted(type_union, key=lambda part: part != "null")
        return super()._resolve_union(type_union)

    def _convert_schema(self, avro_type: str | dict[str, Any]) -> IcebergType:
        if isinstance(avro_type, dict) and avro_type.get("type") == "enum":
            return StringType()
        return super()._convert_schema(avro_type)

    def _convert_field(self, field: dict[str, Any]) -> NestedField:
        found = super()._convert_field(self._with_ids(field, "field-id"))
        if isinstance(found.field_type, UnknownType):  # nulls without a union are not required values
            found = found.model_copy(update={"required": False})
        return found

    def _convert_array_type(self, array_type: dict[str, Any]) -> ListType:
        return super()._convert_array_type(self._with_ids(array_type, "element-id"))

    def _convert_map_type(self, map_type: dict[str, Any]) -> MapType:
        return super()._convert_map_type(self._with_ids(map_type, "key-id", "value-id"))

    def _convert_logical_type(self, avro_logical_type: dict[str, Any]) -> IcebergType:
        name, physical = avro_logical_type["logicalType"], avro_logical_type["type"]
        if name in _TIMES:
            known, without_zone, with_zone = _TIMES[name]
            if physical == known:
                return with_zone if avro_logical_type.get("adjust-to-utc") is True else without_zone
        elif name in ("decimal", "map", "variant") or (name, physical) in _LOGICAL_TYPES:
            return super()._convert_logical_type(avro_logical_type)
        return self._convert_schema(
            {key: value for key, value in avro_logical_type.items() if key != "logicalType"}
        )


_LOGICAL_TYPES = frozenset((("date", "int"), ("time-micros", "long"), ("uuid", "fixed")))
"""Logical types that PyIceberg converts, with their types; it refuses variants."""

_TIMES: dict[str, tuple[str, IcebergType, IcebergType]] = {
    "time-millis": ("int", TimeType(), TimeType()),
    "timestamp-millis": ("long", TimestampType(), TimestamptzType()),
    "timestamp-micros": ("long", TimestampType(), TimestamptzType()),
    "timestamp-nanos": ("long", TimestampNanoType(), TimestamptzNanoType()),
    "local-timestamp-millis": ("long", TimestampType(), TimestampType()),
    "local-timestamp-micros": ("long", TimestampType(), TimestampType()),
    "local-timestamp-nanos": ("long", TimestampNanoType(), TimestampNanoType()),
}
"""By logical type: its type, and the type of its values without and with ``adjust-to-utc``."""


def _as_written(kind: pa.DataType, node: Any) -> pa.DataType:
    """An Arrow type that may also be one without a type of Iceberg: milliseconds, and UUIDs as texts."""
    if isinstance(node, list):
        return _as_written(kind, next((part for part in node if part != "null"), "null"))
    if not isinstance(node, dict):
        return kind
    inner = node["type"]
    if pa.types.is_struct(kind) and inner == "record":
        fields = zip(kind, node["fields"], strict=True)
        return pa.struct([field.with_type(_as_written(field.type, part["type"])) for field, part in fields])
    if pa.types.is_map(kind):
        if inner == "map":
            return pa.map_(
                kind.key_field, kind.item_field.with_type(_as_written(kind.item_type, node["values"]))
            )
        pairs = zip((kind.key_field, kind.item_field), node["items"]["fields"], strict=True)
        return pa.map_(*(field.with_type(_as_written(field.type, part["type"])) for field, part in pairs))
    if inner == "array":
        return pa.large_list(kind.value_field.with_type(_as_written(kind.value_type, node["items"])))
    if isinstance(inner, dict | list):
        return _as_written(kind, inner)
    logical = str(node.get("logicalType"))
    if (logical, inner) == ("uuid", "string"):
        return UuidText()
    if logical.endswith("-millis"):
        if pa.types.is_timestamp(kind):
            return pa.timestamp("ms", kind.tz)
        return pa.time32("ms") if pa.types.is_time(kind) else kind
    return kind


class _Cursor:
    """Reads a file from its beginning; never requests more bytes than the file has, for any declared length."""

    def __init__(self, data: FileBytes) -> None:
        self._data, self.at = data, 0

    def read(self, size: int) -> bytes:
        found = bytes(self._data[self.at : self.at + max(size, 0)])
        self.at += len(found)
        return found


class _Parts:
    """A readable file: parts that are made when they are read."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts, self._part = parts, BytesIO()

    def read(self, size: int) -> bytes:
        while not (found := self._part.read(size)):
            part = next(self._parts, None)
            if part is None:
                break
            self._part = BytesIO(part)
        return found


class _OwnNames:
    """Makes an Avro schema define a named type wherever it is used, each time under another name.

    Java defines ``decimal_9_2`` for its first column and names it for the others. PyIceberg does not know the name,
    and a projection need not have the first column.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, str]] = {}  # by full name, with the namespace around the definition
        self._n_types = self._n_expanded = self._depth = 0

    def of(self, node: Any, space: str = "") -> Any:
        """Converts a type within a namespace."""
        if isinstance(node, list):
            self._count()
            return [self.of(part, space) for part in node]
        if isinstance(node, str):
            names = (f"{space}.{node}", f".{node}", node)
            definition = next((self._known[name] for name in names if name in self._known), None)
            if definition is not None:
                self._n_expanded -= self._depth == 0  # the name itself stands in the schema
                self._depth += 1
                found = self.of(*definition)
                self._depth -= 1
                return found
            self._count()
            return node
        if not isinstance(node, dict):
            return node
        kind = node["type"]
        if kind in ("record", "enum", "fixed"):
            return self._definition(node, space)
        if kind in ("array", "map"):
            inside = "items" if kind == "array" else "values"
            return {**node, inside: self.of(node[inside], space)}
        return {**node, "type": self.of(kind, space)}

    def _definition(self, node: dict[str, Any], space: str) -> dict[str, Any]:
        self._count()
        name = node["name"]
        full = name if "." in name else f"{node.get('namespace', space)}.{name}"
        found = {**node, "name": f"{name}_{self._n_types}"}
        if node["type"] == "record":
            inner = full.rpartition(".")[0]
            found["fields"] = [{**field, "type": self.of(field["type"], inner)} for field in node["fields"]]
        self._known.setdefault(full, (node, space))
        return found

    def _count(self) -> None:
        self._n_types += 1
        self._n_expanded += self._depth > 0
        if self._n_expanded > MAX_SCHEMA_TYPES:
            raise ValueError(f"expected at most {MAX_SCHEMA_TYPES} types in place of names in the schema")


def _without_logical_types(node: Any) -> Any:
    """An Avro schema without its logical types, except decimal."""
    if isinstance(node, list):
        return [_without_logical_types(part) for part in node]
    if not isinstance(node, dict):
        return node
    attributes = {key: value for key, value in node.items() if key != "logicalType" or value == "decimal"}
    return {
        key: _without_logical_types(value) if key in ("type", "fields", "items", "values") else value
        for key, value in attributes.items()
    }


def _value(value: Any, kind: pa.DataType) -> Any:
    """A value in the form that `pyarrow.array` accepts: maps are lists of pairs."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_struct(kind):
        return {field.name: _value(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else ((pair["key"], pair["value"]) for pair in value)
        return [(_value(key, kind.key_type), _value(item, kind.item_type)) for key, item in pairs]
    return [_value(item, kind.value_type) for item in value]
