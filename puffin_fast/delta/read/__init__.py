"""What a snapshot's files hold: schema, plan, vectors, rows."""

from __future__ import annotations

__all__: list[str] = []
