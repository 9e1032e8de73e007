"""Changes of rows: creates tables, appends, deletes and upserts rows."""

from __future__ import annotations
