"""The property of a table that names the columns of its key indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from puffin_fast._pyiceberg.v3_types import unordered_fields
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.rows.keys.key_columns import key_fields

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


KEY_INDEXES = "puffin-fast.key-indexes"
"""Property of a table: the key columns of its indexes, separated by commas; several indexes by semicolons."""


def indexed_columns(
    properties: Mapping[str, str],
    schema: Schema,
    earlier: Sequence[Schema] = (),
    notes: list[str] | None = None,
) -> list[list[str]]:
    """Returns the key columns of each index that the property `KEY_INDEXES` of a table names.

    A column that was renamed since the property was set is found by its field id. An index of a dropped column is left
    out, and one of a geometry or geography, which earlier releases took for a key.

    Args:
        properties: of the table.
        schema: the table's current schema.
        earlier: all schemas of the table, oldest first.
        notes: why an index is left out is added to these.

    Raises:
        NotFoundError, InvalidInputError: no schema has such a column, or it cannot be a key.
    """
    found, unordered = [], unordered_fields(schema)
    for names in named_indexes(properties):
        fields = [_field_id(name, schema, earlier) for name in names]
        current = [
            name if id is None else schema.find_column_name(id)
            for name, id in zip(names, fields, strict=True)
        ]
        if dropped := [name for name, now in zip(names, current, strict=True) if now is None]:
            if notes is not None:
                notes.append(f"{KEY_INDEXES}: {', '.join(names)}: column {', '.join(dropped)} was dropped")
            continue
        if no_keys := [name for name, id in zip(names, fields, strict=True) if id in unordered]:
            if notes is not None:
                kind = schema.find_type(no_keys[0])
                notes.append(
                    f"{KEY_INDEXES}: {', '.join(names)}: {', '.join(no_keys)} is a {kind}, which is no key"
                )
            continue
        columns = [name for name in current if name is not None]
        try:
            key_fields(schema, columns)
        except (NotFoundError, InvalidInputError) as error:
            raise type(error)(f"{KEY_INDEXES}: {error}") from error
        found.append(columns)
    return found


def may_be_keys(schema: Schema, fields: Iterable[int]) -> bool:
    """Whether no column of an index was dropped, and none is a geometry or geography."""
    return not set(fields) - schema.field_ids.difference(unordered_fields(schema))


def _field_id(name: str, schema: Schema, earlier: Sequence[Schema]) -> int | None:
    """The field id of a column, by its name in the newest schema that has it; None if none has."""
    for known in (schema, *reversed(earlier)):
        if name in known.column_names:
            return known.find_field(name).field_id
    return None


def named_indexes(properties: Mapping[str, str]) -> list[list[str]]:
    """The names of columns in the property `KEY_INDEXES`, for each index; nothing between separators is no name."""
    indexes = properties.get(KEY_INDEXES, "").split(";")
    named = [[name for part in index.split(",") if (name := part.strip())] for index in indexes]
    return [names for names in named if names]
