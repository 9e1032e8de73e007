"""PyIceberg's private parts, and nothing else."""

from __future__ import annotations

__all__: list[str] = []
