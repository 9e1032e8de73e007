"""Keys bound to a table: select its rows, and prune files by the range of the keys.

Equality of keys: values are compared, also if the types of the two columns differ. NaN equals NaN and -0.0 equals
0.0, as in the joins of Spark and DuckDB. Null equals no key; with `null_safe` it equals null. A key that the
table's column cannot represent (3000000000 in a 32-bit column, microseconds in a column of days) equals no
value.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThanOrEqual,
    Or,
    Reference,
)
from pyiceberg.expressions.literals import FloatLiteral
from pyiceberg.types import (
    FloatType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestamptzNanoType,
    UUIDType,
)

from puffin_fast.rows.filters.bounds import TRUNCATED, Range, Sorted, decode_bound, literal_values
from puffin_fast.rows.filters.pruning import some_between
from puffin_fast.rows.keys.key_columns import distinct_keys, key_fields, normalize_floats
from puffin_fast.rows.keys.key_set import KeySet

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

    from puffin_fast.rows.filters.pruning import BoundColumns, Mask, Pruner

MAX_PARTITION_LITERALS = 10_000
"""Maximum number of values of a partition column that are projected one by one; more are projected as a range."""


@dataclass(frozen=True)
class _Column:
    """The keys of one column, compared with the bounds of files.

    Attributes:
        field: the field of the table.
        sorted: the distinct values in order; None if they cannot exclude a file.
        has_null: whether null is among them.
    """

    field: NestedField
    sorted: Sorted | Range | None
    has_null: bool

    def may_match(self, entry: Any) -> bool:
        if self.sorted is None:
            return True
        field_id = self.field.field_id
        nulls = (entry.null_value_counts or {}).get(field_id)
        if self.has_null and nulls != 0:
            return True
        values = (entry.value_counts or {}).get(field_id)
        if nulls is not None and values is not None and nulls == values > 0:
            return False
        raw = [(bounds or {}).get(field_id) for bounds in (entry.lower_bounds, entry.upper_bounds)]
        low, high = (decode_bound(self.field.field_type, bound) for bound in raw)
        if high is not None and isinstance(self.field.field_type, TimestampNanoType | TimestamptzNanoType):
            high += TRUNCATED
        return self.sorted.any_between(low, high)

    def may_match_each(self, parts: BoundColumns) -> Mask:
        if self.sorted is None or self.has_null:
            return np.ones(len(parts), np.bool_)
        is_text = isinstance(self.field.field_type, StringType)
        return some_between(parts, self.field, _Texts(self.sorted) if is_text else self.sorted)[0]


@dataclass(frozen=True)
class _Texts:
    """Strings that are compared with bounds of pages: bytes, which may end within a character."""

    values: Sorted | Range

    def between_each(self, lows: Any, highs: Any) -> Any:
        pairs = zip(map(_text, lows.tolist()), map(_text, highs.tolist()), strict=True)
        return np.fromiter((self.values.any_between(*pair) for pair in pairs), np.bool_, len(lows))


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


@dataclass(frozen=True)
class KeyBounds:
    """Bounds of keys that are not in memory: a `Matcher` of all rows of the files that it does not exclude.

    Attributes:
        expression: prunes manifests and partitions.
        field_ids: the field ids of the key columns.
        always_false: True if there are no keys.
    """

    expression: BooleanExpression
    field_ids: tuple[int, ...]
    always_false: bool
    _columns: tuple[_Column, ...]
    always_true: bool = field(default=False, kw_only=True)

    @classmethod
    def between(
        cls, metadata: TableMetadata, fields: list[tuple[str, NestedField]], ends: Sequence[Any]
    ) -> KeyBounds:
        """Returns the bounds of keys.

        Args:
            fields: the key columns.
            ends: for each column the lowest and the highest value (NaN is the highest), and a null if the
                keys have one, in any order, in its storage type.
        """
        columns = [(values, partial(Sorted.of, values.drop_null())) for values in map(pc.unique, ends)]
        return cls(*_bounds(metadata, fields, columns, ends_only=True))

    @property
    def batch_rows(self) -> int:
        """The number of rows of a batch from which on `mask` is efficient."""
        return 1

    @property
    def may_fail(self) -> bool:
        """Whether `mask` fails for some values: for none."""
        return False

    @property
    def coded(self) -> Collection[int]:
        """The fields whose columns may be dictionary arrays: none."""
        return ()

    @property
    def case_sensitive(self) -> bool:
        """How the names in `expression` are compared with those of the schema."""
        return True

    def may_match(self, schema: Schema) -> Callable[[Any], bool]:
        """Returns whether a file or row group (an object with the metrics of a `DataFile`) may contain a key."""
        return lambda entry: all(column.may_match(entry) for column in self._columns)

    def pruner(self, schema: Schema) -> Pruner:
        """Returns what leaves out parts without a key; see `RowFilter.pruner`."""
        return _KeyPruner(self._columns)

    def mask(self, columns: Mapping[int, pa.Array], n_rows: int) -> np.ndarray:
        """Returns a mask of the rows that may have a key: all rows."""
        return np.ones(n_rows, np.bool_)

    def equalities(self) -> Iterator[Mapping[int, pa.Array]]:
        """Yields nothing: the keys are not known."""
        return iter(())

    def strict_expression(self) -> BooleanExpression:
        """Returns false: metrics never prove that all rows match."""
        return AlwaysFalse()


@dataclass(frozen=True)
class _KeyPruner:
    """Leaves out pages by the key columns: a row is only wanted if each column may have a key."""

    columns: tuple[_Column, ...]

    def may_match(self, parts: BoundColumns) -> Mask:
        found: Mask = np.logical_and.reduce([column.may_match_each(parts) for column in self.columns])
        return found


class KeyEnds:
    """The lowest and the highest value of each key column of rows that are passed one after another."""

    def __init__(self) -> None:
        self._ends: list[pa.Array] = []

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Adds rows, whose columns `to_key_type` returned."""
        found = [_ends(column) for column in columns]
        if self._ends:
            found = [_ends(pa.concat_arrays(pair)) for pair in zip(self._ends, found, strict=True)]
        self._ends = found

    def bounds(self, metadata: TableMetadata, fields: list[tuple[str, NestedField]]) -> KeyBounds:
        """Returns the bounds of the keys of a table."""
        return KeyBounds.between(metadata, fields, self._ends)


def _ends(values: pa.Array) -> pa.Array:
    """The lowest and the highest of some values, and NaN and null if they have these."""
    found = pc.min_max(values)
    ends = [pa.repeat(end, 1) for end in found.values() if end.is_valid]
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        ends.append(pa.array([np.nan], values.type))
    if values.null_count:
        ends.append(pa.nulls(1, values.type))
    return pa.concat_arrays([values[:0], *ends])


@dataclass(frozen=True)
class Keys(KeyBounds):
    """Distinct keys bound to a table: a `Matcher`.

    Attributes:
        set: the keys.
        rows: if there are several key columns, their values by key.
    """

    set: KeySet
    rows: tuple[pa.Array | pa.ChunkedArray, ...] = field(default=(), kw_only=True)

    @classmethod
    def bind(
        cls,
        metadata: TableMetadata,
        keys: Any,
        join_cols: str | Sequence[str] | None,
        *,
        null_safe: bool = False,
    ) -> Keys:
        """Binds keys to the current schema of a table.

        Args:
            keys, join_cols, null_safe: as `delete_keys`.

        Raises:
            NotFoundError, InvalidInputError: as `delete_keys`.
        """
        fields = key_fields(metadata.schema(), join_cols)
        return cls.of(metadata, fields, distinct_keys(keys, fields, null_safe=null_safe))

    @classmethod
    def of(
        cls, metadata: TableMetadata, fields: list[tuple[str, NestedField]], columns: Sequence[Any]
    ) -> Keys:
        """Returns the keys of columns that `to_key_type` converted."""
        given, distinct = columns, KeySet.of([field for _, field in fields], columns)
        columns = [(values, partial(distinct.sorted, at)) for at, values in enumerate(distinct.columns)]
        rows = () if len(given) == 1 else tuple(given)
        return cls(*_bounds(metadata, fields, columns), distinct, rows=rows)

    @property
    def batch_rows(self) -> int:
        """The number of rows of a batch from which on `mask` is efficient."""
        return self.set.batch_rows

    def equalities(self) -> Iterator[Mapping[int, pa.Array]]:
        """Yields the keys as rows of their columns; see `RowFilter.equalities`."""
        columns = self.rows or self.set.columns
        whole = (c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns)
        yield dict(zip(self.field_ids, whole, strict=True))

    def mask(self, columns: Mapping[int, pa.Array], n_rows: int) -> np.ndarray:
        """Returns a mask of the rows whose key is in the set; arguments as `RowFilter.mask`."""
        return self.set.contains(normalize_floats(columns))


# Pruning ----------------------------------------------------------------------------------------------------


def _bounds(
    metadata: TableMetadata,
    fields: list[tuple[str, NestedField]],
    columns: Sequence[tuple[pa.Array, Callable[[], Sorted]]],
    *,
    ends_only: bool = False,
) -> tuple[BooleanExpression, tuple[int, ...], bool, tuple[_Column, ...]]:
    """Returns the first attributes of `KeyBounds`.

    Args:
        fields: the key columns.
        columns: for each its distinct values, and a function that returns them but null in order.
        ends_only: True if `columns` have only the lowest value, the highest value and null.
    """
    sources = {f.source_id for spec in metadata.specs().values() for f in spec.fields}
    parts, ranges = [], []
    for (name, column), (values, sort) in zip(fields, columns, strict=True):
        many = MAX_PARTITION_LITERALS if column.field_id in sources and not ends_only else 0
        part, expression = _pruned(name, column, values, sort, many=many)
        if ends_only and isinstance(part.sorted, Sorted) and len(part.sorted.values):
            part = replace(part, sorted=Range(*part.sorted.ends()))
        parts.append(part)
        ranges.append(expression)
    ids = tuple(column.field_id for _, column in fields)
    every = And(*ranges) if len(ranges) > 1 else ranges[0]
    return every, ids, not len(columns[0][0]), tuple(parts)


def _pruned(
    name: str, field: NestedField, values: pa.Array, sort: Callable[[], Sorted], *, many: int
) -> tuple[_Column, BooleanExpression]:
    """Returns the values to compare with bounds, and the expression for partitions and manifests."""
    has_null = bool(values.null_count)
    if has_null:
        values = values.drop_null()
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        return _Column(field, None, has_null), AlwaysTrue()  # bounds do not include NaN
    ordered, term = sort(), Reference(name)
    column = _Column(field, ordered, has_null)
    # a required field is null where its struct is; IS NULL of a required field would be false
    if has_null and ("." in name or field.required):
        return column, AlwaysTrue()
    if not len(values):
        return column, IsNull(term=term) if has_null else AlwaysFalse()
    if isinstance(field.field_type, TimestampNanoType | TimestamptzNanoType):
        return column, AlwaysTrue()  # PyIceberg has no literals of integers for nanosecond timestamps
    each = len(values) <= many
    literals = literal_values(values) if each else list(ordered.ends())
    if isinstance(field.field_type, UUIDType):
        literals = [uuid.UUID(bytes=value) for value in literals]
    elif isinstance(field.field_type, FloatType):
        literals = [
            FloatLiteral(value) for value in literals
        ]  # a value out of the range of floats becomes infinity
    if each:
        expression: BooleanExpression = In(term=term, values=literals)  # type: ignore[arg-type]
    else:
        low, high = literals
        expression = And(GreaterThanOrEqual(term=term, value=low), LessThanOrEqual(term=term, value=high))
    return column, Or(IsNull(term=term), expression) if has_null else expression
