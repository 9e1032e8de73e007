"""Given rows in parts that fit in memory with their keys; all rows of a key are in one part."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from puffin_fast.columns.even_tables import even_tables
from puffin_fast.columns.plain_types import decoder, plain_rows
from puffin_fast.columns.row_parts import Division, in_parts
from puffin_fast.limits import KEY_BYTES
from puffin_fast.rows.keys.key_columns import key_fields
from puffin_fast.rows.match.change_feed import ChangeFeed
from puffin_fast.rows.match.key_parts import KeyHashes, KeyParts
from puffin_fast.rows.match.matching import Source, given_keys

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

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
        io: the FileIO of the table; a property of it is the limit of the memory.
        metadata, join_cols, columns, feed: as `Source.of`.
        rows: the caller's rows.

    Raises:
        NotFoundError, InvalidInputError: as `Source.of`.
        PuffinFastError: a temporary file could not be written or read.
    """
    schema = metadata.schema()
    fields = key_fields(schema, join_cols)
    hashes = KeyHashes(lambda some: given_keys(schema, some, fields, feed))
    division = Division(hashes, _size, KEY_BYTES.of(io))

    def source(some: pa.Table) -> Source:
        return Source.of(metadata, some, join_cols, columns=columns, feed=feed)

    decode = decoder(rows.schema)
    empty = plain_rows(pa.Table.from_batches([], rows.schema))
    source(empty)  # the columns are checked before a row is read
    tables = chain([empty], even_tables(rows, division.chunk_bytes, decode))
    with in_parts(tables, division, source, "data") as parts:
        bounds = next(iter(parts)).keys if parts.in_memory else hashes.ends.bounds(metadata, fields)
        yield KeyParts(parts, bounds)


def _size(rows: pa.Table) -> int:
    """Estimated bytes of memory for an upsert of rows."""
    return ROW_COPIES * int(rows.nbytes) + ROW_BYTES * int(rows.num_rows)
