"""Tables, readers and cases that several tests share with `test_vectors`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import fastavro

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
