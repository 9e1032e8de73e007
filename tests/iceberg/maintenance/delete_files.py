"""Tables, readers and cases that several tests share with `test_convert`."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.manifest import ADDED, POSITION_DELETES, ManifestEntry
from tests.kit.tables import iceberg_table, parts, path_of
from tests.rows.deletes.equality_deletes import SCHEMA, delete_equal

Rows = list[dict[str, Any]]

POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483545"}),
    ]
)


def delete_by_file(
    table: Table, rows: list[tuple[str, int]], *, spec_id: int = 0, partition: tuple[Any, ...] = ()
) -> str:
    """Commits one position-delete file about any data files of a partition, without bounds that say which."""
    path = table.location_provider().new_data_location(f"shared-{random.getrandbits(64):x}.parquet")
    path_of(path).parent.mkdir(parents=True, exist_ok=True)
    columns = [[row[at] for row in sorted(rows)] for at in (0, 1)]
    pq.write_table(pa.table(columns, schema=POSITIONS), path_of(path), store_schema=False)
    n_bytes = path_of(path).stat().st_size
    entry = ManifestEntry(
        ADDED, None, None, None, POSITION_DELETES, path, "PARQUET", spec_id, partition, len(rows), n_bytes
    )
    commit(table, Changes(added=(entry,)), base=table.current_snapshot())
    return path


def rows(table: Table, **which: Any) -> list[str]:
    return sorted(repr(row) for row in iceberg.scan(table, **which).to_arrow().to_pylist())


def kinds(table: Table) -> set[tuple[str, str]]:
    found = iceberg.deletes(table)
    return set(zip(found["kind"].to_pylist(), found["state"].to_pylist(), strict=True))


def new_rows(chance: random.Random, n: int) -> Rows:
    return [
        {
            "id": chance.randrange(8),
            "k": chance.choice([None, 1, 2, 3]),
            "s": chance.choice([None, "", "a", "bb"]),
            "x": chance.choice([None, 0.5, 1.5]),
        }
        for _ in range(n)
    ]


def random_table(catalog: SqlCatalog, seed: int) -> Table:
    """Appends, shared and single position deletes, and equality deletes of several key sets, then version 3."""
    chance = random.Random(seed)
    table = catalog.create_table("n.t", SCHEMA, properties={"format-version": "2"})
    for _ in range(chance.randint(6, 14)):
        what = chance.random()
        tasks = iceberg.plan_files(table).tasks
        if what < 0.4 or not tasks:
            iceberg.append(
                table, pa.Table.from_pylist(new_rows(chance, chance.randint(1, 40)), SCHEMA.as_arrow())
            )
        elif what < 0.7:
            some = chance.sample(tasks, chance.randint(1, len(tasks)))
            named = [
                (task.data.file_path, chance.randrange(task.data.record_count))
                for task in some
                for _ in range(chance.randint(0, 8))
            ]
            delete_by_file(table, [*named, ("file:///nowhere/else.parquet", 3)])
        else:
            ids = sorted(chance.sample([1, 2, 3, 4], chance.randint(1, 3)))
            made = new_rows(chance, chance.randint(1, 4))
            names = {field.field_id: field.name for field in SCHEMA.fields}
            delete_equal(table, ids, [tuple(row[names[id]] for id in ids) for row in made])
    return iceberg.upgrade(table)


def three_files(catalog: Catalog, namespace: str = "n") -> tuple[Table, list[str]]:
    table = iceberg_table(catalog, parts(pa.table({"id": range(300)}), 3), name=f"{namespace}.t", version=2)
    return table, [task.data.file_path for task in iceberg.plan_files(table).tasks][::-1]
