"""Tables, readers and cases that several tests share with `test_read`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def change(table: Path, version: int, kind: str, edit: Callable[[dict[str, Any]], object]) -> None:
    """Alters the actions of one kind in a commit."""
    file = table / "_delta_log" / f"{version:020d}.json"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if kind in line:
            edit(line[kind])
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
