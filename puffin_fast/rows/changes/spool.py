"""Rows that are held until they are needed: in memory, or in a temporary file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from puffin_fast.columns.temporary_rows import read_rows, rows_writer


class Spool:
    """Rows that were added, in memory up to a limit, then in a temporary file. It is read once."""

    def __init__(self, limit: int) -> None:
        self._limit, self._tables, self._size = limit, [], 0  # type: ignore[var-annotated]
        self._held = ExitStack()
        self._path: Path | None = None
        self._writer: Any = None

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def __bool__(self) -> bool:
        return bool(self._tables) or self._path is not None

    def add(self, rows: pa.Table) -> None:
        self._tables.append(rows)
        self._size += rows.nbytes
        if self._size > self._limit:
            if self._path is None:
                folder = self._held.enter_context(TemporaryDirectory(prefix="puffin_fast-changes-"))
                self._path = Path(folder) / "rows"
                self._writer = self._held.enter_context(rows_writer(self._path, rows.schema))
            for table in self._tables:
                self._writer.write_table(table)
            self._tables, self._size = [], 0

    def __iter__(self) -> Iterator[pa.Table]:
        tables, self._tables = self._tables, []
        if self._path is not None:
            self._writer.close()
            for batch in read_rows(self._path):
                yield pa.Table.from_batches([batch])
        yield from tables
