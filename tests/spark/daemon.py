"""What the Python workers of the tests are forked from: a process that has imported what they need.

Spark starts it as ``spark.python.daemon.module``. Else each worker imports anew, for more than a second, and a worker
whose task failed is replaced by another one; and Python before 3.13 reads the directory of PySpark's archive for each
task, where PySpark comes from that archive. The cluster's and the shipped workers start as Spark has it.
"""

from __future__ import annotations

import sys

sys.path[:] = [path for path in sys.path if not path.endswith(".zip")]

import pandas  # noqa: E402, F401
from pyspark.daemon import manager  # noqa: E402

import puffin_fast.spark.worker.conversions  # noqa: E402
import puffin_fast.spark.worker.keys  # noqa: E402
import puffin_fast.spark.worker.scan  # noqa: E402, F401

if __name__ == "__main__":
    manager()
