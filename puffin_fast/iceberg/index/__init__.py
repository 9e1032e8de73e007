"""Key indexes of tables: looked up, and built from data files."""

from __future__ import annotations
