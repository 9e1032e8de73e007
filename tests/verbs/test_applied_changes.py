"""Replicas: changes of a table that are applied to another one leave it equal, after each batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import delta, iceberg
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.rows.match.given_changes import KINDS
from tests.conftest import require_module
from tests.verbs.applied_changes import DELTA_PROPERTIES, SCHEMA, Source, made, of, read

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

BATCHES = 6


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
