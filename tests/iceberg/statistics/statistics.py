"""Tables, readers and cases that several tests share with `test_collect`."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.table import Table

from puffin_fast.puffin import PuffinReader
from tests.kit.faults import RacingCatalog
from tests.kit.tables import iceberg_table, path_of


def make(catalog: RacingCatalog, data: pa.Table, *, version: int = 3, name: str = "n.t") -> Table:
    by = "us" if version == 3 else "pyiceberg"
    return iceberg_table(catalog, data, name=name, version=version, by=by)


def blobs_of(table: Table, snapshot_id: int | None = None) -> dict[int, bytes]:
    """The sketches of a snapshot's statistics file by field id, as the file has them."""
    snapshot_id = snapshot_id or table.metadata.current_snapshot_id
    (statistics,) = (s for s in table.metadata.statistics if s.snapshot_id == snapshot_id)
    with PuffinReader(path_of(statistics.statistics_path)) as reader:
        assert statistics.file_size_in_bytes == reader.file_size
        assert statistics.file_footer_size_in_bytes == reader.footer_size
        assert [(b.type, b.fields, b.snapshot_id, b.sequence_number, b.properties) for b in reader.blobs] == [
            (b.type, tuple(b.fields), b.snapshot_id, b.sequence_number, b.properties)
            for b in statistics.blob_metadata
        ]
        assert len({blob.fields for blob in reader.blobs}) == len(reader.blobs)
        return {blob.fields[0]: data for blob, data in reader.read_many()}


def blob_of(table: Table, column: str) -> bytes:
    return blobs_of(table)[table.schema().find_field(column).field_id]
