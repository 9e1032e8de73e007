"""Builds catalogs, tables of each format, and Parquet files of each writer.

The rows of a table are given as a schema (the table stays empty), as an Arrow table or a dict of columns (one commit),
or as a list of them (one commit each, see `parts`).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

from puffin_fast import delta, iceberg
from tests.conftest import require_module

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

__all__ = [
    "GOLDEN",
    "delta_table",
    "files_of",
    "folder_of",
    "golden_table",
    "iceberg_table",
    "parquet_file",
    "parts",
    "path_of",
    "sqlite_catalog",
    "table_of_files",
]

GOLDEN = Path(__file__).parents[1] / "golden"

_TRANSFORM = re.compile(r"(\w+)(\[\d+\])?\((\w+)\)")
"""``bucket[16](id)``: the transform, its number, and the column."""


def sqlite_catalog(folder: Path | str) -> SqlCatalog:
    """A catalog in ``c.db`` of a folder, whose tables are in ``wh``; it has the namespace ``n``. The caller disposes
    its engine."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/wh")
    catalog.create_namespace("n")
    return catalog


# Rows --------------------------------------------------------------------------------------------------------


def parts(rows: pa.Table, n: int) -> list[pa.Table]:
    """Rows in `n` parts of nearly the same length, in their order: a table of `n` data files."""
    ends = [rows.num_rows * number // n for number in range(n + 1)]
    return [rows.slice(start, end - start) for start, end in pairwise(ends)]


def _schema_and_commits(rows: Any) -> tuple[Any, list[pa.Table]]:
    """The schema of a new table, and the rows of each commit."""
    given = rows if isinstance(rows, list) else [rows]
    commits = [pa.table(one) if isinstance(one, dict) else one for one in given]
    return (commits[0].schema, commits) if isinstance(commits[0], pa.Table) else (rows, [])


# Iceberg -----------------------------------------------------------------------------------------------------


def iceberg_table(
    catalog: Catalog,
    rows: Any,
    *,
    name: str = "n.t",
    version: int = 3,
    partition: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    by: str = "us",
) -> Table:
    """A table of format version 2 or 3.

    Args:
        catalog: has the namespace.
        rows: see the top of this module; the schema may be one of PyIceberg.
        name: with the namespace.
        version: this package creates tables of version 3, PyIceberg those of version 2.
        partition: columns and transforms such as ``"bucket[16](id)"``.
        properties: of the table.
        by: who appends, ``"us"`` or, for version 2, ``"pyiceberg"``.
    """
    schema, commits = _schema_and_commits(rows)
    if version == 3:
        table = iceberg.create_table(catalog, name, schema, partition_spec=partition, properties=properties)
    else:
        table = catalog.create_table(
            name, schema, properties={"format-version": str(version), **(properties or {})}
        )
        with table.update_spec() as update:
            for field in partition:
                found = _TRANSFORM.fullmatch(field)
                transform, column = (
                    (f"{found[1]}{found[2] or ''}", found[3]) if found else ("identity", field)
                )
                update.add_field(column, transform)
    for commit in commits:
        iceberg.append(table, commit) if by == "us" else table.append(commit)
    return table


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


# Delta -------------------------------------------------------------------------------------------------------


def delta_table(
    path: Path,
    rows: Any,
    *,
    partition: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    by: Any = "us",
) -> Path:
    """A Delta table in a folder; returns the folder.

    Args:
        path: of the folder.
        rows: see the top of this module.
        partition: columns.
        properties: of the table.
        by: who creates it and appends: ``"us"``, ``"deltalake"``, or a Spark session with Delta.
    """
    schema, commits = _schema_and_commits(rows)
    if by == "us":
        delta.create_table(path, schema, partition_columns=partition, properties=properties)
        for commit in commits:
            delta.append(path, commit)
        return path
    for commit in commits or [schema.empty_table()]:
        if by == "deltalake":
            options = {} if (path / "_delta_log").exists() else {"configuration": dict(properties or {})}
            require_module("deltalake").write_deltalake(
                str(path), commit, partition_by=list(partition) or None, mode="append", **options
            )
        else:
            writer = by.createDataFrame(commit).coalesce(1).write.format("delta").mode("append")
            writer.options(**(properties or {})).partitionBy(*partition).save(str(path))
    return path


def golden_table(name: str, folder: Path) -> Path:
    """A copy of a table that another implementation wrote, to write to.

    Args:
        name: of a folder in ``tests/golden``: ``"delta/spark_partitioned"``.
        folder: gets the copy, under the last part of the name.
    """
    return Path(shutil.copytree(GOLDEN / name, folder / Path(name).name))


# Files -------------------------------------------------------------------------------------------------------


def path_of(location: str) -> Path:
    """A local location as a path; Java writes one slash after ``file:``, others three."""
    return Path(re.sub("^file:/+", "/", location))


def folder_of(table: Table | Path | str) -> Path:
    """The folder of a table: of an Iceberg table, or of a Delta table, which is its folder; also a local location."""
    return path_of(str(table) if isinstance(table, Path | str) else table.location())


def files_of(table: Table | Path | str) -> set[Path]:
    """All files in the folder of a table."""
    return {path for path in folder_of(table).rglob("*") if path.is_file()}


def parquet_file(path: Path, rows: pa.Table, *, by: str = "pyarrow", **options: Any) -> Path:
    """A Parquet file; returns its path.

    Args:
        path: of the file.
        rows: of it.
        by: the writer: ``"pyarrow"``, ``"polars"``, ``"duckdb"``, or ``"arrow-rs"`` (through deltalake).
        options: of this writer, in its spelling: those of `pyarrow.parquet.write_table`, Polars' ``write_parquet``,
            DuckDB's ``COPY``, or deltalake's ``WriterProperties``.
    """
    if by == "pyarrow":
        pq.write_table(rows, path, **options)
    elif by == "polars":
        require_module("polars").DataFrame(rows).write_parquet(path, **options)
    elif by == "duckdb":
        said = ", ".join(["FORMAT parquet", *(f"{name} {value}" for name, value in options.items())])
        with require_module("duckdb").connect() as connection:
            connection.register("rows", rows)
            connection.execute(f"COPY rows TO '{path}' ({said})")
    elif by == "arrow-rs":
        deltalake, folder = require_module("deltalake"), path.with_suffix(".delta")
        deltalake.write_deltalake(folder, rows, writer_properties=deltalake.WriterProperties(**options))
        (written,) = folder.glob("*.parquet")
        written.rename(path)
        shutil.rmtree(folder)
    else:
        raise ValueError(by)
    return path
