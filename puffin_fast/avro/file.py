"""Reads and writes the Avro files of Iceberg's metadata with fastavro, each file as a whole.

An Avro file is a header (magic, a map of metadata with the writer's schema, a sync marker) and blocks.
Fields are found by Iceberg's ``field-id``, never by name (table specification, "Avro"). Logical types are not
converted: a date is a number of days, a timestamp a number of microseconds, a uuid 16 bytes. Before the records are
read, the schema of the header is replaced by a plain schema with canonical names (`avro_schema`).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from puffin_fast import limits
from puffin_fast._io import is_local, open_source
from puffin_fast._io.location import new_input, unwrapped
from puffin_fast._process.interrupt import PARSE_ERRORS, is_from_outside, suppressed
from puffin_fast.errors import (
    CorruptDataError,
    LimitExceededError,
    MissingExtraError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)

try:
    import fastavro
    from fastavro.read import SchemaResolutionError
    from fastavro.schema import SchemaParseException, UnknownType
except ImportError as error:  # pragma: no cover - installed with the extra
    raise MissingExtraError("fastavro", "iceberg") from error

from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from puffin_fast.avro.blocks import SYNC_BYTES, Block, Blocks, Bytes, as_long
from puffin_fast.avro.schema import PlainSchema

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema

MAGIC = b"Obj\x01"
_SYNC = {"type": "fixed", "name": "sync", "size": SYNC_BYTES}
HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "puffin_fast.avro_header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": len(MAGIC)}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": _SYNC},
        ],
    }
)
"""The Avro schema of a file's header."""

_NAMED = ("record", "fixed", "enum")

AVRO_ERRORS = (*PARSE_ERRORS, SchemaParseException, SchemaResolutionError, UnknownType)
"""What fastavro raises for wrong bytes and schemas."""

READ_BYTES = 16 << 20
"""Number of bytes per read from a stream of unknown length."""

BLOCK_BYTES = 64_000
"""Number of bytes of records in a block, before compression, as Java's writer has it: each block has a cost."""

CODECS = {"gzip": "deflate", "zstd": "zstandard", "uncompressed": "null", "snappy": "snappy"}
"""Values of Iceberg's property ``write.avro.compression-codec``, and the codec names of Avro."""


@dataclass(frozen=True)
class AvroFile:
    """An Avro file in memory.

    Attributes:
        path: the path, for error messages.
        metadata: the metadata of the header.
        plain: the schema of the records, converted; shared by files with the same schema.
        blocks: its blocks, which are decompressed each time that they are read.
        file_size: the size of the file in bytes.
    """

    path: str
    metadata: dict[str, str]
    plain: PlainSchema
    blocks: Blocks
    file_size: int

    @property
    def schema(self) -> dict[str, Any]:
        """The plain schema of the records; fields are read in its order, each takes at least one byte."""
        return self.plain.record

    @property
    def n_records(self) -> int:
        """The number of records in all blocks."""
        return sum(self.blocks.counts)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yields the records; decodes one block at a time.

        Raises:
            CorruptDataError: the bytes of a block are not records of the schema, or bytes remain after them.
        """
        written = self.plain.array
        for n_records, data in self.blocks:
            source = BytesIO(b"".join((as_long(n_records), data, b"\0")) if n_records else b"\0" + data)
            try:
                records: Any = fastavro.schemaless_reader(source, written, None)
            except AVRO_ERRORS as error:
                if is_from_outside(error):
                    raise
                raise CorruptDataError(f"records of an Avro file: {error!r}", path=self.path) from error
            n_more = len(source.getbuffer()) - source.tell()
            if n_more or len(records) != n_records:  # what follows the records may be a part of an array, too
                raise CorruptDataError(
                    "records of an Avro block",
                    path=self.path,
                    expected=f"{n_records} records in {len(data)} bytes",
                    found=f"{n_more} bytes more" if n_more else f"{len(records)} records",
                )
            for record in records:
                yield record | self.plain.constants if self.plain.constants else record


def to_avro_schema(schema: Schema, name: str) -> Any:
    """Converts the schema of a manifest or manifest list to a parsed Avro schema.

    Args:
        schema: the Iceberg schema. Its ids become ``field-id`` and ``element-id``, its maps arrays of pairs.
        name: the name of the root record.
    """
    converted = AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name)
    return fastavro.parse_schema(_unique_names(converted, set()))


def _unique_names(node: Any, seen: set[str]) -> Any:
    """Renames the second and later definitions of a name: Avro allows one of each, and one null in a union."""
    if node == ["null", "null"]:  # an optional field of type unknown
        return "null"
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
    encoded: Iterable[bytes] = (),
) -> int:
    """Writes an Avro file with a single call to the storage.

    Args:
        path: the new file.
        schema: the parsed schema of the records.
        metadata: additional metadata of the header.
        codec: the codec's name in Avro; one of `DEFLATES` if there are encoded records.
        encoded: further records, encoded by the same schema, one after another.

    Returns:
        the length of the file in bytes.

    Raises:
        CorruptDataError: a value does not fit its type in the schema; values come from the table's metadata.
    """
    buffer = BytesIO()
    try:
        fastavro.writer(buffer, schema, records, codec=codec, metadata=metadata, sync_interval=BLOCK_BYTES)
        sync = buffer.getvalue()[-SYNC_BYTES:]  # it ends the header and each block
        for block in _blocks(encoded):
            data = DEFLATES[codec](block.data)
            buffer.write(b"".join((as_long(block.n_records), as_long(len(data)), data, sync)))
    except PuffinFastError:
        raise
    except (OverflowError, TypeError, ValueError) as error:
        damage = CorruptDataError("values of a metadata file to write", path=path, found=error)
        raise _codec_error(error, path) or damage from error
    with io.new_output(path).create(overwrite=True) as sink:
        sink.write(buffer.getvalue())
    return buffer.tell()


def _blocks(records: Iterable[bytes]) -> Iterator[Block]:
    """Puts encoded records together, until a block has `BLOCK_BYTES`."""
    found: list[bytes] = []
    n_bytes = 0
    for record in records:
        found.append(record)
        n_bytes += len(record)
        if n_bytes >= BLOCK_BYTES:
            yield Block(len(found), b"".join(found))
            found, n_bytes = [], 0
    if found:
        yield Block(len(found), b"".join(found))


def _deflated(data: Bytes) -> bytes:
    compress = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compress.compress(data) + compress.flush()


DEFLATES: dict[str, Callable[[Bytes], bytes]] = {"null": bytes, "deflate": _deflated}
"""The codecs that compress encoded records."""


def plain_schema(schema: Any, names: Mapping[int, str]) -> PlainSchema:
    """Converts a parsed schema as that of a file that is written with it."""
    buffer = BytesIO()
    fastavro.writer(buffer, schema, [])
    return parse_avro(buffer.getvalue(), "a file in memory", names).plain


def read_together(io: FileIO, files: Sequence[tuple[str, int]], limit: int) -> list[bytes | None]:
    """Reads files of stated sizes by `read_bytes`; None for those after `limit` bytes if there are more than stated."""
    found: list[bytes | None] = []
    n_bytes = 0
    for path, size in files:
        data = read_bytes(io, path, size) if n_bytes <= limit else None
        n_bytes += len(data or b"")
        found.append(data)
    return found


def read_bytes(io: FileIO, path: str, size: int | None = None) -> bytes:
    """Reads all bytes of a manifest or a manifest list.

    Args:
        size: in bytes, if it is stated; saves a request through fsspec. The file may have more or fewer.

    Raises:
        NotFoundError: there is no such file.
        InvalidInputError: the path is not a regular file.
        LimitExceededError: the file has more than `limits.MAX_METADATA_BYTES` bytes.
        CorruptDataError: the storage answered fewer bytes than the file has.
    """
    limit = limits.MAX_METADATA_BYTES.of(io)
    kind = "local" if is_local(path, io) else unwrapped(io, path)[0]
    if kind in ("local", "fsspec"):  # checks the size first: a pipe or a device may have no end
        with open_source(path, filesystem=io) as source:
            if kind == "fsspec" and size is not None and 0 < size < limit:
                with suppressed(OSError):
                    data = source.read_head(size + 1)
                    if len(data) == size:
                        return data
            source.expect_whole()
            if source.size > limit:
                raise _too_long(path, limit)
            return source.read_at(0, source.size)
    parts, left = [], limit + 1
    try:
        file = new_input(io, path)
        with file.open(seekable=False) as stream:
            while left and (part := stream.read(min(left, READ_BYTES))):
                parts.append(part)
                left -= len(part)
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: no such file") from error
    if not left:
        raise _too_long(path, limit)
    if kind == "pyiceberg" and len(file) != limit + 1 - left:  # PyArrow's streams end where the file does
        raise CorruptDataError("bytes of a file", path=path, expected=len(file), found=limit + 1 - left)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_long(path: str, limit: int) -> LimitExceededError:
    return LimitExceededError(f"{path}: more than {limit} bytes, the limit for a manifest or a manifest list")


def read_avro(io: FileIO, path: str, names: Mapping[int, str], size: int | None = None) -> AvroFile:
    """Reads an Avro file whose fields have ids.

    Args:
        names: the canonical name of each field id.
        size: as for `read_bytes`.

    Raises:
        CorruptDataError: the bytes are not an Avro file.
        LimitExceededError: the file has more bytes, stored or decompressed, or more records than `limits` allows.
        NotFoundError: there is no such file.
        UnsupportedError: the codec is not supported.
    """
    return parse_avro(read_bytes(io, path, size), path, names, io)


def parse_avro(data: bytes, path: str, names: Mapping[int, str], io: Any = None) -> AvroFile:
    """Parses the bytes of an Avro file; arguments and errors as for `read_avro`."""
    if data[: len(MAGIC)] != MAGIC:
        raise CorruptDataError("magic of an Avro file", path=path, offset=0, expected=MAGIC, found=data[:4])
    try:
        source = BytesIO(data)
        header: Any = fastavro.schemaless_reader(source, HEADER, None)
        metadata = {key: value.decode() for key, value in header["meta"].items()}
        plain = _plain_schema(metadata["avro.schema"], names)
    except AVRO_ERRORS as error:
        if is_from_outside(error):
            raise
        raise CorruptDataError(f"header of an Avro file: {error!r}", path=path, offset=0) from error
    start = source.tell()
    blocks = Blocks(
        memoryview(data)[start:],
        codec=metadata.get("avro.codec", "null"),
        sync=header["sync"],
        limit=limits.most_inflated(len(data) - start, io),
        n_fields=len(plain.record["fields"]),
        path=path,
        offset=start,
    )
    return AvroFile(path, metadata, plain, blocks, len(data))


_MOST_CACHED = 1 << 16
"""Number of characters of a schema up to which it is kept: those of manifests have a few thousand."""


def _plain_schema(text: str, names: Mapping[int, str]) -> PlainSchema:
    """Converts a writer's schema, once for all manifests that have it."""
    convert = _converted if len(text) <= _MOST_CACHED else _converted.__wrapped__
    return convert(text, tuple(names.items()))


@lru_cache(maxsize=64)
def _converted(text: str, names: tuple[tuple[int, str], ...]) -> PlainSchema:
    return PlainSchema(json.loads(text), dict(names))


def _codec_error(error: Exception, path: str) -> PuffinFastError | None:
    """Converts fastavro's error for an unknown codec, or one whose package is missing; None for other errors."""
    found = str(error)
    if (
        "need to install" in found and "cramjam" in found
    ):  # fastavro's package for Snappy, which no extra installs
        return MissingExtraError("cramjam", extra=None)
    if "need to install" in found or "nrecognized codec" in found:
        return UnsupportedError(f"{path}: {found}")
    return None
