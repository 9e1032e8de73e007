"""Changes of rows: deletes, updates and upserts."""

from __future__ import annotations

__all__: list[str] = []
