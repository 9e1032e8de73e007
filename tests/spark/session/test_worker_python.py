"""The Python of the workers of a local session, and the error if it lacks a package."""

from __future__ import annotations

import os
import subprocess
import sys
import venv

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
import os, sys
from pyspark.sql import SparkSession
import puffin_fast as pf
from puffin_fast.spark.session.batches import collected

settings = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.host": "127.0.0.1"}
for python in (None, sys.argv[1]):
    if python:
        os.environ["PYSPARK_PYTHON"] = python
    session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    rows = session.createDataFrame([("a", 1), ("a", 7)], "file_path string, pos long")
    before = session.sparkContext.pythonExec
    try:
        vectors = pf.spark.encode_deletes(rows)
        counted = vectors.select(pf.spark.functions.cardinality("blob"))
        pf.spark.register(session)
        assert session.sparkContext.pythonExec == before
        print(collected(vectors).num_rows, "vector of", *collected(counted).to_pylist()[0].values())
        assert session.sparkContext.pythonExec == before != sys.executable
    except pf.errors.MissingExtraError as error:
        print(error)
    session.stop()
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Returns what the script says, with a Python environment without packages first in PATH and then chosen."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    environment["PATH"] = f"{folder / 'bin'}:{environment['PATH']}"
    command = [sys.executable, "-c", SCRIPT, str(folder / "bin" / "python3")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=True)
    return done.stdout.strip().split("\n", 1)


def test_a_local_session_runs_this_python_where_the_environment_is_not_activated(said: list[str]) -> None:
    assert said[0] == "1 vector of 2"


def test_what_the_python_of_the_workers_lacks_is_named_with_what_to_set(said: list[str]) -> None:
    assert said[1].startswith("pyarrow in the Python of Spark's workers (PYSPARK_PYTHON chooses it)")
