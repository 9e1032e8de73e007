"""The engines that the benchmarks compare with, and a timer of CPU time that includes their processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.iceberg_tables import CATALOG, Tables
from benchmarks.rounds import Figures

__all__ = [
    "Stopwatch",
    "duckdb_with_delta",
    "duckdb_with_iceberg",
    "rest_catalog",
    "spark_with_delta",
    "spark_with_iceberg",
]


class Stopwatch:
    """Wall and CPU seconds of this process, and of Spark's JVM and its Python workers, while there are any."""

    jvm: ClassVar[int | None] = None

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begins anew: what came before does not count."""
        self._began = self._clocks()

    def figures(self) -> Figures:
        """Seconds since the start."""
        wall, cpu = (now - then for now, then in zip(self._clocks(), self._began, strict=True))
        return {"seconds": wall, "cpu": cpu}

    def _clocks(self) -> tuple[float, float]:
        cpu = time.process_time()
        if self.jvm is not None:
            cpu += _cpu_below(self.jvm)
        return time.perf_counter(), cpu


def _cpu_below(root: int) -> float:
    """CPU seconds of a process and of those below it, also of the ones that have ended."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    inside = {root}
    while more := {pid for pid, parent in parents.items() if parent in inside} - inside:
        inside |= more
    return sum(ticks[pid] for pid in inside) / os.sysconf("SC_CLK_TCK")


def duckdb_with_iceberg() -> AbstractContextManager[Any]:
    return _duckdb("avro", "httpfs", "iceberg")


def duckdb_with_delta() -> AbstractContextManager[Any]:
    return _duckdb("delta")


@contextmanager
def _duckdb(*extensions: str) -> Iterator[Any]:
    """A connection of two threads with extensions from their packages; nothing is downloaded."""
    import importlib

    import duckdb

    with duckdb.connect(config={"threads": 2}) as connection:
        for name in extensions:
            package = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
            (extension,) = package.glob(f"extensions/*/{name}.duckdb_extension")
            connection.execute(f"LOAD '{extension}'")
        yield connection


def spark_with_iceberg(tables: Tables, master: str = "local[2]") -> AbstractContextManager[Any]:
    catalog = f"spark.sql.catalog.{CATALOG}"
    return _spark(
        "spark",
        tables.root,
        {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            f"{catalog}.uri": f"jdbc:sqlite:{tables.database}",
            f"{catalog}.jdbc.schema-version": "V1",
            f"{catalog}.warehouse": f"file://{tables.root}/wh",
            f"{catalog}.cache-enabled": "false",
        },
        master,
    )


def spark_with_delta(root: Path) -> AbstractContextManager[Any]:
    return _spark(
        "delta",
        root,
        {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.warehouse.dir": str(root / "spark"),
        },
    )


@contextmanager
def _spark(jars_of: str, root: Path, settings: dict[str, str], master: str = "local[2]") -> Iterator[Any]:
    """A session of two cores; a process has the jars of its first session."""
    from pyspark.sql import SparkSession

    from tests import jars

    builder = SparkSession.builder.master(master)
    for key, value in {
        **settings,
        "spark.jars": ",".join(map(str, jars.find(jars_of))),
        "spark.driver.memory": "2g",
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[1]),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(root / "spark"),
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    Stopwatch.jvm = session._jvm.java.lang.ProcessHandle.current().pid()
    try:
        yield session
    finally:
        Stopwatch.jvm = None
        session.stop()


@contextmanager
def rest_catalog(root: Path) -> Iterator[Any]:
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
