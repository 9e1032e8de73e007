"""What is mutated: the files of a table, by kind; each is put in the place of the table's own and read.

A table of each format version is made once a process. Reading may raise errors of this package and nothing else.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

from puffin_fast import errors, iceberg

TABLE_TARGETS: dict[str, Callable[[bytes], None]] = {}
"""By name; the corpus has a folder for each."""

VERSIONS = {
    "3": ("manifest_list", "manifest", "delete_manifest", "data_file", "puffin_file"),
    "2": ("position_deletes",),
}


@cache
def _table(version: str) -> dict[str, Path]:
    """Path by target of a table that lives as long as the process."""
    folder = tempfile.TemporaryDirectory(prefix="puffin-fast-fuzz-")
    _FOLDERS.append(folder)
    catalog = SqlCatalog("fuzz", uri=f"sqlite:///{folder.name}/c.db", warehouse=f"file://{folder.name}/wh")
    catalog.create_namespace("n")
    rows = pa.table({"id": pa.array(range(100), pa.int64()), "s": [f"{n % 7}" * (n % 5) for n in range(100)]})
    if version == "3":
        table = iceberg.create_table(catalog, "n.t", rows.schema)
    else:
        table = catalog.create_table("n.t", rows.schema, properties={"format-version": version})
    iceberg.append(table, rows)
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
        "delete_manifest": manifests[1].manifest_path,
        "data_file": entries[0].data_file.file_path,
        "puffin_file" if version == "3" else "position_deletes": entries[1].data_file.file_path,
    }
    return {name: Path(location.removeprefix("file://")) for name, location in locations.items()}


_FOLDERS: list[Any] = []


@contextlib.contextmanager
def _in_place(path: Path, data: bytes) -> Iterator[None]:
    own = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(own)


def _read(metadata: Path) -> None:
    table = StaticTable.from_metadata(f"file://{metadata}")
    for action in (
        lambda: iceberg.scan(table, row_filter="id > 5 and s != '1'").to_arrow(),
        lambda: iceberg.scan(table, row_filter="id < 50", selected_fields=("s",)).to_arrow(),
        lambda: iceberg.verify(table),
        lambda: iceberg.deletes(table),
        lambda: iceberg.delete(table, "id = 30", dry_run=True),
    ):
        with contextlib.suppress(errors.PuffinFastError):
            action()


def own_file(target: str) -> bytes:
    """The table's own file of a target, the seed of its mutations."""
    version = next((version for version, names in VERSIONS.items() if target in names), "3")
    return _table(version)[target].read_bytes()


def _target_of(name: str, version: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        files = _table(version)
        with _in_place(files[name], data):
            _read(files["metadata"])

    return read


def metadata(data: bytes) -> None:
    """Table metadata as PyIceberg accepts it; what it refuses is not read here."""
    path = _table("3")["metadata"]
    with _in_place(path, data):
        try:
            StaticTable.from_metadata(f"file://{path}")
        except Exception:  # PyIceberg's own refusal
            return
        _read(path)


TABLE_TARGETS["metadata"] = metadata
for _version, _names in VERSIONS.items():
    for _name in _names:
        TABLE_TARGETS[_name] = _target_of(_name, _version)
