"""A catalog in an empty folder, as a new user has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    """A catalog in SQLite with the namespace ``shop``."""
    found = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/prod.db", warehouse=f"{tmp_path}/wh")
    found.create_namespace("shop")
    yield found
    found.engine.dispose()
