"""Tables, readers and cases that several tests share with `test_equality`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType

from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.manifest import ADDED, EQUALITY_DELETES, ManifestEntry
from puffin_fast.rows.files.conversion import storage_type
from tests.kit.tables import path_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "k", IntegerType()),
    NestedField(3, "s", StringType()),
    NestedField(4, "x", DoubleType()),
)


FIELDS = {field.field_id: field for field in (*SCHEMA.fields, NestedField(5, "extra", StringType()))}


def delete_equal(
    table: Table, ids: Sequence[int], rows: list[tuple[Any, ...]], *, partition: tuple[Any, ...] = ()
) -> None:
    """Commits one equality-delete file; its columns have the names that the table had at first."""
    fields = [FIELDS[id] for id in ids]
    arrow = pa.schema(
        [
            pa.field(f.name, storage_type(f.field_type), metadata={"PARQUET:field_id": str(f.field_id)})
            for f in fields
        ]
    )
    data = pa.table(
        [pa.array([row[at] for row in rows], arrow.field(at).type) for at in range(len(fields))], schema=arrow
    )
    path = table.location_provider().new_data_location(f"equal-{random.getrandbits(64):x}.parquet")
    path_of(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, path.removeprefix("file://"), store_schema=False)
    entry = ManifestEntry(
        status=ADDED,
        snapshot_id=None,
        sequence_number=None,
        file_sequence_number=None,
        content=EQUALITY_DELETES,
        file_path=path,
        file_format="PARQUET",
        spec_id=table.spec().spec_id,
        partition=partition,
        record_count=len(rows),
        file_size_in_bytes=len(table.io.new_input(path)),
        equality_ids=list(ids),
    )
    commit(table, Changes(added=(entry,)), base=table.current_snapshot())


def evolved(catalog: Catalog) -> Table:
    """A table with equality deletes by columns that were then renamed, promoted and dropped."""
    made = [{"id": i, "k": i % 4, "s": f"s{i % 3}", "x": i / 2} for i in range(24)]
    table = catalog.create_table("n.t", SCHEMA, properties={"format-version": "2"})
    table.append(pa.Table.from_pylist(made, SCHEMA.as_arrow()))
    delete_equal(table, [3], [("s0",)])
    delete_equal(table, [2, 3], [(1, "s1")])
    with table.update_schema() as update:
        update.rename_column("s", "word")
        update.update_column("k", LongType())
        update.add_column("extra", StringType())
    delete_equal(table, [2], [(3,)])
    with table.update_schema() as update:
        update.delete_column("k")
        update.delete_column("word")
    return table
