"""Tables, readers and cases that several tests share with `test_delete`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from puffin_fast import delta
from puffin_fast.delta.log.storage import TableStorage


def ids(table: Path, **options: Any) -> list[int]:
    found: list[int] = delta.scan(table, selected_fields=("id",), **options).to_arrow()["id"].to_pylist()
    return sorted(found)


def commit_of(table: Path, version: int) -> dict[str, list[dict[str, Any]]]:
    """The actions of a version by kind."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in (table / "_delta_log" / f"{version:020d}.json").read_text().splitlines():
        for kind, action in json.loads(line).items():
            found.setdefault(kind, []).append(action)
    return found


def files_of(table: Path) -> set[Path]:
    return {path for path in table.rglob("*") if path.is_file()}


def alter(table: Path, kind: str, edit: Callable[[dict[str, Any]], object], version: int = 0) -> None:
    """Alters the actions of one kind in a commit."""
    file = table / "_delta_log" / f"{version:020d}.json"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if kind in line:
            edit(line[kind])
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n")


class Racing(TableStorage):
    """A storage in which another writer commits right before the first commit."""

    def __init__(self, table: Path, happening: Callable[[], object]) -> None:
        super().__init__(str(table))
        self._happening: list[Callable[[], object]] = [happening]

    def put(self, path: str, data: bytes) -> bool:
        if self._happening:
            self._happening.pop()()
        return super().put(path, data)


def append(table: Path, version: int, *, blind: bool = True) -> None:
    """A commit of another writer that adds a copy of a data file under a new name."""
    name = "part=p 0/other.parquet"
    largest = max(table.glob("part=p 0/part*.parquet"), key=lambda path: path.stat().st_size)  # 100 rows
    (table / name).write_bytes(largest.read_bytes())
    add = {
        "path": name.replace(" ", "%20"),
        "partitionValues": {"part": "p 0"},
        "size": (table / name).stat().st_size,
        "modificationTime": 1,
        "dataChange": True,
        "stats": '{"numRecords":100}',
    }
    info = {"operation": "WRITE", "isBlindAppend": blind}
    lines = [{"commitInfo": info}, {"add": add}]
    text = "\n".join(json.dumps(line) for line in lines)
    (table / "_delta_log" / f"{version:020d}.json").write_text(text + "\n")


class Losing(TableStorage):
    """A storage that loses the first commit, the answer to it, or both."""

    def __init__(
        self, table: Path, *, written: bool, mute: bool = False, error: BaseException | None = None
    ) -> None:
        super().__init__(str(table))
        self._written, self._mute, self._lost = written, mute, False
        self._error = error or OSError("connection reset")

    def put(self, path: str, data: bytes) -> bool:
        if self._lost:
            return super().put(path, data)
        self._lost = True
        if self._written:
            super().put(path, data)
        raise self._error

    def read(self, path: str) -> bytes:
        if self._lost and self._mute:
            raise OSError("connection reset")
        return super().read(path)
