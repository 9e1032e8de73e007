"""Reads Avro data and delete files with fastavro.

Field ids are the attributes ``field-id``, ``element-id``, ``key-id`` and ``value-id``; a map whose keys are
not strings is an array of records of the logical type ``map`` (specification, "Appendix A: Avro"). All
logical types except decimal are removed from the header's schema before the rows are read. Dates and times
are then read as integers, which Arrow accepts without conversion.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from puffin_fast.errors import CorruptDataError, PuffinFastError, UnsupportedError
from puffin_fast.iceberg.datafile.files import BATCH_ROWS, open_input, reading
from puffin_fast.iceberg.datafile.plain_types import plain_schema
from puffin_fast.iceberg.manifest.avro import HEADER

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema

    from puffin_fast.iceberg.datafile.projection import FileSchema

__all__ = ["AvroReader"]


class AvroReader:
    """An open Avro file; see `FormatReader`.

    The header of an Avro file has no row count: `n_rows` is the record count of the manifest entry. It is
    compared with the number of rows read.
    """

    def __init__(self, io: FileIO, location: str, n_rows: int) -> None:
        self._io, self._location = io, location
        header = self._header(_open(io, location))
        with self._decoding("header"):
            written = json.loads(header["meta"]["avro.schema"])
        try:
            iceberg = AvroSchemaConversion().avro_to_iceberg(written)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise UnsupportedError(
                f"{location}: AVRO; expected a schema of Iceberg's types with field ids, found {error!r}"
            ) from error
        self._stored = _without_logical_types(written)
        self.schema = plain_schema(schema_to_pyarrow(iceberg, include_field_ids=True))
        self.n_rows = n_rows
        self.group_rows: tuple[int, ...] = (n_rows,)

    def groups_that_may_match(
        self, known: FileSchema, schema: Schema, field_ids: Iterable[int], may_match: Callable[[Any], bool]
    ) -> Iterable[int]:
        """Returns the only row group: Avro files have no statistics."""
        return (0,)

    def batches(
        self, group: int, columns: Sequence[str], batch_rows: int, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of all blocks; only the requested columns are decoded."""
        wanted = pa.schema([self.schema.field(name) for name in columns])
        fields = [field for field in self._stored["fields"] if field["name"] in columns]
        source = _open(self._io, self._location)
        header = self._header(source)
        header["meta"]["avro.schema"] = json.dumps(self._stored).encode()
        head = BytesIO()
        fastavro.schemaless_writer(head, HEADER, header)
        with self._decoding("rows"):
            joined: Any = _ConcatenatedFile(head.getvalue(), source)
            records: Iterator[Any] = fastavro.reader(joined, {**self._stored, "fields": fields})
            while rows := list(itertools.islice(records, min(batch_rows, BATCH_ROWS))):
                arrays = [
                    pa.array([_value(row[field.name], field.type) for row in rows], field.type)
                    for field in wanted
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=wanted)

    def reopen(self) -> AvroReader:
        """Opens the same file again, for another thread."""
        return AvroReader(self._io, self._location, self.n_rows)

    def _header(self, source: Any) -> Any:
        with self._decoding("header"):
            return fastavro.schemaless_reader(source, HEADER, None)

    @contextmanager
    def _decoding(self, what: str) -> Iterator[None]:
        """Turns the errors of fastavro and Arrow into this package's; damaged bytes can raise any exception type."""
        try:
            with reading(self._location, "Avro"):
                yield
        except PuffinFastError:
            raise
        except Exception as error:
            if "need to install" in str(error) or "nrecognized codec" in str(error):
                raise UnsupportedError(f"{self._location}: AVRO; {error}") from error
            raise CorruptDataError(f"{what} of an Avro file: {error!r}", path=self._location) from error


class _ConcatenatedFile:
    """A readable file: the bytes of `head`, followed by the remaining bytes of the file `rest`."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head, self._rest = BytesIO(head), rest

    def read(self, size: int = -1) -> bytes:
        found = self._head.read(size)
        if len(found) == size:
            return found
        more: bytes = self._rest.read(size - len(found) if size >= 0 else None)
        return found + more


def _open(io: FileIO, location: str) -> Any:
    """Opens the file; errors are those of this package."""
    with reading(location, "Avro"):
        return open_input(io, location)


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
