"""A table of a catalog with a relative warehouse is opened from every folder."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.catalog.sql import SqlCatalog

import puffin_fast as pf
from puffin_fast.cli import main

ROWS = pa.table({"id": [1, 2]})


def test_the_metadata_has_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home := tmp_path / "home").mkdir()
    (other := tmp_path / "other").mkdir()
    monkeypatch.chdir(home)
    catalog = SqlCatalog("prod", uri="sqlite:///prod.db", warehouse="wh")
    catalog.create_namespace("shop")
    table = pf.iceberg.create_table(catalog, "shop.t", ROWS.schema)
    pf.iceberg.append(table, ROWS)
    assert table.location() == f"{home}/wh/shop/t"
    catalog.engine.dispose()
    monkeypatch.chdir(other)
    catalog = SqlCatalog("prod", uri=f"sqlite:///{home}/prod.db", warehouse="wh")
    table = pf.iceberg.load_table(catalog, "shop.t")
    assert pf.iceberg.delete(table, "id = 1").rows_deleted == 1
    assert pf.iceberg.scan(table).to_arrow()["id"].to_pylist() == [2]
    assert not list(other.iterdir())
    catalog.engine.dispose()


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("id\n1\n")
    options = ["--uri", "sqlite:///c.db", "--warehouse", "wh"]
    arguments = ["create", "shop.t", "x.csv", "--create-namespace", *options]
    assert CliRunner().invoke(main, arguments, catch_exceptions=False).exit_code == 0
    (metadata,) = tmp_path.glob("wh/shop/t/metadata/*.json")
    assert f'"location":"{tmp_path}/wh/shop/t"' in metadata.read_text()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table of PyIceberg that has relative paths; the current folder is another one."""
    (home := tmp_path / "home").mkdir()
    monkeypatch.chdir(home)
    catalog = SqlCatalog("prod", uri="sqlite:///prod.db", warehouse="wh")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.t", ROWS.schema)
    table.append(ROWS)
    pf.iceberg.upgrade(table)
    assert pf.iceberg.delete(table, "id = 1").rows_deleted == 1
    assert table.metadata_location.startswith("wh/")
    catalog.engine.dispose()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    return home


def test_a_table_with_relative_paths_is_read_from_the_folder_of_its_catalog(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = SqlCatalog("prod", uri=f"sqlite:///{home}/prod.db", warehouse="wh")
    table = pf.iceberg.load_table(catalog, "shop.t")
    for opened in (table, home / "wh/shop/t", table.metadata_location.replace("wh/", f"{home}/wh/")):
        assert pickle.loads(pickle.dumps(pf.iceberg.scan(opened))).to_arrow()["id"].to_pylist() == [2]
        assert pf.iceberg.verify(opened, level="rows") == []
    for change in (
        lambda: pf.iceberg.append(table, ROWS),
        lambda: pf.iceberg.delete(table, "id = 2"),
        lambda: pf.iceberg.maintain(table),
        lambda: pf.iceberg.expire_snapshots(table),
        lambda: pf.iceberg.remove_orphan_files(table),
        lambda: pf.iceberg.collect_ndv(table),
        lambda: pf.iceberg.upgrade(table),
        lambda: pf.iceberg.transaction(table).__enter__(),
    ):
        with pytest.raises(
            pf.UnsupportedError, match=rf"paths relative to {home}, .*read only; change it in a process that"
        ):
            change()
    monkeypatch.chdir(home)
    table = pf.iceberg.load_table(catalog, "shop.t")
    assert pf.iceberg.delete(table, "id = 2").rows_deleted == 1
    catalog.engine.dispose()
    assert [path.name for path in home.parent.glob("other/*")] == []


def test_a_relative_table_elsewhere_says_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "prod.db").rename("moved.db")
    catalog = SqlCatalog("prod", uri="sqlite:///moved.db", warehouse="wh")
    with pytest.raises(
        pf.NotFoundError, match=r"'wh/shop/t/metadata/.*' not found: the path is relative, .*Start there"
    ):
        pf.iceberg.load_table(catalog, "shop.t")
    monkeypatch.chdir(home)
    table = pf.iceberg.load_table(catalog, "shop.t")
    monkeypatch.chdir(home.parent)
    with pytest.raises(pf.NotFoundError, match="the path is relative"):
        pf.iceberg.delete(table, "id = 2")
    with pytest.raises(pf.NotFoundError, match=rf"^wh/.* \(in {home.parent}\): no such file"):
        pf.iceberg.scan(table).to_arrow()
    catalog.engine.dispose()
