"""Prunes the row groups of a Parquet file by the statistics in its footer."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyiceberg.schema import Schema

    from puffin_fast.rows.files.projection import FileSchema

_PACK = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d", "BOOLEAN": "<?"}
_LITTLE = (IntegerType, LongType, FloatType, DoubleType, BooleanType, DateType)
_BYTES = (StringType, BinaryType, FixedType, UUIDType)
_UNITS: dict[Any, str] = {
    TimeType: "microseconds",
    TimestampType: "microseconds",
    TimestamptzType: "microseconds",
    TimestampNanoType: "nanoseconds",
    TimestamptzNanoType: "nanoseconds",
}


@dataclass
class RowGroupMetrics:
    """Statistics of a row group under the names of a manifest entry's metrics."""

    record_count: int
    value_counts: dict[int, int] = field(default_factory=dict)
    null_value_counts: dict[int, int] = field(default_factory=dict)
    nan_value_counts: dict[int, int] = field(default_factory=dict)
    lower_bounds: dict[int, bytes] = field(default_factory=dict)
    upper_bounds: dict[int, bytes] = field(default_factory=dict)


def row_group_metrics(
    metadata: pq.FileMetaData,
    file: FileSchema,
    schema: Schema,
    field_ids: Iterable[int],
    groups: Iterable[int] | None = None,
) -> Iterator[RowGroupMetrics]:
    """Yields the statistics of row groups. They have no columns inside lists and maps.

    Args:
        metadata: the file's footer.
        file: the file's columns by field id.
        schema: the schema that has the columns.
        field_ids: the columns.
        groups: the numbers of the row groups; None: all.
    """
    paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    times = Counter(paths)  # a column with a dot in its name may have the path of a field of a struct
    leaves = {path: at for at, path in enumerate(paths) if times[path] == 1}
    columns = []
    for field_id in field_ids:
        at = leaves.get(file.dotted(field_id) or "")
        if at is not None and metadata.schema.column(at).max_repetition_level == 0:
            columns.append((field_id, at, schema.find_type(field_id), metadata.schema.column(at)))
    for number in range(metadata.num_row_groups) if groups is None else groups:
        group = metadata.row_group(number)
        metrics = RowGroupMetrics(group.num_rows)
        for field_id, at, kind, column in columns:
            statistics = group.column(at).statistics
            if statistics is None:
                continue
            if statistics.has_null_count:
                metrics.value_counts[field_id] = group.num_rows
                metrics.null_value_counts[field_id] = statistics.null_count
            if statistics.has_min_max:
                lower, upper = (_bound(raw, kind, column) for raw in (statistics.min_raw, statistics.max_raw))
                if lower is not None and upper is not None:
                    metrics.lower_bounds[field_id] = lower
                    metrics.upper_bounds[field_id] = upper
        yield metrics


def _bound(raw: Any, kind: Any, column: Any) -> bytes | None:
    """A statistic in Iceberg's single-value serialization; None if the file's type does not fit the table's.

    If the type was promoted after the file was written, the bound has the file's width, as bounds in
    manifests do.
    """
    form = bound_form(kind, column)
    if form == DECIMAL:
        return int(raw).to_bytes(8, "big", signed=True)
    if form == BYTES:
        return raw.encode() if isinstance(raw, str) else bytes(raw)
    return None if form is None else struct.pack(_PACK[column.physical_type], raw)


DECIMAL, BYTES, PLAIN = "decimal", "bytes", "plain"
"""How a bound is stored: little-endian digits of a decimal; bytes; a value as Iceberg serializes it."""


def bound_form(kind: Any, column: Any) -> str | None:
    """Returns how bounds of a column are stored; None if the file's type does not fit the table's.

    Args:
        kind: the type of the column in the table.
        column: the column in Parquet's schema.
    """
    physical = column.physical_type
    if isinstance(kind, DecimalType):
        if column.scale != kind.scale:
            return None
        if physical in ("INT32", "INT64"):
            return DECIMAL
        return BYTES if physical == "FIXED_LEN_BYTE_ARRAY" else None
    if isinstance(kind, _BYTES):
        is_fixed = isinstance(kind, FixedType | UUIDType)
        fits = physical == "FIXED_LEN_BYTE_ARRAY" or (not is_fixed and physical == "BYTE_ARRAY")
        return BYTES if fits else None
    if "isSigned=false" in str(column.logical_type):  # PyArrow reads the bound as a signed number
        return None
    unit = _UNITS.get(type(kind))
    if unit is None and not isinstance(kind, _LITTLE):
        return None
    if unit is not None and unit not in str(column.logical_type):
        return None
    if isinstance(kind, FloatType | DoubleType) and physical not in ("FLOAT", "DOUBLE"):
        return None
    return PLAIN if physical in _PACK else None
