"""Runs the examples of docstrings; each has a new table, dataset or DataFrame."""

from __future__ import annotations

import datetime
import doctest
import importlib
from pathlib import Path
from typing import Any

import pyarrow as pa

import puffin_fast as pf

ORDERS = pa.table({"id": range(100), "customer": [i % 10 for i in range(100)], "price": [9.5] * 100})
STATES = pa.table({"id": range(100), "state": ["new"] * 100})


def _iceberg(folder: Path) -> dict[str, Any]:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("shop", uri=f"sqlite:///{folder}/shop.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("shop")
    table = pf.iceberg.create_table(catalog, "shop.orders", ORDERS.schema)
    pf.iceberg.append(table, ORDERS)
    return {"catalog": catalog, "table": table, "folder": folder / "lake"}


def _delta(folder: Path) -> dict[str, Any]:
    path = str(folder / "states")
    pf.delta.create_table(path, STATES.schema)
    pf.delta.append(path, STATES)
    return {"path": path, **_iceberg(folder)}


def _lance(folder: Path) -> dict[str, Any]:
    import lance

    return {"dataset": lance.write_dataset(STATES, folder / "states.lance")}


def _paimon(folder: Path) -> dict[str, Any]:
    from pypaimon import CatalogFactory, Schema

    catalog = CatalogFactory.create({"warehouse": str(folder / "warehouse")})
    catalog.create_database("shop", False)
    options = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"}
    catalog.create_table("shop.states", Schema.from_pyarrow_schema(STATES.schema, options=options), False)
    table = catalog.get_table("shop.states")
    builder = table.new_batch_write_builder()
    writer, committer = builder.new_write(), builder.new_commit()
    writer.write_arrow(STATES)
    committer.commit(writer.prepare_commit())
    return {"catalog": catalog, "table": table}


def _spark(folder: Path, spark: Any) -> dict[str, Any]:
    positions = [("a.parquet", 0), ("a.parquet", 7), ("b.parquet", 5)]
    deletes = spark.createDataFrame(positions, "file_path string, pos long")
    return {"spark": spark, "deletes": deletes, "path": str(folder / "vectors"), **_iceberg(folder)}


def _names(part: str, folder: Path, spark: Any = None) -> dict[str, Any]:
    """The names that an example of a part of the package (``iceberg``, ``spark``) may use."""
    always = {"pf": pf, "pa": pa, "timedelta": datetime.timedelta}
    if part == "spark":
        return always | _spark(folder, spark)
    tables = {
        "iceberg": _iceberg,
        "delta": _delta,
        "tables": _delta,
        "rows": _delta,
        "bridges": _delta,
        "lance": _lance,
        "paimon": _paimon,
    }
    return always | (tables[part](folder) if part in tables else {})


def run_examples(module: str, folder: Path, spark: Any = None) -> None:
    """Runs the examples of a module's docstrings, which may use the names that the reference explains."""
    part = module.split(".")[1]
    runner = doctest.DocTestRunner()
    for number, test in enumerate(doctest.DocTestFinder().find(importlib.import_module(module))):
        if test.examples:
            own = folder / f"{module}-{number}"
            own.mkdir()
            test.globs |= _names(part, own, spark)
            runner.run(test)
    assert runner.failures == 0, module
