"""Converts a stream of batches of any size to tables of similar size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from puffin_fast._concurrency.groups import filled_groups

ENOUGH_BYTES = 1 << 20
"""Batches are joined until they have this number of bytes."""

ROW_BYTES = 100
"""The smallest number of bytes that a row counts as."""

FIRST_ROWS = 1024
"""Number of rows that are decoded first, to estimate the size of a row."""


def even_tables(
    batches: Iterable[pa.RecordBatch], most_bytes: int, decode: Callable[[pa.Table], pa.Table] | None = None
) -> Iterator[pa.Table]:
    """Joins small batches, and cuts large ones.

    Args:
        batches: batches with one schema.
        most_bytes: approximate maximum size of a table in bytes; a single row may be larger.
        decode: converts rows to layouts in which each row has its own values, such as plain arrays for dictionaries.
    """
    for group in filled_groups(
        batches, ENOUGH_BYTES, lambda batch: max(batch.nbytes, ROW_BYTES * batch.num_rows)
    ):
        table = pa.Table.from_batches(group)
        if len(group) > 1:
            table = table.combine_chunks()
        yield from cut(table, most_bytes) if decode is None else _decoded(table, most_bytes, decode)


def cut(table: pa.Table, most_bytes: int) -> Iterator[pa.Table]:
    """Yields the rows of a table in tables of one batch and of at most some bytes, or of one row."""
    n_rows = max(1, most_bytes * table.num_rows // max(table.nbytes, 1))
    for batch in table.to_batches(max_chunksize=n_rows):
        yield pa.Table.from_batches([batch])


def _decoded(table: pa.Table, most_bytes: int, decode: Callable[[pa.Table], pa.Table]) -> Iterator[pa.Table]:
    start, n_rows = 0, FIRST_ROWS
    while start < table.num_rows:
        found = decode(table.slice(start, n_rows))
        yield from cut(found, most_bytes)
        start += n_rows
        n_rows = max(1, most_bytes * found.num_rows // max(found.nbytes, 1))
