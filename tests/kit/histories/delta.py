"""Histories of Delta tables: plain, with a change data feed, row tracking, column mapping; deltalake writes, too."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from puffin_fast import delta
from puffin_fast.delta.log.segment import commit_path
from tests.conftest import require_module
from tests.kit.changes import SIGNS, State, expected, frozen, lines_of, signed
from tests.kit.histories.machine import COLUMNS, LINEAGE, History, Nothing, Row, Rows, operation
from tests.kit.rows import by_deltalake, delta_rows

PROPERTIES: dict[str, tuple[dict[str, str], list[str]]] = {
    "plain": ({}, []),
    "feed": ({"delta.enableChangeDataFeed": "true"}, ["s"]),
    "tracked": ({"delta.enableRowTracking": "true"}, ["s"]),
    "mapped": (
        {
            "delta.enableRowTracking": "true",
            "delta.enableChangeDataFeed": "true",
            "delta.columnMapping.mode": "name",
        },
        [],
    ),
}
"""The properties of tables, and the columns by which they are partitioned."""


class DeltaHistory(History):
    """A table in a folder.

    Args:
        path: of the table.
        seed: of choices that are no operation's.
        kind: of `PROPERTIES`.
    """

    api: ClassVar[Any] = delta
    texts: tuple[str | None, ...] = (None, "a", "b", "b/ %", "ü")  # an empty partition value is null

    def __init__(self, path: Path, seed: int, kind: str) -> None:
        super().__init__(seed)
        self.target, self.kind = str(path), kind
        if kind == "feed":  # of encoded paths deltalake reads no feed
            self.texts = (None, "a", "b")
        properties, self.by = PROPERTIES[kind]
        made = delta.create_table(self.target, COLUMNS, properties=properties, partition_columns=self.by)
        assert made.version == 0
        self.is_tracked = "delta.enableRowTracking" in properties
        self.snapshots[0] = {}
        self._states: dict[int | None, State] = {}

    # The table ---------------------------------------------------------------------------------------------

    def on(self, branch: str) -> dict[str, Any]:
        return {}

    def present(self) -> Any:
        return delta.snapshot(self.target)

    def own(self) -> dict[str, str]:
        return {name: name for name in COLUMNS.names}

    def arrow(self, rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist([{name: row[name] for name in COLUMNS.names} for row in rows], COLUMNS)

    def partition(self) -> list[str] | None:
        return self.by

    def read(self, snapshot_id: int | None = None, branch: str = "main") -> Rows:
        found = delta_rows(self.target, snapshot_id)
        lineage = zip(*(found.metadata[name].to_pylist() for name in LINEAGE), strict=True)
        rows = [
            {**row, **dict(zip(LINEAGE, of, strict=True))}
            for row, of in zip(found.rows.to_pylist(), lineage, strict=True)
        ]
        numbered = {row["row"]: row for row in rows}
        assert len(numbered) == len(rows), "a row twice"
        return numbered

    def compare(self, branch: str | None, snapshot_id: int, rows: Rows) -> None:
        names = (*COLUMNS.names, *LINEAGE)
        wanted = {n: {name: row.get(name) for name in names} for n, row in rows.items()}
        self.same(self.read(snapshot_id), wanted, f"version {snapshot_id}")
        plain = delta.scan(self.target, snapshot_id=snapshot_id).to_arrow().to_pylist()
        assert {row["row"]: frozen(row) for row in plain} == {
            n: frozen({name: row[name] for name in COLUMNS.names}) for n, row in rows.items()
        }

    def check_commit(self, before: Any) -> None:
        now, rows = delta.snapshot(self.target), self.branches["main"]
        assert now.version - before.version in ((0, 1, 2) if self.adopts else (0, 1))
        if now.version == before.version:
            return
        fresh = range(self.next_row_id(before), self.next_row_id(now)) if self.is_tracked else None
        self.give_lineage(rows, self.read(), now.version, fresh)
        self.snapshots[now.version] = {n: dict(row) for n, row in rows.items()}
        self.compare("main", now.version, rows)
        assert delta.verify(self.target) == []

    def next_row_id(self, snapshot: Any) -> int:
        """The first row id that no row has had."""
        domain = snapshot.domain_metadata.get("delta.rowTracking")
        return 0 if domain is None else int(json.loads(domain["configuration"])["rowIdHighWaterMark"]) + 1

    def known(self) -> list[int]:
        return [*range(delta.snapshot(self.target).version + 1)]

    def state(self, snapshot_id: int | None) -> State:
        if snapshot_id not in self._states:
            self._states[snapshot_id] = State.of_delta(self.target, snapshot_id)
        return self._states[snapshot_id]

    def chains(self) -> Iterator[list[int | None]]:
        yield [None, *self.known()]

    def changes(self, before: int | None, after: int, **options: Any) -> Any:
        options.pop("held_bytes", None)
        if not options:  # else versions with a feed have its lines, which may be others of the same rows
            options["selected_fields"] = ["*", "_pos"]
        return delta.changes(self.target, before, after, **options)

    def finish(self) -> None:
        super().finish()
        whole = signed(expected([], self.state(self.known()[-1]).rows))
        for version in self.known():
            found = delta.changes(self.target, version - 1 if version else None, version)
            lines = lines_of(found)
            net = signed(self.state(version - 1 if version else None).lines_to(self.state(version)))
            assert signed(lines) == net, version
            assert found.count() == lines.total()
        apart = delta.changes(self.target, updates=False)
        assert signed(lines_of(apart)) == whole
        assert signed(lines_of(delta.changes(self.target))) == whole
        few = signed(lines_of(delta.changes(self.target, row_filter="x = 1.5")))
        assert few == Counter({row: n for row, n in whole.items() if row[3] == "1.5"})
        self.check_feed()
        self.check_files()

    def foreign(self) -> None:
        """The rows as deltalake reads them."""
        if not self.has_deltalake():
            return
        rows = self.branches["main"]
        expected_rows = [{name: rows[n][name] for name in COLUMNS.names} for n in sorted(rows)]
        assert frozen(by_deltalake(self.target, *COLUMNS.names, order="row")) == frozen(expected_rows)

    def has_deltalake(self) -> bool:
        """Whether deltalake reads and writes tables of this kind."""
        return self.kind in ("plain", "feed")

    def check_files(self) -> None:
        """Each data file is in a version."""
        log = "".join(file.read_text() for file in (Path(self.target) / "_delta_log").glob("*.json"))
        for path in Path(self.target).rglob("*.parquet"):
            if "_delta_log" not in path.parts and not path.name.startswith("."):
                assert path.name in log, f"{path.name} is in no version"

    # The change data feed ----------------------------------------------------------------------------------

    def check_feed(self) -> None:
        """The lines of each version in the feed are these, besides equal deletes and inserts."""
        if (theirs := self.feed()) is None:
            return
        sums = []
        for feed in (theirs, delta.changes(self.target)):
            found: Counter[Any] = Counter()
            for row in pa.table(feed).to_pylist():
                values = tuple(frozen(row[name]) for name in COLUMNS.names)
                found[row["_commit_version"], values] += SIGNS[row["_change_type"]]
            sums.append({key: n for key, n in found.items() if n and self.is_read_right(key[0])})
        assert sums[0] == sums[1]

    def feed(self) -> Any:
        """The change data feed as another engine reads it; None if the table has none."""
        return require_module("deltalake").DeltaTable(self.target).load_cdf() if self.kind == "feed" else None

    def is_read_right(self, version: int) -> bool:
        """Whether deltalake reads a version right: of a file that is only added or only removed it returns the deleted
        rows, not the live ones."""
        text = (Path(self.target) / commit_path(version)).read_text()
        actions = [action for line in text.splitlines() for action in json.loads(line).items()]
        files = [action for name, action in actions if name in ("add", "remove")]
        paths = Counter(action["path"] for action in files)
        return not any("deletionVector" in action and paths[action["path"]] == 1 for action in files)

    # Maintenance -------------------------------------------------------------------------------------------

    @operation(2)
    def purge(self, branch: str) -> None:
        self.say("purge")
        self.write("purge", min_deleted=self.chance.choice([0.01, 0.5]), branch=branch)

    @operation(2)
    def rewrite_data_files(self, branch: str) -> None:
        least, n_files = self.chance.choice([0.01, 0.3, 1]), self.chance.choice([2, 5])
        size = self.chance.choice([1, 4000, 512 << 20])
        self.say(f"rewrite_data_files: {least}, {n_files} files, {size} bytes")
        limits = {"min_deleted": least, "min_input_files": n_files, "target_file_size": size}
        self.write("rewrite_data_files", branch=branch, min_file_size=4000, **limits)

    # Other writers -----------------------------------------------------------------------------------------

    def restore(self, version: int) -> None:
        """The rows are those of a version again."""
        self.branches["main"] = {n: dict(row) for n, row in self.snapshots[version].items()}

    @operation(8)
    def by_deltalake(self, branch: str) -> None:
        if not self.has_deltalake():
            raise Nothing
        module = require_module("deltalake")
        table, write = module.DeltaTable(self.target), module.write_deltalake
        made, where, rows = self.some_rows(1, 9), self.filter(), self.branches["main"]
        fresh, version = self.rows_of_free_ids(rows), self.chance.choice([*self.snapshots])
        chosen = self.chosen(branch, where.holds)
        more = {"x": lambda old: {"x": None if old["x"] is None else old["x"] + 0.5}}
        ids = {new["id"] for new in fresh}
        ways: dict[str, tuple[Callable[[], Any], set[int], list[Row]]] = {
            "append": (lambda: write(table, self.arrow(made), mode="append"), set(), made),
            "overwrite": (lambda: write(table, self.arrow(made), mode="overwrite"), {*rows}, made),
            "restore": (lambda: table.restore(version), set(), []),
            "delete": (lambda: table.delete(where.text), chosen, []),
            "update": (lambda: table.update(predicate=where.text, updates={"x": "x + 0.5"}), set(), []),
            "merge": (
                lambda: self.merge_by_deltalake(table, fresh),
                self.chosen(branch, lambda row: row["id"] in ids),
                [
                    new
                    for new in fresh
                    if not any(r["id"] == new["id"] and r["x"] == 1.5 for r in rows.values())
                ],
            ),
            "compact": (lambda: table.optimize.compact(), set(), []),
        }
        verb = self.chance.choice([*ways])
        self.say(f"deltalake: {verb} {where.text if verb in ('delete', 'update') else version}")
        run, gone, new = ways[verb]
        run()
        self.adopts, self.last = True, None
        self.drop(branch, gone)
        self.put(branch, new)
        if verb == "restore":
            self.restore(version)
        elif verb == "update":
            self.change(branch, chosen, more["x"])

    def merge_by_deltalake(self, table: Any, given: list[Row]) -> None:
        merger = table.merge(self.arrow(given), "t.id = s.id", source_alias="s", target_alias="t")
        merger.when_matched_delete(
            "t.x = 1.5"
        ).when_matched_update_all().when_not_matched_insert_all().execute()


def delta_table(folder: Path, seed: int, *, kind: str, **_: Any) -> DeltaHistory:
    return DeltaHistory(folder / "t", seed, kind)


KINDS = {f"delta {kind}": partial(delta_table, kind=kind) for kind in PROPERTIES}
