"""Parses the column values that a user types, in the form in which `_values` prints them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from puffin_fast.cli._json_lines import WRONG, read_value
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.files.conversion import arrow_type


def typed_values(
    values: Mapping[str, str], schema: Schema, *, case_sensitive: bool = True
) -> dict[str, object]:
    """Parses column values as they are printed: ``null``, JSON, hexadecimal digits, and text for all other types.

    ``nan``, ``inf`` and ``-inf`` are numbers in columns of floats.

    Args:
        values: text by the names of columns.
        case_sensitive: whether column names are compared with case.

    Returns:
        The values of Python; Arrow scalars for structs, lists and maps, which are read as in JSON Lines.

    Raises:
        InvalidInputError: a value does not have the type of its column.
    """
    types = {
        field.name if case_sensitive else field.name.lower(): field.field_type for field in schema.fields
    }
    found: dict[str, object] = {}
    for name, text in values.items():
        kind = types.get(
            name if case_sensitive else name.lower()
        )  # the function that sets the values refuses unknown columns
        try:
            found[name] = _typed_value(text, kind)
        except (*WRONG, RecursionError) as error:
            raise InvalidInputError(f"{name}={text}: expected null or a value of type {kind}") from error
    return found


def _typed_value(text: str, kind: IcebergType | None) -> object:
    if text == "null":
        return None
    if isinstance(kind, BinaryType | FixedType):
        return bytes.fromhex(text)
    if isinstance(kind, FloatType | DoubleType) and text in ("nan", "inf", "-inf"):
        return float(text)
    if isinstance(kind, StructType | ListType | MapType):
        return read_value(text, arrow_type(kind))
    if isinstance(kind, BooleanType | IntegerType | LongType | FloatType | DoubleType):
        return json.loads(text)
    if isinstance(kind, StringType) and len(text) > 1 and text[0] == text[-1] == '"':
        return json.loads(text)
    return text
