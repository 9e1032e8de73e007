"""The Avro border of Iceberg's metadata: schemas by field ids, whole files in and out through fastavro.

An Avro file is a header (magic, a map of metadata with the writer's schema, a sync marker) and blocks.
Fields are found by Iceberg's ``field-id``, never by name (table specification, "Avro"), and logical types are
left raw: a date is its days, a timestamp its microseconds, a uuid its 16 bytes. For that the schema in the
header is replaced, before the records are read, by a plain one with canonical names. A record within a record
is flattened there: Avro encodes a record as nothing but its fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from puffin_fast.errors import (
    CorruptDataError,
    MissingExtraError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)

try:
    import fastavro
except ImportError as error:  # pragma: no cover - the extra brings it
    raise MissingExtraError("fastavro", "iceberg") from error

from pyiceberg.utils.schema_conversion import AvroSchemaConversion

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema

__all__ = [
    "CODECS",
    "AvroFile",
    "PartitionColumn",
    "encoded",
    "one_block",
    "read_avro",
    "read_bytes",
    "to_avro_schema",
    "write_avro",
]

_MAGIC = b"Obj\x01"
SYNC_BYTES = 16
_SYNC = {"type": "fixed", "name": "sync", "size": SYNC_BYTES}
_HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "puffin_fast.avro_header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": len(_MAGIC)}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": _SYNC},
        ],
    }
)
_BLOCK = fastavro.parse_schema(
    {
        "type": "record",
        "name": "puffin_fast.avro_block",
        "fields": [{"name": "n_records", "type": "long"}, {"name": "n_bytes", "type": "long"}],
    }
)
_NAMED = ("record", "fixed", "enum")
_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))

HEAVY = 50
"""List items per record from which on resolving one schema into another costs fastavro less than decoding them."""

CODECS = {"gzip": "deflate", "zstd": "zstandard", "uncompressed": "null", "snappy": "snappy"}
"""Iceberg's property ``write.avro.compression-codec`` to Avro's own name."""


class PartitionColumn(NamedTuple):
    """One field of a file's partition struct: its field id, its canonical name, the scale of a decimal."""

    field_id: int | None
    name: str
    scale: int | None


@dataclass(frozen=True)
class AvroFile:
    """An Avro file in memory, its header read.

    Attributes:
        path: for messages.
        metadata: of the header.
        partition: the partition struct's fields.
        schema: the flattened record with canonical names; fields are read in this order.
    """

    path: str
    metadata: dict[str, str]
    partition: tuple[PartitionColumn, ...]
    schema: dict[str, Any]
    _header: dict[str, Any]
    _blocks: memoryview

    @property
    def n_bytes(self) -> int:
        """Bytes of the blocks, as they stand in the file."""
        return len(self._blocks)

    def records(self, names: Collection[str] | None = None) -> Iterator[dict[str, Any]]:
        """The records, one by one.

        Args:
            names: fields that are wanted, all by default; where records hold much else it is passed over, not
                decoded.

        Raises:
            CorruptDataError: the bytes are no such records.
            UnsupportedError: a codec that is not there.
        """
        file = self.rewritten(self.schema)
        wanted = None
        if names is not None:
            rest = [field["name"] for field in self.schema["fields"] if field["name"] not in names]
            if _weight(self.rewritten(self.schema), rest) > HEAVY:
                fields = [field for field in self.schema["fields"] if field["name"] in names]
                wanted = {**self.schema, "fields": fields}
        return _guarded(lambda: fastavro.reader(file, wanted), self.path)

    def rewritten(self, schema: dict[str, Any]) -> BytesIO:
        """The file under another schema."""
        metadata = {**self._header["meta"], "avro.schema": _json(schema)}
        file = BytesIO()
        fastavro.schemaless_writer(file, _HEADER, {**self._header, "meta": metadata})
        file.write(self._blocks)
        file.seek(0)
        return file

    def inflated(self) -> list[tuple[int, bytes]]:
        """The number of records and the bytes of each block, without compression.

        Raises:
            Exception: whatever fastavro stumbles over.
        """
        blocks: Iterable[Any] = fastavro.block_reader(self.rewritten(self.schema))
        return [(block.num_records, block.bytes_.getvalue()) for block in blocks]


def one_block(schema: dict[str, Any], n_records: int, parts: Sequence[bytes]) -> BytesIO:
    """An Avro file of one block without compression: its records' bytes, which may be those of many blocks."""
    head, sync = BytesIO(), bytes(SYNC_BYTES)
    metadata = {"avro.schema": _json(schema), "avro.codec": b"null"}
    fastavro.schemaless_writer(head, _HEADER, {"magic": _MAGIC, "meta": metadata, "sync": sync})
    fastavro.schemaless_writer(head, _BLOCK, {"n_records": n_records, "n_bytes": sum(map(len, parts))})
    return BytesIO(b"".join([head.getvalue(), *parts, sync]))


def encoded(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    """The bytes of one record."""
    file = BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), record)
    return file.getvalue()


def _json(schema: dict[str, Any]) -> bytes:
    return json.dumps(schema).encode()


def to_avro_schema(schema: Schema, name: str) -> Any:
    """The Avro schema of a manifest or a manifest list, parsed.

    Args:
        schema: the Iceberg schema; ids go into ``field-id``, ``element-id``; maps become arrays of pairs.
        name: the root record's name.
    """
    converted = AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name)
    return fastavro.parse_schema(_unique_names(converted, set()))


def _unique_names(node: Any, seen: set[str]) -> Any:
    """Renames a named type that stands a second time: Avro allows one definition of a name."""
    if isinstance(node, list):
        return [_unique_names(part, seen) for part in node]
    if not isinstance(node, dict):
        return node
    result = dict(node)
    if result.get("type") in _NAMED and "name" in result:
        name, count = result["name"], 2
        while result["name"] in seen:
            result["name"], count = f"{name}_{count}", count + 1
        seen.add(result["name"])
    for key in ("type", "items", "values"):
        if isinstance(result.get(key), dict | list):
            result[key] = _unique_names(result[key], seen)
    if "fields" in result:
        result["fields"] = [_unique_names(field, seen) for field in result["fields"]]
    return result


def write_avro(
    io: FileIO,
    path: str,
    schema: Any,
    records: Iterable[Mapping[str, Any]],
    metadata: dict[str, str],
    codec: str,
) -> int:
    """Writes one Avro file with a single call to the storage.

    Returns:
        the file's length in bytes.
    """
    buffer = BytesIO()
    try:
        fastavro.writer(buffer, schema, records, codec=codec, metadata=metadata)
    except ValueError as error:
        raise _codec_error(error, path) or error from error
    with io.new_output(path).create(overwrite=True) as sink:
        sink.write(buffer.getvalue())
    return buffer.tell()


def read_bytes(io: FileIO, path: str) -> bytes:
    """All bytes of a file.

    Raises:
        NotFoundError: when there is no such file.
    """
    try:
        with io.new_input(path).open(seekable=False) as source:
            return source.read()
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: no such file") from error


def read_avro(io: FileIO, path: str, names: Mapping[int, str], *, n_bytes: int | None = None) -> AvroFile:
    """Opens an Avro file whose fields are known by id.

    Args:
        io: PyIceberg's file access.
        path: the file.
        names: field id to the name that the fields shall have.
        n_bytes: the length that the metadata states; a shorter file is refused.

    Raises:
        CorruptDataError: the bytes are no Avro file.
        NotFoundError: there is no such file.
    """
    data = read_bytes(io, path)
    if n_bytes is not None and len(data) < n_bytes:
        raise CorruptDataError(
            "file is shorter than its metadata says", path=path, expected=n_bytes, found=len(data)
        )
    if data[: len(_MAGIC)] != _MAGIC:
        raise CorruptDataError("magic of an Avro file", path=path, offset=0, expected=_MAGIC, found=data[:4])
    try:
        source = BytesIO(data)
        header: Any = fastavro.schemaless_reader(source, _HEADER, None)
        metadata = {key: value.decode() for key, value in header["meta"].items()}
        plain = _Plain(names)
        schema = plain.of(json.loads(metadata["avro.schema"]))
        if schema["type"] != "record":
            raise ValueError(f"a schema of {schema['type']}")
        fastavro.parse_schema(schema)
    except Exception as error:
        raise CorruptDataError(f"header of an Avro file: {error!r}", path=path, offset=0) from error
    blocks = memoryview(data)[source.tell() :]
    return AvroFile(path, metadata, tuple(plain.partition), schema, header, blocks)


def _weight(file: BytesIO, names: Iterable[str]) -> int:
    """How many items the named lists of the first record hold."""
    try:
        first: Any = next(iter(fastavro.reader(file)), {})
        return sum(len(value) for name in names if isinstance(value := first[name], list))
    except Exception:  # whoever reads the records will say it
        return 0


def _codec_error(error: Exception, path: str) -> UnsupportedError | None:
    """fastavro's complaint about a codec that it has or knows no package for, as an error of ours."""
    found = str(error)
    if isinstance(error, PuffinFastError) or not ("need to install" in found or "nrecognized codec" in found):
        return None
    return UnsupportedError(f"{path}: {found}")


def _guarded(read: Callable[[], Iterable[Any]], path: str) -> Iterator[dict[str, Any]]:
    """The records; whatever fastavro stumbles over in hostile bytes becomes one error of ours."""
    try:
        yield from read()
    except Exception as error:
        missing = _codec_error(error, path)
        raise missing or CorruptDataError(f"records of an Avro file: {error!r}", path=path) from error


class _Plain:
    """Rewrites a writer's schema: canonical names by field id, no logical types, no defaults."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self._known = frozenset(names.values())
        self._named: dict[str, str] = {}
        self._empty = {"null"}
        self._unknown = 0
        self.partition: list[PartitionColumn] = []

    def of(self, node: Any, inside: str | None = None) -> Any:
        """The plain twin of one schema node; `inside` is the canonical name of the field that holds it."""
        if isinstance(node, list):
            return [self.of(part, inside) for part in node]
        if isinstance(node, str):
            if node in _PRIMITIVES:
                return node
            return self._named[node]  # a KeyError is the header's fault
        kind = node["type"]
        if isinstance(kind, dict | list):
            return self.of(kind, inside)
        if kind == "record":
            name, fields = self._name(node), self._fields(node["fields"], inside)
            if all(self._may_be_empty(field["type"]) for field in fields):
                self._empty.add(name)
            return {"type": kind, "name": name, "fields": fields}
        if kind == "fixed":
            name = self._name(node)
            if not node["size"]:
                self._empty.add(name)
            return {"type": kind, "name": name, "size": node["size"]}
        if kind == "enum":
            return {"type": kind, "name": self._name(node), "symbols": node["symbols"]}
        if kind == "array":
            items = self.of(node["items"])
            if self._may_be_empty(items):
                raise ValueError("an array of items without bytes")  # its count would be bounded by nothing
            return {"type": kind, "items": items}
        if kind == "map":
            return {"type": kind, "values": self.of(node["values"])}
        return self.of(kind, inside)

    def _name(self, node: Mapping[str, Any]) -> str:
        plain = f"t{len(self._named)}"
        self._named[node["name"]] = plain
        return plain

    def _may_be_empty(self, kind: Any) -> bool:
        """Whether a value of a plain type may take no byte at all."""
        return (
            not isinstance(kind, list)
            and (kind.get("name") if isinstance(kind, dict) else kind) in self._empty
        )

    def _fields(self, fields: Iterable[Mapping[str, Any]], inside: str | None) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = []
        for position, field in enumerate(fields):
            field_id = field.get("field-id")
            if inside == "partition":
                name = f"p{position}"
                self.partition.append(PartitionColumn(field_id, name, _decimal_scale(field["type"])))
            elif isinstance(field_id, int) and field_id in self._names:
                name = self._names[field_id]
            elif field["name"] in ("key", "value") or (field_id is None and field["name"] in self._known):
                name = field["name"]
            else:
                name, self._unknown = f"u{self._unknown}", self._unknown + 1
            kind = self.of(field["type"], name)
            if isinstance(kind, dict) and kind["type"] == "record":
                result += kind["fields"]
            else:
                result.append({"name": name, "type": kind})
        return result


def _decimal_scale(node: Any) -> int | None:
    for part in node if isinstance(node, list) else [node]:
        if isinstance(part, dict):
            if part.get("logicalType") == "decimal":
                return int(part.get("scale", 0))
            if isinstance(part.get("type"), dict | list):
                return _decimal_scale(part["type"])
    return None
