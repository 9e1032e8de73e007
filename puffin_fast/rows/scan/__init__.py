"""Live rows of data files: read, found by a filter or keys, located."""

from __future__ import annotations
