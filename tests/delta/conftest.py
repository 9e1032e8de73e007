"""Fixtures of the tests of Delta tables: golden tables and their rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "delta"
ANSWERS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "expected.json").read_text())
TABLES = sorted(name for name, answer in ANSWERS.items() if "files" in answer)


@pytest.fixture
def golden(tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a golden table, to write to."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(GOLDEN / name, tmp_path / name))

    return copy


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest, golden: Callable[[str], Path]) -> Path:
    """Each golden table in turn, as a copy."""
    return golden(request.param)
