"""The laws of verbs on Spark, in one session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest

from tests.laws.laws import *  # noqa: F403
from tests.spark.conftest import HERE, MOST, NONE, session_keeps_its_settings, work_on_executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["session_keeps_its_settings", "work_on_executors"]


@pytest.fixture
def worker(
    spark: SparkSession, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Of four cases, rows are matched on the driver in one, by a shuffle in another, and by executors in two."""
    way = crc32(request.node.name.encode()) % 4
    if way == 0:
        monkeypatch.setattr(HERE, 1 << 30)
    elif way == 1:
        monkeypatch.setattr(MOST, NONE)
    return {"session": spark}
