"""A catalog for tables of files that a test has written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[InMemoryCatalog]:
    """With the namespace ``n``."""
    with InMemoryCatalog("c", warehouse=f"file://{tmp_path}") as found:
        found.create_namespace("n")
        yield found
