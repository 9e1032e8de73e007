"""Brings a built wheel to executors: ``python -m tests.ship DIST SCRATCH`` packs a fresh environment with it and
runs jobs on a `local-cluster` whose executors have nothing but that archive."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.environments import clean, create

EXECUTORS = ["pandas>=2.2", "venv-pack"]
"""What executors need beside the wheel with its extra `iceberg`; Spark brings its own Python files."""

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For the driver and the executors, which do little: the optimising compiler would take longer than the work."""

JOBS = """
import os, sys
from pathlib import Path

import pyarrow as pa
import pyspark
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from puffin_fast import iceberg, spark as ps

scratch, archive = Path(sys.argv[1]), sys.argv[2]
home = scratch / "home"  # workers keep the unpacked archive and their logs in it
home.mkdir()
for part in ("bin", "jars", "python"):
    (home / part).symlink_to(Path(pyspark.__file__).parent / part)
os.environ["SPARK_HOME"] = str(home)
settings = {
    "spark.executor.memory": "512m", "spark.driver.memory": "512m", "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2",
    "spark.archives": f"{archive}#environment", "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
}
os.environ["PYSPARK_PYTHON"] = "./environment/bin/python"
builder = SparkSession.builder.master("local-cluster[2,1,1024]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()

def where(batches):
    import puffin_fast, pyarrow
    for batch in batches:
        yield pyarrow.record_batch({"path": [puffin_fast.__file__]})

df = spark.createDataFrame([("a", 1), ("b", 2)], "file_path string, pos long").repartition(2)
paths = {row.path for row in df.mapInArrow(where, "path string").collect()}
assert all("/environment/lib/" in path and str(home) in path for path in paths), paths
assert ps.write_deletion_vectors(df, scratch / "out").num_rows == 2
catalog = SqlCatalog("c", uri=f"sqlite:///{scratch}/c.db", warehouse=f"file://{scratch}/wh")
catalog.create_namespace("n")
rows = pa.table({"id": range(1000), "k": [i % 7 for i in range(1000)]})
table = iceberg.create_table(catalog, "n.t", rows.schema)
iceberg.append(table, rows)
assert ps.delete(spark, table, "k = 3").rows_deleted == 143
assert iceberg.verify(table) == []
spark.stop()
"""


def main(dist: Path, scratch: Path) -> None:
    (wheel,) = dist.resolve().glob("*.whl")
    scratch = scratch.resolve()
    shutil.rmtree(scratch, ignore_errors=True)
    environment, archive = scratch / "environment", scratch / "environment.tar.gz"
    began = time.perf_counter()

    def done(what: str) -> None:
        nonlocal began
        print(f"{what}: {time.perf_counter() - began:.0f} s", flush=True)
        began = time.perf_counter()

    create(environment, f"{wheel}[iceberg]", *EXECUTORS)
    done("install")
    pack = [environment / "bin" / "venv-pack", "-q", "-p", environment, "-o", archive]
    subprocess.run([*pack, "--compress-level", "1"], env=clean(), check=True)  # it stays on this machine
    done(f"pack {archive.stat().st_size / 1e6:.0f} MB")
    shutil.rmtree(environment)
    of_spark = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": JVM}
    jobs = [sys.executable, "-c", JOBS, scratch, archive]
    subprocess.run(jobs, cwd=scratch, env=clean() | of_spark, check=True)
    done("jobs on the archive")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
