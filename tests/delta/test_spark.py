"""delta-spark and this package read and change the same tables: the cases of `with_spark`, each in its own JVM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import jars
from tests.conftest import jars_fit, require, require_java

ROOT = Path(__file__).parents[2]
CASES = ["types_and_partitions", "spark_on_top", "mapped_columns", "checkpoints", "rows_changed", "racing"]


@pytest.mark.spark
@pytest.mark.jar
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_delta_spark_and_we_agree(name: str, tmp_path: Path) -> None:
    require_java()
    require(jars.find("delta"), "Delta for Spark", "make jars")
    require(jars_fit(), f"PySpark {jars.SPARK_SERIES}", "run in .venv, not in .venv-newest")
    (tmp_path / "spark").mkdir()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.delta.with_spark", name, str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert f"ok {name}" in done.stdout
