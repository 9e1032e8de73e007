"""Fixtures of tests of the engine, which run on Iceberg tables."""

from __future__ import annotations

from tests.iceberg.conftest import racing

__all__ = ["racing"]
