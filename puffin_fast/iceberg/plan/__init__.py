"""Which files: the plan of a snapshot, its delete index, pruning, the inventory of deletes."""

from __future__ import annotations

__all__: list[str] = []
