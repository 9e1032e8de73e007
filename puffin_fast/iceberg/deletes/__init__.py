"""Delete files: loaded, and written as deletion vectors or position-delete files."""

from __future__ import annotations

__all__: list[str] = []
