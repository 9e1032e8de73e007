"""Executors do the work of the Spark tests: their tables are so small that the driver would do it. After each test, the
session has the settings that it had before."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

HERE = "puffin_fast.spark.session.workers.HERE_BYTES"
"""The bytes of data files that the driver reads itself."""

MOST = "puffin_fast.spark.table.saved_rows.MOST_BYTES"
"""The bytes of given rows that are not shuffled."""

NONE = -1

JOINED, SENT = 0, 1 << 20
"""Values of `broadcast_keys` with which keys are joined by Spark, or broadcast."""


@pytest.fixture(autouse=True)
def work_on_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HERE, NONE)


@pytest.fixture(params=["driver", "executors", "shuffled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The ways in which rows and keys are matched with the rows of a table."""
    found: str = request.param
    if found == "driver":
        monkeypatch.setattr(HERE, 1 << 30)
    elif found == "shuffled":
        monkeypatch.setattr(MOST, NONE)
    return found


def state_of(session: SparkSession) -> dict[str, Any]:
    """What a job might change in a session: settings, properties of the thread, tags, Python and log levels."""
    context: Any = getattr(session, "_sc", None)  # Spark Connect has none
    loggers = [logging.getLogger(name) for name in ("", "puffin_fast", "pyspark", "py4j")]
    of_context = (
        {}
        if context is None
        else {"properties": dict(context._jsc.sc().getLocalProperties()), "python": context.pythonExec}
    )
    return {
        **of_context,
        "settings": {k: v for k, v in session.conf.getAll.items() if not k.startswith("spark.sql.catalog.")},
        "tags": session.getTags(),
        "levels": [(logger.level, len(logger.filters)) for logger in loggers],
        "catalog": (session.catalog.currentCatalog(), session.catalog.currentDatabase()),
    }


@pytest.fixture(autouse=True)
def session_keeps_its_settings(request: pytest.FixtureRequest) -> Iterator[None]:
    if "spark" not in request.fixturenames:
        yield
        return
    session: SparkSession = request.getfixturevalue("spark")
    before = state_of(session)
    yield
    after = state_of(session)
    for name in after["settings"].keys() - before["settings"].keys():
        session.conf.unset(name)
        if session.conf.get(name) == after["settings"][name]:  # a test has set the default
            del after["settings"][name]
    assert after == before
