"""Statistics and partition values of many files, parsed by columns.

`stats` is JSON in a string per file: numRecords, and per column minValues, maxValues and nullCount by physical names.
What does not parse says nothing: a file without statistics is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    TimestampType,
    TimestamptzType,
)

from puffin_fast.errors import CorruptDataError
from puffin_fast.iceberg.datafile.conversion import storage_type

__all__ = ["Statistics", "typed"]

UNKNOWN = -1
"""Number of rows where the log does not say it."""

_MILLISECOND = 999
"""Microseconds by which the highest timestamp of a file may be above its statistic, which is cut to milliseconds."""


@dataclass(frozen=True)
class Statistics:
    """Statistics of files, one row each.

    Attributes:
        n_rows: rows of each file, deleted ones included; `UNKNOWN` where the log does not say.
        lower, upper: bounds of columns by field id; null where there is none.
        nulls: null counts by field id.
    """

    n_rows: npt.NDArray[np.int64]
    lower: Mapping[int, pa.Array] = field(default_factory=dict)
    upper: Mapping[int, pa.Array] = field(default_factory=dict)
    nulls: Mapping[int, pa.Array] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        stats: pa.ChunkedArray,
        columns: Mapping[int, tuple[Sequence[str], IcebergType]],
        root: str,
    ) -> Statistics:
        """Parses the statistics of files.

        Args:
            stats: the `stats` of each.
            columns: field id to the physical path and the type of the columns that are wanted.
            root: the table, for errors.

        Raises:
            CorruptDataError: statistics that are no JSON.
        """
        lines = [text.replace("\n", " ") if text else "{}" for text in stats.to_pylist()]
        counts = _parse(lines, pa.schema([("numRecords", pa.int64())]))
        if counts is None:
            raise CorruptDataError("stats of a file", path=root, expected="a JSON object", found="none")
        n_rows = counts["numRecords"].fill_null(UNKNOWN).to_numpy()
        found = cls(n_rows, {}, {}, {})
        wanted = {field_id: column for field_id, column in columns.items() if _has_bounds(column[1])}
        parts = [wanted]
        if wanted and not found._add(lines, wanted):
            parts = [{field_id: column} for field_id, column in wanted.items()]
            for part in parts:
                found._add(lines, part)
        return found

    def _add(self, lines: Sequence[str], columns: Mapping[int, tuple[Sequence[str], IcebergType]]) -> bool:
        """Parses some columns; whether they could be."""
        values = _nested([(path, _json_type(kind)) for path, kind in columns.values()])
        nulls = _nested([(path, pa.int64()) for path, _ in columns.values()])
        schema = pa.schema([("minValues", values), ("maxValues", values), ("nullCount", nulls)])
        parsed = _parse(lines, schema)
        if parsed is None:
            return False
        low, high, null = (parsed[name].combine_chunks() for name in schema.names)
        made = []
        for field_id, (path, kind) in columns.items():
            try:
                bounds = [typed(pc.struct_field(side, list(path)), kind) for side in (low, high)]
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                if len(columns) > 1:
                    return False
                continue
            if isinstance(kind, TimestampType | TimestamptzType):
                bounds[1] = pc.add(bounds[1].cast(pa.int64()), _MILLISECOND).cast(bounds[1].type)
            elif isinstance(kind, FloatType | DoubleType):
                bounds = [pc.if_else(pc.is_nan(side), pa.scalar(None, side.type), side) for side in bounds]
            made.append((field_id, bounds, pc.struct_field(null, list(path))))
        for field_id, (lower, upper), count in made:
            self.lower[field_id], self.upper[field_id], self.nulls[field_id] = lower, upper, count  # type: ignore[index]
        return True


def typed(values: pa.Array, kind: IcebergType) -> pa.Array:
    """Values as the log writes them, in the storage type of a column.

    Raises:
        pyarrow.ArrowInvalid: one that is no value of the type.
    """
    wanted = storage_type(kind)
    if isinstance(kind, TimestampType | TimestamptzType) and pa.types.is_string(values.type):
        plain = pc.replace_substring_regex(values, "Z$|\\+00:00$", "")
        return plain.cast(pa.timestamp("us")).cast(wanted)
    if isinstance(kind, DecimalType) and pa.types.is_floating(values.type):
        raise pa.ArrowInvalid("a decimal as a float")
    return values.cast(wanted)


def _has_bounds(kind: IcebergType) -> bool:
    return kind.is_primitive and not isinstance(kind, BinaryType | DecimalType)


def _json_type(kind: IcebergType) -> pa.DataType:
    found = storage_type(kind)
    return pa.string() if pa.types.is_temporal(found) or pa.types.is_large_string(found) else found


def _nested(paths: Sequence[tuple[Sequence[str], pa.DataType]]) -> pa.DataType:
    """A struct that holds a value at each path."""
    groups: dict[str, list[tuple[Sequence[str], pa.DataType]]] = {}
    for path, kind in paths:
        groups.setdefault(path[0], []).append((path[1:], kind))
    return pa.struct(
        [
            (name, inner[0][1] if not inner[0][0] else _nested([one for one in inner if one[0]]))
            for name, inner in groups.items()
        ]
    )


def _parse(lines: Sequence[str], schema: pa.Schema) -> pa.Table | None:
    """One row per line; None where they do not parse."""
    if not lines:
        return schema.empty_table()
    data = ("\n".join(lines) + "\n").encode()
    block = max(1 << 20, 8 * max(map(len, lines)) + 2)
    try:
        found = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(block_size=min(block, (1 << 31) - 1)),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return found if found.num_rows == len(lines) else None
