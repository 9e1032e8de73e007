"""The examples in the docstrings of Spark's functions run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.architecture.examples import run_examples
from tests.architecture.pages import MODULES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_examples_of_docstrings_hold(spark: SparkSession, tmp_path: Path) -> None:
    modules = [module for module in MODULES if module.startswith("puffin_fast.spark")]
    assert modules
    for module in modules:
        run_examples(module, tmp_path, spark)
