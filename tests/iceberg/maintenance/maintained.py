"""Tables, readers and cases that several tests share with `test_maintain`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast import PositionBitmap, iceberg
from puffin_fast.iceberg.commit.changes import Changes, vector_entry
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.puffin.vectors import write_vectors
from tests.iceberg.conftest import files_of

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

    from puffin_fast.iceberg.manifest import ManifestEntry
    from puffin_fast.iceberg.plan.delete_index import FileTask


N = 100


def made(catalog: SqlCatalog, n_files: int) -> Table:
    """A table of data files of `N` ids each, without deletes."""
    table = iceberg.create_table(catalog, "n.t", pa.schema([("id", pa.int64())]))
    for number in range(n_files):
        iceberg.append(table, pa.table({"id": range(number * N, (number + 1) * N)}))
    return table


def ids(table: Table) -> set[int]:
    found = iceberg.scan(table).to_arrow()["id"].to_pylist()
    assert len(found) == len(set(found))
    return set(found)


def tasks(table: Table) -> list[FileTask]:
    return sorted(iceberg.plan_files(table).tasks, key=lambda task: task.data.sequence_number or 0)


def puffins(table: Table) -> set[str]:
    return set(iceberg.deletes(table)["path"].to_pylist())


def add_vector(table: Table, data: ManifestEntry, positions: list[int], **wrong: Any) -> ManifestEntry:
    """Commits one more vector, whatever is there already; `wrong` fields of its entry are set so."""
    path = table.location_provider().new_data_location(f"extra-{len(files_of(table))}.puffin")
    (vector,) = write_vectors(
        path, [(data.file_path, PositionBitmap.from_positions(positions))], filesystem=table.io
    )
    entry = replace(vector_entry(vector, data, vector.file_size), **wrong)
    commit(table, Changes(added=(entry,)), base=table.current_snapshot())
    return entry
