"""One data file: opened, checked, projected by field id, its row groups pruned."""

from __future__ import annotations

__all__: list[str] = []
