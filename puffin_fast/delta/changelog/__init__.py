"""The changes between versions: the range of versions, the plan of changed files, and their rows."""

from __future__ import annotations
