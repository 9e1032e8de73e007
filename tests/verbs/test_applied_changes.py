"""Replicas: changes of a table that are applied to another one leave it equal, after each batch."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import delta, iceberg
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.rows.match.given_changes import KINDS
from tests.conftest import require_module

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

SCHEMA = pa.schema([("id", pa.int64()), ("g", pa.string()), ("x", pa.float64())])
BATCHES = 6
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
        if self.verbs is delta:
            assert start is not None
            return delta.changes(self.table, start + 1, end, **options)
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


@pytest.mark.parametrize(
    ("source", "replica"), [(iceberg, iceberg), (iceberg, delta), (delta, iceberg)], ids=["ii", "id", "di"]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_replica_is_equal_after_each_batch(
    shared_catalog: SqlCatalog, namespace: str, tmp_path: Path, source: Any, replica: Any, seed: int
) -> None:
    options = {"properties": DELTA_PROPERTIES[seed]} if source is delta else {}
    machine = Source(source, made(source, (shared_catalog, namespace), tmp_path, "source", **options), seed)
    copy = made(replica, (shared_catalog, namespace), tmp_path, "copy")
    done = machine.position()
    for _ in range(BATCHES):
        for _ in range(machine.chance.randrange(1, 5)):
            machine.step()
        end = machine.position()
        changes, job = machine.changes(done, end), f"to-{end}"
        replica.upsert(copy, changes, "id", changes=True, job_id=job)
        assert read(replica, copy) == read(source, machine.table)
        replica.upsert(copy, changes, "id", changes=True, job_id=job)  # a repeated batch
        assert read(replica, copy) == read(source, machine.table)
        done = end


@pytest.fixture
def apply(shared_catalog: SqlCatalog, namespace: str) -> Callable[..., list[dict[str, Any]]]:
    """Applies changes to rows 1 to 3; returns the rows that are left."""

    def apply(given: pa.Table, **options: Any) -> list[dict[str, Any]]:
        table = iceberg.create_table(shared_catalog, f"{namespace}.t", SCHEMA)
        iceberg.append(table, of([{"id": id, "g": "a", "x": 0.0} for id in (1, 2, 3)]))
        iceberg.upsert(table, given, "id", **{"changes": True, **options})
        return [{"id": row["id"], "g": row["g"]} for row in read(iceberg, table)]

    return apply


def given(column: str, rows: list[tuple[Any, ...]], names: tuple[str, ...] = ()) -> pa.Table:
    """Rows of kind, id, text and other columns."""
    found = [dict(zip((column, "id", "g", *names), row, strict=True)) for row in rows]
    return pa.Table.from_pylist([{**row, "x": 0.0} for row in found])


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("_change_type", ("insert", "delete", "update_preimage", "update_postimage")),
        ("_change_type", ("INSERT", "DELETE", "UPDATE_BEFORE", "UPDATE_AFTER")),
        ("rowkind", ("+I", "-D", "-U", "+U")),
        ("op", ("c", "d", None, "u")),
        ("__op", ("r", "d", None, "u")),
    ],
)
def test_words_of_each_engine(apply: Callable[..., Any], column: str, words: tuple[str, ...]) -> None:
    insert, delete, before, after = words
    changes = [(insert, 9, "i"), (delete, 1, "a"), (before, 2, "a"), (after, 2, "u")]
    changes = [row for row in changes if row[0] is not None]
    wanted = [{"id": 2, "g": "u"}, {"id": 3, "g": "a"}, {"id": 9, "g": "i"}]
    assert apply(given(column, changes)) == wanted


def test_the_last_change_of_a_key_counts_in_any_order_of_rows(apply: Callable[..., Any]) -> None:
    rows = [
        ("insert", 1, "last", 2),
        ("delete", 1, "b", 2),
        ("update_postimage", 1, "b", 1),
        ("update_postimage", 2, "moved", 1),
        ("update_preimage", 3, "a", 1),
        ("update_preimage", 1, "a", 1),
        ("delete", 2, "moved", 5),
    ]
    assert apply(given("_change_type", rows, ("_commit_version",))) == [{"id": 1, "g": "last"}]


def test_rows_of_debezium_are_in_order(apply: Callable[..., Any]) -> None:
    rows = [("u", 1, "b"), ("d", 1, None), ("c", 1, "c"), ("c", 7, "x"), ("d", 7, None)]
    assert apply(given("op", rows)) == [{"id": 1, "g": "c"}, {"id": 2, "g": "a"}, {"id": 3, "g": "a"}]


def test_a_named_column_of_kinds_and_chunks(apply: Callable[..., Any]) -> None:
    rows = pa.concat_tables([given("kind", [("u", 1, "b")]), given("kind", [("d", 1, "b")])])
    assert apply(rows, changes="kind") == [{"id": 2, "g": "a"}, {"id": 3, "g": "a"}]


@pytest.mark.parametrize(
    ("rows", "options", "error", "match"),
    [
        (given("op", [("t", 1, "a")]), {}, InvalidInputError, "column op: expected one of .*, found 't'"),
        (given("op", [(None, 1, "a"), ("c", 2, "a")]), {}, InvalidInputError, "column op: .* found None"),
        (given("kind", [("c", 1, "a")]), {}, InvalidInputError, "expected a column _change_type, rowkind"),
        (given("op", [("c", 1, "a")]), {"changes": "no"}, NotFoundError, "no column no in data"),
        (given("op", [(1, 1, "a")]), {}, InvalidInputError, "found '1'|found 1"),
        (given("op", [("c", 1, "a")]), {"changes": 1}, InvalidInputError, "expected True, False or the name"),
        (given("op", [("c", 1, "a")]), {"order_column": "x"}, InvalidInputError, "neither delete_column nor"),
        (
            given("_change_type", [("insert", 1, "a", None)], ("_change_ordinal",)),
            {},
            InvalidInputError,
            "_change_ordinal: expected .*null",
        ),
        (
            given("_change_type", [("insert", 1, "a"), ("insert", 1, "b")]),
            {},
            InvalidInputError,
            "several rows of one key",
        ),
    ],
)
def test_what_is_refused(
    apply: Callable[..., Any], rows: pa.Table, options: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        apply(rows, **options)


def test_the_feed_of_deltalake_is_applied(shared_catalog: SqlCatalog, namespace: str, tmp_path: Path) -> None:
    table = made(
        delta, (shared_catalog, namespace), tmp_path, "t", properties={"delta.enableChangeDataFeed": "true"}
    )
    delta.append(table, of([{"id": id, "g": "a", "x": 0.0} for id in (1, 2, 3)]))
    delta.update(table, "id = 2", {"g": "b"})
    delta.delete(table, "id = 3")
    copy = made(iceberg, (shared_catalog, namespace), tmp_path, "copy")
    feed = require_module("deltalake").DeltaTable(table).load_cdf()
    iceberg.upsert(copy, feed, "id", changes=True)
    assert read(iceberg, copy) == read(delta, table)


def test_each_word_is_lower_case() -> None:
    assert [*KINDS] == [word.lower() for word in KINDS]
