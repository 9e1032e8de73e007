"""The plain model of changes: two full scans, compared row by row in Python."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue

from puffin_fast.iceberg.plan.files import plan_snapshot
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.scan.file_reader import reader_factory
from puffin_fast.rows.scan.located_rows import LocatedRows

if TYPE_CHECKING:
    from pyiceberg.table import Table

Row = tuple[Any, ...]
Lines = Counter[tuple[str, Row]]
"""Kinds of change with rows."""

SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}


def state(table: Table, snapshot_id: int | None) -> list[tuple[int | None, Row]]:
    """The rows of a snapshot in the table's current schema, with their row ids."""
    if snapshot_id is None:
        return []
    schema = table.metadata.schema()
    every = RowFilter.bind(AlwaysTrue(), schema)
    plan = plan_snapshot(table, table.metadata.snapshot_by_id(snapshot_id), schema, every)
    found = LocatedRows.read(reader_factory(table, every), schema.fields, plan.tasks, ["_row_id"], threads=1)
    rows = [tuple(map(frozen, row.values())) for row in found.rows.to_pylist()]
    return list(zip(found.metadata["_row_id"].to_pylist(), rows, strict=True))


def frozen(value: Any) -> Any:
    """A value that a Counter can hold; floats by their text, so that NaN equals NaN."""
    return repr(value) if isinstance(value, float | list | dict) else value


def expected(before: list[tuple[int | None, Row]], after: list[tuple[int | None, Row]]) -> Lines:
    """The lines between two states: updates by row id; other equal rows cancel."""
    found: Lines = Counter()
    old = {row_id: row for row_id, row in before if row_id is not None}
    new = {row_id: row for row_id, row in after if row_id is not None}
    for row_id in old.keys() & new.keys():
        if old[row_id] != new[row_id]:
            found["update_preimage", old[row_id]] += 1
            found["update_postimage", new[row_id]] += 1
    left = Counter(row for row_id, row in before if row_id not in new)
    right = Counter(row for row_id, row in after if row_id not in old)
    found.update({("delete", row): n for row, n in (left - right).items()})
    found.update({("insert", row): n for row, n in (right - left).items()})
    return found


def lines_of(changes: Any) -> Lines:
    """The lines of changes."""
    rows = changes.to_arrow()
    at = rows.column_names.index("_change_type")
    values = [tuple(map(frozen, row.values())) for row in rows.to_pylist()]
    return Counter((row[at], row[:at]) for row in values)


def signed(lines: Lines) -> Counter[Row]:
    """The sum of lines: how often a row came, or went if it is negative; without zeros."""
    found: Counter[Row] = Counter()
    for (kind, row), n in lines.items():
        found[row] += SIGNS[kind] * n
    return Counter({row: n for row, n in found.items() if n})
