"""The Python of the workers of a local session, and the error if it lacks a package."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
import os, sys
from pyspark.sql import SparkSession
import puffin_fast as pf
from puffin_fast.spark.session.batches import collected

settings = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.host": "127.0.0.1"}
session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
rows = session.createDataFrame([("a", 1), ("a", 7)], "file_path string, pos long")
try:
    print(collected(pf.spark.encode_deletes(rows)).num_rows, "vector")
except pf.errors.MissingExtraError as error:
    print(error)
session.stop()
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a Python environment without packages."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    return folder / "bin"


def said(path: Path, **variables: str) -> str:
    """Returns the output of the script with `path` first in PATH."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    environment |= {"PATH": f"{path}:{environment['PATH']}", **variables}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout.strip()


def test_a_local_session_runs_this_python_where_the_environment_is_not_activated(bare: Path) -> None:
    assert said(bare) == "1 vector"


def test_what_the_python_of_the_workers_lacks_is_named_with_what_to_set(bare: Path) -> None:
    lacking = said(bare, PYSPARK_PYTHON=str(bare / "python3"))
    assert lacking.startswith("pyarrow in the Python of Spark's workers (PYSPARK_PYTHON chooses it)")
