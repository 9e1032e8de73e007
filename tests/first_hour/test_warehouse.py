"""A table of a catalog with a relative warehouse is opened from every folder."""

from __future__ import annotations

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
