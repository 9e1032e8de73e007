"""Prints values in a form that a row filter accepts as literals and that JSON can represent.

Numbers are written in full and without separators. Dates, times, timestamps, decimals, UUIDs and binary values have
the form of the table specification's "JSON single-value serialization": ISO 8601, digits, hexadecimal. Structs are
JSON objects, lists are arrays, maps are objects with the arrays ``keys`` and ``values``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._text import printable
from puffin_fast.cli._reader_errors import shape_of
from puffin_fast.errors import InvalidInputError


def json_value(value: object, *, nan: bool = False) -> object:
    """Converts a value to the types of JSON; NaN and infinities, which JSON does not have, become text unless `nan`."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if nan or math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, date | time):  # datetime is a subclass of date
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, Mapping):
        return {str(key): json_value(item, nan=nan) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item, nan=nan) for item in value]
    return str(value)


def shown_value(value: object) -> str:
    """Converts a value to text for a terminal: control characters are escaped, None is empty."""
    plain = json_value(value)
    if plain is None:
        return ""
    return printable(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))


def is_uuid(kind: pa.DataType) -> bool:
    """Whether a type is Arrow's type of UUIDs."""
    return str(getattr(kind, "extension_name", "")) == "arrow.uuid"


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values of a type are written as hexadecimal digits or UUID text."""
    checks = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return is_uuid(kind) or any(check(kind) for check in checks)


def read_type(kind: pa.DataType) -> pa.DataType:
    """The type in which PyArrow's readers of text read values that are not nested; `converted` makes the values."""
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.string() if is_bytes(kind) else kind


def converted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Converts values from the type in which they were read; UUIDs have their text, binary values hexadecimal digits.

    It checks what PyArrow's readers do not: the precision of decimals, and the range of 32-bit floats.

    Args:
        column: an array of `read_type`, or of strings.
        kind: a type that is not nested.

    Raises:
        InvalidInputError, ArrowInvalid: a value is not one of the type.
    """
    if is_bytes(kind):
        return _bytes_of_text(column, kind)
    if pa.types.is_time(kind) and pa.types.is_string(column.type):  # PyArrow has no cast
        if not pc.all(pc.match_like(column, "__:__:__%")).as_py():
            raise InvalidInputError("expected hours, minutes and seconds")
        return pc.binary_join_element_wise("1970-01-01T", column, "").cast(pa.timestamp(kind.unit)).cast(kind)
    values = column.cast(kind)
    if pa.types.is_decimal(kind):
        values.validate(full=True)
    elif pa.types.is_floating(kind) and pc.any(pc.and_(pc.is_finite(column), pc.is_inf(values))).as_py():
        raise InvalidInputError(f"expected a number in the range of {kind}")
    return values


def _bytes_of_text(column: pa.Array, kind: pa.DataType) -> pa.Array:
    parse: Callable[[str], bytes] = (lambda text: UUID(text).bytes) if is_uuid(kind) else bytes.fromhex
    values: list[bytes | None] = []
    for text in column.to_pylist():
        try:
            values.append(None if text is None else parse(text))
        except ValueError:
            expected = "a UUID" if is_uuid(kind) else "hexadecimal digits"
            raise InvalidInputError(f"expected {expected}, found {shape_of(text)}") from None
    array = pa.array(values, kind.storage_type if is_uuid(kind) else kind)
    return pa.ExtensionArray.from_storage(kind, array) if is_uuid(kind) else array


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
        entries = scalar.values
        return {
            "keys": [_value(item) for item in entries.field("key")],
            "values": [_value(item) for item in entries.field("value")],
        }
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
