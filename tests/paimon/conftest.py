"""Fixtures of the tests of Paimon tables: a warehouse of golden tables, and pypaimon's catalog of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from puffin_fast import paimon
from tests.paimon.tables import GOLDEN


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "warehouse"))


@pytest.fixture
def catalog(warehouse: Path) -> Any:
    from pypaimon import CatalogFactory

    return CatalogFactory.create({"warehouse": str(warehouse)})


@pytest.fixture
def accelerated() -> Iterator[None]:
    with paimon.accelerate():
        yield
