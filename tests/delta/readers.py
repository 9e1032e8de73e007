"""Tables, readers and cases that several tests share with `test_read`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyiceberg.expressions import AlwaysTrue

from puffin_fast import delta
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.delta.scans.schema import ROW_TRACKING
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.scan.located_rows import LocatedRows


def change(table: Path, version: int, kind: str, edit: Callable[[dict[str, Any]], object]) -> None:
    """Alters the actions of one kind in a commit."""
    file = table / "_delta_log" / f"{version:020d}.json"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if kind in line:
            edit(line[kind])
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n")


def rows_and_ids(table: Any, version: int | None = None) -> LocatedRows:
    """The live rows of a version, with their row ids and row commit versions."""
    read = DeltaTable.of(delta.snapshot(table, version=version))
    every = RowFilter.bind(AlwaysTrue(), read.schema.schema)
    fields = read.schema.schema.fields
    return LocatedRows.read(read.reader_factory(every), fields, plan_files(read), ROW_TRACKING, threads=1)
