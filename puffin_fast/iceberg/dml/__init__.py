"""Changed rows: create, append, delete, upsert."""

from __future__ import annotations

__all__: list[str] = []
