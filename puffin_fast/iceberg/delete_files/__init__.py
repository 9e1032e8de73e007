"""Delete files: loads them, and writes deletion vectors or position-delete files."""

from __future__ import annotations
