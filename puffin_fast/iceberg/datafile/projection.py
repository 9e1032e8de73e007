"""A data file's columns in the table's schema, found by field ids at every depth ("Column Projection").

A field that the file does not have takes the value of its identity partition, else its initial default, else
null. Names play no part but in files without field ids, through the table's name mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.errors import UnsupportedError
from puffin_fast.iceberg.datafile.conversion import (
    Cast,
    Convert,
    FileField,
    arrow_type,
    converter,
    is_list,
    missing,
    primitive,
    storage_type,
    stored,
)

if TYPE_CHECKING:
    from pyiceberg.table.name_mapping import MappedField, NameMapping
    from pyiceberg.types import NestedField

__all__ = ["FileSchema", "Projection"]

FIELD_ID = b"PARQUET:field_id"


class FileSchema:
    """The columns of a data file by field id, in plain types (see `_plain`).

    Args:
        schema: the file's Arrow schema.
        mapping: the table's name mapping, for files without field ids.
        path: the file, for messages.
        by_name: the mapping counts, also where the columns have ids.
        cast: how values of primitive types are brought into the table's.

    Raises:
        UnsupportedError: the file has columns without ids and the table no name mapping.
    """

    def __init__(
        self,
        schema: pa.Schema,
        mapping: NameMapping | None = None,
        *,
        path: str = "",
        by_name: bool = False,
        cast: Cast | None = None,
    ) -> None:
        fields = list(schema)
        mapped: Sequence[MappedField] | None = None
        self._cast = cast or stored
        if by_name or (fields and not any(_has_id(field) for field in fields)):
            if mapping is None:
                raise UnsupportedError(
                    f"{path}: no field ids, and the table has no schema.name-mapping.default"
                )
            mapped = list(mapping)
        nodes = _nodes(fields, mapped)
        self.unknown = tuple(_unknown(nodes))
        self._nodes = {node.field_id: node for node in nodes if node.field_id is not None}
        self._paths: dict[int, tuple[str, tuple[int, ...], FileField]] = {}
        for node in self._nodes.values():
            self._walk(node, node.name, ())

    def _walk(self, node: FileField, top: str, path: tuple[int, ...]) -> None:
        if node.field_id is not None:
            self._paths[node.field_id] = (top, path, node)
        if pa.types.is_struct(node.type):
            for at, child in enumerate(node.children):
                self._walk(child, top, (*path, at))

    def __contains__(self, field_id: int) -> bool:
        """Whether the file has the field, at the top or inside structs."""
        return field_id in self._paths

    def column_of(self, field_id: int) -> str | None:
        """The top-level column that holds a field; None when the file lacks it."""
        found = self._paths.get(field_id)
        return None if found is None else found[0]

    def dotted(self, field_id: int) -> str | None:
        """The path of a leaf as Parquet writes it, through structs only."""
        found = self._paths.get(field_id)
        if found is None:
            return None
        node, names = self._nodes_by_name(found[0]), [found[0]]
        for at in found[1]:
            node = node.children[at]
            names.append(node.name)
        return ".".join(names)

    def _nodes_by_name(self, name: str) -> FileField:
        return next(node for node in self._nodes.values() if node.name == name)

    def leaf(self, field: NestedField) -> tuple[str | None, Convert]:
        """How to get one field, wherever in structs it is, as its plain storage type.

        Returns:
            the top-level column to read (None: a constant), and a function from that column's array (or any
            array of the batch's length) to the field's.
        """
        wanted = storage_type(field.field_type)
        found = self._paths.get(field.field_id)
        if found is None:
            return None, lambda array, constants: missing(
                field, wanted, constants, len(array), required=False
            )
        top, path, node = found
        if field.field_type.is_primitive:
            cast = primitive(node, wanted, self._cast)
        else:
            cast = converter(node, field.field_type, self._cast)

        def get(array: pa.Array, constants: Mapping[int, Any]) -> pa.Array:
            inner = pc.struct_field(array, list(path)) if path else array
            return inner if cast is None else cast(inner, constants)

        return top, get

    def project(self, field: NestedField) -> tuple[str | None, Convert | None]:
        """How to get one top-level field of the table's schema in its full type.

        Returns:
            the column to read (None: a constant), and what to do with its array (None: nothing). For a constant
            the function takes any array of the batch's length.
        """
        node = self._nodes.get(field.field_id)
        if node is None:
            wanted = arrow_type(field.field_type)
            return None, lambda array, constants: missing(field, wanted, constants, len(array))
        return node.name, converter(node, field.field_type, self._cast)


@dataclass(frozen=True)
class Projection:
    """Output columns of one file schema.

    Attributes:
        columns: the file's columns that they need, in order.
    """

    columns: tuple[str, ...]
    _steps: tuple[tuple[str | None, Convert | None], ...]

    @classmethod
    def of(cls, file: FileSchema, fields: Iterable[NestedField]) -> Projection:
        """The projection of a file's columns to top-level fields of a schema."""
        steps = tuple(file.project(field) for field in fields)
        return cls(tuple(dict.fromkeys(name for name, _ in steps if name is not None)), steps)

    def arrays(
        self, columns: Mapping[str, pa.Array], n_rows: int, constants: Mapping[int, Any]
    ) -> list[pa.Array]:
        """The output arrays of a batch.

        Args:
            columns: the file's columns, each of `n_rows`.
            n_rows: rows of the batch.
            constants: values of fields that are the same in the whole file, by field id.
        """
        result, length = [], None
        for name, convert in self._steps:
            if name is None:
                length = pa.nulls(n_rows) if length is None else length
                array = length
            else:
                array = columns[name]
            result.append(array if convert is None else convert(array, constants))
        return result


# The file's own schema -----------------------------------------------------------------------------------


def _has_id(field: pa.Field) -> bool:
    if field.metadata is not None and FIELD_ID in field.metadata:
        return True
    return any(_has_id(child) for child in _inner(field.type)[0])


def _inner(kind: pa.DataType) -> tuple[list[pa.Field], Sequence[str]]:
    """The fields inside a type, and what they are called where the format names them."""
    if pa.types.is_struct(kind):
        return list(kind), ()
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field], ("key", "value")
    if is_list(kind):
        return [kind.value_field], ("element",)
    return [], ()


def _nodes(
    fields: Iterable[pa.Field], mapped: Sequence[MappedField] | None, roles: Sequence[str] = ()
) -> tuple[FileField, ...]:
    """The tree of a file's fields; with a name mapping, ids come from there.

    Lists and maps call what is in them as they like: for the mapping it has the names in `roles`.
    """
    result = []
    for at, field in enumerate(fields):
        below: Sequence[MappedField] | None = None
        if mapped is None:
            raw = (field.metadata or {}).get(FIELD_ID)
            field_id = None if raw is None else int(raw)
        else:
            name = roles[at] if roles else field.name
            match = next((m for m in mapped if name in m.names), None)
            field_id = None if match is None else match.field_id
            below = [] if match is None else list(match.fields)
        inner, inside = _inner(field.type)
        result.append(FileField(field_id, field.name, field.type, _nodes(inner, below, inside)))
    return tuple(result)


def _unknown(nodes: Iterable[FileField], prefix: str = "") -> Iterator[str]:
    """The dotted names of fields without an id, the outermost only."""
    for node in nodes:
        name = f"{prefix}{node.name}"
        if node.field_id is None:
            yield name
        else:
            yield from _unknown(node.children, f"{name}.")
