"""Arrow columns: of plain types, selections of their rows, rows of other libraries."""

from __future__ import annotations
