"""What transactions have beyond the laws of `tests/laws`: several verbs see each other, and all go or none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from puffin_fast.errors import InvalidInputError
from tests.kit.kinds import KINDS, AnyTable, create
from tests.laws.adapter import of, row

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

ROWS = [row(id, "ab"[id % 2]) for id in range(10)]


@pytest.fixture(params=KINDS)
def table(
    request: pytest.FixtureRequest, tmp_path: Path, shared_catalog: SqlCatalog, namespace: str
) -> AnyTable:
    return create(request.param, of(ROWS), tmp_path, shared_catalog, name=f"{namespace}.t")


def ids(table: AnyTable) -> list[int]:
    return [one["id"] for one in table.read("id")]


def test_positions_and_earlier_deletes_of_a_transaction_are_united(table: AnyTable) -> None:
    places = table.read("id", "_file", "_pos")[::3]
    with table.verbs.transaction(table.table) as tx:
        tx.delete("id = 0")
        rows = pa.table(
            {"file_path": [one["_file"] for one in places], "pos": [one["_pos"] for one in places]}
        )
        assert tx.delete_positions(rows).rows_deleted == len(places) - 1
    assert ids(table) == [1, 2, 4, 5, 7, 8]
    for rows in table.others():
        assert [one["id"] for one in rows] == ids(table)


@pytest.mark.parametrize("error", [InvalidInputError, KeyboardInterrupt])
def test_a_transaction_that_fails_leaves_nothing(
    table: AnyTable, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(*_: object, **__: object) -> None:
        raise error("gone")

    def run() -> None:
        with table.verbs.transaction(table.table) as tx:
            tx.append(of([row(40)]))
            monkeypatch.setattr(table.before_commit[0], failed)
            tx.update("id >= 0", {"x": 1.25})

    files = table.files()
    with pytest.raises(error, match="gone") as caught:
        run()
    if error is KeyboardInterrupt:
        (note,) = caught.value.__notes__
        assert re.fullmatch(r"nothing was committed, \d+ files were removed", note)
    assert table.files() == files
    assert table.read() == ROWS


def test_rows_that_another_commit_adds_are_searched_by_the_transaction(table: AnyTable) -> None:
    with table.verbs.transaction(table.table) as tx:
        tx.upsert(of([row(20, "a", 1.0)]), "id")
        tx.append(of([row(30)]))
        table.verbs.append(table.table, of([row(20, "b", 2.0)]))
    assert ids(table) == [*range(10), 20, 30]


def test_deletes_of_nothing_commit_nothing(table: AnyTable) -> None:
    with table.verbs.transaction(table.table) as tx:
        tx.delete("id = 100")
        tx.delete("id = 200")
    assert tx.committed is None
