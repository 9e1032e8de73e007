"""Parses the statistics and partition values of many files, by columns.

`stats` is JSON in a string per file: numRecords, and per column minValues, maxValues and nullCount by physical names.
A bound that is not a value of its column is ignored. `stats` that is not a JSON object, or has a text for the number of
records, is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from puffin_fast.delta.log.action_types import FileStats, parse
from puffin_fast.delta.log.json_rows import read_rows
from puffin_fast.errors import CorruptDataError
from puffin_fast.rows.files.conversion import storage_type

UNKNOWN = -1
"""The number of rows of a file if it is not in the log."""

_NUM_RECORDS = r'^\{"numRecords": ?(?P<n>[0-9]{1,18})[,}]'

_CUT = "\ufffd"
_MILLISECOND = 999
"""Microseconds by which a timestamp may exceed its upper bound, because bounds are truncated to milliseconds."""


@dataclass(frozen=True)
class Statistics:
    """Statistics of files, one row for each file.

    Attributes:
        n_rows: number of rows of each file, deleted ones included; `UNKNOWN` if it is not in the log.
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
            stats: the `stats` of each file.
            columns: physical path and type of the requested columns, by field id.
            root: the table, for errors.

        Raises:
            CorruptDataError: statistics are not JSON, or a number of records is not a number.
        """
        wanted = {field_id: column for field_id, column in columns.items() if _has_bounds(column[1])}
        found = cls(np.full(len(stats), UNKNOWN, np.int64), {}, {}, {})
        if not wanted or not found._add(stats, wanted):
            found = cls(_counts(stats, root), {}, {}, {})
            for field_id, column in wanted.items():
                found._add(stats, {field_id: column})
        if (found.n_rows < UNKNOWN).any():
            least = int(found.n_rows.min())
            raise CorruptDataError("numRecords", path=root, expected="at least 0", found=least)
        return found

    def _add(self, stats: pa.ChunkedArray, columns: Mapping[int, tuple[Sequence[str], IcebergType]]) -> bool:
        """Parses the numbers of rows and some columns; returns whether this succeeded."""
        values = _nested([(path, _json_type(kind)) for path, kind in columns.values()])
        nulls = _nested([(path, pa.int64()) for path, _ in columns.values()])
        schema = pa.schema(
            [("numRecords", pa.int64()), ("minValues", values), ("maxValues", values), ("nullCount", nulls)]
        )
        parsed = _parse(stats, schema)
        if parsed is None:
            return False
        n_rows, low, high, null = (parsed[name].combine_chunks() for name in schema.names)
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
            elif isinstance(kind, StringType):
                bounds[1] = _above_cut(bounds[1])
            elif isinstance(kind, FloatType | DoubleType):
                bounds = [pc.if_else(pc.is_nan(side), pa.scalar(None, side.type), side) for side in bounds]
                if isinstance(kind, DoubleType):
                    bounds = _around_floats(*bounds)
                bounds = around_zeros(*bounds)
            made.append((field_id, bounds, pc.struct_field(null, list(path))))
        for field_id, (lower, upper), count in made:
            self.lower[field_id], self.upper[field_id], self.nulls[field_id] = lower, upper, count  # type: ignore[index]
        self.n_rows[:] = n_rows.fill_null(UNKNOWN).to_numpy()
        return True


def _counts(stats: pa.ChunkedArray, root: str) -> npt.NDArray[np.int64]:
    """Returns the number of rows of each file; writers write it first."""
    n_rows = np.full(len(stats), UNKNOWN, np.int64)
    first = pc.struct_field(pc.extract_regex(stats, _NUM_RECORDS), "n")
    known = first.is_valid().to_numpy()
    n_rows[known] = first.filter(first.is_valid()).cast(pa.int64()).to_numpy()
    if known.all():
        return n_rows
    others = stats.filter(pa.array(~known))
    rest = _parse(others, pa.schema([("numRecords", pa.int64())]))
    if rest is not None:
        n_rows[~known] = rest["numRecords"].fill_null(UNKNOWN).to_numpy()
        return n_rows
    found = (parse(text or "{}", "stats of a file", root, FileStats) for text in others.to_pylist())
    counts = [one.get("numRecords") for one in found]
    n_rows[~known] = [UNKNOWN if count is None else count for count in counts]
    return n_rows


def _lines(stats: pa.ChunkedArray, *, one_line: bool = False) -> list[pa.LargeStringArray]:
    """The statistics of each file as one line of JSON, in chunks.

    Args:
        stats: the statistics of each file.
        one_line: replace line feeds, which JSON may have between its values, and which end a line.
    """
    lines = []
    for chunk in stats.cast(pa.large_string()).chunks:
        chunk = pc.fill_null(chunk, "{}")
        if len(chunk) and pc.min(pc.binary_length(chunk)).as_py() == 0:
            chunk = pc.if_else(pc.equal(chunk, ""), "{}", chunk)
        lines.append(pc.replace_substring(chunk, "\n", " ") if one_line else chunk)
    return lines


def typed(values: pa.Array, kind: IcebergType) -> pa.Array:
    """Converts values from the form of the log to the storage type of a column.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit the type.
    """
    wanted = storage_type(kind)
    if isinstance(kind, TimestampType | TimestamptzType) and pa.types.is_string(values.type):
        plain = pc.replace_substring_regex(values, "Z$|\\+00:00$", "")
        return plain.cast(pa.timestamp("us")).cast(wanted)
    if isinstance(kind, DecimalType) and pa.types.is_floating(values.type):
        raise pa.ArrowInvalid("a decimal as a float")
    return values.cast(wanted)


def _above_cut(high: pa.Array) -> pa.Array:
    """Upper bounds of texts, which hold if they were cut off.

    Old versions of Delta for Spark ended such bounds with U+FFFD, which is the largest character in UTF-16 only.
    """
    if not pc.any(pc.ends_with(high, _CUT)).as_py():
        return high
    return pc.replace_substring_regex(high, f"{_CUT}$", chr(sys.maxunicode))


def _around_floats(low: pa.Array, high: pa.Array) -> list[pa.Array]:
    """Bounds of a column of doubles that hold for files of before its type was widened from float.

    The log has the shortest digits that distinguish floats, such as 3.4 for 3.4000000953674316.
    """
    found = []
    for side, outer in ((low, pc.min_element_wise), (high, pc.max_element_wise)):
        near = side.cast(pa.float32(), safe=False).cast(pa.float64())
        found.append(outer(side, pc.if_else(pc.is_finite(near), near, side), skip_nulls=False))
    return found


def around_zeros(low: Any, high: Any) -> list[Any]:
    """Bounds of floats, arrays or scalars of Arrow, that hold also for readers to which -0.0 is less than 0.0.

    A lower bound of zero becomes -0.0, an upper one 0.0, as Parquet requires of writers: such a reader would not look
    for 0.0 in a file with an upper bound of -0.0.
    """
    return [
        pc.if_else(pc.equal(side, pa.scalar(0.0, side.type)), pa.scalar(zero, side.type), side)
        for side, zero in ((low, -0.0), (high, 0.0))
    ]


def _has_bounds(kind: IcebergType) -> bool:
    return kind.is_primitive and not isinstance(kind, BinaryType | DecimalType)


def _json_type(kind: IcebergType) -> pa.DataType:
    found = storage_type(kind)
    return pa.string() if pa.types.is_temporal(found) or pa.types.is_large_string(found) else found


def _nested(paths: Sequence[tuple[Sequence[str], pa.DataType]]) -> pa.DataType:
    """Returns a struct with a value at each path."""
    groups: dict[str, list[tuple[Sequence[str], pa.DataType]]] = {}
    for path, kind in paths:
        groups.setdefault(path[0], []).append((path[1:], kind))
    return pa.struct(
        [
            (name, inner[0][1] if not inner[0][0] else _nested([one for one in inner if one[0]]))
            for name, inner in groups.items()
        ]
    )


def _parse(stats: pa.ChunkedArray, schema: pa.Schema) -> pa.Table | None:
    """One row per file; None where they do not parse."""
    found = _parsed(_lines(stats), schema)
    return _parsed(_lines(stats, one_line=True), schema) if found is None else found


def _parsed(lines: Sequence[pa.LargeStringArray], schema: pa.Schema) -> pa.Table | None:
    parts = [schema.empty_table()]
    for chunk in lines:
        if not len(chunk):
            continue
        ended = pc.binary_join_element_wise(chunk, *(pa.scalar(text, chunk.type) for text in ("\n", "")))
        data = ended.buffers()[2]
        try:
            found = read_rows(data, schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        if found.num_rows != len(chunk):
            return None
        parts.append(found)
    return pa.concat_tables(parts)
