"""Prints values in a form that a row filter accepts as literals and that JSON can represent.

Numbers are written in full and without separators. Dates, times, timestamps, decimals, UUIDs and binary values have
the form of the table specification's "JSON single-value serialization": ISO 8601, digits, hexadecimal. Structs are
JSON objects, lists are arrays, maps are arrays of pairs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from puffin_fast._text import printable


def json_value(value: object) -> object:
    """Converts a value to the types of JSON; NaN and infinities, which JSON does not have, become text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, date | time):  # datetime is a subclass of date
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return str(value)


def shown_value(value: object) -> str:
    """Converts a value to text for a terminal: control characters are escaped, None is empty."""
    plain = json_value(value)
    if plain is None:
        return ""
    return printable(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))


def rows_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yields the rows of a batch as Python values. Dates and timestamps become ISO 8601 text, because Python has a
    smaller range of them."""
    columns = [_values(column) for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(batch.schema.names, values, strict=True))


def _values(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return [None if text is None else _iso(text) for text in column.cast(pa.string()).to_pylist()]
    if pa.types.is_float32(kind):  # 0.1 instead of the nearest float as a double (0.10000000149011612)
        return [None if text is None else float(text) for text in column.cast(pa.string()).to_pylist()]
    if pa.types.is_nested(kind):
        return [_value(scalar) for scalar in column]
    values: list[Any] = column.to_pylist()
    return values


def _value(scalar: pa.Scalar) -> Any:
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_struct(kind):
        return {name: _value(item) for name, item in scalar.items()}
    if pa.types.is_map(kind):
        return [[_value(entry["key"]), _value(entry["value"])] for entry in scalar.values]
    if pa.types.is_nested(kind):
        return [_value(item) for item in scalar.values]
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _iso(scalar.cast(pa.string()).as_py())
    if pa.types.is_float32(kind):
        return float(scalar.cast(pa.string()).as_py())
    return scalar.as_py()


def _iso(text: str) -> str:
    """Converts ``2024-01-15 00:00:00.000000Z`` (Arrow) to ``2024-01-15T00:00:00+00:00``."""
    zone = "+00:00" if text.endswith("Z") else ""
    day, _, clock = text.removesuffix("Z").partition(" ")
    if not clock:
        return day
    seconds, _, fraction = clock.partition(".")
    return f"{day}T{seconds}{f'.{fraction}' if fraction.strip('0') else ''}{zone}"
