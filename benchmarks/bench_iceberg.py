"""Iceberg tables side by side with the engines that do the same: a script of its own, JSON on standard output.

    python -m benchmarks.bench_iceberg convert              20M position deletes in 1000 files -> vectors
    python -m benchmarks.bench_iceberg convert --with java  beside Iceberg's rewrite_position_delete_files
    python -m benchmarks.bench_iceberg scan                 40M rows, half deleted, beside DuckDB, Polars, PyIceberg
    python -m benchmarks.bench_iceberg delete               delete half, then a third, beside DuckDB through REST
    python -m benchmarks.bench_iceberg delete --with java   and beside Spark's DELETE on a catalog in SQLite

The table: 1000 data files, 40M rows of (id bigint, k int), every second row deleted. It is kept in ``--folder``
for the next run. ``--files`` makes it smaller. Contenders alternate in one process; each round of `convert`
starts from the same metadata, registered under another name. Seconds are wall time; `cpu`, which the bars are
about, is of this process and of Spark's JVM; the REST server's is nobody's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.alternate import report, turn
from benchmarks.timing import OURS

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

ROWS_PER_FILE = 40_000
CATALOG = "bench"
PATH_ID, POS_ID = 2147483546, 2147483545
JAVA = "Java on Spark local[2]"
BARS = {
    "convert": {JAVA: 20.0},
    "delete half": {"DuckDB": 2.0, JAVA: 4.0},
    "delete a third": {"DuckDB": 2.0, JAVA: 4.0},
    "scan": {"DuckDB": 1.0},
}


def _field(name: str, kind: pa.DataType, field_id: int, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, metadata={"PARQUET:field_id": str(field_id)})


DATA = pa.schema([_field("id", pa.int64(), 1), _field("k", pa.int32(), 2)])
POSITIONS = pa.schema(
    [
        _field("file_path", pa.string(), PATH_ID, nullable=False),
        _field("pos", pa.int64(), POS_ID, nullable=False),
    ]
)


class Tables:
    """A catalog in a folder, with the table in the states that the jobs start from."""

    def __init__(self, folder: Path, n_files: int) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        self.root = folder / f"files-{n_files}"
        self.n_files = n_files
        self.database = self.root / "catalog.db"
        new = not (self.root / "done").exists()
        if new:
            shutil.rmtree(self.root, ignore_errors=True)
            self.root.mkdir(parents=True)
        self.catalog: SqlCatalog = SqlCatalog(
            CATALOG, uri=f"sqlite:///{self.database}", warehouse=f"file://{self.root}/wh"
        )
        if new:
            self._make()
            (self.root / "done").touch()

    def _make(self) -> None:
        """The rows, then the position deletes in format version 2, then the upgrade."""
        from pyiceberg.schema import Schema
        from pyiceberg.types import IntegerType, LongType, NestedField

        from puffin_fast.iceberg import upgrade
        from puffin_fast.iceberg.commit.changes import Changes
        from puffin_fast.iceberg.commit.protocol import commit

        self.catalog.create_namespace_if_not_exists("n")
        schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "k", IntegerType()))
        modes = {f"write.{job}.mode": "merge-on-read" for job in ("delete", "update", "merge")}
        table = self.catalog.create_table(
            "n.base",
            schema,
            properties={"format-version": "2", "write.parquet.compression-codec": "zstd", **modes},
        )
        Path(table.location().removeprefix("file://"), "data").mkdir(parents=True)
        with ThreadPoolExecutor(2) as pool:
            data = list(pool.map(lambda n: self._data_file(table, n), range(self.n_files)))
            commit(table, Changes(added=tuple(data)), base=None)
            self.catalog.register_table("n.rows", table.metadata_location)
            deletes = list(pool.map(lambda entry: self._delete_file(table, entry), data))
        commit(table, Changes(added=tuple(deletes)), base=table.current_snapshot())
        upgrade(table)
        upgrade(self.catalog.load_table("n.rows"))

    def _data_file(self, table: Table, number: int) -> Any:
        ids = np.arange(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        ks = np.random.default_rng(number).integers(0, 1000, ROWS_PER_FILE, dtype=np.int32)
        path = f"{table.location()}/data/{number:05d}.parquet"
        bounds = [
            {1: struct.pack("<q", int(f(ids))), 2: struct.pack("<i", int(f(ks)))} for f in (np.min, np.max)
        ]
        size = _write(pa.table([ids, ks], schema=DATA), path)
        counts = {1: ROWS_PER_FILE, 2: ROWS_PER_FILE}
        return _entry(
            0,
            path,
            ROWS_PER_FILE,
            size,
            value_counts=counts,
            null_value_counts={1: 0, 2: 0},
            lower_bounds=bounds[0],
            upper_bounds=bounds[1],
        )

    def _delete_file(self, table: Table, data: Any) -> Any:
        positions = np.arange(0, ROWS_PER_FILE, 2)
        paths = pa.repeat(pa.scalar(data.file_path), len(positions))
        path = data.file_path.replace(".parquet", "-deletes.parquet")
        size = _write(pa.table([paths, positions], schema=POSITIONS), path)
        bound = {PATH_ID: data.file_path.encode()}
        return _entry(1, path, len(positions), size, lower_bounds=bound, upper_bounds=bound)

    def fresh(self, state: str, name: str) -> Table:
        """A table of its own that starts from a state's metadata."""
        identifier = f"n.{name}"
        if self.catalog.table_exists(identifier):
            self.catalog.drop_table(identifier)
        location = self.catalog.load_table(f"n.{state}").metadata_location
        return self.catalog.register_table(identifier, location)


def _write(rows: pa.Table, path: str) -> int:
    local = path.removeprefix("file://")
    pq.write_table(rows, local, compression="zstd", store_schema=False)
    return Path(local).stat().st_size


def _entry(content: int, path: str, rows: int, size: int, **metrics: Any) -> Any:
    from puffin_fast.iceberg.manifest import ADDED, ManifestEntry

    return ManifestEntry(
        status=ADDED,
        snapshot_id=None,
        sequence_number=None,
        file_sequence_number=None,
        content=content,
        file_path=path,
        file_format="PARQUET",
        spec_id=0,
        partition=(),
        record_count=rows,
        file_size_in_bytes=size,
        **metrics,
    )


# The jobs --------------------------------------------------------------------------------------------------

Contenders = dict[str, Callable[[int], "Callable[[], None] | None"]]
"""Each does the whole job; the number is the round's. What comes back checks the result, outside the time."""


def convert(tables: Tables, options: argparse.Namespace, stack: ExitStack) -> dict[str, Contenders]:
    from puffin_fast import iceberg

    def checked(name: str) -> Callable[[], None]:
        def check() -> None:
            tasks = iceberg.plan_files(tables.catalog.load_table(f"n.{name}")).tasks
            assert len(tasks) == tables.n_files, len(tasks)
            assert {(t.vector and t.vector.record_count) for t in tasks} == {ROWS_PER_FILE // 2}
            assert not any(task.position_deletes for task in tasks)

        return check

    def ours(number: int) -> Callable[[], None]:
        table = tables.fresh("base", f"ours{number}")
        yield_time()
        iceberg.convert_position_deletes(table)
        return checked(table.name()[1])

    contenders: Contenders = {OURS: ours}
    if "java" in options.beside:
        spark = stack.enter_context(_spark(tables))

        def java(number: int) -> Callable[[], None]:
            tables.fresh("base", f"java{number}")
            yield_time()
            spark.sql(
                f"CALL {CATALOG}.system.rewrite_position_delete_files(table => 'n.java{number}')"
            ).collect()
            return checked(f"java{number}")

        contenders[JAVA] = java
    return {"convert": contenders}


def scan(tables: Tables, options: argparse.Namespace, stack: ExitStack) -> dict[str, Contenders]:
    import polars

    from puffin_fast import iceberg

    table = tables.fresh("base", "scanned")
    iceberg.convert_position_deletes(table)
    expected = tables.n_files * ROWS_PER_FILE // 2
    duckdb = stack.enter_context(_duckdb())
    location = table.metadata_location

    def checked(found: pa.Table) -> Callable[[], None]:
        def check() -> None:
            assert found.num_rows == expected, found.num_rows
            assert pc.sum(found["id"]).as_py() == expected**2  # odd numbers
            assert pc.sum(found["k"]).as_py() == k_sum

        return check

    k_sum = pc.sum(iceberg.scan(table, selected_fields=["k"]).to_arrow()["k"]).as_py()
    contenders: Contenders = {
        OURS: lambda _: checked(iceberg.scan(table).to_arrow()),
        "DuckDB": lambda _: checked(duckdb.sql(f"FROM iceberg_scan('{location}')").to_arrow_table()),
        "Polars": lambda _: checked(polars.scan_iceberg(table).collect().to_arrow()),
    }
    if "pyiceberg" in options.beside:
        contenders["PyIceberg"] = lambda _: checked(table.scan().to_arrow())
    return {"scan": contenders}


def delete(tables: Tables, options: argparse.Namespace, stack: ExitStack) -> dict[str, Contenders]:
    """Both through one REST catalog on loopback: the tables are registered there under names of their own."""
    from puffin_fast import iceberg

    rest = stack.enter_context(_rest(tables.root))
    duckdb = stack.enter_context(_duckdb())
    rest.create_namespace_if_not_exists("n")
    uri = rest.properties["uri"]
    duckdb.execute(f"ATTACH 'wh' AS rest (TYPE iceberg, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none')")
    start = tables.catalog.load_table("n.rows").metadata_location
    left = {"delete half": tables.n_files * ROWS_PER_FILE // 2}
    rows = range(1, tables.n_files * ROWS_PER_FILE, 2)
    left["delete a third"] = len(rows) - len(range(3, tables.n_files * ROWS_PER_FILE, 6))

    def ready(name: str, job: str) -> None:
        if job == "delete half":
            rest.register_table(f"n.{name}", start)

    def check(name: str, job: str, catalog: Any = rest) -> Callable[[], None]:
        def run() -> None:
            table = catalog.load_table(f"n.{name}")
            totals = iceberg.report(table).totals
            assert totals["rows"] - totals["deleted"] == left[job], totals
            tasks = iceberg.plan_files(table).tasks
            ids = iceberg.scan(table, selected_fields=["id"], limit=ROWS_PER_FILE).to_arrow()["id"].to_numpy()
            assert len(tasks) == tables.n_files
            assert (ids % 2 == 1).all()
            assert job == "delete half" or (ids % 3 != 0).all()

        return run

    def ours(job: str, where: Any) -> Callable[[int], Callable[[], None]]:
        def run(number: int) -> Callable[[], None]:
            ready(f"ours{number}", job)
            yield_time()
            iceberg.delete(rest.load_table(f"n.ours{number}"), where)
            return check(f"ours{number}", job)

        return run

    def theirs(job: str, where: str) -> Callable[[int], Callable[[], None]]:
        def run(number: int) -> Callable[[], None]:
            ready(f"duck{number}", job)
            yield_time()
            duckdb.execute(f"DELETE FROM rest.n.duck{number} WHERE {where}")
            return check(f"duck{number}", job)

        return run

    def java(job: str, where: str) -> Callable[[int], Callable[[], None]]:
        def run(number: int) -> Callable[[], None]:
            name = f"java{number}"
            if job == "delete half":
                tables.fresh("rows", name)
            yield_time()
            spark.sql(f"DELETE FROM {CATALOG}.n.{name} WHERE {where}")
            return check(name, job, tables.catalog)

        return run

    jobs = {"delete half": "id % 2 = 0", "delete a third": "id % 3 = 0"}
    found: dict[str, Contenders] = {
        job: {OURS: ours(job, _modulo(where)), "DuckDB": theirs(job, where)} for job, where in jobs.items()
    }
    if "java" in options.beside:
        spark = stack.enter_context(_spark(tables))
        for job, where in jobs.items():
            found[job][JAVA] = java(job, where)
    return found


def _modulo(where: str) -> Any:
    """`id % n = 0` as a PyArrow expression: neither Iceberg's expressions nor Arrow's functions have a modulo."""
    n = int(where.split()[2])
    column = pc.field("id")
    return column == pc.divide(column, n) * n


JOBS = {"convert": convert, "scan": scan, "delete": delete}

# Engines ---------------------------------------------------------------------------------------------------


@contextmanager
def _duckdb() -> Iterator[Any]:
    import importlib

    import duckdb

    with duckdb.connect(config={"threads": 2}) as connection:
        for name in ("avro", "httpfs", "iceberg"):
            package = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
            (extension,) = package.glob(f"extensions/*/{name}.duckdb_extension")
            connection.execute(f"LOAD '{extension}'")
        yield connection


@contextmanager
def _spark(tables: Tables) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    from tests import jars

    catalog = f"spark.sql.catalog.{CATALOG}"
    settings = {
        "spark.jars": ",".join(map(str, jars.find("spark"))),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        f"{catalog}.uri": f"jdbc:sqlite:{tables.database}",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": f"file://{tables.root}/wh",
        f"{catalog}.cache-enabled": "false",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(tables.root / "spark"),
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    global _jvm
    session = builder.getOrCreate()
    _jvm = session._jvm.java.lang.ProcessHandle.current().pid()
    try:
        yield session
    finally:
        _jvm = None
        session.stop()


@contextmanager
def _rest(root: Path) -> Iterator[Any]:
    """Iceberg's own REST catalog server, on a database of its own."""
    import socket
    import subprocess
    import urllib.error
    import urllib.request

    from pyiceberg.catalog.rest import RestCatalog

    from tests import jars

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    database = root / f"rest-{port}.db"
    environment = os.environ | {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_WAREHOUSE": f"file://{root}/wh",
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_URI": f"jdbc:sqlite:{database}",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
    }
    command = [
        "java",
        "-Xmx1g",
        "-cp",
        f"{jars.folder('rest')}/*",
        "org.apache.iceberg.rest.RESTCatalogServer",
    ]
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdout=nowhere, stderr=nowhere) as server:
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/config", timeout=5).close()
                    break
                except (urllib.error.URLError, ConnectionError):
                    time.sleep(0.1)
            yield RestCatalog("rest", uri=f"http://127.0.0.1:{port}")
        finally:
            server.kill()


# Timing ----------------------------------------------------------------------------------------------------

_started = (0.0, 0.0)
_jvm: int | None = None
"""The process of Spark's JVM, while there is one."""


def _clocks() -> tuple[float, float]:
    """Wall and CPU seconds: of this process, its threads, and Spark's JVM."""
    cpu = time.process_time()
    if _jvm is not None:
        fields = Path(f"/proc/{_jvm}/stat").read_text().rpartition(")")[2].split()
        cpu += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return time.perf_counter(), cpu


def yield_time() -> None:
    """What came before does not count: a job calls this when its table is ready."""
    global _started
    _started = _clocks()


def measure(contenders: dict[str, Contenders], rounds: int) -> dict[str, Any]:
    samples: dict[str, dict[str, list[tuple[float, float]]]] = {
        job: {name: [] for name in those} for job, those in contenders.items()
    }
    names = list(next(iter(contenders.values())))
    for number in range(rounds):
        for name in turn(names, number):
            for job, those in contenders.items():
                yield_time()
                check = those[name](number)
                wall, cpu = (now - then for now, then in zip(_clocks(), _started, strict=True))
                samples[job][name].append((wall, cpu))
                if check is not None:
                    check()
                del check
                print(f"{job}: {name}: {wall:.2f} s, cpu {cpu:.2f} s", file=sys.stderr, flush=True)
    found: dict[str, Any] = {}
    for job, those in samples.items():
        rows = {
            name: {
                "seconds": statistics.median(wall for wall, _ in some),
                "cpu": statistics.median(cpu for _, cpu in some),
                "best": min(wall for wall, _ in some),
            }
            for name, some in those.items()
        }
        found[job] = {"contenders": rows, "bars": _verdicts(job, rows)}
    return found


def _verdicts(job: str, rows: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    """The bars about peers that ran: ratios of CPU time, and of wall time beside."""
    found = []
    for peer, bar in BARS[job].items():
        if peer not in rows:
            continue
        ratio, wall = (rows[peer][clock] / rows[OURS][clock] for clock in ("cpu", "seconds"))
        met = ratio >= bar
        found.append({"peer": peer, "bar": bar, "ratio": ratio, "wall_ratio": wall, "met": met})
        said = "met" if met else "MISSED"
        print(f"{job}: {ratio:.2f}x {peer} (wall {wall:.2f}x), bar {bar}: {said}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--folder", type=Path, default=Path("build/bench/iceberg"))
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--with", dest="beside", action="append", default=[], choices=["java", "pyiceberg"])
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    tables = Tables(options.folder.resolve(), options.files)
    with ExitStack() as stack:
        found = measure(JOBS[options.job](tables, options, stack), options.rounds)
    report({f"{job}, {options.files} files": said for job, said in found.items()}, options.into)


if __name__ == "__main__":
    main()
