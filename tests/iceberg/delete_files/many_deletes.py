"""Tables, readers and cases that several tests share with `test_many_deletes`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.manifest import ADDED, DATA, EQUALITY_DELETES, ManifestEntry
from tests.kit.tables import path_of

FILE_PATH, POS = 2147483546, 2147483545
ROWS = 5
COMMITS = 6


def table_of(catalog: SqlCatalog, name: str, n: int, content: int) -> tuple[Table, list[int]]:
    """A table of `n` data files, each with its delete file, appended in several commits; and the ids that are left.

    A delete file deletes a row of an old data file and one of a new one, so that its bounds are wide.
    """
    table = catalog.create_table(name, pa.schema([("id", pa.int64())]), properties={"format-version": "2"})
    folder = path_of(table.location()) / "data"
    folder.mkdir(parents=True)
    left = set(range(n * ROWS))
    paths = [f"{folder.as_uri().replace('file:///', 'file:/')}/d{at:04d}.parquet" for at in range(n)]
    for first in range(0, n, n // COMMITS):
        added = []
        for at in range(first, first + n // COMMITS):
            added.append(_entry(paths[at], DATA, {"id": 1}, [[*range(at * ROWS, (at + 1) * ROWS)]]))
            if content == EQUALITY_DELETES:
                ids = [at * ROWS, first * ROWS // 2]
                left -= {one for one in ids if one < first * ROWS}  # the older ones
                entry = _entry(f"{paths[at]}.deletes", content, {"id": 1}, [ids])
                entry.equality_ids = [1]
            else:
                ends = paths[at // 3], paths[at]
                left -= {at // 3 * ROWS + 1, at * ROWS + 2}
                entry = _entry(
                    f"{paths[at]}.deletes", content, {"file_path": FILE_PATH, "pos": POS}, [[*ends], [1, 2]]
                )
                entry.lower_bounds = {FILE_PATH: ends[0].encode()}
                entry.upper_bounds = {FILE_PATH: ends[1].encode()}
            added.append(entry)
        commit(table, Changes(added=tuple(added)), base=table.current_snapshot())
        table.refresh()
    return table, sorted(left)


def _entry(path: str, content: int, ids: dict[str, int], columns: list[list[object]]) -> ManifestEntry:
    kinds = [pa.string() if isinstance(values[0], str) else pa.int64() for values in columns]
    schema = pa.schema(
        pa.field(name, kind, metadata={"PARQUET:field_id": str(id)})
        for (name, id), kind in zip(ids.items(), kinds, strict=True)
    )
    where = Path(path.removeprefix("file:"))
    pq.write_table(pa.table(columns, schema=schema), where)
    n_rows, n_bytes = len(columns[0]), where.stat().st_size
    return ManifestEntry(ADDED, None, None, None, content, path, "PARQUET", 0, (), n_rows, n_bytes)
