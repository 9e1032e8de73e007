"""The Iceberg tables of the benchmarks: 1000 data files of 40,000 rows (id bigint, k int), every second row deleted."""

from __future__ import annotations

import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

__all__ = ["CATALOG", "ROWS_PER_FILE", "Tables"]

ROWS_PER_FILE = 40_000
CATALOG = "bench"
PATH_ID, POS_ID = 2147483546, 2147483545


def _field(name: str, kind: pa.DataType, field_id: int, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, metadata={"PARQUET:field_id": str(field_id)})


DATA = pa.schema([_field("id", pa.int64(), 1), _field("k", pa.int32(), 2)])
POSITIONS = pa.schema(
    [
        _field("file_path", pa.string(), PATH_ID, nullable=False),
        _field("pos", pa.int64(), POS_ID, nullable=False),
    ]
)


class Tables:
    """A catalog in a folder, with the table in the states that the jobs start from."""

    prefix = "files"

    def __init__(self, folder: Path, n_files: int) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        self.root = folder / f"{self.prefix}-{n_files}"
        self.n_files = n_files
        self.database = self.root / "catalog.db"
        new = not (self.root / "done").exists()
        if new:
            shutil.rmtree(self.root, ignore_errors=True)
            self.root.mkdir(parents=True)
        self.catalog: SqlCatalog = SqlCatalog(
            CATALOG, uri=f"sqlite:///{self.database}", warehouse=f"file://{self.root}/wh"
        )
        if new:
            self._make()
            (self.root / "done").touch()

    def _make(self) -> None:
        """The rows, then the position deletes in format version 2, then the upgrade."""
        from pyiceberg.schema import Schema
        from pyiceberg.types import IntegerType, LongType, NestedField

        from puffin_fast.iceberg import upgrade
        from puffin_fast.iceberg.commit.changes import Changes
        from puffin_fast.iceberg.commit.protocol import commit

        self.catalog.create_namespace_if_not_exists("n")
        schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "k", IntegerType()))
        modes = {f"write.{job}.mode": "merge-on-read" for job in ("delete", "update", "merge")}
        table = self.catalog.create_table(
            "n.base",
            schema,
            properties={"format-version": "2", "write.parquet.compression-codec": "zstd", **modes},
        )
        Path(table.location().removeprefix("file://"), "data").mkdir(parents=True)
        with ThreadPoolExecutor(2) as pool:
            data = list(pool.map(lambda n: self._data_file(table, n), range(self.n_files)))
            commit(table, Changes(added=tuple(data)), base=None)
            self.catalog.register_table("n.rows", table.metadata_location)
            deletes = list(pool.map(lambda entry: self._delete_file(table, entry), data))
        commit(table, Changes(added=tuple(deletes)), base=table.current_snapshot())
        upgrade(table)
        upgrade(self.catalog.load_table("n.rows"))

    def _data_file(self, table: Table, number: int) -> Any:
        ids = np.arange(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        ks = np.random.default_rng(number).integers(0, 1000, ROWS_PER_FILE, dtype=np.int32)
        path = f"{table.location()}/data/{number:05d}.parquet"
        bounds = [
            {1: struct.pack("<q", int(f(ids))), 2: struct.pack("<i", int(f(ks)))} for f in (np.min, np.max)
        ]
        size = _write(pa.table([ids, ks], schema=DATA), path)
        counts = {1: ROWS_PER_FILE, 2: ROWS_PER_FILE}
        return _entry(
            0,
            path,
            ROWS_PER_FILE,
            size,
            value_counts=counts,
            null_value_counts={1: 0, 2: 0},
            lower_bounds=bounds[0],
            upper_bounds=bounds[1],
        )

    def _delete_file(self, table: Table, data: Any) -> Any:
        positions = np.arange(0, ROWS_PER_FILE, 2)
        paths = pa.repeat(pa.scalar(data.file_path), len(positions))
        path = data.file_path.replace(".parquet", "-deletes.parquet")
        size = _write(pa.table([paths, positions], schema=POSITIONS), path)
        bound = {PATH_ID: data.file_path.encode()}
        return _entry(1, path, len(positions), size, lower_bounds=bound, upper_bounds=bound)

    def fresh(self, state: str, name: str) -> Table:
        """A table of its own that starts from a state's metadata."""
        identifier = f"n.{name}"
        if self.catalog.table_exists(identifier):
            self.catalog.drop_table(identifier)
        location = self.catalog.load_table(f"n.{state}").metadata_location
        return self.catalog.register_table(identifier, location)


def _write(rows: pa.Table, path: str) -> int:
    local = path.removeprefix("file://")
    pq.write_table(rows, local, compression="zstd", store_schema=False)
    return Path(local).stat().st_size


def _entry(content: int, path: str, rows: int, size: int, **metrics: Any) -> Any:
    from puffin_fast.iceberg.manifest import ADDED, ManifestEntry

    return ManifestEntry(
        status=ADDED,
        snapshot_id=None,
        sequence_number=None,
        file_sequence_number=None,
        content=content,
        file_path=path,
        file_format="PARQUET",
        spec_id=0,
        partition=(),
        record_count=rows,
        file_size_in_bytes=size,
        **metrics,
    )
