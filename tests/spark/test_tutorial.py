"""The pages with Spark run in the tests' session, which their builder returns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.architecture.pages import ROOT, run_blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def session_keeps_its_settings() -> None:
    """The pages themselves change the session's name and the level of logs."""


@pytest.mark.spark
@pytest.mark.parametrize("page", ["tutorials/spark-job", "tutorials/raw-to-clean", "spark"])
def test_python_blocks_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(ROOT / "docs" / f"{page}.md")
