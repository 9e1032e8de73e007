"""Iceberg schemas from Arrow schemas, and tables of snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException

from puffin_fast.errors import InvalidInputError

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

__all__ = ["schema_of_arrow", "table_of_snapshots"]


def schema_of_arrow(schema: pa.Schema) -> Schema:
    """An Arrow schema as an Iceberg schema of version 3, without ids (all -1).

    Raises:
        InvalidInputError: a type that Iceberg does not have.
    """
    try:
        return Catalog._convert_schema_if_needed(schema, 3)
    except (UnsupportedPyArrowTypeException, TypeError, ValueError) as error:
        raise InvalidInputError(f"schema: {error}") from error


def table_of_snapshots(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows with ids of snapshots, which some writers take from all 64 bits: the column is then of type uint64."""
    if any(row["snapshot_id"] >= 1 << 63 for row in rows):
        at = schema.get_field_index("snapshot_id")
        schema = schema.set(at, schema.field(at).with_type(pa.uint64()))
    return pa.Table.from_pylist(rows, schema)
