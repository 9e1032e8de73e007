"""Tables, readers and cases that several tests share with `test_deletions`."""

from __future__ import annotations

from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden" / "lance"
