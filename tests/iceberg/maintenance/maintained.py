"""Tables, readers and cases that several tests share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import PositionBitmap, iceberg
from puffin_fast.iceberg.commit.changes import Changes, vector_entry
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.manifest import ManifestEntry
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.puffin.vectors import write_vectors
from tests.kit.tables import files_of, iceberg_table, path_of

N = 100


def made(catalog: SqlCatalog, n_files: int) -> Table:
    """A table of data files of `N` ids each, without deletes."""
    files = [{"id": range(number * N, (number + 1) * N)} for number in range(n_files)]
    return iceberg_table(catalog, files or pa.schema([("id", pa.int64())]))


def ids(table: Table) -> set[int]:
    found = iceberg.scan(table).to_arrow()["id"].to_pylist()
    assert len(found) == len(set(found))
    return set(found)


def tasks(table: Table) -> list[FileTask]:
    return sorted(iceberg.plan_files(table).tasks, key=lambda task: task.data.sequence_number or 0)


def puffins(table: Table) -> set[str]:
    return set(iceberg.deletes(table)["path"].to_pylist())


def kinds(table: Table) -> list[str]:
    return [finding.kind for finding in iceberg.verify(table)]


def flip(vector: ManifestEntry, at: int) -> None:
    """Changes a byte of a vector."""
    data = bytearray(path_of(vector.file_path).read_bytes())
    data[(vector.content_offset or 0) + at] ^= 1
    path_of(vector.file_path).write_bytes(data)


def add_vector(table: Table, data: ManifestEntry, positions: list[int], **wrong: Any) -> ManifestEntry:
    """Commits one more vector, whatever is there already; `wrong` fields of its entry are set so."""
    path = table.location_provider().new_data_location(f"extra-{len(files_of(table))}.puffin")
    (vector,) = write_vectors(
        path, [(data.file_path, PositionBitmap.from_positions(positions))], filesystem=table.io
    )
    entry = replace(vector_entry(vector, data, vector.file_size), **wrong)
    commit(table, Changes(added=(entry,)), base=table.current_snapshot())
    return entry


LINEAGE = ("*", "_row_id", "_last_updated_sequence_number")
ALL: dict[str, Any] = {"min_deleted": 0.01, "min_input_files": 2}
"""Options of a rewrite of all data files."""


def lineage(table: Table, **which: Any) -> list[dict[str, Any]]:
    found = iceberg.scan(table, selected_fields=LINEAGE, **which).to_arrow().to_pylist()
    return sorted(found, key=lambda found: found["id"])


def entries_made(monkeypatch: pytest.MonkeyPatch) -> list[ManifestEntry]:
    """The manifest entries that are made from now on."""
    found: list[ManifestEntry] = []
    init = ManifestEntry.__init__

    def made(self: ManifestEntry, *values: Any, **named: Any) -> None:
        init(self, *values, **named)
        found.append(self)

    monkeypatch.setattr(ManifestEntry, "__init__", made)
    return found
