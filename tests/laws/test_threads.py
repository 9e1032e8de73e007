"""The laws of verbs whose data files are read by threads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.laws.laws import *  # noqa: F403


@pytest.fixture
def worker() -> dict[str, Any]:
    return {}
