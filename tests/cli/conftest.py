"""Fixtures that call the command line in this process, and a small catalog."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from puffin_fast.cli import main

ROWS = pa.table({"id": pa.array(range(1000), pa.int64()), "word": [f"w{i % 7}" for i in range(1000)]})


@pytest.fixture
def run() -> Callable[..., Result]:
    """Runs ``puffin-fast`` with arguments; whatever escapes it is raised here."""

    def call(*arguments: object) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)

    return call


@pytest.fixture
def catalog_options(tmp_path: Path) -> tuple[str, ...]:
    """Options of a SQLite catalog that holds the table ``ns.t`` of 1000 rows, ``id`` and ``word``."""
    from pyiceberg.catalog import load_catalog

    from puffin_fast import iceberg

    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/tables"
    catalog = load_catalog("c", uri=uri, warehouse=warehouse)
    catalog.create_namespace("ns")
    iceberg.append(iceberg.create_table(catalog, "ns.t", ROWS.schema), ROWS)
    catalog.close()
    return "--catalog", "c", "--uri", uri, "--warehouse", warehouse
