"""Which rows: filters, literals, bounds, key columns and key sets."""

from __future__ import annotations

__all__: list[str] = []
