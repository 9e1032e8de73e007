"""Row-level changes of a table: the rows that are live in one of two states and not in the other."""

from __future__ import annotations
