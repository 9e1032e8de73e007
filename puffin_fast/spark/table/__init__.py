"""Jobs on tables."""

from __future__ import annotations
