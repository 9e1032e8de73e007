"""Types and transforms of format version 3 that PyIceberg 0.12 refuses, so that it cannot load tables with them.

| metadata has | PyIceberg | with `read_v3_types` |
|---|---|---|
| ``variant`` | raises | `VariantType` |
| ``geometry(srid:3857)``, as the specification and Java spell it | raises: it expects quotes | its type, spelt so |
| a partition or sort field with several ``source-ids`` | raises | a field of `UnknownTransform`, that prunes nothing |
| a default of ``timestamp_ns`` or ``timestamptz_ns`` | raises | nanoseconds from 1970-01-01, an integer |
| a default of a struct (only ``{}``), a list or a map | raises | a tuple of values; of a map, of pairs |

The constructors of five of PyIceberg's classes are replaced. They call PyIceberg's own after they have replaced those
values, so metadata that PyIceberg accepts is parsed as before. What PyIceberg does with a type, it does through
functions that dispatch on the class of the type; `VariantType`, and the types whose defaults it refuses, are registered
with them, which changes no other type.

No release of PyIceberg ends this: 0.12.0 and its main branch of August 2026 refuse them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Literal

import pyarrow as pa
import pyiceberg
from pydantic import Field, model_serializer
from pyiceberg.conversions import from_json, to_json
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
    DecimalType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
)
from pyiceberg.types import GeographyType as _GeographyType
from pyiceberg.types import GeometryType as _GeometryType
from pyiceberg.utils.datetime import datetime_to_nanos
from pyiceberg.utils.singleton import Singleton

from puffin_fast._process.fork import lock_across_fork
from puffin_fast._pyiceberg.open_words import parsing_patches
from puffin_fast._pyiceberg.versions import check_version
from puffin_fast.acceleration import Acceleration, Patch, Patches

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

_from_json: Any = from_json
_to_json: Any = to_json
"""PyIceberg declares them for primitive types only."""

_new_field, _new_list, _new_map = NestedField.__init__, ListType.__init__, MapType.__init__
_new_partition_field, _new_sort_field = PartitionField.__init__, SortField.__init__


_DEFAULTS = {
    "initial_default": "initial_default",
    "initial-default": "initial_default",
    "write_default": "write_default",
    "write-default": "write_default",
}


def _of_scale(value: Decimal, scale: int) -> Decimal:
    """The same number with so many digits after its point; unchanged if it has more."""
    try:
        found = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    except InvalidOperation:
        return value
    return found if found == value else value


_EXACT = Context(prec=100)


def _field(self: Any, *args: Any, **data: Any) -> None:
    for key in ("type", "field_type"):
        if key in data:
            data[key] = _type(data[key])
    nested = {key: data.pop(key) for key in _DEFAULTS if isinstance(data.get(key), dict | list | tuple)}
    _new_field(self, *(_type(value) if at == 2 else value for at, value in enumerate(args)), **data)
    kind = self.field_type
    if isinstance(kind, DecimalType):  # Java refuses a default of another scale
        for key in ("initial_default", "write_default"):
            if isinstance(value := self.__dict__[key], Decimal):
                self.__dict__[key] = _of_scale(value, kind.scale)
    for key, value in nested.items():  # PyIceberg's fields for defaults take values of primitive types only
        if not isinstance(kind, StructType | ListType | MapType) or (isinstance(kind, StructType) and value):
            raise ValueError(f"{key} of field {self.field_id} ({self.name}), {kind}: {value!r:.100}")
        self.__dict__[_DEFAULTS[key]] = _from_json(kind, value)


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


# --- types in Arrow ------------------------------------------------------------------------------------------


class _ToArrow(_ConvertToArrowSchema):
    """PyIceberg's conversion, with geometries and geographies as WKB.

    PyIceberg makes types of geoarrow-pyarrow of them if that is installed. These refuse some coordinate reference
    systems, and PyArrow writes no statistics of them, not even the number of nulls.
    """

    def visit_geometry(self, geometry_type: Any) -> pa.DataType:
        return pa.large_binary()

    def visit_geography(self, geography_type: Any) -> pa.DataType:
        return pa.large_binary()


def schema_to_arrow(schema: Any, *, include_field_ids: bool = True) -> Any:
    """Returns the Arrow schema of a schema, or the Arrow type of a type."""
    return visit(schema, _ToArrow({}, include_field_ids))


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


# --- the defaults that PyIceberg refuses (table specification, "JSON single-value serialization") --------------


@from_json.register(TimestampNanoType)
@from_json.register(TimestamptzNanoType)
def _(kind: TimestampNanoType | TimestamptzNanoType, value: str | int | datetime) -> int:
    if isinstance(value, datetime):
        return datetime_to_nanos(value)
    if isinstance(value, str):
        return int(pa.scalar(value).cast(_nanoseconds(kind)).value)
    if type(value) is not int:
        raise TypeError(f"expected a text of a {kind}, found {value!r:.100}")
    return value


@to_json.register(TimestampNanoType)
@to_json.register(TimestamptzNanoType)
def _(kind: TimestampNanoType | TimestamptzNanoType, value: int) -> str:
    text = str(pa.scalar(value, pa.int64()).cast(pa.timestamp("ns")).cast(pa.string())).replace(" ", "T")
    return text if isinstance(kind, TimestampNanoType) else f"{text}+00:00"


def _nanoseconds(kind: TimestampNanoType | TimestamptzNanoType) -> pa.DataType:
    return pa.timestamp("ns", "UTC" if isinstance(kind, TimestamptzNanoType) else None)


def _each(convert: Callable[[Any, Any], Any], kind: Any, value: Any) -> Any:
    return None if value is None else convert(kind, value)


def _read_struct(kind: StructType, value: dict[str, Any] | tuple[Any, ...]) -> tuple[Any, ...]:
    if isinstance(value, tuple) or not value:
        return tuple(value)
    return tuple(_each(_from_json, field.field_type, value.get(str(field.field_id))) for field in kind.fields)


def _write_struct(kind: StructType, value: tuple[Any, ...]) -> dict[str, Any]:
    pairs = zip(kind.fields, value, strict=False)
    return {str(field.field_id): _each(_to_json, field.field_type, one) for field, one in pairs}


def _read_list(kind: ListType, value: list[Any] | tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_each(_from_json, kind.element_type, one) for one in value)


def _write_list(kind: ListType, value: tuple[Any, ...]) -> list[Any]:
    return [_each(_to_json, kind.element_type, one) for one in value]


def _read_map(kind: MapType, value: dict[str, list[Any]] | tuple[Any, ...]) -> tuple[tuple[Any, Any], ...]:
    pairs = zip(value["keys"], value["values"], strict=True) if isinstance(value, dict) else value
    return tuple(
        (_from_json(kind.key_type, key), _each(_from_json, kind.value_type, one)) for key, one in pairs
    )


def _write_map(kind: MapType, value: tuple[tuple[Any, Any], ...]) -> dict[str, list[Any]]:
    return {
        "keys": [_to_json(kind.key_type, key) for key, _ in value],
        "values": [_each(_to_json, kind.value_type, one) for _, one in value],
    }


for _kind, _read, _write in (
    (StructType, _read_struct, _write_struct),
    (ListType, _read_list, _write_list),
    (MapType, _read_map, _write_map),
):
    _from_json.register(_kind, _read)
    _to_json.register(_kind, _write)
