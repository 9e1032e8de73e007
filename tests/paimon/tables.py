"""Tables, readers and cases that several tests share with `test_vectors`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

GOLDEN = Path(__file__).parents[1] / "golden" / "paimon"


ANSWERS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "expected.json").read_text())


TABLES = sorted(ANSWERS)


def folder(name: str) -> Path:
    return GOLDEN / "d.db" / name


def newest_snapshot(table: Path) -> Path:
    return max((table / "snapshot").glob("snapshot-*"), key=lambda path: int(path.name.partition("-")[2]))


def rewrite(
    table: Path,
    edit: Callable[[dict[str, Any]], object],
    *,
    appended: bool = False,
    plain_items: bool = False,
) -> Path:
    """Alters the entries of the newest index manifest; returns its path.

    Args:
        table: the folder.
        edit: called with each entry.
        appended: whether the altered entries are written after the old ones, not instead of them.
        plain_items: write the ranges as pypaimon does, as records; Java's items may be null.
    """
    snapshot = json.loads(newest_snapshot(table).read_text())
    manifest = table / "manifest" / str(snapshot["indexManifest"])
    reader: Any = fastavro.reader(io.BytesIO(manifest.read_bytes()))
    entries, schema = list(reader), reader.writer_schema
    before = deepcopy(entries) if appended else []
    for entry in entries:
        edit(entry)
    entries = before + entries
    if plain_items:
        (field,) = [field for field in schema["fields"] if field["name"] == "_DELETIONS_VECTORS_RANGES"]
        field["type"][1]["items"] = field["type"][1]["items"][1]
    sink = io.BytesIO()
    fastavro.writer(sink, schema, entries, codec="zstandard")
    manifest.write_bytes(sink.getvalue())
    return manifest


LIES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda entry: entry.update(_KIND=1), "kind of index file .* found 1"),
    (lambda entry: entry.update(_KIND=2), "kind of index file .* found 2"),
    (
        lambda entry: entry.update(_INDEX_TYPE="DELETION_VECTORZ"),
        "expected DELETION_VECTORS, found DELETION_VECTORZ",
    ),
    (lambda entry: entry.update(_ROW_COUNT=7), "number of vectors of index file .* expected 7"),
    (lambda entry: entry.update(_DELETIONS_VECTORS_RANGES=None), "number of vectors .* found 0"),
    (
        lambda entry: entry["_DELETIONS_VECTORS_RANGES"].__setitem__(0, None),
        "item of _DELETIONS_VECTORS_RANGES: expected dict, found None",
    ),
    (
        lambda entry: entry.update(
            _DELETIONS_VECTORS_RANGES=entry["_DELETIONS_VECTORS_RANGES"][:1] * entry["_ROW_COUNT"] * 2,
            _ROW_COUNT=entry["_ROW_COUNT"] * 2,
        ),
        "vectors of data file .* expected 1, found 2 or more",
    ),
]
"""Changes of the entries of an index manifest that would hide vectors, and the words of the error."""


APPEND = ("app_v1_part", "app_v2", "app_mix")


def rows_of(table: Any, *columns: str) -> pa.Table:
    builder = table.new_read_builder()
    builder = builder.with_projection(list(columns)) if columns else builder
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def ids(table: Any) -> list[int]:
    return sorted(rows_of(table, "id")["id"].to_pylist())


def state(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write(table: Any, rows: pa.Table) -> None:
    """Appends rows through pypaimon."""
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(rows)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def append(
    catalog: Any, name: str, rows: pa.Table, *, partition_keys: Sequence[str] = (), **options: str
) -> Any:
    """A new append table with vectors."""
    from pypaimon import Schema

    options = {"deletion-vectors.enabled": "true", **options}
    schema = Schema.from_pyarrow_schema(rows.schema, partition_keys=list(partition_keys), options=options)
    catalog.create_table(name, schema, False)
    table = catalog.get_table(name)
    write(table, rows)
    return table
