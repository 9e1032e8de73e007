"""Appends, and overwrites: given rows replace the rows of a filter or of partitions."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.transforms import IdentityTransform, VoidTransform

from puffin_fast._api.arguments import check_flags
from puffin_fast.columns.arrow_rows import arrow_rows
from puffin_fast.errors import InvalidInputError, UnsupportedError
from puffin_fast.rows.filters.filters import Filter, Matcher, RowFilter
from puffin_fast.rows.keys.keys import Keys
from puffin_fast.rows.match.given_rows import RowWriterSchema
from puffin_fast.verbs.attempt import Attempt, Purpose
from puffin_fast.verbs.counts import Counts

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


@dataclass(frozen=True, eq=False)
class Append:
    """Appends rows.

    Attributes:
        data: the caller's rows. A stream is read once: an append has no conflicts, so it is not repeated.
    """

    data: Any

    def on(self, attempt: Attempt) -> Counts:
        streamed = attempt.metadata.spec().is_unpartitioned()
        rows = attempt.once(self, lambda: nullcontext(arrow_rows(self.data, "data", streamed=streamed)))
        writer = attempt.writer(Purpose("WRITE", inserts=True))
        if attempt.dry_run:
            writer.check(rows.schema)
        else:
            writer.insert(rows)
        return writer.stage()


@dataclass(frozen=True, eq=False)
class Overwrite:
    """Deletes the rows for which a filter is true, and appends rows."""

    rows: pa.Table
    row_filter: Filter
    case_sensitive: bool = True

    def __post_init__(self) -> None:
        check_flags(case_sensitive=self.case_sensitive)

    def on(self, attempt: Attempt) -> Counts:
        matcher = RowFilter.bind(self.row_filter, attempt.schema, case_sensitive=self.case_sensitive)
        RowWriterSchema(attempt.schema, self.rows.schema)
        return _overwritten(attempt, matcher, self.rows, str(self.row_filter))


@dataclass(frozen=True, eq=False)
class DynamicPartitionOverwrite:
    """Deletes all rows of the partitions that the given rows belong to, and appends these rows."""

    rows: pa.Table

    def on(self, attempt: Attempt) -> Counts:
        columns = _partition_columns(attempt.metadata, attempt.name)
        rows = RowWriterSchema(attempt.schema, self.rows.schema).table(self.rows)
        keys = Keys.bind(attempt.metadata, rows, columns, null_safe=True)
        return _overwritten(attempt, keys, rows, f"partition ({', '.join(columns)}) in data")


def _overwritten(attempt: Attempt, matcher: Matcher, rows: pa.Table, predicate: Any) -> Counts:
    writer = attempt.writer(Purpose("WRITE", [predicate], matcher, isolation="update", inserts=True))
    writer.delete(attempt.finder(matcher).search(attempt.plan(matcher), attempt.threads, attempt.workers))
    writer.insert(rows)
    return replace(writer.stage(), rows_appended=rows.num_rows)


def _partition_columns(metadata: TableMetadata, name: str) -> list[str]:
    """The columns of a table's partition spec."""
    fields = [field for field in metadata.spec().fields if not isinstance(field.transform, VoidTransform)]
    if not fields:
        raise InvalidInputError(
            f"{name}: expected a partitioned table, found none; `overwrite` takes a row filter"
        )
    for field in fields:
        if not isinstance(field.transform, IdentityTransform):
            raise UnsupportedError(
                f"{name}: partition field {field.name}: expected an identity transform, found {field.transform}; "
                "`overwrite` takes a row filter"
            )
    found = (metadata.schema().find_column_name(field.source_id) for field in fields)
    return list(dict.fromkeys(column for column in found if column is not None))
