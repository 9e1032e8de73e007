"""The structs around a field of a schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from puffin_fast._process.interrupt import is_from_outside

if TYPE_CHECKING:
    from pyiceberg.schema import Accessor, Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField, StructType


def newest_schema(metadata: TableMetadata, field_id: int) -> Schema | None:
    """Returns the current schema, or the newest one that has a field which was dropped; None if no schema has it."""
    schemas = (metadata.schema(), *sorted(metadata.schemas, key=lambda schema: -schema.schema_id))
    return next((schema for schema in schemas if field_id in schema.field_ids), None)


def structs_around(schema: Schema, field_id: int) -> tuple[NestedField, ...] | None:
    """Returns the structs on the way to a field, outermost first; None if it is inside a list or map."""
    try:
        accessor: Accessor | None = schema.accessor_for_field(field_id)
    except ValueError as error:
        if is_from_outside(error):
            raise
        return None
    around: list[NestedField] = []
    fields: Sequence[NestedField] = schema.fields
    while accessor is not None and accessor.inner is not None:
        around.append(fields[accessor.position])
        fields = cast("StructType", around[-1].field_type).fields
        accessor = accessor.inner
    return tuple(around)


def top_names(schema: Schema, field_ids: Iterable[int]) -> set[str]:
    """Returns the names of the top-level columns that are or contain some fields; a name may have dots."""
    paths = ((*(structs_around(schema, number) or ()), schema.find_field(number)) for number in field_ids)
    return {path[0].name for path in paths}
