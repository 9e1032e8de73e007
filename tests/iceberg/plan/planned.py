"""Tables, readers and cases that several tests share with `test_plan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.metadata import TableMetadataUtil

from puffin_fast.iceberg.manifest import (
    DATA,
    DELETES,
    EQUALITY_DELETES,
    EXISTING,
    POSITION_DELETES,
    ManifestEntry,
    write_manifest,
    write_manifest_list,
)
from puffin_fast.rows.shared_deletes import FILE_PATH_ID

IO = PyArrowFileIO()


SNAPSHOT = 1


SPECS: list[list[dict[str, Any]]] = [
    [],
    [{"name": "k", "transform": "identity", "source-id": 2, "field-id": 1000}],
    [{"name": "x", "transform": "identity", "source-id": 3, "field-id": 1001}],
    [{"name": "k", "transform": "void", "source-id": 2, "field-id": 1000}],
]
"""Partition specs by id: unpartitioned, by k, by the double x, and only void (unpartitioned too)."""


def table_of(folder: Path, *entries: ManifestEntry, version: int = 3) -> Table:
    """A table of one snapshot with these entries, in one manifest for each spec and content."""
    fields = [(1, "id", "long"), (2, "k", "int"), (3, "x", "double"), (4, "s", "string")]
    document: dict[str, Any] = {
        "format-version": version,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": f"file://{folder}",
        "last-sequence-number": 100,
        "last-updated-ms": 1602638573590,
        "last-column-id": 4,
        "current-schema-id": 0,
        "schemas": [
            {
                "type": "struct",
                "schema-id": 0,
                "fields": [{"id": i, "name": n, "required": False, "type": t} for i, n, t in fields],
            }
        ],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": id, "fields": spec} for id, spec in enumerate(SPECS)],
        "last-partition-id": 1001,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "snapshots": [],
        "refs": {"main": {"snapshot-id": SNAPSHOT, "type": "branch"}},
        "current-snapshot-id": SNAPSHOT,
        "next-row-id": 0,
    }
    bare = document | {"refs": {}, "current-snapshot-id": -1}
    metadata = TableMetadataUtil.parse_obj(bare)
    groups: dict[tuple[int, int], list[ManifestEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.spec_id, min(entry.content, DELETES)), []).append(entry)
    manifests = [
        write_manifest(
            IO,
            f"file://{folder}/{spec_id}-{content}.avro",
            metadata=metadata,
            spec=metadata.specs()[spec_id],
            content=content,
            snapshot_id=SNAPSHOT,
            entries=group,
        )
        for (spec_id, content), group in groups.items()
    ]
    lists = f"file://{folder}/snap.avro"
    write_manifest_list(
        IO,
        lists,
        snapshot_id=SNAPSHOT,
        parent_snapshot_id=None,
        sequence_number=100,
        manifests=manifests,
        first_row_id=0 if version == 3 else None,
        format_version=version,
    )
    snapshot = {
        "snapshot-id": SNAPSHOT,
        "timestamp-ms": 1602638573590,
        "sequence-number": 100,
        "summary": {"operation": "append"},
        "manifest-list": lists,
        "schema-id": 0,
        "first-row-id": 0,
        "added-rows": 0,
    }
    (folder / "v.metadata.json").write_text(json.dumps(document | {"snapshots": [snapshot]}))
    return StaticTable.from_metadata(f"file://{folder}/v.metadata.json")


def entry(path: str, content: int, sequence_number: int, **fields: Any) -> ManifestEntry:
    values: dict[str, Any] = {
        "status": EXISTING,
        "snapshot_id": SNAPSHOT,
        "sequence_number": sequence_number,
        "file_sequence_number": sequence_number,
        "content": content,
        "file_path": path,
        "file_format": "PARQUET",
        "spec_id": 0,
        "partition": (),
        "record_count": 10,
        "file_size_in_bytes": 1000,
    }
    return ManifestEntry(**(values | fields))


def data(path: str, sequence_number: int, **fields: Any) -> ManifestEntry:
    return entry(path, DATA, sequence_number, **fields)


def vector(target: str, sequence_number: int, path: str = "v.puffin", **fields: Any) -> ManifestEntry:
    known = {"referenced_data_file": target, "content_offset": 4, "content_size_in_bytes": 40}
    return entry(path, POSITION_DELETES, sequence_number, file_format="PUFFIN", **(known | fields))


def positions(
    path: str, sequence_number: int, bounds: tuple[str, str] | None = None, **fields: Any
) -> ManifestEntry:
    if bounds is not None:
        fields["lower_bounds"], fields["upper_bounds"] = ({FILE_PATH_ID: bound.encode()} for bound in bounds)
    return entry(path, POSITION_DELETES, sequence_number, **fields)


def equal(path: str, sequence_number: int, **fields: Any) -> ManifestEntry:
    return entry(path, EQUALITY_DELETES, sequence_number, **({"equality_ids": [1]} | fields))
