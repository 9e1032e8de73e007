"""Fields of structs that are read alone, and put together to the structs that a projection needs.

    wanted s{a, t{c}} of s{a, b, t{c, d}}      read  s{a}, s{t{c}}      together  s{a, t{c}}

Each is read as the structs around it with this field only, which also say where a struct is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyiceberg.types import IcebergType, StructType

from puffin_fast.columns.plain_types import null_mask
from puffin_fast.rows.files.conversion import FileField


@dataclass(frozen=True)
class StructPart:
    """A struct of a file with some of its fields.

    Attributes:
        node: the struct with these fields.
        paths: of the fields that are read alone, with dots.
    """

    node: FileField
    paths: tuple[str, ...]
    _inner: tuple[StructPart | None, ...]

    @classmethod
    def of(cls, node: FileField, wanted: IcebergType) -> StructPart | None:
        """Returns the fields of a struct that a type of the table has; None if the field is not read in parts.

        Of a struct without any of them the first field is read: it says where the struct is null.

        Args:
            wanted: the type of the table's field.
        """
        if not isinstance(wanted, StructType) or not node.children:
            return None
        if not (pa.types.is_struct(node.type) and pa.types.is_struct(node.found)):
            return None
        types = {field.field_id: field.field_type for field in wanted.fields}
        chosen = [at for at, child in enumerate(node.children) if child.field_id in types]
        if not chosen:
            chosen = [
                min(range(len(node.children)), key=lambda at: pa.types.is_nested(node.children[at].type))
            ]
        children, inner, paths = [], [], []
        for at in chosen:
            child = node.children[at]
            part = cls.of(child, types.get(child.field_id or 0, StructType()))
            children.append(child if part is None else part.node)
            inner.append(part)
            paths += [f"{node.name}.{path}" for path in ([child.name] if part is None else part.paths)]
        kind = _struct(node.type, chosen, [child.type for child in children])
        found = _struct(node.found, chosen, [child.found for child in children])
        node = replace(node, type=kind, found=found, children=tuple(children))
        return cls(node, tuple(paths), tuple(inner))

    def together(self, arrays: Sequence[pa.Array]) -> pa.Array:
        """Returns the struct.

        Args:
            arrays: for each path the structs with this field only.
        """
        if len(arrays) == 1:
            return arrays[0]
        children, at = [], 0
        for part in self._inner:
            stop = at + (1 if part is None else len(part.paths))
            own = [array.field(0) for array in arrays[at:stop]]
            children.append(own[0] if part is None else part.together(own))
            at = stop
        return pa.StructArray.from_arrays(children, fields=list(self.node.type), mask=null_mask(arrays[0]))


def _struct(kind: pa.DataType, chosen: Sequence[int], types: Sequence[pa.DataType]) -> pa.DataType:
    """A struct of some fields of a struct, with other types."""
    return pa.struct([kind.field(at).with_type(inner) for at, inner in zip(chosen, types, strict=True)])


def have_paths(nodes: Iterable[FileField]) -> bool:
    """Whether a path with dots names one field: no name has a dot, and names next to each other differ."""
    names = []
    for node in nodes:
        names.append(node.name)
        if pa.types.is_struct(node.type) and not have_paths(node.children):
            return False
    return len(set(names)) == len(names) and not any("." in name for name in names)
