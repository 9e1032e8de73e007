"""What the tests of Delta tables share: the actions and files of a table, and storages that fail or have a rival."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from puffin_fast import delta
from puffin_fast.delta.log.segment import commit_path
from tests.kit.rows import by_deltalake, by_duckdb, by_us
from tests.kit.tables import files_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Golden = Callable[[str], Path]
"""The fixture `golden`: makes a copy of a golden table."""


# Rows and files ----------------------------------------------------------------------------------------------


def ids(table: Any, **options: Any) -> list[int]:
    return [row["id"] for row in by_us(table, "id", **options)]


def ids_of_others(connection: DuckDBPyConnection, table: Path) -> list[list[int]]:
    """What DuckDB and deltalake read."""
    return [
        [row["id"] for row in rows]
        for rows in (by_duckdb(connection, table, "id"), by_deltalake(table, "id"))
    ]


def stored_row_ids(table: Path) -> dict[int, int]:
    """The row id of each row, by the log and the files, in the slow way."""
    base = delta.snapshot(table)
    name = base.configuration["delta.rowTracking.materializedRowIdColumnName"]
    live = {(row["_file"], row["_pos"]): row["id"] for row in by_us(table, "id", "_file", "_pos")}
    found = {}
    for add in base.adds(range(base.files.num_rows)):
        location = base.storage.location(add["path"])
        stored = pq.ParquetFile(location).read()
        own = stored[name].to_pylist() if name in stored.column_names else [None] * stored.num_rows
        for at, row_id in enumerate(own):
            if (location, at) in live:
                found[live[location, at]] = add["baseRowId"] + at if row_id is None else row_id
    return found


def state(table: Path) -> dict[Path, bytes]:
    """Each file of a table and its bytes."""
    return {path: path.read_bytes() for path in files_of(table)}


@contextmanager
def unchanged(table: Path) -> Iterator[None]:
    """Whatever is done leaves each file of a table as it is, and no other."""
    before = state(table)
    yield
    after = state(table)
    assert after.keys() == before.keys()
    assert after == before


@contextmanager
def refused(table: Path, error: type[BaseException], match: str) -> Iterator[pytest.ExceptionInfo[Any]]:
    """What is done is an error and changes no file of a table."""
    with unchanged(table), pytest.raises(error, match=match) as caught:
        yield caught


# Actions -----------------------------------------------------------------------------------------------------


def lines_of(table: Path, version: int) -> list[dict[str, Any]]:
    """The lines of a commit."""
    return [json.loads(line) for line in (table / commit_path(version)).read_text().splitlines()]


def write_lines(table: Path, version: int, lines: list[dict[str, Any]]) -> None:
    (table / commit_path(version)).write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def remove_commits(table: Path, versions: Iterable[int]) -> None:
    for version in versions:
        (table / commit_path(version)).unlink()


def commit_of(table: Path, version: int) -> dict[str, list[dict[str, Any]]]:
    """The actions of a version by kind."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in lines_of(table, version):
        for kind, action in line.items():
            found.setdefault(kind, []).append(action)
    return found


def alter(table: Path, kind: str, edit: Callable[[dict[str, Any]], object], *versions: int) -> None:
    """Alters the actions of one kind in some commits, by default in the first one."""
    for version in versions or (0,):
        lines = lines_of(table, version)
        for line in lines:
            if kind in line:
                edit(line[kind])
        write_lines(table, version, lines)


def configure(table: Path, **properties: Any) -> None:
    """Sets properties in the first commit; ``appendOnly`` is ``delta.appendOnly``."""
    given = {f"delta.{name}": value for name, value in properties.items()}
    alter(table, "metaData", lambda metadata: metadata["configuration"].update(given))


def alter_fields(table: Path, edit: Callable[[list[dict[str, Any]]], object]) -> None:
    """Alters the fields of the schema in the first commit."""

    def alter_schema(metadata: dict[str, Any]) -> None:
        schema = json.loads(metadata["schemaString"])
        edit(schema["fields"])
        metadata["schemaString"] = json.dumps(schema)

    alter(table, "metaData", alter_schema)


def logical_names(table: Path) -> dict[str, str]:
    """The names of columns by their names in files."""
    fields = delta.snapshot(table).delta_schema["fields"]
    return {f["metadata"].get("delta.columnMapping.physicalName", f["name"]): f["name"] for f in fields}


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
    write_lines(table, version, [{"commitInfo": info}, {"add": add}])
