"""Changes of random histories of tables: the same as two full scans, compared.

The histories are those of `tests.iceberg.dml.test_model`: all verbs, branches, schema changes, partition evolution,
upgrades, foreign delete files, rewrites. ``PUFFIN_FAST_HISTORIES`` says how many there are; 6 by default.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from puffin_fast import iceberg
from puffin_fast.errors import NotFoundError
from tests.iceberg.changelog.states import expected, lines_of, signed, state
from tests.iceberg.dml.test_model import Machine

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

    from tests.iceberg.changelog.states import Row

HISTORIES = int(os.environ.get("PUFFIN_FAST_HISTORIES", "6"))
STEPS = 24


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
    states: dict[int | None, list[tuple[int | None, Row]]] = {id: state(table, id) for id in known}
    states[None] = []
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
            wanted = expected(states[before], states[after])
            assert lines == wanted, (name, before, after, lines - wanted, wanted - lines)
            assert found.count() == lines.total()
            each += lines
        for limit in (None, "20000"):
            with limited(table, limit):
                found = iceberg.changes(table, chain[0], chain[-1])
                whole = lines_of(found)
                assert whole == each, (name, limit, whole - each, each - whole)
                assert found.count() == each.total()
        assert signed(whole) == signed(expected(states[chain[0]], states[chain[-1]]))
    ends = [*states]
    for _ in range(6):
        before, after = chance.choice(ends), chance.choice(ends)
        if after is None:
            before, after = after, before
        if after is None:
            continue
        net = iceberg.changes(table, before, after, net=True)
        lines, wanted = lines_of(net), expected(states[before], states[after])
        assert lines == wanted, (before, after, lines - wanted, wanted - lines)
        assert net.count() == lines.total()
        apart = lines_of(iceberg.changes(table, before, after, net=True, updates=False))
        assert signed(apart) == signed(lines)
        assert {kind for kind, _ in apart} <= {"insert", "delete"}


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_changes_are_the_difference_of_scans(racing: SqlCatalog, seed: int) -> None:
    machine = Machine(racing, seed)
    try:
        for _ in range(STEPS):
            machine.step()
        check_history(machine.table, random.Random(seed))
    except BaseException as error:
        error.add_note("\n".join(machine.log))
        raise
