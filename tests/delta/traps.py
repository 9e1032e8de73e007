"""Tables, readers and cases that several tests share with `test_traps`."""

from __future__ import annotations

from pathlib import Path

from tests.delta.tables import files_of


def state(table: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in files_of(table)}
