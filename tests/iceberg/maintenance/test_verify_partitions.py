"""Delete files whose partition is not that of their data file: `verify` finds them, `repair` repairs vectors, and scans
apply them by path."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.manifest import ADDED, ManifestEntry

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("x", pa.float64())])
ROWS = pa.table({"id": [1, 2, 3, 4], "p": ["a", "a", "b", None], "x": [1.0, 1.0, float("nan"), None]}, SCHEMA)


def made(catalog: SqlCatalog, version: int, column: str) -> Table:
    """A table partitioned by a column that was not partitioned before, with a delete in each of its partitions."""
    table = catalog.create_table("n.t", SCHEMA)
    if version == 3:
        iceberg.upgrade(table)
    with iceberg.v3_metadata(catalog), table.update_spec() as update:
        update.add_identity(column)
    for _ in range(2):
        iceberg.append(table, ROWS)
    for id in (1, 3, 4):
        place = iceberg.scan(table, f"id = {id}", ("_file", "_pos")).to_arrow()[:1]
        iceberg.delete_positions(table, place.rename_columns(["file_path", "pos"]))
    return table


def deletes_of(table: Table) -> list[ManifestEntry]:
    return [entry for task in iceberg.plan_files(table).tasks for entry in task.deletes]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("column", ["p", "x"])
def test_sound_tables_have_no_finding(racing: SqlCatalog, version: int, column: str) -> None:
    """Null and NaN are partitions as others."""
    table = made(racing, version, column)
    assert deletes_of(table)
    assert list(iceberg.verify(table)) == []


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "wrong", [{"partition": ("b",)}, {"partition": (None,)}, {"spec_id": 0, "partition": ()}], ids=str
)
def test_another_partition_or_spec_is_a_finding(
    racing: SqlCatalog, version: int, wrong: dict[str, Any]
) -> None:
    table = made(racing, version, "p")
    entry = next(entry for entry in deletes_of(table) if entry.partition == ("a",))
    moved = replace(entry, status=ADDED, snapshot_id=None, sequence_number=None, file_sequence_number=None)
    before = iceberg.scan(table).count()
    changes = Changes(added=(replace(moved, **wrong),), removed=(entry,))
    commit(table, changes, base=table.current_snapshot())
    (found,) = [one for one in iceberg.verify(table) if "partition" in one.message]
    assert (found.kind, found.path, found.offset) == ("mismatch", entry.file_path, entry.content_offset)
    assert "expected partition spec 1, partition ('a',)" in found.message
    assert f"partition {wrong['partition']}" in found.message
    assert iceberg.scan(table).count() == before
    if version == 3:
        assert iceberg.repair(table).rows_deleted == 0
        assert iceberg.verify(table) == []
        assert iceberg.scan(table).count() == before
        assert iceberg.repair(table).snapshot_id is None
