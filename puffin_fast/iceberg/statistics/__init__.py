"""NDV statistics: theta sketches of a table's columns, collected, committed and read."""

from __future__ import annotations
