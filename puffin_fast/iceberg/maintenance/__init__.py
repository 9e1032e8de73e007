"""Same rows, other files: convert, compact, repair, verify, report, orphan files."""

from __future__ import annotations

__all__: list[str] = []
