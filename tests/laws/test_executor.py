"""The laws of verbs whose data files are read by the processes of an executor."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import pytest

from tests.laws.laws import *  # noqa: F403


@pytest.fixture
def worker(pool: Executor) -> dict[str, Any]:
    return {"pool": pool}
