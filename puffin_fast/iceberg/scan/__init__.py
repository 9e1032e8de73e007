"""Rows out: scans, splits, and PyIceberg's own scans accelerated."""

from __future__ import annotations

__all__: list[str] = []
