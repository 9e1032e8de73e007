"""Downloads the jars of the interoperability tests with Maven, once, to a cache outside the source tree.

``python tests/jars.py`` (``make jars``) fills it; tests only look. Layout of the cache::

    <cache>/spark-<fingerprint>/*.jar    Iceberg's runtime for Spark and the SQLite driver
    <cache>/rest-<fingerprint>/*.jar     Iceberg's own REST catalog server
    <cache>/delta-<fingerprint>/*.jar    Delta for Spark
    <cache>/paimon-<fingerprint>/*.jar   Paimon

A fingerprint covers the coordinates, so that a changed version is a new folder; a folder appears by one
rename after everything is in it, so that a half-finished fetch is never taken for a full one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SPARK_SERIES = "4.1"
"""The only PySpark series that the runtime jar below runs on."""

SQLITE = "org.xerial:sqlite-jdbc:3.49.1.0"
SPARK = (f"org.apache.iceberg:iceberg-spark-runtime-{SPARK_SERIES}_2.13:1.12.0", SQLITE)
REST = (
    "org.apache.iceberg:iceberg-core:1.11.0",
    "org.apache.iceberg:iceberg-core:1.11.0:tests",
    "org.apache.iceberg:iceberg-api:1.11.0",
    "org.apache.iceberg:iceberg-open-api:1.11.0:test-fixtures",
    "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.3",
    "org.eclipse.jetty.compression:jetty-compression-server:12.1.3",
    "org.eclipse.jetty.compression:jetty-compression-gzip:12.1.3",
    SQLITE,
    "org.apache.hadoop:hadoop-client-api:3.4.1",
    "org.apache.hadoop:hadoop-client-runtime:3.4.1",
    "org.slf4j:slf4j-simple:2.0.16",
)
"""``group:artifact:version[:classifier]``; what these depend on comes with them."""

DELTA = (f"io.delta:delta-spark_{SPARK_SERIES}_2.13:4.4.0",)

PAIMON = (
    "org.apache.paimon:paimon-bundle:1.4.2",
    "org.apache.hadoop:hadoop-client-api:3.4.1",
    "org.apache.hadoop:hadoop-client-runtime:3.4.1",
    "org.slf4j:slf4j-simple:1.7.36",
)

SETS = {"spark": SPARK, "rest": REST, "delta": DELTA, "paimon": PAIMON}


def cache() -> Path:
    """The cache's folder: ``PUFFIN_FAST_JARS``, else ``puffin_fast/jars`` in the user's cache folder."""
    if chosen := os.environ.get("PUFFIN_FAST_JARS"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "puffin_fast" / "jars"


def folder(name: str) -> Path:
    """Returns the folder of one set of jars, which need not exist."""
    return cache() / f"{name}-{hashlib.sha256(' '.join(SETS[name]).encode()).hexdigest()[:12]}"


def find(name: str) -> list[Path]:
    """The jars of one set, sorted; empty when they were not fetched."""
    return sorted(folder(name).glob("*.jar"))


def _pom(coordinates: tuple[str, ...]) -> str:
    dependencies = []
    for coordinate in coordinates:
        group, artifact, version, *classifier = coordinate.split(":")
        extra = f"<classifier>{classifier[0]}</classifier>" if classifier else ""
        dependencies.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version>{extra}</dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>puffin_fast</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{''.join(dependencies)}</dependencies></project>"
    )


def _by_maven(maven: str, coordinates: tuple[str, ...], target: Path) -> None:
    pom = target / "pom.xml"
    pom.write_text(_pom(coordinates))
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={target}", "-DincludeScope=runtime"]
    subprocess.run([maven, "-q", "-B", "-f", str(pom), *goal], check=True)
    pom.unlink()


def _by_ivy(coordinates: tuple[str, ...], target: Path) -> None:
    """Spark's own resolver, for machines without Maven; it knows no classifiers."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.jars.packages", ",".join(coordinates)).getOrCreate()
    try:
        for jar in (session.conf.get("spark.jars") or "").split(","):
            shutil.copy(jar.removeprefix("file://"), target)
    finally:
        session.stop()


def fetch(name: str) -> Path:
    """Downloads one set to the cache unless it exists.

    Returns:
        the set's folder.

    Raises:
        SystemExit: no client can download it; the message names what to install.
    """
    final = folder(name)
    if find(name):
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=f".{name}-") as scratch:
        target = Path(scratch) / "jars"
        target.mkdir()
        maven = shutil.which("mvn")
        if maven:
            _by_maven(maven, SETS[name], target)
        elif any(coordinate.count(":") > 2 for coordinate in SETS[name]):
            raise SystemExit(f"the jars of {name!r} need Maven: install it (apt-get install maven) and retry")
        else:
            _by_ivy(SETS[name], target)
        try:
            target.rename(final)
        except OSError:
            if not find(name):  # another process that fetched at the same time won
                raise
    return final


def main() -> None:
    for name in sys.argv[1:] or SETS:
        print(f"{name}: {len(list(fetch(name).glob('*.jar')))} jars in {folder(name)}")


if __name__ == "__main__":
    main()
