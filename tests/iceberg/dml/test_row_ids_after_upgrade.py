"""Rows that got their row ids between the plan of a change and its commit keep them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from puffin_fast import iceberg
from puffin_fast.iceberg import scan
from tests.iceberg.conftest import rows_of
from tests.iceberg.dml.example_rows import N, made, of, row

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tests.iceberg.conftest import RacingCatalog

NEW = of([row(3, "new"), row(4, "new")])


def in_transaction(table: Table) -> None:
    with iceberg.transaction(table) as job:
        job.append(of([row(200)]))
        job.update("id in (3, 4)", {"g": "new"})


VERBS: dict[str, Callable[[Table], object]] = {
    "update": lambda table: iceberg.update(table, "id in (3, 4)", {"g": "new"}),
    "update of all": lambda table: iceberg.update(table, f"id < {N}", {"g": "new"}),
    "upsert": lambda table: iceberg.upsert(table, NEW, ["id"]),
    "upsert of columns": lambda table: iceberg.upsert(table, NEW, ["id"], update_columns=["g"]),
    "transaction": in_transaction,
}


def row_ids(table: Table) -> dict[int, int]:
    found = scan(table, f"id < {N}", ("id", "_row_id")).to_arrow().to_pydict()
    return dict(zip(found["id"], found["_row_id"], strict=True))


@pytest.mark.parametrize("upgraded", ["before", "meanwhile"])
@pytest.mark.parametrize("verb", VERBS)
def test_row_ids_that_another_commit_assigns_meanwhile_are_kept(
    racing: RacingCatalog, verb: str, upgraded: str
) -> None:
    table = made(racing, "n", version=2)
    if upgraded == "before":
        iceberg.upgrade(table)
    other = racing.load_table("n.t")

    def assign() -> None:
        iceberg.upgrade(other)
        iceberg.append(other, of([row(100, "theirs")]))

    racing.before.append(assign)
    VERBS[verb](table)
    assert table.metadata.format_version == 3
    assert sum(found["g"] == "new" for found in rows_of(table).to_pylist()) >= 2
    assert row_ids(table) == row_ids(other)
    assert None not in row_ids(table).values()
