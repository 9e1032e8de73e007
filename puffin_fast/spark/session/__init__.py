"""Sessions and calls to executors."""

from __future__ import annotations
