"""Deletes rows by key: reads the key columns only, and prunes files by the range of the keys.

Equality of keys: values are compared, also if the types of the two columns differ. NaN equals NaN and -0.0 equals
0.0, as in the joins of Spark and DuckDB. Null equals no key; with `null_safe` it equals null. A key that the
table's column cannot represent (3000000000 in a 32-bit column, microseconds in a column of days) equals no
value.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
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
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.types import (
    NestedField,
    TimestampNanoType,
    TimestamptzNanoType,
    UUIDType,
)

from puffin_fast._runtime.arguments import check_flags
from puffin_fast._runtime.threads import check_threads
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.deletes.writer import WrittenDeletes
from puffin_fast.iceberg.dml.delete_job import ConflictFilter, DeleteResult, OnConflict, start
from puffin_fast.iceberg.dml.row_search import Finder
from puffin_fast.iceberg.plan.files import FileTask
from puffin_fast.iceberg.predicate.bounds import TRUNCATED, Range, Sorted, decode_bound, literal_values
from puffin_fast.iceberg.predicate.key_columns import distinct_keys, key_fields, normalize_floats
from puffin_fast.iceberg.predicate.key_set import KeySet

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

__all__ = ["KeyBounds", "Keys", "delete_keys"]

MAX_PARTITION_LITERALS = 10_000
"""Maximum number of values of a partition column that are projected one by one; more are projected as a range."""


def delete_keys(
    table: Table,
    keys: Any,
    join_cols: str | Sequence[str] | None = None,
    *,
    null_safe: bool = False,
    branch: str = MAIN_BRANCH,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
) -> DeleteResult:
    """Deletes the rows whose key is in a table of keys, in one commit, without rewriting data files.

    Only the key columns are read, from data files and row groups whose bounds include a key. The distinct
    keys and one batch per thread are held in memory: at most 40 bytes for each key of one column of integers, dates or
    times, more for other keys (see "Many keys" in the guide). For more keys than fit, delete parts of them in one
    `transaction`.

    Args:
        table: a PyIceberg table of format version 3, or 2 (which gets position-delete files). It is refreshed
            first, and has the new metadata afterwards.
        keys: Arrow rows (table, batch, reader, or an object with the Arrow C stream interface). Other columns
            than the key columns and repeated keys are ignored.
        join_cols: the key column or columns: names in the table, dotted for a field of a struct, and the same in
            `keys` (a column of that dotted name, or a field of a struct). By default the identifier fields of
            the table's schema.
        null_safe: whether null equals null; otherwise a key with a null matches no row.
        branch: an existing branch.
        on_conflict, job_id, snapshot_properties, threads: as `delete`.
        dry_run: count rows and data files, write nothing.

    Returns:
        The counts; `snapshot_id` is None when no row matched.

    Raises:
        NotFoundError: the table or the keys do not have a column.
        InvalidInputError: there are no key columns, a column cannot be a key, or the type of the keys cannot
            be compared with that of the column.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.
    """
    check_threads(threads)
    check_flags(null_safe=null_safe, dry_run=dry_run)
    request = Request(
        verb="delete_keys", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties
    )
    job = start(table, request, oldest=2)
    table = job.table
    bound = Keys.bind(table.metadata, keys, join_cols, null_safe=null_safe)

    def work(tasks: list[FileTask], finder: Finder, conflict_filter: ConflictFilter) -> WrittenDeletes:
        found = finder.search(tasks, threads)
        return job.write(found, conflict_filter, dry_run=dry_run)

    return job.run_matcher(bound, work, on_conflict)


@dataclass(frozen=True)
class _Column:
    """The keys of one column, compared with the bounds of files.

    Attributes:
        field: of the table.
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


@dataclass(frozen=True)
class KeyBounds:
    """Bounds of keys that are not in memory: a `Matcher` that prunes files, but does not select rows.

    Attributes:
        expression: prunes manifests and partitions.
        field_ids: of the key columns.
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
            metadata: of the table.
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

    def may_match(self, schema: Schema, *, case_sensitive: bool = True) -> Callable[[Any], bool]:
        """Returns whether a file or row group (an object with the metrics of a `DataFile`) may contain a key."""
        return lambda entry: all(column.may_match(entry) for column in self._columns)

    def mask(self, columns: Mapping[int, pa.Array], n_rows: int) -> np.ndarray:
        """Returns a mask of the rows that may have a key: all rows."""
        return np.ones(n_rows, np.bool_)

    def strict_expression(self) -> BooleanExpression:
        """Returns false: metrics never prove that all rows match."""
        return AlwaysFalse()


@dataclass(frozen=True)
class Keys(KeyBounds):
    """Distinct keys bound to a table: a `Matcher`.

    Attributes:
        set: the keys, in the order of their first occurrence.
    """

    set: KeySet

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
            metadata: of the table.
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
        distinct = KeySet.of([field for _, field in fields], columns)
        columns = [(values, partial(distinct.sorted, at)) for at, values in enumerate(distinct.columns)]
        return cls(*_bounds(metadata, fields, columns), distinct)

    @property
    def batch_rows(self) -> int:
        """The number of rows of a batch from which on `mask` is efficient."""
        return self.set.batch_rows

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
        metadata: of the table.
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
    return reduce(And, ranges), ids, not len(columns[0][0]), tuple(parts)


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
    if has_null and ("." in name or field.required):
        return (
            column,
            AlwaysTrue(),
        )  # a required field is null where its struct is; IS NULL of a required field would be false
    if not len(values):
        return column, IsNull(term=term) if has_null else AlwaysFalse()
    if isinstance(field.field_type, TimestampNanoType | TimestamptzNanoType):
        return column, AlwaysTrue()  # PyIceberg has no literals of integers for nanosecond timestamps
    literals = literal_values(values) if len(values) <= many else list(ordered.ends())
    if isinstance(field.field_type, UUIDType):
        literals = [uuid.UUID(bytes=value) for value in literals]
    expression: BooleanExpression = In(term=term, values=literals)  # type: ignore[arg-type]
    if len(values) > many:
        low, high = literals
        expression = And(GreaterThanOrEqual(term=term, value=low), LessThanOrEqual(term=term, value=high))
    return column, Or(IsNull(term=term), expression) if has_null else expression
