"""Changes between snapshots as the difference of two full scans, which is compared row by row in Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue, IsNull, NotNull

from puffin_fast.iceberg.plan.files import plan_snapshot
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.scan.file_reader import reader_factory
from puffin_fast.rows.scan.located_rows import LocatedRows
from tests.kit.rows import delta_rows

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tests.kit.histories.machine import History

__all__ = ["SIGNS", "Lines", "Row", "State", "check_changes", "expected", "frozen", "lines_of", "signed"]

Row = tuple[Any, ...]
Lines = Counter[tuple[str, Row]]
"""Kinds of change with rows."""

SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
PLACES = ("_file", "_pos")

States = list[tuple[int | None, Row]]
"""Rows with their row ids."""


@dataclass(frozen=True)
class State:
    """The rows of a snapshot in the table's present columns.

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
        names = ["_row_id", *PLACES]
        found = LocatedRows.read(reader_factory(table, every), schema.fields, tasks, names, threads=1)
        ids, files, positions = (found.metadata[name].to_pylist() for name in names)
        first = {task.data.file_path: task.data.first_row_id for task in tasks}
        rows = [*zip(ids, rows_of(found.rows), strict=True)]
        return cls(rows, [*zip(files, positions, strict=True)], first)

    @classmethod
    def of_delta(cls, path: Any, version: int | None) -> State:
        """Reads a version of a Delta table; None is the empty table."""
        if version is None:
            return cls()
        found = delta_rows(path, version)
        return cls([*zip(found.metadata["_row_id"].to_pylist(), rows_of(found.rows), strict=True)])

    def ids_of(self, other: State, *, newer: bool) -> States:
        """The rows with the ids that they have in another state, where both states have the data file.

        A data file of a table of version 2 gets row ids by a later snapshot; two branches give it different ones.

        Args:
            other: the other state.
            newer: whether its row ids count if both states have some.
        """
        if not self.places:
            return self.rows
        found: States = []
        for (row_id, row), (file, position) in zip(self.rows, self.places, strict=True):
            mine, theirs = self.first.get(file), other.first.get(file)
            is_own = row_id is None or (newer and mine is not None and row_id == mine + position)
            found.append((theirs + position if is_own and theirs is not None else row_id, row))
        return found

    def lines_to(self, after: State) -> Lines:
        """The lines from this state to another."""
        return expected(self.ids_of(after, newer=True), after.ids_of(self, newer=False))


def rows_of(table: Any) -> list[Row]:
    return [tuple(map(frozen, row.values())) for row in table.to_pylist()]


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
    return Counter((row[at], row[:at]) for row in rows_of(rows))


def signed(lines: Lines) -> Counter[Row]:
    """The sum of lines: how often a row came, or went if it is negative; without zeros."""
    found: Counter[Row] = Counter()
    for (kind, row), n in lines.items():
        found[row] += SIGNS[kind] * n
    return Counter({row: n for row, n in found.items() if n})


def check_changes(history: History, chance: random.Random, n_pairs: int = 4, *, whole: bool = True) -> None:
    """Compares the changes of each commit of each branch, of whole branches, and between pairs of snapshots.

    Args:
        history: with the snapshots.
        chance: chooses pairs and options.
        n_pairs: how many pairs of any two snapshots.
        whole: whether all commits are compared, not the last one only.
    """
    for chain in history.chains():
        each: Lines = Counter()
        for before, after in pairwise(chain if whole else chain[-2:]):
            assert after is not None
            found = history.changes(before, after)
            lines, wanted = lines_of(found), history.state(before).lines_to(history.state(after))
            assert lines == wanted, (before, after, lines - wanted, wanted - lines)
            assert found.count() == lines.total()
            each += lines
        if whole and len(chain) > 1 and chain[-1] is not None:
            for limit in (None, "20000"):
                found = history.changes(chain[0], chain[-1], held_bytes=limit)
                lines = lines_of(found)
                assert lines == each, (limit, lines - each, each - lines)
                assert found.count() == each.total()
            assert signed(each) == signed(history.state(chain[0]).lines_to(history.state(chain[-1])))
    known = history.known()
    for _ in range(n_pairs if known else 0):
        check_net(history, chance.choice([None, *known]), chance.choice(known), chance)


def check_net(history: History, before: int | None, after: int, chance: random.Random) -> None:
    """Net changes between any two snapshots: whole, apart, with a filter, of some columns, by a key."""
    old, new = history.state(before), history.state(after)
    net = history.changes(before, after, net=True)
    lines, wanted = lines_of(net), old.lines_to(new)
    assert lines == wanted, (before, after, lines - wanted, wanted - lines)
    assert net.count() == lines.total()
    apart = lines_of(history.changes(before, after, net=True, updates=False))
    assert signed(apart) == signed(lines)
    assert {kind for kind, _ in apart} <= {"insert", "delete"}
    sides = old.ids_of(new, newer=True), new.ids_of(old, newer=False)
    names = list(history.own())
    at = chance.randrange(len(names))
    for row_filter, is_null in ((IsNull(names[at]), True), (NotNull(names[at]), False)):
        found = history.changes(before, after, net=True, row_filter=row_filter)
        left = [[one for one in side if (one[1][at] is None) == is_null] for side in sides]
        lines, wanted = lines_of(found), expected(*left)
        assert lines == wanted, (before, after, row_filter, lines - wanted, wanted - lines)
        assert found.count() == lines.total()
    chosen: Sequence[str] = chance.sample(names, chance.randrange(1, len(names) + 1))
    places = sorted(names.index(name) for name in chosen)
    some = [[(id, tuple(row[at] for at in places)) for id, row in side] for side in sides]
    lines, wanted = (
        lines_of(history.changes(before, after, net=True, selected_fields=chosen)),
        expected(*some),
    )
    assert lines == wanted, (before, after, chosen, lines - wanted, wanted - lines)
    key = history.name("id")
    lines, at = lines_of(history.changes(before, after, net=True, join_cols=key)), names.index(key)
    assert signed(lines) == signed(old.lines_to(new))
    deleted, inserted = ({row[at] for kind, row in lines if kind == word} for word in ("delete", "insert"))
    assert not deleted & inserted, (before, after, deleted & inserted)
