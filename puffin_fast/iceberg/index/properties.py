"""The property of a table that names the columns of its key indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.rows.keys.key_columns import key_fields

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


KEY_INDEXES = "puffin-fast.key-indexes"
"""Property of a table: the key columns of its indexes, separated by commas; several indexes by semicolons."""


def indexed_columns(properties: Mapping[str, str], schema: Schema) -> list[list[str]]:
    """Returns the key columns of each index that the property `KEY_INDEXES` of a table names.

    Raises:
        NotFoundError, InvalidInputError: the schema has no such column, or it cannot be a key.
    """
    found = named_indexes(properties)
    for names in found:
        try:
            key_fields(schema, names)
        except (NotFoundError, InvalidInputError) as error:
            raise type(error)(f"{KEY_INDEXES}: {error}") from error
    return found


def named_indexes(properties: Mapping[str, str]) -> list[list[str]]:
    """The names of columns in the property `KEY_INDEXES`, for each index; nothing between separators is no name."""
    indexes = properties.get(KEY_INDEXES, "").split(";")
    named = [[name for part in index.split(",") if (name := part.strip())] for index in indexes]
    return [names for names in named if names]
