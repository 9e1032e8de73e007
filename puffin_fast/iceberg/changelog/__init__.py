"""The changes between snapshots: the history, the plan of changed files, and their rows."""

from __future__ import annotations
