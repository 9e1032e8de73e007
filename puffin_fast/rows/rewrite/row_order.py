"""The order of the rows of new data files: columns, directions and places of nulls.

Source: table specification, "Sorting": floating-point values are ordered as -NaN < -Infinity < -1 < -0 < 0 < 1 <
Infinity < NaN.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, Transform, TruncateTransform, UnknownTransform
from pyiceberg.types import IcebergType, IntegerType, LongType, PrimitiveType, UnknownType

from puffin_fast._api.arguments import check_texts
from puffin_fast._text import no_column
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.rows.filters.struct_path import structs_around, top_names
from puffin_fast.rows.keys.key_columns import column_of
from puffin_fast.rows.keys.transforms import floor_divided, transformed

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

_TEXT = re.compile(r"(.+?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class RowOrder:
    """An order of rows, bound to a table's current schema.

    Attributes:
        schema: the schema of the table.
        fields: at least one.
        order_id: the id of the table's sort order that is equal; None if it has none.
    """

    schema: Schema
    fields: tuple[SortField, ...]
    order_id: int | None

    @classmethod
    def of(cls, given: SortOrder | Sequence[str], metadata: TableMetadata) -> RowOrder:
        """Binds an order to a table.

        Args:
            given: as for `sort_fields`.

        Raises:
            NotFoundError, InvalidInputError, UnsupportedError: as `sort_fields`.
        """
        schema = metadata.schema()
        fields = sort_fields(given, schema, "sort_by")
        equal = (order.order_id for order in metadata.sort_orders if tuple(order.fields) == fields)
        return cls(schema, fields, next(equal, None))

    @classmethod
    def of_table(cls, metadata: TableMetadata) -> RowOrder | None:
        """The default sort order of a table, by which new rows are written.

        None if the table has none, or one that cannot be applied: its column was dropped or has no order, or its
        transform is unknown. Writers may leave rows as they are (specification, "Sort Orders").
        """
        order = metadata.sort_order_by_id(metadata.default_sort_order_id)
        if order is None or not order.fields:
            return None
        try:
            return replace(cls.of(order, metadata), order_id=order.order_id)
        except (InvalidInputError, NotFoundError, UnsupportedError):
            return None

    def indices(self, rows: pa.Table) -> pa.Array:
        """Returns the indexes of the rows in their order; equal rows stay in the given one.

        Args:
            rows: columns of the table by name, with at least one row; one chunk or several.
        """
        columns: dict[str, pa.Array] = {}
        keys: list[tuple[str, str]] = []
        names = [self.schema.find_column_name(field.source_id) or "" for field in self.fields]
        tops = top_names(self.schema, (field.source_id for field in self.fields))
        batch = rows.select([*tops]).combine_chunks().to_batches()[0]
        for number, (field, name) in enumerate(zip(self.fields, names, strict=True)):
            kind = self.schema.find_type(field.source_id)
            values = _sort_values(field.transform, kind, column_of(batch, name))
            if values.null_count:
                columns[f"valid{number}"] = values.is_valid().cast(pa.uint8())
                is_first = field.null_order == NullOrder.NULLS_FIRST
                keys.append((f"valid{number}", "ascending" if is_first else "descending"))
            columns[f"value{number}"] = _totally_ordered(values)
            is_descending = field.direction == SortDirection.DESC
            keys.append((f"value{number}", "descending" if is_descending else "ascending"))
        return pc.sort_indices(pa.table(columns), sort_keys=keys)


def sort_fields(given: SortOrder | Sequence[str], schema: Schema, what: str) -> tuple[SortField, ...]:
    """Returns the fields of an order of rows.

    Args:
        given: a PyIceberg sort order, as ``table.sort_order()``, or a text for each column: its name, then
            ``asc`` or ``desc``, then ``nulls first`` or ``nulls last``. As in PyIceberg, nulls are first in
            ascending order by default, and last in descending order.
        what: the argument, for errors.

    Raises:
        NotFoundError: the schema does not have a column.
        InvalidInputError: no column, or one whose type has no order.
        UnsupportedError: an unknown transform.
    """
    if isinstance(given, SortOrder):
        fields = tuple(given.fields)
    else:
        fields = tuple(_field(text, schema, what) for text in check_texts(what, given))
    if not fields:
        raise InvalidInputError(f"{what}: expected at least one column, found an order without fields")
    for field in fields:
        name = schema.find_column_name(field.source_id)
        if name is None:
            raise NotFoundError(f"{what}: no column with field id {field.source_id}")
        kind = schema.find_type(field.source_id)
        if structs_around(schema, field.source_id) is None:
            raise InvalidInputError(
                f"{what}: column {name} is inside of a list or map; rows cannot be sorted by it"
            )
        if isinstance(field.transform, UnknownTransform):
            raise UnsupportedError(f"{what}: column {name}: unknown transform {field.transform}")
        if (
            not isinstance(kind, PrimitiveType)
            or isinstance(kind, UnknownType)
            or not field.transform.can_transform(kind)
        ):
            raise InvalidInputError(f"{what}: column {name}: {field.transform} of {kind} has no order")
    return fields


def _sort_values(transform: Transform[Any, Any], kind: IcebergType, source: pa.Array) -> pa.Array:
    if isinstance(transform, TruncateTransform) and isinstance(kind, IntegerType | LongType):
        return floor_divided(source, transform.width)  # the least values have no truncated one
    return transformed(transform, kind, source)


def _field(text: str, schema: Schema, what: str) -> SortField:
    names = schema.column_names
    found = _TEXT.fullmatch(text.strip())
    column, direction, nulls = (text, None, None) if text in names or found is None else found.groups()
    try:
        source = schema.find_field(column)
    except ValueError:
        raise NotFoundError(f"{what} {text!r}: {no_column(column, names)}") from None
    given: dict[str, Any] = {} if nulls is None else {"null_order": NullOrder(f"nulls-{nulls.lower()}")}
    return SortField(
        source_id=source.field_id,
        transform=IdentityTransform(),
        direction=SortDirection((direction or "asc").lower()),
        **given,
    )


def _totally_ordered(values: pa.Array) -> pa.Array:
    """Floating-point values as integers of the same order: Arrow takes -0 for 0, and NaN for the last value always."""
    if not pa.types.is_floating(values.type):
        return values
    bits = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    numbers = bits.fill_null(0).to_numpy(zero_copy_only=False)
    ordered = np.where(numbers < 0, numbers ^ np.iinfo(numbers.dtype).max, numbers)
    return pa.array(ordered, bits.type, mask=values.is_null().to_numpy(zero_copy_only=False))
