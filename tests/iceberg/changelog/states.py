"""The plain model of changes: two full scans, compared row by row in Python."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
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


States = list[tuple[int | None, Row]]
"""Rows with their row ids."""


@dataclass(frozen=True)
class State:
    """The rows of a snapshot in the table's current schema.

    Attributes:
        rows: with their row ids.
        places: their data files and positions.
        first: the first row id of each data file; None for a file that was written before the table had any.
    """

    rows: States = field(default_factory=list)
    places: list[tuple[str, int]] = field(default_factory=list)
    first: dict[str, int | None] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, snapshot_id: int | None) -> State:
        """Reads a snapshot; None is the empty table."""
        if snapshot_id is None:
            return cls()
        schema = table.metadata.schema()
        every = RowFilter.bind(AlwaysTrue(), schema)
        tasks = plan_snapshot(table, table.metadata.snapshot_by_id(snapshot_id), schema, every).tasks
        names = ["_row_id", "_file", "_pos"]
        found = LocatedRows.read(reader_factory(table, every), schema.fields, tasks, names, threads=1)
        rows = [tuple(map(frozen, row.values())) for row in found.rows.to_pylist()]
        ids, files, positions = (found.metadata[name].to_pylist() for name in names)
        first = {task.data.file_path: task.data.first_row_id for task in tasks}
        return cls([*zip(ids, rows, strict=True)], [*zip(files, positions, strict=True)], first)

    def ids_of(self, other: State, *, newer: bool) -> States:
        """The rows with the ids that they have in another state, where both states have the data file.

        A data file of a table of version 2 gets row ids by a later snapshot; two branches give it different ones.

        Args:
            other: the other state.
            newer: whether its row ids count if both states have some.
        """
        found: States = []
        for (row_id, row), (file, position) in zip(self.rows, self.places, strict=True):
            mine, theirs = self.first.get(file), other.first.get(file)
            is_own = row_id is None or (newer and mine is not None and row_id == mine + position)
            found.append((theirs + position if is_own and theirs is not None else row_id, row))
        return found

    def lines_to(self, after: State) -> Lines:
        """The lines from this state to another."""
        return expected(self.ids_of(after, newer=True), after.ids_of(self, newer=False))


def frozen(value: Any) -> Any:
    """A value that a Counter can hold; floats by their text, so that NaN equals NaN."""
    return repr(value) if isinstance(value, float | list | dict) else value


def expected(before: States, after: States) -> Lines:
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
