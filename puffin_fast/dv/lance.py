"""Lance's deletion files: one set of row offsets of a fragment, in one of two forms.

    .bin      32-bit portable Roaring; no magic, no length, no checksum
    .arrow    an Arrow IPC file with the column `row_id: uint32`, in any order; its body may be compressed

`decode` takes either form: an Arrow file begins with `ARROW1`, which is no cookie of a bitmap.

Source: Lance's format specification, "Deletion".
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._positions import as_bytes
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv._bitmap32 import MAX_POSITION, read_bitmap32, write_bitmap32
from puffin_fast.dv._counted import counted
from puffin_fast.errors import CorruptDataError, InvalidInputError

__all__ = ["ARROW_MAGIC", "BITMAP_FROM", "MAX_POSITION", "SCHEMA", "decode", "encode"]

ARROW_MAGIC = b"ARROW1"
BITMAP_FROM = 5_000
"""Deleted rows from which on Lance writes a bitmap."""
SCHEMA = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])


def encode(bitmap: PositionBitmap, *, form: str | None = None) -> bytes:
    """The deletion file of a set.

    Args:
        bitmap: the deleted row offsets.
        form: ``"bin"`` or ``"arrow"``; by default the one that Lance chooses for that many rows.

    Raises:
        InvalidInputError: no PositionBitmap, or no such form.
        LimitExceededError: an offset above 2^32 - 1.
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
    """The set of a deletion file of either form.

    Args:
        blob: any contiguous buffer that holds the whole file.
        cardinality: `num_deleted_rows` of the manifest; None when it is not known.
        path, offset: where the file lies, for errors.

    Raises:
        CorruptDataError: the bytes are not a well-formed deletion file, or hold another number of rows.
    """
    data = as_bytes(blob, "deletion file")
    if data[: len(ARROW_MAGIC)] == ARROW_MAGIC:
        bitmap = _arrow(data, path, offset)
    else:
        bitmap = read_bitmap32(data, 0, len(data), path=path, offset=offset)
    return counted(bitmap, cardinality, what="deletion file", path=path, offset=offset)


def _arrow(data: bytes, path: str | None, offset: int) -> PositionBitmap:
    def corrupt(what: str, expected: object, found: object) -> CorruptDataError:
        return CorruptDataError(what, path=path, offset=offset, expected=expected, found=found)

    try:
        file = pa.ipc.open_file(pa.py_buffer(data))
        if file.schema.names != SCHEMA.names or file.schema.types != SCHEMA.types:
            raise corrupt("schema of a deletion file", "row_id: uint32", str(file.schema).replace("\n", ", "))
        if file.num_record_batches > len(data):
            raise corrupt("batches of a deletion file", f"at most {len(data)}", file.num_record_batches)
        columns = []
        for number in range(file.num_record_batches):
            batch = file.get_batch(number)
            batch.validate(full=True)
            columns.append(batch.column(0))
    except (pa.ArrowException, OSError, MemoryError, IndexError, KeyError, ValueError) as error:
        if isinstance(error, CorruptDataError):
            raise
        message = str(error).splitlines()
        raise corrupt(
            "Arrow file of deletions", "an Arrow IPC file", message[0] if message else "another"
        ) from error
    rows = pa.chunked_array(columns, pa.uint32())
    if rows.null_count:
        raise corrupt("row_id of a deletion file", "no null", f"{rows.null_count} nulls")
    return PositionBitmap.from_positions(pc.cast(rows, pa.int64()))
