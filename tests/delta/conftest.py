"""Fixtures of the tests of Delta tables: golden tables and their rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.delta.tables import Golden
from tests.kit.tables import golden_table

GOLDEN = Path(__file__).parents[1] / "golden" / "delta"
ANSWERS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "expected.json").read_text())
TABLES = sorted(name for name, answer in ANSWERS.items() if "files" in answer)


@pytest.fixture
def golden(tmp_path: Path) -> Golden:
    """A copy of a golden table, to write to."""
    return lambda name: golden_table(f"delta/{name}", tmp_path)


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest, golden: Golden) -> Path:
    """Each golden table in turn, as a copy."""
    return golden(request.param)


@pytest.fixture
def partitioned(golden: Golden) -> Path:
    """A copy of `spark_partitioned`: three partitions, 257 live rows of 300, and vectors in versions 2 and 3."""
    return golden("spark_partitioned")
