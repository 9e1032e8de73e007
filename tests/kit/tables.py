"""Catalogs and tables with which many tests begin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

__all__ = ["sqlite_catalog", "table_of_files"]


def sqlite_catalog(folder: Path | str) -> SqlCatalog:
    """A catalog in ``c.db`` of a folder, whose tables are in ``wh``; it has the namespace ``n``. The caller disposes
    its engine."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/wh")
    catalog.create_namespace("n")
    return catalog


def table_of_files(catalog: Catalog, *paths: Path, schema: pa.Schema | None = None) -> Table:
    """A version 2 table of Parquet files that are there, in the namespace ``n``, with the name of the first one.

    Args:
        catalog: with the namespace.
        paths: at least one.
        schema: of the table; that of the first file by default.
    """
    schema = pq.read_schema(paths[0]) if schema is None else schema
    table = catalog.create_table(f"n.{paths[0].stem}", schema, properties={"format-version": "2"})
    table.add_files([f"file://{path}" for path in paths])
    return table
