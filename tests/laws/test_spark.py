"""The laws of verbs on Spark, in one session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.laws.laws import *  # noqa: F403
from tests.spark.conftest import session_keeps_its_settings, work_on_executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["session_keeps_its_settings", "work_on_executors"]


@pytest.fixture
def worker(spark: SparkSession) -> dict[str, Any]:
    return {"session": spark}
