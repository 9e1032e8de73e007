"""The code that runs on executors."""

from __future__ import annotations
