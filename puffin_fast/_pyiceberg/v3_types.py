"""Types and transforms of format version 3 that PyIceberg 0.12 refuses, so that it cannot load tables with them.

| metadata has | PyIceberg | with `read_v3_types` |
|---|---|---|
| ``variant`` | raises | `VariantType` |
| ``geometry(srid:3857)``, as the specification and Java spell it | raises: it expects quotes | its type, spelt so |
| a partition or sort field with several ``source-ids`` | raises | a field of `UnknownTransform`, that prunes nothing |

The constructors of five of PyIceberg's classes are replaced. They call PyIceberg's own after they have replaced those
values, so metadata that PyIceberg accepts is parsed as before. What PyIceberg does with a type, it does through
functions that dispatch on the class of the type; `VariantType` is registered with them, which changes no other type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import pyarrow as pa
import pyiceberg
from pydantic import Field, model_serializer
from pyiceberg.io.pyarrow import (
    ID2ParquetPath,
    ID2ParquetPathVisitor,
    MetricModeTypes,
    MetricsMode,
    PyArrowStatisticsCollector,
    StatisticsCollector,
    _ConvertToArrowSchema,
)
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema, pre_order_visit, visit
from pyiceberg.table.sorting import SortField
from pyiceberg.transforms import UnknownTransform
from pyiceberg.typedef import IcebergRootModel, TableVersion
from pyiceberg.types import (
    DEFAULT_GEOGRAPHY_ALGORITHM,
    IcebergType,
    ListType,
    MapType,
    NestedField,
)
from pyiceberg.types import GeographyType as _GeographyType
from pyiceberg.types import GeometryType as _GeometryType
from pyiceberg.utils.singleton import Singleton

from puffin_fast._pyiceberg.open_words import parsing_patches
from puffin_fast._pyiceberg.versions import check_version
from puffin_fast._run.fork import lock_across_fork
from puffin_fast._run.patches import Acceleration, Patch, Patches

VARIANT_FIELDS = (pa.field("metadata", pa.large_binary(), False), pa.field("value", pa.large_binary(), False))
"""The fields of a variant that is not shredded (Parquet's VariantEncoding.md)."""


class VariantType(Singleton, IcebergRootModel[str], IcebergType):  # type: ignore[misc]
    """The type ``variant``: values of any type, each with its own. In Arrow a struct of `VARIANT_FIELDS`."""

    root: Literal["variant"] = Field(default="variant")

    def __repr__(self) -> str:
        return "VariantType()"

    def __str__(self) -> str:
        return self.root

    def minimum_format_version(self) -> TableVersion:
        return 3


class GeometryType(_GeometryType):  # PyIceberg's parser asks for this name
    """A geometry whose coordinate reference system is spelt without quotes."""

    @model_serializer
    def ser_model(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"geometry({self.crs})"


class GeographyType(_GeographyType):
    """A geography whose coordinate reference system and algorithm are spelt without quotes."""

    @model_serializer
    def ser_model(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"geography({self.crs}, {self.algorithm})"


UNORDERED = (_GeometryType, _GeographyType)
"""Types whose values have no order. Their bounds in a manifest are points, the corners of a box (table specification,
"Bounds for Geometry and Geography"), which no filter here can use, and this package writes none."""


def unordered_fields(schema: Schema) -> list[int]:
    """Returns the ids of the fields of a schema, at any depth, whose type is one of `UNORDERED`."""
    return [id for id in sorted(schema.field_ids) if isinstance(schema.find_type(id), UNORDERED)]


_GEOMETRY = re.compile(r"geometry\(\s*([^'\"()]*[^'\"()\s])\s*\)")
_GEOGRAPHY = re.compile(r"geography\(\s*([^'\"(),]*[^'\"(),\s])\s*(?:,\s*(\w+)\s*)?\)")


def _type(given: Any) -> Any:
    """Returns the type of a text that PyIceberg does not parse; other values as they are."""
    if not isinstance(given, str):
        return given
    if given == "variant":
        return VariantType()
    if found := _GEOMETRY.fullmatch(given):
        return GeometryType(found[1])
    if found := _GEOGRAPHY.fullmatch(given):
        return GeographyType(found[1], found[2] or DEFAULT_GEOGRAPHY_ALGORITHM)  # type: ignore[call-arg, arg-type]
    return given


# --- the constructors ----------------------------------------------------------------------------------------

_new_field, _new_list, _new_map = NestedField.__init__, ListType.__init__, MapType.__init__
_new_partition_field, _new_sort_field = PartitionField.__init__, SortField.__init__


def _field(self: Any, *args: Any, **data: Any) -> None:
    for key in ("type", "field_type"):
        if key in data:
            data[key] = _type(data[key])
    _new_field(self, *(_type(value) if at == 2 else value for at, value in enumerate(args)), **data)


def _list(self: Any, *args: Any, **data: Any) -> None:
    for key in ("element", "element_type"):
        if key in data:
            data[key] = _type(data[key])
    _new_list(self, *map(_type, args), **data)


def _map(self: Any, *args: Any, **data: Any) -> None:
    for key in ("key", "value", "key_type", "value_type"):
        if key in data:
            data[key] = _type(data[key])
    _new_map(self, *map(_type, args), **data)


def _of_one_source(new: Callable[..., None]) -> Callable[..., None]:
    """Returns a constructor that makes a transform of several columns an unknown one of the first column."""

    def make(self: Any, *args: Any, **data: Any) -> None:
        sources = data.get("source-ids")
        if isinstance(sources, list) and len(sources) > 1:
            transform: Any = UnknownTransform(transform=str(data.get("transform")))
            data = {**data, "source-id": sources[0], "transform": transform}
        new(self, *args, **data)

    return make


def _patches() -> list[Patch]:
    """The replaced constructors. They accept the parameters of PyIceberg's own."""
    replaced: list[tuple[type, Callable[..., None], Callable[..., None]]] = [
        (NestedField, _new_field, _field),
        (ListType, _new_list, _list),
        (MapType, _new_map, _map),
        (PartitionField, _new_partition_field, _of_one_source(_new_partition_field)),
        (SortField, _new_sort_field, _of_one_source(_new_sort_field)),
    ]
    made = [Patch(owner, "__init__", ours, _PARAMETERS[owner]) for owner, _, ours in replaced]
    return made + parsing_patches()


_PARAMETERS: dict[type, tuple[str, ...]] = {
    NestedField: (
        *("self", "field_id", "name", "field_type", "required", "doc", "initial_default", "write_default"),
        "data",
    ),
    ListType: ("self", "element_id", "element", "element_required", "data"),
    MapType: ("self", "key_id", "key_type", "value_id", "value_type", "value_required", "data"),
    PartitionField: ("self", "source_id", "field_id", "transform", "name", "data"),
    SortField: ("self", "source_id", "transform", "direction", "null_order", "data"),
}

V3_TYPES = Patches(f"pyiceberg {pyiceberg.__version__}", _patches)
"""The replaced constructors, while they are active."""

_lock = lock_across_fork()
_for_good: list[Acceleration] = []


def read_v3_types() -> None:
    """Makes PyIceberg load tables with the types and transforms above, from now on in this process.

    Raises:
        UnsupportedError: this version of PyIceberg is not supported; nothing is changed.
    """
    check_version()
    with _lock:
        if not _for_good:
            _for_good.append(V3_TYPES.begin())


# --- what PyIceberg does with a variant ----------------------------------------------------------------------


@visit.register(VariantType)
def _(variant: VariantType, visitor: Any) -> Any:
    if isinstance(visitor, _ConvertToArrowSchema):
        return pa.struct(VARIANT_FIELDS)
    return visitor.primitive(variant)


@pre_order_visit.register(VariantType)
def _(variant: VariantType, visitor: Any) -> Any:
    """Its Parquet columns belong to its field, and have no metrics."""
    if isinstance(visitor, ID2ParquetPathVisitor):
        return [
            ID2ParquetPath(visitor._field_id, ".".join([*visitor._path, inner.name]))
            for inner in VARIANT_FIELDS
        ]
    if isinstance(visitor, PyArrowStatisticsCollector):
        name = visitor._schema.find_column_name(visitor._field_id) or ""
        kind: Any = variant
        return [StatisticsCollector(visitor._field_id, kind, MetricsMode(MetricModeTypes.NONE), name)]
    return visitor.primitive(variant)
