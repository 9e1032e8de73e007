"""`add_files` of PyIceberg on tables of version 3: data files that another program wrote, which stay where they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import ConflictError, InvalidInputError, NotFoundError
from tests.iceberg.conftest import rows_of
from tests.kit.faults import RacingCatalog
from tests.kit.tables import iceberg_table

LONG = "\ud7ff" * 20
"""A text whose upper bound is cut where the next code point is a surrogate."""


@pytest.fixture(params=["id", "part"])
def table(racing: RacingCatalog, request: pytest.FixtureRequest) -> Iterator[Table]:
    """A table with two rows, partitioned by a number or by a text."""
    with iceberg.accelerate():
        yield iceberg_table(racing, {"id": [1, 2], "part": ["a", "a"]}, partition=[request.param])


def foreign(folder: Path, id: int, text: str = "a", n_rows: int = 2) -> str:
    path = folder / f"{id}.parquet"
    pq.write_table(pa.table({"id": pa.array([id] * n_rows, pa.int64()), "part": [text] * n_rows}), path)
    return f"file://{path}"


def ids(table: Table, row_filter: str = "true") -> list[int]:
    return sorted(iceberg.scan(table.refresh(), row_filter).to_arrow()["id"].to_pylist())


def test_rows_of_added_files_are_read_changed_and_have_row_ids(table: Table, tmp_path: Path) -> None:
    table.add_files([foreign(tmp_path, 5, LONG), foreign(tmp_path, 6)], snapshot_properties={"why": "test"})
    assert table.snapshots()[-1].summary["why"] == "test"
    assert ids(table) == [1, 2, 5, 5, 6, 6]
    assert ids(table, f"part = '{LONG}'") == [5, 5]
    assert ids(table, "id > 5") == [6, 6]
    found = iceberg.scan(table, selected_fields=("_row_id",)).to_arrow()["_row_id"].to_pylist()
    assert sorted(found) == [*range(6)]
    assert list(iceberg.verify(table)) == []
    assert iceberg.scan(table).to_arrow().sort_by("id").equals(rows_of(table))
    assert iceberg.update(table, "id = 6", {"id": 7}).rows_updated == 2
    assert ids(table) == [1, 2, 5, 5, 7, 7]


def test_a_transaction_adds_files_among_other_verbs(table: Table, tmp_path: Path) -> None:
    kept, gone = foreign(tmp_path, 5), foreign(tmp_path, 6)
    n_snapshots = len(table.snapshots())
    with table.transaction() as tx:
        tx.add_files([kept, gone])
        tx.delete("id = 6")
        tx.delete("id = 1")
    assert ids(table) == [2, 5, 5]
    assert len(table.snapshots()) == n_snapshots + 1
    assert Path(gone.removeprefix("file://")).exists()


def test_verbs_go_on_after_files_were_added_to_a_table_without_a_name_mapping(
    table: Table, tmp_path: Path
) -> None:
    assert table.metadata.name_mapping() is None
    with table.transaction() as tx:
        tx.delete("id = 1")
        tx.add_files([foreign(tmp_path, 5)])
        tx.delete("id = 2")
        tx.append(pa.table({"id": [9], "part": ["a"]}))
    assert ids(table) == [5, 5, 9]
    assert table.metadata.name_mapping() == table.schema().name_mapping
    assert len(table.snapshots()) == 2
    assert {*table.inspect.data_files()["sort_order_id"].to_pylist()} == {0}
    assert list(iceberg.verify(table)) == []


@pytest.mark.parametrize("verb_first", [False, True])
def test_files_stay_where_they_are_if_nothing_is_committed(
    table: Table, tmp_path: Path, verb_first: bool, racing: RacingCatalog
) -> None:
    path = foreign(tmp_path, 5)

    def begin(tx: Any, *, fails: bool = False) -> None:
        if verb_first:
            tx.delete("id = 1")
        tx.add_files([path])
        if fails:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), table.transaction() as tx:
        begin(tx, fails=True)
    assert ids(table) == [1, 2]
    racing.before.append(lambda: iceberg.delete(racing.load_table("n.t"), "id = 1"))
    if verb_first:
        with pytest.raises(ConflictError), table.transaction() as tx:
            begin(tx)
        assert ids(table) == [2]
    else:
        table.add_files([path])
        assert ids(table) == [2, 5, 5]
    assert Path(path.removeprefix("file://")).exists()


def test_what_cannot_be_added_is_named(table: Table, tmp_path: Path) -> None:
    path, missing = foreign(tmp_path, 5), f"file://{tmp_path}/none.parquet"
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"id": ["text"]}), other)
    table.add_files([path])
    for paths, error, message in (
        ([path], InvalidInputError, path),
        ([path, path], InvalidInputError, "each file once"),
        ([missing], NotFoundError, missing),
        ([f"file://{other}"], InvalidInputError, str(other)),
    ):
        with pytest.raises(error, match=re.escape(message)):
            table.add_files(paths)
    assert ids(table) == [1, 2, 5, 5]
