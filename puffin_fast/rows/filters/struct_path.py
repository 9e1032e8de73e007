"""The structs around a field of a schema."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType

__all__ = ["structs_around"]


def structs_around(schema: Schema, field_id: int) -> tuple[NestedField, ...] | None:
    """Returns the structs on the way to a field, outermost first; None if it is inside a list or map."""

    def walk(
        fields: Iterable[NestedField], around: tuple[NestedField, ...]
    ) -> tuple[NestedField, ...] | None:
        for field in fields:
            if field.field_id == field_id:
                return around
            if isinstance(field.field_type, StructType):
                found = walk(field.field_type.fields, (*around, field))
                if found is not None:
                    return found
        return None

    return walk(schema.fields, ())
