"""Columns of given rows that are no data: whether a row deletes its key, and in which order rows of one key came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._api.arguments import check_name
from puffin_fast.columns.plain_types import one_array
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.rows.match.same_values import same_values

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


@dataclass(frozen=True)
class ChangeFeed:
    """The columns by which given rows are a change feed.

    Attributes:
        delete_column: a column of booleans: whether the row deletes its key.
        order_column: if several rows have one key, the last one by this column counts. If several last rows are equal,
            or all of them delete the key, one of them counts.

    Raises:
        InvalidInputError: a name is not a string, or both are the same.
    """

    delete_column: str | None = None
    order_column: str | None = None

    def __post_init__(self) -> None:
        check_name("delete_column", self.delete_column)
        check_name("order_column", self.order_column)
        if self.delete_column is not None and self.delete_column == self.order_column:
            raise InvalidInputError(
                f"order_column: expected another column than delete_column, found {self.order_column!r} for both"
            )

    def __bool__(self) -> bool:
        return self.delete_column is not None or self.order_column is not None

    def without(self, rows: pa.Table, schema: Schema) -> pa.Table:
        """Returns the rows without the columns of the feed that the table does not have."""
        known = {field.name for field in schema.fields}
        mine = {self.delete_column, self.order_column}
        names = enumerate(rows.column_names)  # not by name: two columns may have one, which is refused later
        return rows.select([at for at, name in names if name in known or name not in mine])

    def deletes(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Returns a mask of the rows that delete their key.

        Raises:
            NotFoundError: the rows do not have the column.
            InvalidInputError: it is not of booleans, or has a null.
        """
        if self.delete_column is None:
            return np.zeros(rows.num_rows, np.bool_)
        column = _column(rows, "delete_column", self.delete_column)
        if len(column) and not pa.types.is_boolean(column.type):
            raise InvalidInputError(
                f"data: delete_column {self.delete_column}: expected booleans, found {column.type}"
            )
        _refuse_nulls(column, "delete_column", self.delete_column)
        found: npt.NDArray[np.bool_] = column.to_numpy(zero_copy_only=False).astype(np.bool_)
        return found

    def order(self, rows: pa.Table) -> pa.Array:
        """Returns the values by which the rows of a key are ordered; there is an `order_column`.

        Raises:
            NotFoundError, InvalidInputError: as `last`, but two last rows.
        """
        name = self.order_column or ""
        column = _column(rows, "order_column", name)
        if pa.types.is_nested(column.type):
            raise InvalidInputError(
                f"data: order_column {name}: expected values with an order, found {column.type}"
            )
        _refuse_nulls(column, "order_column", name)
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            raise InvalidInputError(f"data: order_column {name}: expected values with an order, found NaN")
        return column

    def last(self, rows: pa.Table, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Returns the numbers of the rows that are the last of their key, in their order.

        Args:
            rows: the given rows.
            keys: for each row the number of its key.

        Raises:
            NotFoundError: the rows do not have the column.
            InvalidInputError: values of the column have no order, there is a null or NaN, or a key has two last rows
                that are not one.
        """
        if self.order_column is None:
            return np.arange(rows.num_rows)
        column = self.order(rows)
        ranks = _ranks(column, self.order_column)
        by_key = np.lexsort((ranks, keys))
        keys, ranks = keys[by_key], ranks[by_key]
        ends = np.flatnonzero(np.diff(keys, append=-1))
        last = ranks[ends[np.searchsorted(ends, np.arange(len(keys)))]]
        tied = np.flatnonzero((keys[1:] == keys[:-1]) & (ranks[:-1] == last[:-1]))
        differ = tied[~same_changes(rows, self.deletes(rows), by_key[tied], by_key[tied + 1])]
        if len(differ):
            raise InvalidInputError(
                f"data: order_column {self.order_column}: several rows of one key have its last value; "
                "expected one of them, or equal rows"
            )
        found: npt.NDArray[np.int64] = np.sort(by_key[ends])
        return found


def same_changes(
    rows: pa.Table,
    deletes: npt.NDArray[np.bool_],
    left: npt.NDArray[np.int64],
    right: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """Returns whether pairs of rows with one key are the same change: they are equal, or both delete the key.

    Args:
        rows: rows of plain types.
        deletes: mask of the rows that delete their key.
        left, right: numbers of the rows of each pair.
    """
    same = np.ones(len(left), np.bool_)
    for column in rows.columns:
        values = one_array(column)
        same &= same_values(values.take(pa.array(left)), values.take(pa.array(right)))
    return same | (deletes[left] & deletes[right])


def _column(rows: pa.Table, argument: str, name: str) -> pa.Array:
    found: Sequence[int] = rows.schema.get_all_field_indices(name)
    if not found:
        raise NotFoundError(f"{argument}: no column {name} in data, found {', '.join(rows.column_names)}")
    if len(found) > 1:
        raise InvalidInputError(f"data: column {name}: expected once, found {len(found)}")
    column = rows.column(found[0])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return one_array(column)


def _refuse_nulls(column: pa.Array, argument: str, name: str) -> None:
    if column.null_count:
        raise InvalidInputError(
            f"data: {argument} {name}: expected no null, found {column.null_count} of {len(column)} rows"
        )


def _ranks(column: pa.Array, name: str) -> npt.NDArray[np.int64]:
    """The rank of each value; equal values have equal ranks."""
    if not len(column):
        return np.zeros(0, np.int64)
    try:
        order = pc.sort_indices(column)
        values = column.take(order)
        changes = pc.not_equal(values[1:], values[:-1]).to_numpy(zero_copy_only=False)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise InvalidInputError(
            f"data: order_column {name}: expected values with an order, found {column.type}"
        ) from error
    ranks = np.zeros(len(column), np.int64)
    ranks[order.to_numpy()[1:]] = np.cumsum(changes)
    return ranks
