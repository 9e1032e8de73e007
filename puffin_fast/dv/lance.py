"""Lance's deletion files: the set of deleted row offsets of a fragment, in one of two forms.

    .bin      32-bit portable Roaring; no magic, no length, no checksum
    .arrow    an Arrow IPC file with the column `row_id: uint32`, in any order; its body may be compressed

`decode` accepts both forms: an Arrow file begins with ``ARROW1``, which is not a cookie of a bitmap.

Source: Lance's format specification, "Deletion".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._positions import as_bytes
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv._bitmap32 import MAX_POSITION, read_bitmap32, write_bitmap32
from puffin_fast.dv._counted import counted
from puffin_fast.errors import CorruptDataError, InvalidInputError, LimitExceededError, PuffinFastError
from puffin_fast.limits import most_inflated

__all__ = ["ARROW_MAGIC", "BITMAP_FROM", "COOKIES", "MAX_POSITION", "SCHEMA", "decode", "encode"]


def __dir__() -> list[str]:
    return sorted(__all__)


ARROW_MAGIC = b"ARROW1"
COOKIES = (b"\x3a\x30", b"\x3b\x30")
"""The first bytes of a 32-bit Roaring bitmap: without run containers, and with them."""
BITMAP_FROM = 5_000
"""Number of deleted rows from which Lance writes a bitmap."""
_TAIL_BYTES = 10
"""The length of the footer and the magic, at the end of an Arrow file."""
_CONTINUATION = 0xFFFFFFFF
_FOOTER_BATCHES, _MESSAGE_HEADER, _BATCH_BUFFERS, _BATCH_COMPRESSION = 3, 2, 2, 3
"""Numbers of fields of the tables `Footer`, `Message` and `RecordBatch`."""
SCHEMA = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])


def encode(bitmap: PositionBitmap, *, form: str | None = None) -> bytes:
    """Encodes a set as a deletion file.

    Args:
        bitmap: the deleted row offsets.
        form: ``"bin"`` or ``"arrow"``; by default the form that Lance uses for this number of rows.

    Raises:
        InvalidInputError: the argument is not a PositionBitmap, or the form is unknown.
        LimitExceededError: an offset above 2^32 - 1.

    Examples:
        >>> blob = pf.dv.lance.encode(pf.PositionBitmap([3, 1]))
        >>> blob[:6]
        b'ARROW1'
    """
    if form not in (None, "bin", "arrow"):
        raise InvalidInputError(f"form: expected 'bin' or 'arrow', found {form!r}")
    data = write_bitmap32(bitmap, "deletion file")
    if form == "bin" or (form is None and len(bitmap) >= BITMAP_FROM):
        return data
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_batch(pa.record_batch([pa.array(bitmap.to_numpy()).cast(pa.uint32())], schema=SCHEMA))
    return bytes(sink.getvalue())


def decode(
    blob: Any, *, cardinality: int | None = None, path: str | None = None, offset: int = 0
) -> PositionBitmap:
    """Decodes a deletion file of either form.

    Args:
        blob: any contiguous buffer that holds the whole file.
        cardinality: ``num_deleted_rows`` of the manifest; None if it is unknown.
        path, offset: the place of the file, for errors.

    Raises:
        CorruptDataError: the bytes are not a well-formed deletion file, or have another number of rows.
        LimitExceededError: an Arrow file decompresses to more bytes than `limits.most_inflated` allows.

    Examples:
        >>> pf.dv.lance.decode(pf.dv.lance.encode(pf.PositionBitmap([3, 1])))
        PositionBitmap([1, 3])
    """
    data = as_bytes(blob, "deletion file", offset)
    if data[: len(ARROW_MAGIC)] == ARROW_MAGIC:
        bitmap = _arrow(data, path, offset)
    else:
        bitmap = read_bitmap32(data, 0, len(data), path=path, offset=offset)
    return counted(bitmap, cardinality, what="deletion file", path=path, offset=offset)


def _arrow(data: bytes, path: str | None, offset: int) -> PositionBitmap:
    def corrupt(what: str, expected: object, found: object) -> CorruptDataError:
        return CorruptDataError(what, path=path, offset=offset, expected=expected, found=found)

    columns, left = [], most_inflated(len(data))
    try:
        file = pa.ipc.open_file(pa.py_buffer(data))
        if file.schema.names != SCHEMA.names or file.schema.types != SCHEMA.types:
            raise corrupt("schema of a deletion file", "row_id: uint32", str(file.schema).replace("\n", ", "))
        for number, n_bytes in enumerate(_bytes_of_batches(memoryview(data))):
            left -= n_bytes
            if left < 0:
                place = f"offset {offset}" if path is None else f"{path}: offset {offset}"
                raise LimitExceededError(
                    f"{place}: deletion file of more than {most_inflated(len(data))} bytes when "
                    f"decompressed, the limit for {len(data)} stored bytes"
                )
            batch = file.get_batch(number)
            batch.validate(full=True)
            columns.append(batch.column(0))
        if len(columns) != file.num_record_batches:
            raise corrupt("batches of a deletion file", file.num_record_batches, len(columns))
    except (pa.ArrowException, OSError, MemoryError, IndexError, KeyError, ValueError, struct.error) as error:
        if is_from_outside(error):
            raise
        if isinstance(error, PuffinFastError):
            raise
        message = str(error).splitlines()
        raise corrupt(
            "Arrow file of deletions", "an Arrow IPC file", message[0] if message else "another"
        ) from error
    rows = pa.chunked_array(columns, pa.uint32())
    if rows.null_count:
        raise corrupt("row_id of a deletion file", "no null", f"{rows.null_count} nulls")
    return PositionBitmap.from_positions(pc.cast(rows, pa.int64()))


def _bytes_of_batches(data: memoryview) -> Iterator[int]:
    """Yields the bytes that each record batch of an Arrow file takes in memory; compressed buffers declare them first.

    Source: Arrow's File.fbs (`Footer`, `Block`) and Message.fbs (`RecordBatch`), FlatBuffers' layout of tables.
    """

    def number(form: str, at: int) -> int:
        return int(struct.unpack_from(form, data, at)[0])

    def field(table: int, index: int) -> int:
        """Returns the offset of a field of a table; 0 if it is absent."""
        vtable = table - number("<i", table)
        at = 4 + 2 * index
        relative = number("<H", vtable + at) if at < number("<H", vtable) else 0
        return relative and table + relative

    def follow(at: int) -> int:
        return at + number("<I", at)

    def structs(form: str, vector: int) -> Iterator[tuple[Any, ...]]:
        size = struct.calcsize(form)
        return struct.iter_unpack(form, data[vector + 4 : vector + 4 + size * number("<I", vector)])

    footer = len(data) - _TAIL_BYTES - number("<I", len(data) - _TAIL_BYTES)
    blocks = field(follow(footer), _FOOTER_BATCHES)
    for start, n_metadata, _ in structs("<qi4xq", follow(blocks)) if blocks else ():
        prefix = 8 if number("<I", start) == _CONTINUATION else 4
        batch = follow(field(follow(start + prefix), _MESSAGE_HEADER))
        ranges = [(at, n) for at, n in structs("<qq", follow(field(batch, _BATCH_BUFFERS))) if n]
        compressed = field(batch, _BATCH_COMPRESSION)
        # an uncompressed buffer in a compressed batch declares a size of -1
        yield sum(max(n, number("<q", start + n_metadata + at)) if compressed else n for at, n in ranges)
