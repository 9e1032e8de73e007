"""Converts the rows that a caller passes to an append or upsert to the columns and types of a table's schema.

Any Arrow data is accepted: pandas, Polars, DuckDB, arro3, a CSV reader. Columns are matched by name at every
depth. A column may have another type than the table's if all its values can be represented exactly: int64 in
an int column, nanoseconds that are whole microseconds, UUIDs as text. A value that would change is an error.
A nullable column is accepted for a required one: only a null in it is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import ListType, MapType, NestedField, StructType

from puffin_fast._process.gc_pause import paused_gc
from puffin_fast._pyiceberg.v3_types import VariantType
from puffin_fast._text import no_column, without_values
from puffin_fast.columns.plain_types import check_text, list_parts, map_parts, plain
from puffin_fast.columns.uuid_text import uuids_of_text
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.files.conversion import Convert, ProjectionError, arrow_schema
from puffin_fast.rows.files.projection import FileSchema, Projection
from puffin_fast.rows.match.null_structs import with_null_fields, with_required_fields
from puffin_fast.rows.match.variants import check_variants

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


class RowWriterSchema:
    """Converts rows of one Arrow schema to rows of a table.

    Args:
        schema: the schema of the table.
        rows: the Arrow schema of the given rows.

    Attributes:
        arrow_schema: the Arrow schema of the rows that `fit` returns: the types that PyIceberg writes and reads.

    Raises:
        InvalidInputError: a column does not exist in the table or is given twice, a required column is
            missing, or a type cannot be converted to the table's.
    """

    @paused_gc()
    def __init__(self, schema: Schema, rows: pa.Schema) -> None:
        for name, count in _repeated(list(rows)):
            raise InvalidInputError(f"data: column {name}: expected once, found {count}")
        for field in rows:
            kind = str(getattr(field.type, "extension_name", ""))
            if kind.startswith("pandas."):
                raise InvalidInputError(
                    f"data: column {field.name}: {kind}, which no Iceberg type represents"
                )
        self.arrow_schema = arrow_schema(schema)
        variants = {id for id in schema.field_ids if isinstance(schema.find_type(id), VariantType)}
        known = FileSchema(rows, schema.name_mapping, by_name=True, cast=_lossless, opaque=variants)
        if known.unknown:
            raise InvalidInputError(
                "data: the table has "
                + no_column(", ".join(known.unknown), (f.name for f in schema.fields), "it has")
            )
        self._steps: list[tuple[NestedField, Projection]] = []
        wrong: dict[str, str] = {}
        for column in schema.fields:
            try:
                self._steps.append((column, Projection.of(known, [column])))
            except ProjectionError as error:
                wrong[column.name] = str(error)
        _refuse(wrong)
        self._defaults = {number: schema.find_field(number).write_default for number in schema.field_ids}

    def fit(self, batch: pa.RecordBatch, *, is_stored: bool = False) -> pa.RecordBatch:
        """Converts a batch of the given rows to rows of the table.

        Args:
            batch: the rows.
            is_stored: whether they were read by `located_batches`, which checks their text.

        Raises:
            InvalidInputError: a required column has a null, or a value cannot be represented in the table's
                type.
        """
        found = (with_null_fields(plain(column)) for column in batch.columns)
        columns = dict(zip(batch.schema.names, found, strict=True))
        arrays: list[Any] = []
        wrong: dict[str, str] = {}
        for field, step in self._steps:
            try:
                arrays += step.arrays(columns, batch.num_rows, self._defaults)
                _check_values(arrays[-1], field, field.name, is_stored=is_stored)
                if not is_stored:
                    check_text(arrays[-1])
                arrays[-1] = with_required_fields(arrays[-1])
            except (ProjectionError, pa.ArrowInvalid) as error:
                wrong[field.name] = without_values(error)
        _refuse(wrong, "column {}: ")
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def batches(self, rows: pa.Table | pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """Yields the given rows as rows of the table, batch by batch; no batch is empty."""
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else rows:
            if batch.num_rows:
                yield self.fit(batch)

    def table(self, rows: pa.Table) -> pa.Table:
        """Returns the given rows as rows of the table, in memory."""
        return pa.Table.from_batches(self.batches(rows), self.arrow_schema)


def _refuse(wrong: Mapping[str, str], single: str = "") -> None:
    """Raises the error that names all columns which do not fit the table, one a line if there are several.

    Args:
        wrong: by column what is wrong with it.
        single: what stands before the text of a single column, with a place for its name.

    Raises:
        InvalidInputError: a column is wrong.
    """
    if len(wrong) == 1:
        ((name, text),) = wrong.items()
        raise InvalidInputError(f"data: {single.format(name)}{text}")
    if wrong:
        width = max(map(len, wrong))
        lines = [f"  {name:<{width}}  {text}" for name, text in wrong.items()]
        raise InvalidInputError("\n".join([f"data: {len(wrong)} columns do not fit the table", *lines]))


def _repeated(fields: Sequence[pa.Field], prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yields the dotted names that columns or fields of a struct share, and how many have each."""
    for name, count in Counter(field.name for field in fields).items():
        if count > 1:
            yield f"{prefix}{name}", count
    for field in fields:
        if pa.types.is_nested(field.type):
            inner = [field.type.field(at) for at in range(field.type.num_fields)]
            yield from _repeated(inner, f"{prefix}{field.name}.")


def _check_values(array: Any, field: NestedField, name: str, *, is_stored: bool) -> None:
    check = partial(_check_values, is_stored=is_stored)
    if field.required and array.null_count:
        raise ProjectionError(f"{name} is required; expected no null, found {array.null_count}")
    kind = field.field_type
    if isinstance(kind, StructType):
        valid = array.is_valid() if array.null_count else None
        for at, child in enumerate(kind.fields):
            values = array.field(at)
            check(values if valid is None else values.filter(valid), child, f"{name}.{child.name}")
    elif isinstance(kind, ListType):
        check(list_parts(array)[1], kind.element_field, f"{name}.element")
    elif isinstance(kind, MapType):
        _, keys, values = map_parts(array)
        check(keys, kind.key_field, f"{name}.key")
        check(values, kind.value_field, f"{name}.value")
    elif isinstance(kind, VariantType):
        if not is_stored:
            check_variants(array, name)
    elif pa.types.is_temporal(array.type) and not pa.types.is_time(array.type):
        _check_years(array, name)


_DAY_RANGE = (-719_162, 2_932_896)
"""0001-01-01 and 9999-12-31 in days since 1970: PyIceberg cannot write the bounds or partitions of other years."""


def _check_years(array: Any, name: str) -> None:
    kind = array.type
    first, last = _DAY_RANGE
    integer = pa.int32()
    if pa.types.is_timestamp(kind):
        integer = pa.int64()
        per_day = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        first = max(first * per_day, -(2**63))
        last = min((last + 1) * per_day, 2**63) - 1
    found = pc.min_max(array.cast(integer))
    for value in (found["min"], found["max"]):
        if value.is_valid and not first <= value.as_py() <= last:
            raise ProjectionError(f"{name}: {kind}; expected times in the years 1 to 9999")


# Lossless conversions ----------------------------------------------------------------------------------------


def _lossless(found: pa.DataType, wanted: pa.DataType) -> Convert:
    """Returns a conversion that preserves all values; the conversion raises ArrowInvalid if it cannot."""
    if pa.types.is_null(found):
        return lambda array, constants: pa.nulls(len(array), wanted)
    for given, table, convert in _CONVERSIONS:
        if given(found) and table(wanted):
            return lambda array, constants: convert(array, wanted)
    raise ProjectionError


def _cast(array: Any, wanted: pa.DataType) -> Any:
    return array.cast(wanted)


def _to_unit(array: Any, wanted: pa.DataType) -> Any:
    """Casts timestamps; raises ArrowInvalid with what to do where Arrow's cast would lose nanoseconds."""
    try:
        return array.cast(wanted)
    except pa.ArrowInvalid as error:
        if "would lose data" not in str(error):
            raise
        kind = "timestamp_ns" if wanted.tz is None else "timestamptz_ns"
        raise pa.ArrowInvalid(
            f"{error}: round the values, or create the table with this column as {kind} "
            f"(types={{...: '{kind}'}} of create_table)"
        ) from error


def _to_decimal(array: Any, wanted: pa.DataType) -> Any:
    if pa.types.is_integer(array.type):
        array = array.cast(pa.decimal256(76, wanted.scale))
    result = array.cast(wanted)
    result.validate(full=True)  # the cast accepts values of too many digits
    return result


def _to_float(array: Any, wanted: pa.DataType) -> Any:
    """Casts to a float type; raises ArrowInvalid where Arrow's cast would round."""
    result = array.cast(wanted)
    if pa.types.is_floating(array.type) and array.type.bit_width > wanted.bit_width:
        same = pc.or_(pc.equal(result.cast(array.type), array), pc.is_nan(array))
        if not pc.all(same, min_count=0).as_py():
            raise pa.ArrowInvalid(f"a value cannot be represented as {wanted}")
    return result


def _to_fixed(array: Any, wanted: pa.DataType) -> Any:
    return array.cast(pa.large_binary()).cast(wanted)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    )


def _has_zone(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _has_no_zone(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is None


Is = Callable[[pa.DataType], bool]
_CONVERSIONS: tuple[tuple[Is, Is, Callable[[Any, pa.DataType], Any]], ...] = (
    (lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind), pa.types.is_integer, _cast),
    (lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind), pa.types.is_floating, _to_float),
    (lambda kind: pa.types.is_integer(kind) or pa.types.is_decimal(kind), pa.types.is_decimal, _to_decimal),
    (pa.types.is_boolean, pa.types.is_boolean, _cast),
    (pa.types.is_date, pa.types.is_date, _cast),
    (pa.types.is_time, pa.types.is_time, _cast),
    (_has_zone, _has_zone, _to_unit),
    (_has_no_zone, _has_no_zone, _to_unit),
    (_is_text, _is_text, _cast),
    (lambda kind: _is_text(kind) or _is_bytes(kind), lambda kind: kind == pa.large_binary(), _cast),
    (_is_bytes, _is_text, _cast),
    (_is_bytes, pa.types.is_fixed_size_binary, _to_fixed),
    (_is_text, lambda kind: kind == pa.binary(16), uuids_of_text),
)
