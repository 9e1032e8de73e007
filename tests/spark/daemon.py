"""The process from which Spark forks the Python workers of the tests; it has imported what the workers need.

Spark starts it as ``spark.python.daemon.module``. With Spark's own daemon, each new worker, also one that replaces a
worker whose task failed, imports the packages again, which takes more than a second. Python before 3.13 also reads, for
each task, the directories of the archives in its path, which are PySpark and Spark's largest jar: a fifth of a second.
The tests of the cluster and of the shipped environment use Spark's own daemon.
"""

from __future__ import annotations

import sys

sys.path[:] = [path for path in sys.path if not path.endswith((".zip", ".jar"))]
sys.path_importer_cache.clear()

import pandas  # noqa: E402, F401
from pyspark.daemon import manager  # noqa: E402

import puffin_fast.iceberg.maintenance.maintain  # noqa: E402
import puffin_fast.spark.worker.keys  # noqa: E402
import puffin_fast.spark.worker.scan  # noqa: E402, F401

if __name__ == "__main__":
    manager()
