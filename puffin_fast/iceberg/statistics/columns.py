"""Selects the columns for sketches: primitive fields at any depth, and their values in Arrow arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import ListType, MapType, NestedField, PrimitiveType, StructType

from puffin_fast._api.arguments import check_texts
from puffin_fast._text import no_column
from puffin_fast.columns.plain_types import list_parts, map_parts
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.rows.filters.struct_path import structs_around
from puffin_fast.theta import is_sketched

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

_ELEMENT, _KEY, _VALUE = "element", "key", "value"


@dataclass(frozen=True)
class SketchedColumn:
    """A primitive field, and its path.

    Attributes:
        name: dotted, as in the schema by which columns are selected.
        field: the primitive field in the snapshot's schema.
        top: the name of the top-level column there.
        path: the type of each level and the name of the field in it, from the top-level column's type down.
        structs: the structs around the field, outermost first, if nothing else is.
    """

    name: str
    field: NestedField
    top: str
    path: tuple[tuple[str, str], ...]
    structs: tuple[NestedField, ...]

    @property
    def field_id(self) -> int:
        return self.field.field_id

    @property
    def type(self) -> str:
        """The Iceberg type as text, which determines what is hashed."""
        return str(self.field.field_type)

    @property
    def repeats(self) -> bool:
        """Whether the field is inside a list or a map."""
        return any(kind != "struct" for kind, _ in self.path)

    def values(self, column: pa.Array) -> pa.Array:
        """Returns the values of the field in an array of the top-level column."""
        for kind, name in self.path:
            if kind == "struct":
                column = pc.struct_field(column, [name])
            elif kind == "list":
                column = list_parts(column)[1]
            else:
                _, keys, values = map_parts(column)
                column = keys if name == _KEY else values
        return column


def columns_of(
    schema: Schema,
    names: Sequence[str] | None = None,
    *,
    counted: Schema,
    case_sensitive: bool = True,
    repeated: bool = False,
) -> list[SketchedColumn]:
    """Returns the columns with these names; without names all primitive ones, also in structs, that can be sketched.

    Args:
        schema: with the names of the columns.
        names: dotted; those of a list's values end with ``.element``, of a map's with ``.key`` or ``.value``.
        counted: the schema of the snapshot, with the types of the values; field ids identify the columns.
        case_sensitive: whether column names are compared with case.
        repeated: whether columns inside lists and maps are included if `names` is None.

    Raises:
        NotFoundError: a column does not exist.
        InvalidInputError: a column is a struct, list or map, or its type has no sketches.
    """
    known = {column.field_id: column for column in _leaves(schema, counted)}
    if names is None:
        sketched = [column for column in known.values() if is_sketched(column.field.field_type)]
        found = [column for column in sketched if repeated or not column.repeats]
        if not found and not repeated:
            repeating = ", ".join(column.name for column in sketched)
            raise InvalidInputError(
                "columns: the table has none that is counted by default, outside of lists and maps"
                + f"; name what is inside: {repeating}" * bool(repeating)
            )
        return found
    chosen: dict[int, SketchedColumn] = {}
    for name in check_texts("columns", names):
        try:
            field = schema.find_field(name, case_sensitive=case_sensitive)
        except ValueError:
            raise NotFoundError(
                f"columns: {no_column(name, (column.name for column in known.values()))}"
            ) from None
        if not isinstance(field.field_type, PrimitiveType):
            inside = [column.name for column in known.values() if column.name.startswith(f"{name}.")]
            raise InvalidInputError(
                f"column {name!r}: expected a primitive type, found {field.field_type}; name what is inside: "
                f"{', '.join(inside)}"
            )
        if field.field_id not in known:
            raise NotFoundError(f"column {name!r}: added after the snapshot, which has no values of it")
        if not is_sketched(field.field_type):
            raise InvalidInputError(
                f"column {name!r}: theta sketches have no values of type {field.field_type}"
            )
        chosen[field.field_id] = known[field.field_id]
    if not chosen:
        raise InvalidInputError("columns: expected one or more names, found none")
    return list(chosen.values())


def _leaves(schema: Schema, counted: Schema) -> Iterator[SketchedColumn]:
    for field in counted.fields:
        for leaf, path in _below(field):
            name = schema.find_column_name(leaf.field_id)
            if name is not None:
                structs = structs_around(counted, leaf.field_id) or ()
                yield SketchedColumn(name, leaf, field.name, path, structs)


def _below(
    field: NestedField, path: tuple[tuple[str, str], ...] = ()
) -> Iterator[tuple[NestedField, tuple[tuple[str, str], ...]]]:
    kind: IcebergType = field.field_type
    if isinstance(kind, StructType):
        for child in kind.fields:
            yield from _below(child, (*path, ("struct", child.name)))
    elif isinstance(kind, ListType):
        yield from _below(kind.element_field, (*path, ("list", _ELEMENT)))
    elif isinstance(kind, MapType):
        yield from _below(kind.key_field, (*path, ("map", _KEY)))
        yield from _below(kind.value_field, (*path, ("map", _VALUE)))
    else:
        yield field, path
