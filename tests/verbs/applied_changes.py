"""Tables, readers and cases that several tests share with `test_applied_changes`."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast import delta, iceberg

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog


SCHEMA = pa.schema([("id", pa.int64()), ("g", pa.string()), ("x", pa.float64())])


DELTA_PROPERTIES = [
    {},
    {"delta.enableChangeDataFeed": "true"},
    {"delta.enableRowTracking": "true"},
]


def of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def read(verbs: Any, table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = verbs.scan(table).to_arrow().sort_by("id").to_pylist()
    return rows


class Source:
    """A table with unique keys that changes at random."""

    def __init__(self, verbs: Any, table: Any, seed: int) -> None:
        self.verbs, self.table, self.chance = verbs, table, random.Random(seed)

    def position(self) -> int | None:
        if self.verbs is delta:
            return delta.snapshot(self.table).version
        snapshot = self.table.current_snapshot()
        return None if snapshot is None else snapshot.snapshot_id

    def changes(self, start: int | None, end: int | None) -> Any:
        options = {"net": self.chance.random() < 0.3, "updates": self.chance.random() < 0.7}
        return iceberg.changes(self.table, start, end, **options)

    def rows(self, ids: list[int]) -> pa.Table:
        return of(
            [{"id": id, "g": self.chance.choice("abc"), "x": self.chance.randrange(4) / 2} for id in ids]
        )

    def step(self) -> None:
        ids = {row["id"] for row in read(self.verbs, self.table)}
        free = sorted(set(range(40)) - ids)
        one = self.chance.choice(sorted(ids) or [0])
        self.chance.choice(
            [
                lambda: self.verbs.append(self.table, self.rows(self.chance.sample(free, min(5, len(free))))),
                lambda: self.verbs.delete(self.table, f"id = {one} or g = 'c'"),
                lambda: self.verbs.update(self.table, f"id >= {one}", {"x": self.chance.randrange(9) / 2}),
                lambda: self.verbs.update(self.table, f"id = {one}", {"id": self.chance.choice(free)}),
                lambda: self.verbs.upsert(self.table, self.rows(self.chance.sample(range(40), 6)), ["id"]),
                lambda: self.verbs.overwrite(self.table, self.rows([one]), f"id = {one}"),
            ]
        )()


def made(verbs: Any, place: tuple[SqlCatalog, str], folder: Path, name: str, **options: Any) -> Any:
    if verbs is iceberg:
        return iceberg.create_table(place[0], f"{place[1]}.{name}", SCHEMA, **options)
    delta.create_table(folder / name, SCHEMA, **options)
    return str(folder / name)
