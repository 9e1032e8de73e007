"""Fixtures of all tests: a Spark session, a catalog shared by Java, PyIceberg and this package, a REST catalog, DuckDB.

If a part is missing on this machine, its tests are skipped with the command that installs it; with ``CI=true`` they
fail.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import hypothesis
import pytest

from tests import jars, lanes

if TYPE_CHECKING:
    import duckdb
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

    from tests.kit.faults import RacingCatalog

CATALOG = "shared"
"""Name of the catalog in PyIceberg and in Spark: it is the key in the SQLite file, so it must be one name."""

JAVA = 17
"""The oldest Java that PySpark 4 runs on."""

REST_START_S = 60

JVM = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=300m"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""For JVMs that do little: the optimising compiler would take longer than the work.

Without it, Java reserves 48 MB for compiled code, which Spark fills: code was dropped and compiled again (a sixth of
the CPU time of the cases of Delta).
"""

QUICK = {
    "spark.driver.extraJavaOptions": JVM,
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[1]),
    "spark.python.daemon.module": "tests.spark.daemon",
}
"""For sessions that do little."""

IN_CI = os.environ.get("CI", "").lower() in ("1", "true")

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("SPARK_SUBMIT_OPTS", JVM)  # for sessions of other processes too

gc.set_threshold(50_000)  # with Python's own 700, collections are a tenth of the CPU time without Spark

hypothesis.settings.register_profile("quick", max_examples=10, deadline=None)
hypothesis.settings.register_profile("fast", max_examples=60, deadline=None)
hypothesis.settings.register_profile("ci", max_examples=100, deadline=None, print_blob=True)
hypothesis.settings.register_profile(
    "deep",
    max_examples=5_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if IN_CI else "fast"))


# Optional parts ------------------------------------------------------------------------------------


def require(present: object, what: str, how: str) -> None:
    """Skips the test if a part is missing; fails in CI, where all parts are required.

    Args:
        present: whether the part exists.
        what: what is missing, as a noun.
        how: the command that installs it.
    """
    if not present:
        reason = f"{what} is missing: {how}"
        pytest.fail(reason, pytrace=False) if IN_CI else pytest.skip(reason)


def require_module(name: str, how: str = "make .venv") -> Any:
    """Imports a module that only tests or an extra need, or does what `require` does."""
    require(importlib.util.find_spec(name.partition(".")[0]), f"the package {name}", how)
    return importlib.import_module(name)


def readable(value: object) -> str:
    """A parameter's id: its repr without addresses, so that it is the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


@cache
def java_version() -> int | None:
    """Major version of the Java that Spark would start, None without one."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if not java or not Path(java).exists():
        return None
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else None


def require_java() -> None:
    """Requires the Java version that PySpark 4 needs."""
    found = java_version()
    require(
        found is not None and found >= JAVA,
        f"Java {JAVA} (found {found or 'none'})",
        f"apt-get install openjdk-{JAVA}-jre-headless, or point JAVA_HOME at one",
    )


def jars_fit() -> bool:
    """Whether the installed PySpark is the series that Iceberg's runtime jar was made for."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None:
        return False
    return str(importlib.import_module("pyspark.version").__version__).startswith(f"{jars.SPARK_SERIES}.")


@cache
def uses_session(file: Path) -> bool:
    """Whether the tests of a file use the one classic session."""
    return bool(re.search(r"spark: (SparkSession|object)|\bpanel: ", file.read_text(encoding="utf-8")))


def pytest_addoption(parser: pytest.Parser) -> None:
    lanes.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    lanes.load_profile(config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("lane") == "check" and not lanes.in_check(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files of the classic session come first, then slow ones, then those that start another."""
    lanes.select(config, items)

    def marked(name: str) -> set[Path]:
        return {item.path for item in items if item.get_closest_marker(name)}

    slow, spark = marked("slow"), marked("spark")
    items.sort(key=lambda i: (not uses_session(i.path), i.path not in slow, i.path not in spark))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lanes.report(terminalreporter)


def pytest_collection_finish() -> None:
    """The objects of all modules stay, so collections need not traverse them."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keeps files whole, and those of the classic session in one process: another JVM would have to warm up, too."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Sessions(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "the session" if uses_session(config.rootpath / file) else file

    return Sessions(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Requires the parts of the markers of a test."""
    lanes.refuse_late(item.config)
    if item.get_closest_marker("pypaimon") and importlib.util.find_spec("pypaimon") is None:
        pytest.skip("pypaimon is missing: make test-paimon, which has an environment of its own")
    needs_jar = item.get_closest_marker("jar")
    if needs_jar or item.get_closest_marker("spark"):
        require_java()
        require_module("pyspark", "pip install 'puffin-fast[spark]'")
    if needs_jar:
        require(jars.find("spark") and jars.find("rest"), "Iceberg's Java runtime", "make jars")
        require(jars_fit(), f"PySpark {jars.SPARK_SERIES}", "run in .venv, not in .venv-newest")


# The shared catalog -----------------------------------------------------------------------------------


def _commit_without_waiting_for_the_disk(connection: Any, _: object) -> None:
    """Only a loss of power could tell: a process that is killed leaves its writes to the system.

    A commit waited for the disk for longer than it worked.
    """
    connection.execute("PRAGMA synchronous = OFF")


if importlib.util.find_spec("sqlalchemy"):
    importlib.import_module("sqlalchemy.event").listen(
        importlib.import_module("sqlalchemy.engine").Engine, "connect", _commit_without_waiting_for_the_disk
    )


class Warehouse(NamedTuple):
    """One SQLite file and one folder that PyIceberg and Iceberg's Java runtime share."""

    database: Path
    folder: Path


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The files of `shared_catalog` and of Spark's catalog of the same name."""
    root = tmp_path_factory.mktemp("warehouse")
    folder = root / "tables"
    folder.mkdir()
    return Warehouse(root / "catalog.db", folder)


@pytest.fixture(scope="session")
def shared_catalog(warehouse: Warehouse) -> Iterator[SqlCatalog]:
    """PyIceberg's catalog on the file that Spark's catalog ``shared`` uses too."""
    sql = require_module("pyiceberg.catalog.sql", "pip install 'puffin-fast[iceberg]'")
    catalog = sql.SqlCatalog(
        CATALOG, uri=f"sqlite:///{warehouse.database}", warehouse=f"file://{warehouse.folder}"
    )
    yield catalog
    catalog.engine.dispose()


def _fresh_namespace(catalog: Catalog) -> str:
    name = f"n{uuid.uuid4().hex[:12]}"
    catalog.create_namespace(name)
    return name


@pytest.fixture
def namespace(shared_catalog: SqlCatalog) -> str:
    """A fresh namespace of `shared_catalog`: in Spark ``shared.<namespace>.<table>``."""
    return _fresh_namespace(shared_catalog)


@pytest.fixture
def racing(tmp_path: Path) -> Iterator[RacingCatalog]:
    """A catalog of its own with the namespace ``n``, in which other commits may happen."""
    from tests.kit.faults import RacingCatalog

    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/wh"
    catalog = RacingCatalog("racing", uri=uri, warehouse=warehouse)
    catalog.create_namespace("n")
    yield catalog
    catalog.engine.dispose()


@pytest.fixture
def rest_namespace(rest_catalog: RestCatalog) -> str:
    """A fresh namespace of `rest_catalog`."""
    return _fresh_namespace(rest_catalog)


# Spark ---------------------------------------------------------------------------------------------------


def _iceberg_settings(warehouse: Warehouse) -> dict[str, str]:
    catalog = f"spark.sql.catalog.{CATALOG}"
    return {
        "spark.jars": ",".join(str(jar) for jar in jars.find("spark")),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        f"{catalog}.uri": f"jdbc:sqlite:{warehouse.database}",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.jdbc.synchronous": "OFF",
        f"{catalog}.warehouse": f"file://{warehouse.folder}",
        f"{catalog}.cache-enabled": "false",  # other clients commit too: load the table for each query
    }


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one classic session of this process; with Iceberg's runtime when its jars are there and fit."""
    require_java()
    sql = require_module("pyspark.sql", "pip install 'puffin-fast[spark]'")
    scratch = tmp_path_factory.mktemp("spark")
    settings = QUICK | {
        "spark.app.name": "puffin_fast tests",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{JVM} -Djava.io.tmpdir={scratch} -Dderby.system.home={scratch}",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if jars_fit() and jars.find("spark"):
        settings |= _iceberg_settings(request.getfixturevalue("warehouse"))
    builder = sql.SparkSession.builder.master("local[2,3]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def iceberg_spark(request: pytest.FixtureRequest, shared_catalog: SqlCatalog) -> SparkSession:
    """`spark` where it carries Iceberg's runtime, on `shared_catalog`'s tables: the reference engine."""
    require(jars.find("spark"), "Iceberg's Java runtime", "make jars")
    require(jars_fit(), f"PySpark {jars.SPARK_SERIES}", "run in .venv, not in .venv-newest")
    session: SparkSession = request.getfixturevalue("spark")
    return session


# A REST catalog and DuckDB -------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _wait_until_up(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Sends requests until the server answers; waits on its process, without a sleep."""
    for _ in range(REST_START_S * 10):
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError):
            pass
        try:
            server.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    pytest.fail(f"the REST catalog did not start:\n{log.read_text()[-4000:]}", pytrace=False)


@pytest.fixture(scope="session")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    """PyIceberg's client of Iceberg's own REST catalog server on loopback; its ``properties["uri"]``."""
    require_java()
    require(jars.find("rest"), "Iceberg's REST catalog server", "make jars (needs Maven)")
    rest = require_module("pyiceberg.catalog.rest", "pip install 'puffin-fast[iceberg]'")
    root = tmp_path_factory.mktemp("rest")
    (root / "tables").mkdir()
    port = free_port()
    environment = os.environ | {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_WAREHOUSE": f"file://{root}/tables",
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_URI": f"jdbc:sqlite:{root}/catalog.db",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_JDBC_SYNCHRONOUS": "OFF",
    }
    command = [
        "java",
        *JVM.split(),
        "-Xmx512m",
        f"-Djava.io.tmpdir={root}",
        "-cp",
        f"{jars.folder('rest')}/*",
    ]
    # the shell ends the server when its standard input closes, so also when this process is killed
    until_closed = ["sh", "-c", '"$@" & read -r _; kill $!', "sh", *command]
    log = root / "server.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [*until_closed, "org.apache.iceberg.rest.RESTCatalogServer"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
        ) as server,
    ):
        _wait_until_up(server, f"http://127.0.0.1:{port}/v1/config", log)
        yield rest.RestCatalog("rest", uri=f"http://127.0.0.1:{port}")


@pytest.fixture(scope="session")
def duckdb_delta() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB connection with its Delta extension, loaded from the package."""
    module = require_module("duckdb")
    connection = module.connect(config={"threads": 2, "enable_external_file_cache": False})
    package = require_module("duckdb_extension_delta")
    (path,) = Path(package.__file__).parent.glob("extensions/*/delta.duckdb_extension")
    connection.execute(f"LOAD '{path}'")
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def duckdb_iceberg() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB connection with its Iceberg extension, loaded from the packages: nothing is downloaded.

    Its file cache is disabled, because it may return wrong bytes (see ``tests/interop``).
    """
    module = require_module("duckdb")
    connection = module.connect(config={"threads": 2, "enable_external_file_cache": False})
    for name in ("avro", "httpfs", "iceberg"):
        package = require_module(f"duckdb_extension_{name}")
        (path,) = Path(package.__file__).parent.glob(f"extensions/*/{name}.duckdb_extension")
        connection.execute(f"LOAD '{path}'")
    yield connection
    connection.close()
