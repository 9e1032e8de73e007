"""The data-file reader: opens and checks data files, projects columns by field id, prunes row groups."""

from __future__ import annotations

__all__: list[str] = []
