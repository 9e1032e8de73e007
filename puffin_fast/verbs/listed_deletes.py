"""The columns of `deletes`, for all formats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

VECTOR, POSITIONS, EQUALITY = "vector", "position deletes", "equality deletes"
APPLIES, SUPERSEDED, DUPLICATE, DANGLING = "applies", "superseded", "duplicate", "dangling"

SCHEMA = pa.schema(
    [
        ("data_file", pa.string()),
        ("rows", pa.int64()),
        ("kind", pa.string()),
        ("state", pa.string()),
        ("path", pa.string()),
        ("offset", pa.int64()),
        ("n_bytes", pa.int64()),
        ("deleted", pa.int64()),
        ("share", pa.float64()),
        ("sequence_number", pa.int64()),
    ]
)
"""Columns of `deletes`."""


def deletes_table(rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    """Returns rows with the columns of `SCHEMA`."""
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


def vectors_table(rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    """Returns vectors that apply, given as (data file, its rows, path, offset, n_bytes, deleted)."""
    return deletes_table(
        (data_file, n_rows, VECTOR, APPLIES, *where, deleted, deleted / n_rows if n_rows else None, None)
        for data_file, n_rows, *where, deleted in rows
    )
