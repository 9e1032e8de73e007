"""The Avro border of Iceberg's metadata: schemas by field ids, whole files in and out through fastavro.

An Avro file is a header (magic, a map of metadata with the writer's schema, a sync marker) and blocks.
Fields are found by Iceberg's ``field-id``, never by name (table specification, "Avro"), and logical types are
left raw: a date is its days, a timestamp its microseconds, a uuid its 16 bytes. For that the schema in the
header is replaced, before fastavro reads the file, by a plain one with canonical names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
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

__all__ = ["CODECS", "AvroFile", "PartitionColumn", "read_avro", "read_bytes", "to_avro_schema", "write_avro"]

_MAGIC = b"Obj\x01"
_HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "puffin_fast.avro_header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": len(_MAGIC)}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
        ],
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


class AvroFile(NamedTuple):
    """An Avro file: the metadata of its header, the partition struct's fields, its records (lazily)."""

    metadata: dict[str, str]
    partition: tuple[PartitionColumn, ...]
    records: Iterator[dict[str, Any]]


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


def read_avro(
    io: FileIO,
    path: str,
    names: Mapping[int, str],
    *,
    n_bytes: int | None = None,
    skip: frozenset[str] = frozenset(),
) -> AvroFile:
    """Opens an Avro file whose fields are known by id.

    Args:
        io: PyIceberg's file access.
        path: the file.
        names: field id to the name that the records shall have; other fields are skipped.
        n_bytes: the length that the metadata states; a shorter file is refused.
        skip: names that are not wanted: where records hold much of them they are passed over, not decoded.

    Raises:
        CorruptDataError: the bytes are no such Avro file; also while the records are read.
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
        writer = plain.of(json.loads(metadata["avro.schema"]))
        header["meta"]["avro.schema"] = json.dumps(writer).encode()
        rewritten = BytesIO()
        fastavro.schemaless_writer(rewritten, _HEADER, header)
        rewritten.write(memoryview(data)[source.tell() :])
        rewritten.seek(0)
        wanted = None
        if skip and _weight(rewritten, skip) > HEAVY:
            wanted = _projected(writer, frozenset(names.values()) - skip)
        reader = fastavro.reader(rewritten, wanted)
    except CorruptDataError:
        raise
    except Exception as error:
        raise CorruptDataError(f"header of an Avro file: {error!r}", path=path, offset=0) from error
    return AvroFile(metadata, tuple(plain.partition), _guarded(reader, path))


def _weight(file: BytesIO, names: frozenset[str]) -> int:
    """How many items the named lists of the first record hold; the file stands where it stood."""
    start = file.tell()
    try:
        first: Any = next(iter(fastavro.reader(file)), {})
        records = [first, *(value for value in first.values() if isinstance(value, dict))]
        return sum(len(record.get(name) or ()) for record in records for name in names)
    except Exception:  # whoever reads the records will say it
        return 0
    finally:
        file.seek(start)


def _codec_error(error: Exception, path: str) -> UnsupportedError | None:
    """fastavro's complaint about a codec that it has or knows no package for, as an error of ours."""
    found = str(error)
    if isinstance(error, PuffinFastError) or not ("need to install" in found or "nrecognized codec" in found):
        return None
    return UnsupportedError(f"{path}: {found}")


def _guarded(reader: Iterable[Any], path: str) -> Iterator[dict[str, Any]]:
    """The records; whatever fastavro stumbles over in hostile bytes becomes one error of ours."""
    iterator = iter(reader)
    while True:
        try:
            record = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            missing = _codec_error(error, path)
            raise missing or CorruptDataError(f"records of an Avro file: {error!r}", path=path) from error
        yield record


class _Plain:
    """Rewrites a writer's schema: canonical names by field id, no logical types, no defaults."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self._known = frozenset(names.values())
        self._named: dict[str, str] = {}
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
            name = self._name(node)
            return {"type": kind, "name": name, "fields": self._fields(node["fields"], inside)}
        if kind == "fixed":
            return {"type": kind, "name": self._name(node), "size": node["size"]}
        if kind == "enum":
            return {"type": kind, "name": self._name(node), "symbols": node["symbols"]}
        if kind == "array":
            items = self.of(node["items"])
            if items == "null" or (isinstance(items, dict) and items.get("fields") == []):
                raise ValueError("an array of items without bytes")  # its count would be bounded by nothing
            return {"type": kind, "items": items}
        if kind == "map":
            return {"type": kind, "values": self.of(node["values"])}
        return self.of(kind, inside)

    def _name(self, node: Mapping[str, Any]) -> str:
        plain = f"t{len(self._named)}"
        self._named[node["name"]] = plain
        return plain

    def _fields(self, fields: Iterable[Mapping[str, Any]], inside: str | None) -> list[dict[str, Any]]:
        result = []
        for position, field in enumerate(fields):
            field_id = field.get("field-id")
            if inside == "partition":
                name = f"p{position}"
                self.partition.append(PartitionColumn(field_id, name, _decimal_scale(field["type"])))
            elif isinstance(field_id, int) and field_id in self._names:
                name = self._names[field_id]
            elif field_id is None and field["name"] in self._known | {"key", "value"}:
                name = field["name"]
            else:
                name = field["name"] if field["name"] in ("key", "value") else f"u{position}"
            result.append({"name": name, "type": self.of(field["type"], name)})
        return result


def _decimal_scale(node: Any) -> int | None:
    for part in node if isinstance(node, list) else [node]:
        if isinstance(part, dict):
            if part.get("logicalType") == "decimal":
                return int(part.get("scale", 0))
            if isinstance(part.get("type"), dict | list):
                return _decimal_scale(part["type"])
    return None


def _projected(node: Any, wanted: frozenset[str]) -> Any:
    """The reader's schema: of records with canonical names, only the wanted fields."""
    if isinstance(node, list):
        return [_projected(part, wanted) for part in node]
    if not isinstance(node, dict):
        return node
    if node["type"] == "array":
        return {**node, "items": _projected(node["items"], wanted)}
    if node["type"] != "record":
        return node
    fields = [
        {**field, "type": _projected(field["type"], wanted)}
        for field in node["fields"]
        if field["name"] in wanted
        or field["name"] in ("key", "value")
        or (field["name"][:1] == "p" and field["name"][1:].isdigit())
    ]
    return {**node, "fields": fields}
