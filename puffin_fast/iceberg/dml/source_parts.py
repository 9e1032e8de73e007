"""Given rows in parts that fit in memory with their keys; all rows of a key are in one part."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast._runtime.row_parts import Parted, in_parts
from puffin_fast.iceberg.dml.change_feed import ChangeFeed
from puffin_fast.iceberg.dml.key_parts import KeyParts
from puffin_fast.iceberg.dml.matching import Source, given_keys, plain_rows
from puffin_fast.iceberg.predicate.key_columns import key_fields
from puffin_fast.iceberg.predicate.key_hash import key_hashes
from puffin_fast.iceberg.predicate.keys import KeyEnds
from puffin_fast.limits import KEY_BYTES

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

__all__ = ["source_parts"]

ROW_COPIES = 4
"""Number of copies of given rows that are held at a time: as given, as matched, as written, as encoded."""

ROW_BYTES = 100
"""Bytes of memory for each given row beside its copies."""


@contextmanager
def source_parts(
    io: FileIO,
    metadata: TableMetadata,
    rows: pa.RecordBatchReader,
    join_cols: str | Sequence[str] | None,
    *,
    columns: Collection[str] | None,
    feed: ChangeFeed,
) -> Iterator[KeyParts[Source]]:
    """Reads given rows; those that memory does not hold are in temporary files until the end.

    Args:
        io: of the table; a property of it is the limit of the memory.
        metadata, join_cols, columns, feed: as `Source.of`.
        rows: of the caller.

    Raises:
        NotFoundError, InvalidInputError: as `Source.of`.
        PuffinFastError: a temporary file could not be written.
    """
    schema = metadata.schema()
    fields = key_fields(schema, join_cols)
    ends = KeyEnds()

    def hashes(some: pa.Table) -> Any:
        keys = given_keys(schema, some, fields, feed)
        ends.add(keys)
        return key_hashes(keys)

    def made(some: pa.Table) -> Source:
        return Source.of(metadata, some, join_cols, columns=columns, feed=feed)

    terms = Parted(hashes, _size, KEY_BYTES.of(io), movable=plain_rows)
    with in_parts(_tables(rows), terms, made, "data") as parts:
        bounds = ends.bounds(metadata, fields) if len(parts) > 1 else next(iter(parts)).keys
        yield KeyParts(parts, bounds)


def _tables(rows: pa.RecordBatchReader) -> Iterable[pa.Table]:
    yield pa.Table.from_batches([], rows.schema)
    for batch in rows:
        yield pa.Table.from_batches([batch])


def _size(rows: pa.Table) -> int:
    """Bytes of memory that an upsert of rows takes."""
    return ROW_COPIES * int(plain_rows(rows).nbytes) + ROW_BYTES * int(rows.num_rows)
