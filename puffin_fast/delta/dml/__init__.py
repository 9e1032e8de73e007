"""Changes of rows: deletes, updates and upserts."""

from __future__ import annotations
