"""Predicates that select rows: filters, their literals and bounds, key columns and key sets."""

from __future__ import annotations

__all__: list[str] = []
