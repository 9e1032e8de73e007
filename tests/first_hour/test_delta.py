"""What a new user passes to the verbs of Delta tables works as for Iceberg's, or the error says what to pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

import puffin_fast as pf
from tests.first_hour.given import MADE, ROWS
from tests.kit.rows import by_us
from tests.kit.tables import delta_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with the rows of `ROWS`, which no test changes."""
    return delta_table(tmp_path_factory.mktemp("delta") / "t", ROWS)


@pytest.mark.parametrize("name", MADE)
def test_every_kind_of_rows_is_appended(tmp_path: Path, name: str) -> None:
    pf.delta.create_table(tmp_path, ROWS.schema)
    pf.delta.append(tmp_path, MADE[name]())
    assert by_us(tmp_path) == ROWS.to_pylist()


def test_a_table_gets_the_columns_of_a_frame(tmp_path: Path, folder: Path) -> None:
    types = {"id": "long", "word": "string"}
    given: list[Any] = [
        ROWS,
        ROWS.to_pandas(),
        ROWS.to_pylist(),
        ds.dataset(ROWS),
        types,
        pf.delta.scan(folder),
    ]
    for at, rows in enumerate(given):
        pf.delta.create_table(tmp_path / str(at), rows)
        assert pf.delta.scan(tmp_path / str(at)).schema.names == ["id", "word"]


def test_keys_and_positions(folder: Path) -> None:
    (path,) = pf.delta.scan(folder).files()["file_path"].to_pylist()
    for keys in (
        [1, 2],
        (1, 2),
        {1, 2},
        range(1, 3),
        pa.array([1, 2]),
        [{"id": 1}, {"id": 2}],
        {"id": [1, 2]},
    ):
        assert pf.delta.delete_keys(folder, keys, "id", dry_run=True).rows_deleted == 2
    assert pf.delta.delete_positions(folder, {path: [1, 2]}, dry_run=True).rows_deleted == 2
    assert pf.delta.delete(DeltaTable(folder), "id = 1", dry_run=True).rows_deleted == 1


def test_other_keys_and_positions_say_what_to_pass(folder: Path, catalog: SqlCatalog) -> None:
    table = pf.iceberg.create_table(catalog, "shop.t", ROWS)
    for verbs, place in ((pf.delta, folder), (pf.iceberg, table)):
        with pytest.raises(pf.InvalidInputError, match=r"found int; pass a list .*: \[1, 2\], 'id'"):
            verbs.delete_keys(place, 1, "id")
        with pytest.raises(
            pf.InvalidInputError, match=r"found list of int; pass positions by path: \{path: \[0, 7\]\}"
        ):
            verbs.delete_positions(place, [1, 2])
    with pytest.raises(
        pf.InvalidInputError, match=r"found DeltaTable; pass puffin_fast\.delta\.scan\(table\)"
    ):
        pf.delta.append(folder, DeltaTable(folder))


def test_a_folder_of_the_other_format_is_named(folder: Path, catalog: SqlCatalog) -> None:
    table = pf.iceberg.create_table(catalog, "shop.t", ROWS)
    with pytest.raises(pf.NotFoundError, match=r"it is a table of Iceberg: see puffin_fast\.iceberg"):
        pf.delta.vectors(table.location())
    with pytest.raises(pf.NotFoundError, match=r"it is a table of Delta: see puffin_fast\.delta"):
        pf.iceberg.plan_files(folder)
