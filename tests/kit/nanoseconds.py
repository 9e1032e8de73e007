"""The types of columns of nanoseconds, which a table has only on request."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["nanosecond_types"]


def nanosecond_types(schema: pa.Schema) -> dict[str, str]:
    """The argument `types` of `create_table` with which a table keeps the nanoseconds of an Arrow schema."""
    return {
        field.name: "timestamp_ns" if field.type.tz is None else "timestamptz_ns"
        for field in schema
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns"
    }
