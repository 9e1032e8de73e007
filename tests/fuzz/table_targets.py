"""The files of a table that are mutated, by kind; each mutation replaces the file and is read.

A table of each format version is made once a process. Reading may raise errors of this package and nothing else.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import StaticTable

from puffin_fast import errors, iceberg
from puffin_fast.parquet.column_chunks import ColumnChunks
from tests.kit.tables import iceberg_table, path_of, sqlite_catalog


class Outcome(Enum):
    """What came of a mutated file, when the table was read."""

    REFUSED = "refused"
    UNCHANGED = "unchanged"
    NOTICED = "noticed"
    """Other rows were read, and `verify` finds something."""
    UNDETECTED = "undetected"
    """Other rows were read, and `verify` finds nothing."""


TABLE_TARGETS: dict[str, Callable[[bytes], Outcome]] = {}
"""By name; the corpus has a folder for each."""

VERSIONS = {
    "3": ("manifest_list", "manifest", "delete_manifest", "data_file", "data_file_pages", "puffin_file"),
    "2": ("position_deletes", "position_delete_manifest"),
}


@cache
def _table(version: str) -> dict[str, Path]:
    """Path by target of a table that lives as long as the process."""
    folder = tempfile.TemporaryDirectory(prefix="puffin-fast-fuzz-")
    _FOLDERS.append(folder)
    catalog = sqlite_catalog(folder.name)
    rows = pa.table({"id": pa.array(range(100), pa.int64()), "s": [f"{n % 7}" * (n % 5) for n in range(100)]})
    parts = [rows, rows.slice(5, 40), rows.slice(90)]
    table = iceberg_table(catalog, parts, version=int(version))
    iceberg.delete(table, "id >= 10 and id < 20 or id = 77")
    table.refresh()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    catalog.engine.dispose()
    manifests = {manifest.content.value: manifest for manifest in snapshot.manifests(table.io)}
    entries = {kind: manifest.fetch_manifest_entry(table.io)[0] for kind, manifest in manifests.items()}
    locations = {
        "metadata": table.metadata_location,
        "manifest_list": snapshot.manifest_list,
        "manifest": manifests[0].manifest_path,
        "delete_manifest" if version == "3" else "position_delete_manifest": manifests[1].manifest_path,
        "data_file": entries[0].data_file.file_path,
        "data_file_pages": entries[0].data_file.file_path,
        "puffin_file" if version == "3" else "position_deletes": entries[1].data_file.file_path,
    }
    return {name: path_of(location) for name, location in locations.items()}


_FOLDERS: list[Any] = []


def version_of(target: str) -> str:
    """The format version of the table whose files a target changes."""
    return next((version for version, names in VERSIONS.items() if target in names), "3")


@contextlib.contextmanager
def in_place(target: str, data: bytes) -> Iterator[tuple[Path, str]]:
    """Puts bytes in the place of a file of a table; gives its path, and the location of the table's metadata."""
    files = _table(version_of(target))
    path = files[target]
    own = path.read_bytes()
    path.write_bytes(data)
    try:
        yield path, f"file://{files['metadata']}"
    finally:
        path.write_bytes(own)


def _rows(metadata: Path) -> Iterator[list[str]]:
    """What some scans of the table return, whatever the order."""
    table = StaticTable.from_metadata(f"file://{metadata}")
    for row_filter, columns in (
        ("true", ("*",)),
        ("id > 5 and s != '1'", ("*",)),
        ("id < 50", ("s",)),
    ):
        rows = iceberg.scan(table, row_filter=row_filter, selected_fields=columns).to_arrow()
        yield [str(rows.schema.names), *sorted(map(repr, rows.to_pylist()))]


@cache
def _truth(version: str) -> list[list[str]]:
    return list(_rows(_table(version)["metadata"]))


def _read(version: str) -> Outcome:
    metadata = _table(version)["metadata"]
    table = StaticTable.from_metadata(f"file://{metadata}")
    outcome, findings = Outcome.UNCHANGED, True
    with contextlib.suppress(errors.PuffinFastError):
        findings = bool(iceberg.verify(table))
    try:
        for found, expected in zip(_rows(metadata), _truth(version), strict=True):
            if found != expected:
                outcome = Outcome.NOTICED if findings else Outcome.UNDETECTED
    except errors.PuffinFastError:
        outcome = Outcome.REFUSED if outcome is Outcome.UNCHANGED else outcome
    for action in (lambda: iceberg.deletes(table), lambda: iceberg.delete(table, "id = 30", dry_run=True)):
        with contextlib.suppress(errors.PuffinFastError):
            action()
    return outcome


def own_file(target: str) -> bytes:
    """The table's own file of a target, the seed of its mutations."""
    return _table(version_of(target))[target].read_bytes()


def _target_of(name: str, version: str) -> Callable[[bytes], Outcome]:
    def read(data: bytes) -> Outcome:
        _truth(version)
        with in_place(name, data), by_pyarrow() if name == "data_file" else contextlib.nullcontext():
            return _read(version)

    return read


@contextlib.contextmanager
def by_pyarrow() -> Iterator[None]:
    """PyArrow decodes all columns."""
    pages_of = ColumnChunks.pages_of
    ColumnChunks.pages_of = lambda *args, **options: {}  # type: ignore[method-assign]
    try:
        yield
    finally:
        ColumnChunks.pages_of = pages_of  # type: ignore[method-assign]


def metadata(data: bytes) -> Outcome:
    """Table metadata as PyIceberg accepts it; what it refuses is not read here."""
    _truth("3")
    with in_place("metadata", data) as (path, _):
        try:
            StaticTable.from_metadata(f"file://{path}")
        except Exception:  # PyIceberg's own refusal
            return Outcome.REFUSED
        return _read("3")


TABLE_TARGETS["metadata"] = metadata
for _version, _names in VERSIONS.items():
    for _name in _names:
        TABLE_TARGETS[_name] = _target_of(_name, _version)
