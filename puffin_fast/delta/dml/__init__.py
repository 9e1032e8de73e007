"""Changed rows: deletes by filter, position and key."""

from __future__ import annotations

__all__: list[str] = []
