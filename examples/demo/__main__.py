"""Deletes rows of real Iceberg v3 tables and verifies the results with other engines: ``python -m examples.demo``.

The rows are loaded into a table of format version 3. One delete runs on Spark, another one on this machine, which
merges the vectors. After each delete, the rows that PyIceberg and DuckDB read are compared with the source.

It needs Java 17 and ``pip install 'puffin-fast[demo]'``; ``make demo`` installs what is missing.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from duckdb import DuckDBPyConnection
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table as Grid

from examples.demo.check import check_rows, duckdb_with_iceberg, position_delete_bytes
from examples.demo.data import DataSet, flights, lineitem
from puffin_fast import iceberg, spark
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.puffin.vectors import read_vector

NAMESPACE = "demo"

WAREHOUSE = "warehouse"
"""The folder inside the demo's folder that each run replaces. The source data beside it is used again."""

MARKER = ".puffin-fast-demo"
"""The file that marks a folder as made by an earlier run. Other folders with files are refused."""


@dataclass
class Measurements:
    """The measurements that are printed and drawn at the end."""

    stages: list[dict[str, Any]] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str, **entries: Any) -> Iterator[dict[str, Any]]:
        """Measures the time of a stage; the caller may add entries to the yielded row."""
        row = {"stage": name, "table": "", "rows": None, **entries}
        began = time.perf_counter()
        yield row
        row["seconds"] = round(time.perf_counter() - began, 3)
        self.stages.append(row)
        click.echo(f"{row['seconds']:7.2f} s  {name} {row['table']}", err=True)


def _new_warehouse(folder: Path) -> Path:
    """Makes an empty warehouse in the demo's folder. Only a folder that a run has made is changed.

    Raises:
        UsageError: the folder has files, and no run has made it.
    """
    marker, warehouse = folder / MARKER, folder / WAREHOUSE
    folder.mkdir(parents=True, exist_ok=True)
    if not marker.exists():
        if found := next(folder.iterdir(), None):
            raise click.UsageError(
                f"--folder {folder}: expected an empty folder, a new one, or one of an earlier run, which has the "
                f"file {MARKER}; found {found.name}"
            )
        marker.write_text("Each run of the demo replaces files of this folder.\n")
    if warehouse.exists():
        shutil.rmtree(warehouse)
    warehouse.mkdir()
    return warehouse


def _spark(folder: Path) -> SparkSession:
    """Starts a local session that logs only errors."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[*]").appName("puffin-fast demo")
    for key, value in {
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "spark"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _catalog(folder: Path) -> SqlCatalog:
    """Opens a catalog in a SQLite file beside its warehouse."""
    catalog = SqlCatalog(NAMESPACE, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace(NAMESPACE)
    return catalog


def _load(catalog: SqlCatalog, data: DataSet) -> tuple[Table, int]:
    """Loads the source into a new table, with one append per file; returns the table and the number of rows."""
    name = f"{NAMESPACE}.{data.name}"
    table = iceberg.create_table(catalog, name, data.schema(), partition_spec=data.partition_by)
    rows = 0
    for batch in data.batches():
        iceberg.append(table, batch)
        rows += batch.num_rows
    return table, rows


def _vectors(table: Table) -> tuple[int, list[tuple[str, PositionBitmap, int]]]:
    """Returns the number of data files, and the data file, positions and bytes of each vector."""
    tasks = iceberg.plan_files(table).tasks
    found = []
    for task in tasks:
        if (vector := task.vector) is not None:
            offset, length = vector.content_offset, vector.content_size_in_bytes
            assert offset is not None  # the plan has checked that a vector has both
            assert length is not None
            bitmap = read_vector(vector.file_path, offset, length, cardinality=vector.record_count)
            found.append((task.data.file_path, bitmap, length))
    return len(tasks), found


def _run(
    measured: Measurements,
    data: DataSet,
    session: SparkSession,
    connection: DuckDBPyConnection,
    catalog: SqlCatalog,
) -> None:
    """Loads one table, runs its deletes, and compares the results."""
    with measured.stage("load", table=data.name) as row:
        table, row["rows"] = _load(catalog, data)
    functions: tuple[tuple[str, Callable[[str], Any]], ...] = (
        ("Spark", lambda row_filter: spark.delete(session, table, row_filter)),
        ("this machine", lambda row_filter: iceberg.delete(table, row_filter)),
    )
    done: list[str] = []
    for erased, (engine, delete) in zip(data.deletes, functions, strict=True):
        before = measured.tables[-1]["deleted"] if done else 0
        with measured.stage(f"delete {erased.what} ({engine})", table=data.name) as row:
            delete(erased.row_filter)
            table.refresh()
        done.append(erased.row_filter)
        n_files, vectors = _vectors(table)
        deleted = sum(len(bitmap) for _, bitmap, _ in vectors)
        row["rows"] = deleted - before
        folder = (
            Path(table.location().removeprefix("file://")).parent
            / f"{data.name}-position-deletes-{len(done)}"
        )
        n_bytes = sum(length for _, _, length in vectors)
        other = position_delete_bytes(((path, bitmap) for path, bitmap, _ in vectors), folder)
        with measured.stage(
            "verify: PyIceberg and DuckDB read the rows of a plain filter", table=data.name
        ) as row:
            rows = check_rows(connection, table, data.files, done)
            row["rows"] = rows["plain filter"]
        measured.tables.append(
            {
                "table": data.name,
                "after deleting": erased.what,
                "data files": n_files,
                "rows left": rows["plain filter"],
                "deleted": deleted,
                "vectors": len(vectors),
                "bytes of vectors": n_bytes,
                "bytes as position deletes": other,
                "times smaller": round(other / n_bytes, 2),
            }
        )


def _picture(measured: Measurements, path: Path) -> bool:
    """Draws bars of bytes and seconds; False if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return False
    figure = Figure(figsize=(11, 4), layout="constrained")
    sizes, seconds = figure.subplots(1, 2)
    names = [f"{row['table']}\n{row['after deleting']}" for row in measured.tables]
    places = range(len(names))
    for shift, key in ((-0.2, "bytes of vectors"), (0.2, "bytes as position deletes")):
        bars = sizes.bar([p + shift for p in places], [row[key] for row in measured.tables], 0.4, label=key)
        sizes.bar_label(bars, fmt="{:,.0f}", fontsize=7)
    sizes.set_xticks(list(places), names, fontsize=7, rotation=20)
    sizes.set_yscale("log")
    sizes.set_title("the same deletes, in bytes")
    sizes.legend(fontsize=7)
    stages = list(reversed(measured.stages))
    bars = seconds.barh(range(len(stages)), [row["seconds"] for row in stages])
    seconds.bar_label(bars, fmt="{:.2f}", fontsize=7)
    seconds.set_yticks(
        range(len(stages)), [f"{row['table']} {row['stage'].split(':')[0]}" for row in stages], fontsize=7
    )
    seconds.set_title("seconds per stage")
    figure.savefig(path, dpi=120)
    return True


def _grid(rows: list[dict[str, Any]], title: str) -> Grid:
    table = Grid(*rows[0], title=title)
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
    return table


@click.command()
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/demo"),
    show_default=True,
    help="Folder for the source data and the warehouse: new, empty, or of an earlier run.",
)
@click.option(
    "--scale",
    type=click.FloatRange(min=0),
    default=0,
    envvar="DEMO_SCALE",
    show_default=True,
    show_envvar=True,
    help="TPC-H scale factor of the table lineitem (1: 6 million rows); 0: without lineitem.",
)
@click.option("--json", "as_json", is_flag=True, help="Prints one JSON document.")
def main(folder: Path, scale: float, as_json: bool) -> None:
    """Deletes rows of real Iceberg v3 tables through Spark and on this machine, and verifies the result."""
    folder = folder.resolve()
    warehouse = _new_warehouse(folder)
    measured = Measurements()
    with measured.stage("sources"):
        sets = [flights(folder)]
        if scale:
            sets.append(lineitem(folder, scale))
    with measured.stage("start Spark"):
        session = _spark(warehouse)
    try:
        with closing(_catalog(warehouse)) as catalog, duckdb_with_iceberg(warehouse) as connection:
            for data in sets:
                _run(measured, data, session, connection, catalog)
    finally:
        session.stop()
    has_picture = _picture(measured, folder / "demo.png")
    if as_json:
        print(json.dumps({"tables": measured.tables, "stages": measured.stages}))
        return
    title = "deletion vectors, and the same deletes as Parquet position-delete files"
    console = Console()
    console.print(_grid(measured.stages, "stages"), _grid(measured.tables, title))
    if has_picture:
        console.print(f"picture: {folder / 'demo.png'}")


if __name__ == "__main__":
    main()
