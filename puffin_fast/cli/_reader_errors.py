"""Errors of readers of files of rows: where a value is wrong and what was expected, without the value.

PyArrow's messages have values of the rows, which are no matter of logs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from puffin_fast import _text
from puffin_fast.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

_CONVERSION = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (.+?): ", re.S)
_COUNT = re.compile(r"CSV parse error: (?:Row #\d+: )?Expected (\d+) columns, got (\d+)", re.S)
_FRACTION = re.compile(r"\.\d{7,}")


def shape_of(value: object) -> str:
    """What a value of JSON or a text is, without its content."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return f"a text of {len(value):,} characters"
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            return "a number"


def without_values(error: Exception) -> str:
    """A message of PyArrow's readers without the values that are known to be in it."""
    if count := _COUNT.match(str(error)):
        return f"a row has {count[2]} columns, expected {count[1]}"
    return _text.without_values(error)


def csv_error(
    name: str,
    error: Exception,
    columns: Callable[[], Sequence[str]],
    texts: Callable[[str], Iterable[pa.Array]],
) -> InvalidInputError:
    """The error for what the reader of CSV reports.

    Args:
        name: the name of the file.
        error: an error of PyArrow.
        columns: returns the names of the columns.
        texts: returns a column, by its name, as texts.
    """
    found = _CONVERSION.match(str(error))
    if found is None:
        return InvalidInputError(f"{name}: {without_values(error)}")
    key, kind = columns()[int(found[1])], found[2]
    where, text = _first_wrong(texts(key), kind)
    shape = "another text" if text is None else shape_of(text)
    if kind.startswith("timestamp[us") and text is not None and _FRACTION.search(text):
        shape += " with more than 6 digits of a second"
    return InvalidInputError(f"{name}: {where}column {key}: expected {kind}, found {shape}")


def _first_wrong(batches: Iterable[pa.Array], kind: str) -> tuple[str, str | None]:
    """The row of the first text that is not a value of a type, and the text; empty if none is found."""
    import pyarrow as pa

    known: dict[str, Any] = {
        str(one): one
        for one in (
            pa.int32(),
            pa.int64(),
            pa.float32(),
            pa.float64(),
            pa.bool_(),
            pa.date32(),
            pa.timestamp("us"),
            pa.timestamp("us", "UTC"),
            pa.timestamp("ns"),
            pa.timestamp("ns", "UTC"),
        )
    }
    wanted = known.get(kind)
    if wanted is None:
        return "", None
    before = 0
    for texts in batches:
        if not _fits(texts, wanted):
            low, high = 0, len(texts)
            while high - low > 1:  # the first wrong text is in [low, high)
                middle = (low + high) // 2
                low, high = (middle, high) if _fits(texts.slice(low, middle - low), wanted) else (low, middle)
            return f"row {before + low + 1}: ", texts[low].as_py()
        before += len(texts)
    return "", None


def _fits(texts: pa.Array, kind: pa.DataType) -> bool:
    import pyarrow as pa

    try:
        texts.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
