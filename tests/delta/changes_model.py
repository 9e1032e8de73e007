"""Tables, readers and cases that several tests share with `test_changes_model`."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from puffin_fast import delta
from puffin_fast.delta.log.segment import commit_path
from tests.conftest import require_module
from tests.delta.tables import rows_and_ids
from tests.iceberg.changelog.states import SIGNS, Row, expected, frozen, lines_of, signed

SCHEMA = pa.schema([("id", pa.int64()), ("g", pa.string()), ("x", pa.float64())])


KINDS: dict[str, tuple[dict[str, str], list[str]]] = {
    "plain": ({}, []),
    "feed": ({"delta.enableChangeDataFeed": "true"}, ["g"]),
    "tracked": ({"delta.enableRowTracking": "true"}, ["g"]),
    "mapped": (
        {
            "delta.enableRowTracking": "true",
            "delta.enableChangeDataFeed": "true",
            "delta.columnMapping.mode": "name",
        },
        [],
    ),
}


REFUSED = ("duplicate", "more than one", "key", "restore")
"""What is refused because of the table's rows."""


class History:
    """A table, changed at random."""

    def __init__(self, path: Path, kind: str, seed: int) -> None:
        self.path, self.chance, self.log = str(path), random.Random(seed), [kind]
        properties, partition = KINDS[kind]
        self.foreign, self.has_feed = kind in ("plain", "feed"), kind == "feed"
        delta.create_table(self.path, SCHEMA, properties=properties, partition_columns=partition)

    def rows(self) -> pa.Table:
        ids = self.chance.sample(range(30), self.chance.randrange(1, 8))
        rows = [
            {"id": id, "g": self.chance.choice(["a", "b", None]), "x": self.chance.randrange(4) / 2}
            for id in ids
        ]
        return pa.Table.from_pylist(rows, SCHEMA)

    def where(self) -> str:
        n = self.chance.randrange(30)
        return self.chance.choice([f"id < {n}", f"id = {n}", "x = 1.5", "g = 'a'", "g is null", f"id > {n}"])

    def step(self) -> None:
        verb = self.chance.choice(self.verbs())
        try:
            verb()
        except Exception as error:
            if not any(part in str(error) for part in REFUSED):
                raise
            self.log.append(f"refused: {error}")

    def verbs(self) -> list[Callable[[], Any]]:
        verbs: list[Callable[[], Any]] = [
            lambda: delta.append(self.path, self.rows()),
            lambda: delta.append(self.path, self.rows()),
            lambda: delta.delete(self.path, self.where()),
            lambda: delta.update(self.path, self.where(), {"x": self.chance.randrange(4) / 2}),
            lambda: delta.upsert(self.path, self.rows(), ["id", "g"]),
            lambda: delta.overwrite(self.path, self.rows(), self.where()),
            lambda: delta.purge(self.path, min_deleted=0.01),
            self.transaction,
        ]
        if self.foreign:
            table = require_module("deltalake").DeltaTable(self.path)
            write = require_module("deltalake").write_deltalake
            verbs += [
                lambda: write(table, self.rows(), mode="append"),
                lambda: write(table, self.rows(), mode="overwrite"),
                lambda: table.restore(self.chance.randrange(max(table.version(), 1))),
                lambda: table.delete(self.where()),
                lambda: table.update(predicate=self.where(), updates={"x": "x + 0.5"}),
                lambda: self.merge(table),
                lambda: table.optimize.compact(),
            ]
        return verbs

    def merge(self, table: Any) -> None:
        merger = table.merge(self.rows(), "t.id = s.id", source_alias="s", target_alias="t")
        merger.when_matched_delete(
            "t.x = 1.5"
        ).when_matched_update_all().when_not_matched_insert_all().execute()

    def transaction(self) -> None:
        with delta.transaction(self.path) as transaction:
            transaction.delete(self.where())
            transaction.append(self.rows())

    def states(self) -> list[list[tuple[int | None, Row]]]:
        """The rows of each version with their row ids, after those of the empty table."""
        found: list[list[tuple[int | None, Row]]] = [[]]
        for version in range(delta.snapshot(self.path).version + 1):
            read = rows_and_ids(self.path, version)
            rows = [tuple(map(frozen, row.values())) for row in read.rows.to_pylist()]
            found.append(list(zip(read.metadata["_row_id"].to_pylist(), rows, strict=True)))
        return found

    def check(self) -> None:
        states = self.states()
        for version, (before, after) in enumerate(pairwise(states)):
            wanted = expected(before, after)
            by_rows = delta.changes(self.path, version, version, selected_fields=["*", "_pos"])
            assert lines_of(by_rows) == wanted, version
            found = delta.changes(self.path, version, version)
            lines = lines_of(found)
            assert signed(lines) == signed(wanted), version
            assert found.count() == lines.total()
            assert signed(lines_of(delta.changes(self.path, version, version, updates=False))) == signed(
                wanted
            )
        whole = lines_of(delta.changes(self.path))
        assert signed(whole) == signed(expected(states[0], states[-1]))
        for _ in range(6):
            first, last = self.chance.randrange(len(states)), self.chance.randrange(1, len(states))
            net = delta.changes(self.path, first, last - 1, net=True)
            lines = lines_of(net)
            assert lines == expected(states[first], states[last]), (first, last)
            assert net.count() == lines.total()
        self.check_filter(states)

    def check_filter(self, states: list[list[tuple[int | None, Row]]]) -> None:
        """A filter chooses lines by their own values."""
        first = self.chance.randrange(len(states) - 1)
        found = signed(lines_of(delta.changes(self.path, first, row_filter="x = 1.5")))
        net = signed(expected(states[first], states[-1]))
        if self.has_feed:
            self.check_feed()
        assert found == Counter({row: n for row, n in net.items() if row[2] == "1.5"})

    def check_feed(self) -> None:
        """The lines of each version in the feed are these, besides equal deletes and inserts."""
        feeds = (self.feed(), delta.changes(self.path))
        sums = []
        for feed in feeds:
            found: Counter[tuple[int, Row]] = Counter()
            for row in pa.table(feed).to_pylist():
                values = tuple(frozen(row[name]) for name in SCHEMA.names)
                found[row["_commit_version"], values] += SIGNS[row["_change_type"]]
            sums.append({key: n for key, n in found.items() if n and self.is_read_right(key[0])})
        assert sums[0] == sums[1]

    def feed(self) -> Any:
        """The change data feed as another engine reads it."""
        return require_module("deltalake").DeltaTable(self.path).load_cdf()

    def is_read_right(self, version: int) -> bool:
        """Whether it reads a version right.

        Of a file that is only added or only removed deltalake returns the deleted rows, not the live ones.
        """
        return not self.has_unpaired_vector(version)

    @cache  # noqa: B019 - lives as long as the test
    def has_unpaired_vector(self, version: int) -> bool:
        text = (Path(self.path) / commit_path(version)).read_text()
        files = [
            one
            for line in text.splitlines()
            for one in json.loads(line).items()
            if one[0] in ("add", "remove")
        ]
        paths = Counter(action["path"] for _, action in files)
        return any("deletionVector" in action and paths[action["path"]] == 1 for _, action in files)
