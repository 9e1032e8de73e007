"""Projects a data file's columns to the table's schema by field id, at every depth ("Column Projection").

A field that the file does not have gets the value of its identity partition, else its initial default, else
null. Names are used only for files without field ids, through the table's name mapping.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import StructType

from puffin_fast._process.cached import cached_property
from puffin_fast._process.gc_pause import paused_gc
from puffin_fast.columns.plain_types import FLAT_IDS, plain_type
from puffin_fast.errors import UnsupportedError
from puffin_fast.rows.files.conversion import (
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
    type_in_file,
)
from puffin_fast.rows.files.struct_parts import StructPart, have_paths

if TYPE_CHECKING:
    from pyiceberg.table.name_mapping import MappedField, NameMapping
    from pyiceberg.types import NestedField

FIELD_ID = b"PARQUET:field_id"


class FileSchema:
    """The columns of a data file by field id, in plain types (see `plain_types`).

    Args:
        schema: the file's Arrow schema.
        mapping: the table's name mapping, for files without field ids.
        path: the file, for messages.
        by_name: use the mapping even if the columns have ids.
        cast: the conversion of primitive types to the table's; `stored` by default.
        opaque: ids of fields whose inner fields have no ids: variants.
        parts: whether the reader of the file reads fields of structs alone, by their paths.

    Attributes:
        by_names: whether columns are found by the name mapping.

    Raises:
        UnsupportedError: the file has columns without ids, and the table has no name mapping.
    """

    @paused_gc()
    def __init__(
        self,
        schema: pa.Schema,
        mapping: NameMapping | None = None,
        *,
        path: str = "",
        by_name: bool = False,
        cast: Cast | None = None,
        opaque: Container[int | None] = (),
        parts: bool = False,
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
        self.by_names = mapped is not None
        nodes = _nodes(fields, mapped)
        self._tree, self._opaque = nodes, opaque
        self._parts = parts and have_paths(nodes)
        self._nodes = {node.field_id: node for node in nodes if node.field_id is not None}
        self._of_column = {node.name: node for node in reversed(self._nodes.values())}
        self._paths: dict[int, tuple[str, tuple[int, ...], FileField]] = {}
        for node in self._nodes.values():
            self._walk(node, node.name, ())

    @cached_property
    def unknown(self) -> tuple[str, ...]:
        """The dotted names of the fields without an id, but for those inside opaque fields."""
        return tuple(_unknown(self._tree, self._opaque))

    def _walk(self, node: FileField, top: str, path: tuple[int, ...]) -> None:
        """Registers a field and the fields of structs inside it: top-level column and child indexes, by field id."""
        if node.field_id is not None:
            self._paths[node.field_id] = (top, path, node)
        if node.children and pa.types.is_struct(node.type):
            for at, child in enumerate(node.children):
                self._walk(child, top, (*path, at))

    def __contains__(self, field_id: int) -> bool:
        """Whether the file has the field, at the top or inside structs."""
        return field_id in self._paths

    def column_of(self, field_id: int) -> str | None:
        """The top-level column that contains a field; None if the file does not have the field."""
        found = self._paths.get(field_id)
        return None if found is None else found[0]

    def dotted(self, field_id: int) -> str | None:
        """The path of a leaf in Parquet's dotted notation, through structs only; None if the file does not have it."""
        found = self._paths.get(field_id)
        if found is None:
            return None
        node, names = self._of_column[found[0]], [found[0]]
        for at in found[1]:
            node = node.children[at]
            names.append(node.name)
        return ".".join(names)

    def leaf(self, field: NestedField, structs: Sequence[NestedField] = ()) -> tuple[str | None, Convert]:
        """Returns how to compute one field, at the top level or inside structs, in its plain storage type.

        Args:
            field: the field.
            structs: the structs around it in the table's schema, outermost first.

        Returns:
            the column to read, and a function from that column's array to the field's. The column is one of the top
            level, or the path of a field of structs. It is None for a constant; the function then takes any array of
            the batch's length.
        """
        wanted = storage_type(field.field_type)
        found = self._paths.get(field.field_id)
        if found is None:
            return self._missing_leaf(field, structs, wanted)
        top, path, node = found
        if field.field_type.is_primitive:
            cast = primitive(node, wanted, self._cast)
        else:
            cast = converter(node, field.field_type, arrow_type(field.field_type), self._cast)

        if path and self._parts and not pa.types.is_struct(node.type):
            top, path = self.dotted(field.field_id) or top, (0,) * len(path)

        def get(array: pa.Array, constants: Mapping[int, Any]) -> pa.Array:
            inner = pc.struct_field(array, list(path)) if path else array
            if cast is None:
                return inner
            if isinstance(inner, pa.DictionaryArray):  # see `text_column`
                return pa.DictionaryArray.from_arrays(
                    inner.indices, cast(inner.dictionary, constants), safe=False
                )
            return cast(inner, constants)

        return top, get

    def _missing_leaf(
        self, field: NestedField, structs: Sequence[NestedField], wanted: pa.DataType
    ) -> tuple[str | None, Convert]:
        """How to compute a field that the file does not have: as `project` does, from structs with this field only."""
        whole, kind = field, wanted
        for struct in reversed(structs):
            kind = pa.struct([pa.field(whole.name, kind)])
            whole = struct.model_copy(update={"field_type": StructType(whole)})
        columns, convert, _ = self.project(whole, kind)
        inside = [0] * len(structs)

        def get(array: pa.Array, constants: Mapping[int, Any]) -> pa.Array:
            found = array if convert is None else convert(array, constants)
            return pc.struct_field(found, inside) if inside else found

        return next(iter(columns), None), get

    def text_column(self, field: NestedField) -> str | None:
        """Returns the column of a field that `leaf` takes as a dictionary array, too: one of texts or bytes, whose type
        differs from the table's by the width of offsets at most; None for other fields."""
        top, path, node = self._paths.get(field.field_id, (None, (), None))
        if top is None or path or node is None:
            return None
        kinds = {node.type, storage_type(field.field_type)}
        is_one = kinds <= {pa.string(), pa.large_string()} or kinds <= {pa.binary(), pa.large_binary()}
        return top if is_one else None

    def type_of(self, field: NestedField) -> pa.DataType:
        """Returns the type of a top-level field of the table's schema in PyIceberg's `to_arrow`."""
        node = self._nodes.get(field.field_id)
        return arrow_type(field.field_type) if node is None else type_in_file(node, field.field_type)

    def project(self, field: NestedField, wanted: pa.DataType | None = None) -> Step:
        """Returns how to compute one top-level field of the table's schema.

        Args:
            wanted: its Arrow type; None: that of the table's schema.
        """
        node = self._nodes.get(field.field_id)
        kind = arrow_type(field.field_type) if wanted is None else wanted
        if node is None:
            return Step((), lambda array, constants: missing(field, kind, constants, len(array)))
        part = StructPart.of(node, field.field_type) if self._parts else None
        columns = (node.name,) if part is None else part.paths
        whole = node if part is None else part.node
        return Step(columns, converter(whole, field.field_type, kind, self._cast), part)


class Step(NamedTuple):
    """How one field is computed.

    Attributes:
        columns: the columns to read: one of the top level, or the paths of fields of structs. None for a constant.
        convert: a function from the array to the field's; None if it needs no conversion. For a constant it takes any
            array of the batch's length.
        part: puts the fields of structs together.
    """

    columns: tuple[str, ...]
    convert: Convert | None
    part: StructPart | None = None


@dataclass(frozen=True)
class Projection:
    """The output columns computed from files of one schema.

    Attributes:
        columns: the columns of the file to read, and paths of fields of structs, in order.
    """

    columns: tuple[str, ...]
    _steps: tuple[Step, ...]

    @classmethod
    def of(
        cls, file: FileSchema, fields: Sequence[NestedField], types: Sequence[pa.DataType] | None = None
    ) -> Projection:
        """Returns the projection of a file's columns to top-level fields of a schema.

        Args:
            file: the file's columns.
            types: their Arrow types; None: those of the schema.
        """
        steps = tuple(map(file.project, fields, types or [None] * len(fields)))
        return cls(tuple(dict.fromkeys(name for step in steps for name in step.columns)), steps)

    def arrays(
        self, columns: Mapping[str, pa.Array], n_rows: int, constants: Mapping[int, Any]
    ) -> list[pa.Array]:
        """Returns the output arrays of a batch.

        Args:
            columns: the columns read from the file, each of length `n_rows`.
            n_rows: number of rows of the batch.
            constants: values of fields that are equal in the whole file, by field id.
        """
        result, length = [], None
        for names, convert, part in self._steps:
            if part is not None:
                array = part.together([columns[name] for name in names])
            elif names:
                array = columns[names[0]]
            else:
                array = length = pa.nulls(n_rows) if length is None else length
            result.append(array if convert is None else convert(array, constants))
        return result


# The file's own schema -----------------------------------------------------------------------------------


def _id(field: pa.Field) -> int | None:
    """The id of a field; a negative one means none."""
    found = int((field.metadata or {}).get(FIELD_ID, -1))
    return None if found < 0 else found


def _has_id(field: pa.Field) -> bool:
    return _id(field) is not None or any(_has_id(child) for child in _inner(field.type)[0])


def _inner(kind: pa.DataType) -> tuple[list[pa.Field], Sequence[str]]:
    """The fields inside a type, and the names that a name mapping uses for them (structs: none, their own names)."""
    if kind.id in FLAT_IDS:
        return [], ()
    if pa.types.is_struct(kind):
        return list(kind), ()
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field], ("key", "value")
    if is_list(kind) or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return [kind.value_field], ("element",)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _inner(kind.value_type)
    return _inner(kind.storage_type) if isinstance(kind, pa.BaseExtensionType) else ([], ())


def _nodes(
    fields: Iterable[pa.Field], mapped: Sequence[MappedField] | None, roles: Sequence[str] = ()
) -> tuple[FileField, ...]:
    """The tree of a file's fields. With a name mapping the ids are those of the mapping.

    Writers name the fields inside lists and maps differently. The mapping finds them under the names in
    `roles`.
    """
    result = []
    by_name = {name: match for match in reversed(mapped or ()) for name in match.names}
    for at, field in enumerate(fields):
        below: Sequence[MappedField] | None = None
        if mapped is None:
            field_id = _id(field)
        else:
            name = roles[at] if roles else field.name
            match = by_name.get(name)
            field_id = None if match is None else match.field_id
            below = [] if match is None else list(match.fields)
        inner, inside = _inner(field.type)
        children = _nodes(inner, below, inside) if inner else ()
        result.append(FileField(field_id, field.name, plain_type(field.type), field.type, children))
    return tuple(result)


def _unknown(nodes: Iterable[FileField], opaque: Container[int | None], prefix: str = "") -> Iterator[str]:
    """Yields the dotted names of fields without an id, without the fields inside them and inside opaque fields."""
    for node in nodes:
        name = f"{prefix}{node.name}"
        if node.field_id is None:
            yield name
        elif node.field_id not in opaque:
            yield from _unknown(node.children, opaque, f"{name}.")
