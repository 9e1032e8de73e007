"""Runs each law on the classic session, and all laws on Spark Connect in a separate process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require_module
from tests.spark.laws import LAWS, lose_rows

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", LAWS)
def test_on_the_classic_session(name: str, spark: SparkSession, tmp_path: Path) -> None:
    LAWS[name](spark, tmp_path)


def test_on_a_rest_catalog(spark: SparkSession, rest_catalog: RestCatalog, rest_namespace: str) -> None:
    lose_rows(spark, rest_catalog, f"{rest_namespace}.t")


def test_on_connect() -> None:
    require_module("grpc", "pip install 'pyspark[connect]'")
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.laws"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=2400,
        check=False,
    )
    held = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("held ")]
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert held == list(LAWS)
