"""A table by the path of its metadata, and names that a catalog does not have."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table

import puffin_fast as pf
from tests.kit.cases import each
from tests.kit.tables import iceberg_table

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    """The table ``shop.orders`` with two live rows."""
    made = iceberg_table(catalog, ROWS, name="shop.orders")
    pf.iceberg.delete(made, "id = 1")
    return made


def test_a_table_is_read_by_its_metadata_file_or_folder(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(table.location())
    monkeypatch.chdir(folder.parent)
    places = (str(folder), f"{folder}/", folder, f"file://{folder}", "./orders", folder / "metadata")
    for place in (table.metadata_location, *places):
        assert pf.iceberg.scan(place).to_arrow()["id"].to_pylist() == [2, 3]
    assert pf.iceberg.scan(folder, "id = 2", ["id"], limit=5).count() == 1
    assert pf.iceberg.verify(folder) == []
    assert "rows 3, deleted 1" in repr(pf.iceberg.report(folder))
    assert pf.iceberg.deletes(folder).num_rows == 1
    assert len(pf.iceberg.plan_files(folder).tasks) == 1
    (first, *_) = sorted(folder.glob("metadata/00000-*.json"))
    assert pf.iceberg.scan(first).count() == 0


def test_of_two_files_with_one_number_the_later_one_is_read(table: Table) -> None:
    path = Path(table.metadata_location)
    older = path.read_text().replace('"last-updated-ms":', '"last-updated-ms":1,"was":')
    for prefix in ("0", "z"):
        path.with_name(f"{path.name[:5]}-{prefix}.metadata.json").write_text(older)
    assert pf.iceberg.scan(path.parents[1]).to_arrow()["id"].to_pylist() == [2, 3]


def test_verbs_refuse_paths_and_say_why(table: Table) -> None:
    folder = Path(table.location())
    for verb, kind in (
        (lambda given: pf.append(given, ROWS), pf.UnsupportedError),
        (lambda given: pf.delete(given, "id = 1"), pf.UnsupportedError),
        (lambda given: pf.iceberg.compact(given), pf.InvalidInputError),
        (lambda given: pf.transaction(given).__enter__(), pf.UnsupportedError),
    ):
        for place in (str(folder), table.metadata_location):
            with pytest.raises(kind, match=r"read only; changes need its catalog"):
                verb(place)
        with pytest.raises(pf.InvalidInputError, match=r"see catalog\.load_table\), found 'shop\.orders'"):
            verb("shop.orders")
    static = StaticTable.from_metadata(table.metadata_location)
    with pytest.raises(pf.UnsupportedError, match="read only; changes need its catalog"):
        pf.iceberg.delete(static, "id = 1")
    assert pf.iceberg.scan(static).count() == 2


def test_folders_without_a_table_are_named(table: Table, tmp_path: Path) -> None:
    with pytest.raises(
        pf.NotFoundError,
        match=r"nothing: expected a table, a folder with metadata \(Iceberg\).*no such folder",
    ):
        pf.iceberg.scan(tmp_path / "nothing")
    with pytest.raises(pf.NotFoundError, match=r"x\.metadata\.json: no such file"):
        pf.iceberg.scan(f"{tmp_path}/x.metadata.json")
    path = tmp_path / "1.metadata.json"
    path.write_text("{}")
    with pytest.raises(pf.UnsupportedError, match=r"1\.metadata\.json: PyIceberg cannot read"):
        pf.iceberg.scan(path)
    shutil.copy(table.metadata_location, path)
    path.write_text(path.read_text()[:-9])
    with pytest.raises(pf.CorruptDataError, match=r"1\.metadata\.json"):
        pf.iceberg.scan(path)


@each(
    "name, said",
    [
        ("shop.order", r"no such table in catalog 'prod'; namespace shop has shop\.orders$"),
        ("shop.Orders", r"namespace shop has shop\.orders$"),
        ("shop.xyz", r"namespace shop has shop\.orders$"),
        ("shopp.orders", r"no namespace shopp, but shop$"),
        ("empty.orders", r"namespace empty has no tables$"),
    ],
)
def test_near_names(catalog: SqlCatalog, table: Table, name: str, said: str) -> None:
    catalog.create_namespace_if_not_exists("empty")
    with pytest.raises(pf.NotFoundError, match=rf"^{name}: .*{said}"):
        pf.iceberg.load_table(catalog, name)


def test_the_catalogs_of_the_database_are_named(catalog: SqlCatalog, table: Table) -> None:
    other = SqlCatalog("default", uri=catalog.properties["uri"], warehouse=catalog.properties["warehouse"])
    for name, said in (
        ("shop.orders", r"catalog prod of its database has shop\.orders"),
        ("shop.order", "its database has no tables of catalog 'default', but of prod"),
    ):
        with pytest.raises(pf.NotFoundError, match=said):
            pf.iceberg.load_table(other, name)
    other.create_namespace("shop")
    with pytest.raises(
        pf.NotFoundError, match=r"has no tables; catalog prod of its database has shop\.orders"
    ):
        pf.iceberg.load_table(other, "shop.orders")
    other.engine.dispose()
