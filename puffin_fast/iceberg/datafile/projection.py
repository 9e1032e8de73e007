"""A data file's columns in the table's schema, found by field ids at every depth ("Column Projection").

A field that the file does not have takes the value of its identity partition, else its initial default, else
null. Names play no part but in files without field ids, through the table's name mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import ListType, MapType, NestedField, StructType

from puffin_fast.errors import CorruptDataError, UnsupportedError

if TYPE_CHECKING:
    from pyiceberg.table.name_mapping import MappedField, NameMapping
    from pyiceberg.types import IcebergType

__all__ = ["FileSchema", "Projection", "arrow_type", "constant", "storage_type"]

FIELD_ID = b"PARQUET:field_id"

Convert = Callable[[pa.Array, Mapping[int, Any]], pa.Array]
"""Brings an array of the file into the table's type; the mapping holds constants by field id."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A field of the file: its id (None: nobody's), its name, its Arrow type, what is inside."""

    field_id: int | None
    name: str
    type: pa.DataType
    children: tuple[_Node, ...]

    def by_id(self) -> dict[int, tuple[int, _Node]]:
        return {
            node.field_id: (at, node) for at, node in enumerate(self.children) if node.field_id is not None
        }


class FileSchema:
    """The columns of a Parquet file by field id.

    Args:
        schema: the file's Arrow schema.
        mapping: the table's name mapping, for files without field ids.
        path: the file, for messages.

    Raises:
        UnsupportedError: the file has columns without ids and the table no name mapping.
    """

    def __init__(self, schema: pa.Schema, mapping: NameMapping | None = None, *, path: str = "") -> None:
        fields = list(schema)
        mapped: Sequence[MappedField] | None = None
        if fields and not any(_has_id(field) for field in fields):
            if mapping is None:
                raise UnsupportedError(
                    f"{path}: no field ids, and the table has no schema.name-mapping.default"
                )
            mapped = list(mapping)
        self._nodes = {node.field_id: node for node in _nodes(fields, mapped) if node.field_id is not None}
        self._paths: dict[int, tuple[str, tuple[int, ...], _Node]] = {}
        for node in self._nodes.values():
            self._walk(node, node.name, ())

    def _walk(self, node: _Node, top: str, path: tuple[int, ...]) -> None:
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

    def _nodes_by_name(self, name: str) -> _Node:
        return next(node for node in self._nodes.values() if node.name == name)

    def leaf(self, field: NestedField) -> tuple[str | None, Convert]:
        """How to get one primitive field, wherever in structs it is, as its plain storage type.

        Returns:
            the top-level column to read (None: a constant), and a function from that column's array (or any
            array of the batch's length) to the field's.
        """
        wanted = storage_type(field.field_type)
        found = self._paths.get(field.field_id)
        if found is None:
            return None, lambda array, constants: _missing(
                field, wanted, constants, len(array), required=False
            )
        top, path, node = found
        cast = _primitive(node.type, wanted)

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
            return None, lambda array, constants: _missing(field, wanted, constants, len(array))
        return node.name, _converter(node, field.field_type)


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


def arrow_type(iceberg: IcebergType) -> pa.DataType:
    """The Arrow type of the answer: PyIceberg's choice, with large strings and lists."""
    found: Any = schema_to_pyarrow(iceberg, include_field_ids=False)
    return found


def storage_type(iceberg: IcebergType) -> pa.DataType:
    """The same, without extension types: what can be compared."""
    found = arrow_type(iceberg)
    return found.storage_type if isinstance(found, pa.BaseExtensionType) else found


def constant(value: Any, wanted: pa.DataType, n_rows: int) -> pa.Array:
    """An array of one value: a raw partition value (days, microseconds, 16 bytes) or a Python one."""
    if value is None:
        return pa.nulls(n_rows, wanted)
    plain = wanted.storage_type if isinstance(wanted, pa.BaseExtensionType) else wanted
    if isinstance(value, int) and not (pa.types.is_integer(plain) or pa.types.is_boolean(plain)):
        raw = pa.int32() if pa.types.is_date32(plain) else pa.int64()
        scalar = pa.scalar(value, raw).cast(pa.float64() if pa.types.is_floating(plain) else plain)
    else:
        scalar = pa.scalar(getattr(value, "bytes", value), plain)
    array = pa.repeat(scalar.cast(plain), n_rows)
    return array if plain is wanted else pa.ExtensionArray.from_storage(wanted, array)


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
    if _is_list(kind):
        return [kind.value_field], ("element",)
    return [], ()


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _nodes(
    fields: Iterable[pa.Field], mapped: Sequence[MappedField] | None, roles: Sequence[str] = ()
) -> tuple[_Node, ...]:
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
        result.append(_Node(field_id, field.name, field.type, _nodes(inner, below, inside)))
    return tuple(result)


# From the file's types to the table's ----------------------------------------------------------------------


def _missing(
    field: NestedField,
    wanted: pa.DataType,
    constants: Mapping[int, Any],
    n_rows: int,
    *,
    required: bool = True,
) -> pa.Array:
    value = constants.get(field.field_id)
    if value is None:
        value = field.initial_default
    if value is None and field.required and required:
        raise CorruptDataError(
            f"required field {field.field_id} ({field.name}) is missing, and has no default"
        )
    if value is not None and isinstance(field.field_type, StructType | ListType | MapType):
        return pa.array([value] * n_rows, wanted)
    return constant(value, wanted, n_rows)


def _converter(node: _Node, iceberg: IcebergType) -> Convert | None:
    """What brings arrays of a file's field into a type; None when they are in it already."""
    if isinstance(iceberg, StructType):
        return _struct(node, iceberg)
    if isinstance(iceberg, ListType):
        return _list(node, iceberg)
    if isinstance(iceberg, MapType):
        return _map(node, iceberg)
    return _primitive(node.type, arrow_type(iceberg))


def _struct(node: _Node, iceberg: StructType) -> Convert | None:
    if not pa.types.is_struct(node.type):
        raise _does_not_fit(node, iceberg)
    wanted = arrow_type(iceberg)
    known = node.by_id()
    steps: list[tuple[NestedField, int | None, Convert | None]] = []
    for field in iceberg.fields:
        at, child = known.get(field.field_id, (None, None))
        steps.append((field, at, None if child is None else _converter(child, field.field_type)))
    in_order = [at for _, at, _ in steps] == list(range(len(node.children)))
    if in_order and node.type == wanted and all(convert is None for *_, convert in steps):
        return None

    def convert_struct(array: pa.Array, constants: Mapping[int, Any]) -> pa.Array:
        children = []
        for field, at, convert in steps:
            if at is None:
                # where the struct itself is null a required field may be, too
                child = _missing(field, arrow_type(field.field_type), constants, len(array))
            else:
                child = array.field(at)
                child = child if convert is None else convert(child, constants)
            children.append(child)
        if not children:
            return pa.array([None if null else {} for null in array.is_null().to_pylist()], wanted)
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)

    return convert_struct


def _list(node: _Node, iceberg: ListType) -> Convert | None:
    if not _is_list(node.type):
        raise _does_not_fit(node, iceberg)
    wanted = arrow_type(iceberg)
    (child,) = node.children
    convert = _converter(child, iceberg.element_type)
    if convert is None and node.type == wanted:
        return None

    def convert_list(array: pa.Array, constants: Mapping[int, Any]) -> pa.Array:
        if pa.types.is_fixed_size_list(array.type):
            array = array.cast(pa.large_list(array.type.value_field))
        values = array.values if convert is None else convert(array.values, constants)
        return pa.LargeListArray.from_arrays(_offsets(array, pa.int64()), values, type=wanted)

    return convert_list


def _map(node: _Node, iceberg: MapType) -> Convert | None:
    if not pa.types.is_map(node.type):
        raise _does_not_fit(node, iceberg)
    wanted = arrow_type(iceberg)
    key, value = node.children
    convert_key, convert_value = _converter(key, iceberg.key_type), _converter(value, iceberg.value_type)
    if convert_key is None and convert_value is None and node.type == wanted:
        return None

    def convert_map(array: pa.Array, constants: Mapping[int, Any]) -> pa.Array:
        keys = array.keys if convert_key is None else convert_key(array.keys, constants)
        items = array.items if convert_value is None else convert_value(array.items, constants)
        return pa.MapArray.from_arrays(_offsets(array, pa.int32()), keys, items, type=wanted)

    return convert_map


def _offsets(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Offsets with null where the list is null, which is how Arrow's constructors take nulls."""
    offsets = array.offsets.to_numpy(zero_copy_only=False)
    if not array.null_count:
        return pa.array(offsets, kind)
    null = np.append(array.is_null().to_numpy(zero_copy_only=False), False)
    return pa.array(offsets, kind, mask=null)


def _primitive(found: pa.DataType, wanted: pa.DataType) -> Convert | None:
    if found == wanted:
        return None
    if isinstance(wanted, pa.BaseExtensionType):
        inner = _primitive(found, wanted.storage_type)
        return lambda array, constants: pa.ExtensionArray.from_storage(
            wanted, array if inner is None else inner(array, constants)
        )
    if isinstance(found, pa.BaseExtensionType):
        inner = _primitive(found.storage_type, wanted)
        return lambda array, constants: array.storage if inner is None else inner(array.storage, constants)
    # timestamps finer than the table's (old Spark files) are cut, all else must fit
    safe = not (pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted))
    return lambda array, constants: array.cast(wanted, safe=safe)


def _does_not_fit(node: _Node, iceberg: IcebergType) -> CorruptDataError:
    return CorruptDataError(f"type of field {node.field_id} ({node.name})", expected=iceberg, found=node.type)
