"""delta-spark and this package read and change the same tables: the cases of `with_spark`, in one JVM of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import jars
from tests.conftest import jars_fit, require, require_java

ROOT = Path(__file__).parents[3]
CASES = [
    "types_and_partitions",
    "spark_on_top",
    "mapped_columns",
    "variants",
    "checkpoints",
    "names_of_tables",
    "text_of_limited_length",
    "text_with_a_collation",
    "our_checkpoints",
    "rows_that_spark_keeps",
    "rows_changed",
    "rows_of_executors",
    "new_tables",
    "racing",
    "changes",
    "histories",
    "times",
    "disabled",
    "statistics_of_columns",
]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which each selected case has left its outcome; a classic session is the only one of its process."""
    require_java()
    require(jars.find("delta"), "Delta for Spark", "make jars")
    require(jars_fit(), f"PySpark {jars.SPARK_SERIES}", "run in .venv, not in .venv-newest")
    folder = tmp_path_factory.mktemp("delta_spark")
    for part in ("spark", "tables"):
        (folder / part).mkdir()
    selected = {item.name.partition("[")[2].rstrip("]") for item in request.session.items}
    command = [
        sys.executable,
        "-m",
        "tests.delta.spark.with_spark",
        folder,
        *(c for c in CASES if c in selected),
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=2400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return folder


@pytest.mark.spark
@pytest.mark.jar
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_delta_spark_and_we_agree(name: str, outcomes: Path) -> None:
    said = (outcomes / name).read_text()
    assert not said, said
