"""New values of columns, given by the caller of an update: values of Python or Arrow, or expressions over the row."""

from __future__ import annotations

import datetime
import math
import re
import sys
import uuid
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.schema import Schema
from pyiceberg.types import StringType

from puffin_fast._text import is_shown, no_column, shown_argument
from puffin_fast.columns.plain_types import plain_type
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.rows.match.given_rows import RowWriterSchema


class NewColumn(NamedTuple):
    """New values that were computed elsewhere, one for each row that is updated."""

    values: pa.ChunkedArray


@dataclass(frozen=True)
class Assignments:
    """Values to set, by the names of top-level columns.

    Attributes:
        schema: the schema of the table.
        values: by the names that the columns have in the schema.
    """

    schema: Schema
    values: Mapping[str, Any]

    @classmethod
    def bind(cls, values: Mapping[str, Any], schema: Schema, *, case_sensitive: bool = True) -> Assignments:
        """Looks up the columns.

        Args:
            values: for each column a value of Python or Arrow, or a PyArrow expression over the old row
                (``{"n": pc.field("n") + 1}``).
            case_sensitive: whether column names are compared with case.

        Raises:
            NotFoundError: a column does not exist.
            InvalidInputError: no value at all, two for one column, or a name that two columns have.
        """
        if not isinstance(values, Mapping):
            raise InvalidInputError(f"values: expected a mapping of columns, found {shown_argument(values)}")
        if not values:
            raise InvalidInputError("values: expected at least one column, found none")

        def key(name: str) -> str:
            return name if case_sensitive else name.lower()

        known: dict[str, list[str]] = {}
        for field in schema.fields:
            known.setdefault(key(field.name), []).append(field.name)
        found: dict[str, Any] = {}
        for name, value in values.items():
            if not isinstance(name, str):
                raise InvalidInputError(f"values: expected names of columns, found {shown_argument(name)}")
            same = known.get(key(name))
            if same is None:
                raise NotFoundError(f"values: {no_column(name, (field.name for field in schema.fields))}")
            if len(same) > 1:
                raise InvalidInputError(
                    f"values: column {name}: expected one of this name, found {', '.join(same)}"
                )
            if same[0] in found:
                raise InvalidInputError(f"values: column {same[0]}: expected one value, found two")
            if not isinstance(value, pc.Expression) and (callable(value) or type(value).__name__ == "Expr"):
                raise InvalidInputError(
                    f"values: column {name}: expected a value or a PyArrow expression such as "
                    f"pc.field({name!r}) * 2, found {shown_argument(value)}"
                )
            found[same[0]] = value
            if isinstance(value, str):
                _check_text(same[0], value, schema)
        return cls(schema, found)

    def apply(self, rows: pa.Table) -> pa.Table:
        """Returns rows of the table with their new values, in the types that are written.

        Raises:
            InvalidInputError: a column cannot hold its value, or an expression cannot be evaluated.
        """
        columns = {name: rows[name] for name in rows.column_names}
        for name, value in self.values.items():
            try:
                columns[name] = _column(value, rows, rows.schema.field(name).type, name)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                reason = f": {str(error).splitlines()[0]}" if is_shown(value) else ""
                raise InvalidInputError(f"values: column {name}: {shown_argument(value)}{reason}") from error
        found = pa.table(columns)
        try:
            if not rows.num_rows:
                self._check_values(rows.schema)
            return RowWriterSchema(self.schema, found.schema).table(found)
        except InvalidInputError as error:
            raise InvalidInputError(f"values: {str(error).removeprefix('data: ')}") from error

    def _check_values(self, rows: pa.Schema) -> None:
        """Checks that the columns can hold the values, as if there were a row.

        Args:
            rows: the Arrow schema of the rows.
        """
        for name, value in self.values.items():
            if not isinstance(value, NewColumn | pc.Expression):
                one = pa.table({name: pa.repeat(_scalar(value, rows.field(name).type), 1)})
                RowWriterSchema(Schema(self.schema.find_field(name)), one.schema).table(one)


def _check_text(name: str, text: str, schema: Schema) -> None:
    """Warns of a text that looks like SQL, in quotes or over columns of the table, because it is stored as it is.

    Raises:
        InvalidInputError: the column has another type.
    """
    is_text = isinstance(schema.find_type(name), StringType)
    if is_text and len(text) > 1 and text[0] == text[-1] == "'":
        _warn(
            f"values: column {name}: the text {shown_argument(text)} is stored with its quotes. A value is not SQL: "
            f"write {shown_argument(text[1:-1])}; pa.scalar(text) is a text without this warning"
        )
        return
    if not _SQL.fullmatch(text):
        return
    words = {*re.findall(r"\w+", text)} - {text.partition("(")[0].strip()}
    if words.isdisjoint(schema.column_names):
        return
    if not is_text:
        raise InvalidInputError(
            f"values: column {name}: expected a value, found the text {shown_argument(text)}; an expression over the "
            f"old row is one of PyArrow, such as pc.field({name!r}) * 2"
        )
    _warn(
        f"values: column {name}: the text {shown_argument(text)} is stored as it is, not evaluated. An expression over "
        f"the old row is one of PyArrow, such as pc.utf8_upper(pc.field({name!r})); pa.scalar(text) is a text without "
        "this warning"
    )


def _warn(message: str) -> None:
    """Warns, with the line of the caller outside of this package."""
    caller, depth = sys._getframe(), 1
    while caller.f_back is not None and caller.f_globals.get("__name__", "").startswith("puffin_fast."):
        caller, depth = caller.f_back, depth + 1
    warnings.warn(message, stacklevel=depth)


_SQL = re.compile(r"\s*(?:\w+\(.*\)|\w+(?:\s+[-+*/]\s+|\s*\|\|\s*)\S.*)\s*", re.DOTALL)
"""Texts of the forms ``name(…)``, ``a + b`` and ``a || b``."""


def _column(value: Any, rows: pa.Table, kind: pa.DataType, name: str) -> pa.ChunkedArray:
    if isinstance(value, NewColumn):
        return value.values
    if isinstance(value, pc.Expression):
        return ds.dataset(rows).to_table(columns={name: value})[name]
    some = pa.repeat(_scalar(value, kind), max(rows.num_rows, 1))  # Arrow repeats no list or map zero times
    return pa.chunked_array([some.slice(0, rows.num_rows)])


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """A value in Arrow; text is accepted for dates, times and decimals, and a number becomes the nearest float."""
    if isinstance(value, pa.Scalar):
        return value
    if getattr(value, "nanosecond", 0):  # of a Timestamp of pandas, from which Arrow infers microseconds
        return pa.scalar(value, pa.timestamp("ns", None if value.tzinfo is None else "UTC"))
    if isinstance(value, uuid.UUID):
        return pa.scalar(str(value))
    if isinstance(value, datetime.time) and value.tzinfo is not None:
        raise ValueError("expected a time without a time zone")
    if isinstance(value, str) and pa.types.is_time(kind):  # which Arrow does not parse
        return pa.scalar(f"1970-01-01 {value}").cast(pa.timestamp("ns")).cast(pa.time64("ns")).cast(kind)
    if isinstance(value, str):
        is_parsed = pa.types.is_temporal(kind) or pa.types.is_decimal(kind)
        return pa.scalar(value).cast(kind) if is_parsed else pa.scalar(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and pa.types.is_floating(kind):
        found = pa.scalar(float(value), kind)
        if math.isinf(found.as_py()) and not math.isinf(value):
            raise OverflowError(f"expected a value within the range of type {kind}")
        return found
    if isinstance(value, int) and not isinstance(value, bool) and pa.types.is_decimal(kind):
        return pa.scalar(value, kind)
    if value is None or isinstance(value, list | tuple | dict):
        return pa.scalar(_nested(value, kind), plain_type(kind))
    return pa.scalar(value)


def _nested(value: Any, kind: pa.DataType) -> Any:
    """Checks a value whose conversion Arrow does not check inside of lists, structs and maps.

    Returns:
        The value with UUIDs as bytes: Arrow makes no scalars of them.

    Raises:
        ValueError: a dict has a field that its struct does not have (Arrow leaves it out), a list or a dict is given
            for a number or a time, or a number or time would be truncated.
    """
    if pa.types.is_struct(kind) and isinstance(value, dict):
        fields = {field.name: field.type for field in kind}
        if unknown := [name for name in value if name not in fields]:
            raise ValueError(f"expected the fields {', '.join(fields)}, found {unknown[0]!r}")
        return {name: _nested(item, fields[name]) for name, item in value.items()}
    if pa.types.is_map(kind) and isinstance(value, list | tuple | dict):
        types = kind.key_type, kind.item_type
        pairs = value.items() if isinstance(value, dict) else value
        return [tuple(map(_nested, pair, types)) if len(pair) == len(types) else pair for pair in pairs]
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and isinstance(value, list | tuple):
        return [_nested(item, kind.value_type) for item in value]
    if isinstance(value, str) and getattr(kind, "extension_name", "") == "arrow.uuid":
        value = uuid.UUID(value)
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, str) and (pa.types.is_temporal(kind) or pa.types.is_decimal(kind)):
        return _scalar(value, kind).as_py()
    tests = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_timestamp, pa.types.is_time)
    if value is not None and any(test(kind) for test in tests):
        if isinstance(value, list | tuple | dict):
            raise ValueError(f"expected a value of type {kind}, found a {type(value).__name__}")
        _scalar(value, kind).cast(kind)
    return value
