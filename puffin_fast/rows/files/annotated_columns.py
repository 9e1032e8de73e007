"""The columns of a schema that have a logical type of their own in Parquet: VARIANT, GEOMETRY and GEOGRAPHY."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyiceberg.types import GeographyType, GeometryType, ListType, MapType, StructType

from puffin_fast._pyiceberg.v3_types import VariantType
from puffin_fast.parquet.logical_types import VARIANT, Annotation, ColumnPath, geography, geometry

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType


def annotations_of(schema: Schema) -> dict[ColumnPath, Annotation]:
    """Returns the logical types by column (table specification, Appendix A, "Parquet").

    Args:
        schema: the columns under the names that the file has.
    """
    return dict(_annotations(schema.as_struct(), ()))


def _annotations(kind: IcebergType, path: ColumnPath) -> Iterator[tuple[ColumnPath, Annotation]]:
    """The names of lists and maps are those that PyArrow writes, as the format wants them."""
    if isinstance(kind, VariantType):
        yield path, VARIANT
    elif isinstance(kind, GeometryType):
        yield path, geometry(kind.crs)
    elif isinstance(kind, GeographyType):
        yield path, geography(kind.crs, kind.algorithm)
    elif isinstance(kind, StructType):
        for field in kind.fields:
            yield from _annotations(field.field_type, (*path, field.name))
    elif isinstance(kind, ListType):
        yield from _annotations(kind.element_type, (*path, "list", "element"))
    elif isinstance(kind, MapType):
        yield from _annotations(kind.key_type, (*path, "key_value", "key"))
        yield from _annotations(kind.value_type, (*path, "key_value", "value"))
