"""Files and tables on which a check or a plan once took quadratic time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

OVERLAPPING = """
import io, json, struct
data = io.BytesIO()
positions = pa.array(range(0, 1 << 21, 5))
(vector,) = arrow.encode(pa.array([positions.to_pylist()])).to_pylist()
entry = {"type": "deletion-vector-v1", "fields": [2147483645], "snapshot-id": -1, "sequence-number": -1}
blobs = [
    entry | {
        "offset": 4 + at % 7,
        "length": len(vector),
        "properties": {"referenced-data-file": f"f{at}", "cardinality": str(len(positions))},
    }
    for at in range(20_000)
]
payload = json.dumps({"blobs": blobs}).encode()
with open(path, "wb") as file:
    file.write(b"PFA1" + vector + bytes(16) + b"PFA1" + payload + struct.pack("<i", len(payload)) + bytes(4) + b"PFA1")
"""


def test_overlapping_vectors_are_checked_in_linear_time(tmp_path: Path, confined: Callable[..., int]) -> None:
    action = """
assert sum(1 for _ in files.check_vectors(path)) >= 19_999
refuses(errors.CorruptDataError, lambda: files.read_vectors(path), "the end of another vector")
"""
    confined(action, limit_mib=512, setup=OVERLAPPING, path=str(tmp_path / "x.puffin"))


INDEX = """
from puffin_fast.iceberg.manifest import ManifestEntry
from puffin_fast.iceberg.plan.delete_index import DeleteIndex
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.schema import Schema
from pyiceberg.partitioning import PartitionSpec

metadata = TableMetadataV2(
    location="l", last_column_id=0, schemas=[Schema()], current_schema_id=0, partition_specs=[PartitionSpec(spec_id=0)],
    default_spec_id=0, last_partition_id=999, sort_orders=[], last_sequence_number=0, table_uuid="%032x" % 5,
)
def entry(content, number):
    return ManifestEntry(1, 1, number, number, content, f"f{content}-{number}", "PARQUET", 0, (), 1, 1)
index = DeleteIndex(metadata)
"""


@pytest.mark.parametrize("n_files", [1_000, 2_000, 4_000])
def test_position_deletes_of_a_partition_are_planned_in_linear_time(
    confined: Callable[..., int], n_files: int
) -> None:
    action = """
index.add(entry(1, at) for at in range(n_files))
tasks = index.tasks([entry(0, at // 500) for at in range(n_files)])
assert len(tasks[0].position_deletes) == n_files
"""
    confined(action, limit_mib=512, setup=INDEX, n_files=n_files)
