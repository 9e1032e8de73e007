"""Updates of rows by a filter: deletes of the old rows and data files of the new ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast._api.arguments import check_flags
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.deletes.outcome import merge_rows, paths_of_rows
from puffin_fast.rows.filters.filters import Filter, RowFilter
from puffin_fast.rows.filters.struct_path import top_names
from puffin_fast.rows.match.assignments import Assignments
from puffin_fast.verbs.attempt import Attempt, Purpose
from puffin_fast.verbs.counts import Counts

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


@dataclass(frozen=True, eq=False)
class Update:
    """Sets columns of the rows for which a filter is true."""

    row_filter: Filter
    values: Mapping[str, Any]
    case_sensitive: bool = True

    def __post_init__(self) -> None:
        check_flags(case_sensitive=self.case_sensitive)

    def on(self, attempt: Attempt) -> Counts:
        schema = attempt.schema
        assignments = bound_values(self.values, schema, case_sensitive=self.case_sensitive)
        matcher = RowFilter.bind(self.row_filter, schema, case_sensitive=self.case_sensitive)
        writer = attempt.writer(
            Purpose("UPDATE", [str(self.row_filter)], matcher, isolation="update", inserts=True)
        )
        tasks = attempt.plan(matcher)
        found = attempt.located(matcher, tasks)
        rows = assignments.apply(found.rows)
        writer.delete(merge_rows(tasks, found.file, found.position, attempt.loader(), attempt.threads))
        row_ids = found.metadata["_row_id"] if attempt.lineage else pa.nulls(rows.num_rows, pa.int64())
        writer.insert(rows, row_ids, paths_of_rows(tasks, found.file))
        if writer.keeps_changes:
            writer.record("update_preimage", found.rows)
            writer.record("update_postimage", rows)
        staged = writer.stage(numUpdatedRows=rows.num_rows)
        return replace(staged, rows_updated=rows.num_rows)


def bound_values(values: Mapping[str, Any], schema: Schema, *, case_sensitive: bool) -> Assignments:
    """Binds the columns to set to the table's schema.

    Raises:
        NotFoundError, InvalidInputError: as `update`.
    """
    assignments = Assignments.bind(values, schema, case_sensitive=case_sensitive)
    if unique := sorted(top_names(schema, schema.identifier_field_ids) & assignments.values.keys()):
        raise InvalidInputError(
            f"values: column {unique[0]} is or has an identifier field; expected other columns, because its new values "
            "may not be unique"
        )
    return assignments
