"""Tables, readers and cases that several tests share with `test_changes_model`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

from pyiceberg.expressions import IsNull, NotNull

from puffin_fast import iceberg
from puffin_fast.errors import NotFoundError
from tests.iceberg.changelog.states import State, expected, lines_of, signed

if TYPE_CHECKING:
    from pyiceberg.table import Table

from tests.iceberg.changelog.states import Row


def expired(table: Table, first: int) -> bool:
    """Whether a snapshot without parent had one, which PyIceberg forgets when it expires."""
    try:
        iceberg.changes(table, None, first)
    except NotFoundError as error:
        return "has expired" in str(error)
    return False


@contextmanager
def limited(table: Table, limit: str | None) -> Iterator[None]:
    """Limits the memory of held rows, and of rows that are paired."""
    if limit is None:
        yield
        return
    table.io.properties["puffin-fast.limit.key-bytes"] = limit
    yield
    del table.io.properties["puffin-fast.limit.key-bytes"]


def check_history(table: Table, chance: random.Random) -> None:
    """Compares the changes of each snapshot of each branch, and between pairs of snapshots."""
    known = {s.snapshot_id: s for s in table.metadata.snapshots}
    states: dict[int | None, State] = {id: State.of(table, id) for id in [None, *known]}
    for name, reference in table.metadata.refs.items():
        first = reference.snapshot_id
        chain: list[int | None] = [first]
        while (parent := known[first].parent_snapshot_id) in known:
            first = parent
            chain.append(first)
        if parent is None and not expired(table, first):
            chain.append(None)
        chain.reverse()
        each: Counter[tuple[str, Row]] = Counter()
        for before, after in pairwise(chain):
            found = iceberg.changes(table, before, after)
            lines = lines_of(found)
            wanted = states[before].lines_to(states[after])
            assert lines == wanted, (name, before, after, lines - wanted, wanted - lines)
            assert found.count() == lines.total()
            each += lines
        for limit in (None, "20000"):
            with limited(table, limit):
                found = iceberg.changes(table, chain[0], chain[-1])
                whole = lines_of(found)
                assert whole == each, (name, limit, whole - each, each - whole)
                assert found.count() == each.total()
        assert signed(whole) == signed(states[chain[0]].lines_to(states[chain[-1]]))
    ends = [*states]
    for _ in range(6):
        before, after = chance.choice(ends), chance.choice(ends)
        if after is None:
            before, after = after, before
        if after is None:
            continue
        net = iceberg.changes(table, before, after, net=True)
        lines, wanted = lines_of(net), states[before].lines_to(states[after])
        assert lines == wanted, (before, after, lines - wanted, wanted - lines)
        assert net.count() == lines.total()
        apart = lines_of(iceberg.changes(table, before, after, net=True, updates=False))
        assert signed(apart) == signed(lines)
        assert {kind for kind, _ in apart} <= {"insert", "delete"}
        check_options(table, before, after, states, chance)


def check_options(
    table: Table,
    before: int | None,
    after: int,
    states: dict[int | None, State],
    chance: random.Random,
) -> None:
    """A filter, some columns, and keys, of net changes."""
    old, new = states[before], states[after]
    sides = old.ids_of(new, newer=True), new.ids_of(old, newer=False)
    names = [field.name for field in table.schema().fields]
    at = chance.randrange(len(names))
    chosen = chance.sample(names, chance.randrange(1, len(names) + 1))
    places = sorted(names.index(name) for name in chosen)
    for row_filter, holds in (
        (IsNull(names[at]), lambda row: row[at] is None),
        (NotNull(names[at]), lambda row: row[at] is not None),
    ):
        found = iceberg.changes(table, before, after, net=True, row_filter=row_filter)
        left = [[one for one in side if holds(one[1])] for side in sides]
        lines, wanted = lines_of(found), expected(*left)
        assert lines == wanted, (before, after, row_filter, lines - wanted, wanted - lines)
        assert found.count() == lines.total()
    some = [[(id, tuple(row[at] for at in places)) for id, row in side] for side in sides]
    lines, wanted = (
        lines_of(iceberg.changes(table, before, after, net=True, selected_fields=chosen)),
        expected(*some),
    )
    assert lines == wanted, (before, after, chosen, lines - wanted, wanted - lines)
    key = next(field.name for field in table.schema().fields if field.field_id == 1)
    lines = lines_of(iceberg.changes(table, before, after, net=True, join_cols=key))
    assert signed(lines) == signed(states[before].lines_to(states[after]))
    at = names.index(key)
    deleted, inserted = ({row[at] for kind, row in lines if kind == word} for word in ("delete", "insert"))
    assert not deleted & inserted, (before, after, deleted & inserted)
