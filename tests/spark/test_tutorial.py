"""The tutorial of a Spark job runs in the tests' session, which its builder returns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.architecture.test_docs import ROOT, run_blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_python_blocks_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(ROOT / "docs" / "tutorials" / "spark-job.md")
