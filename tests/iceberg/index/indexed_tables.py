"""Tables, and statistics files with segments, that tests of key indexes share."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from puffin_fast import iceberg, key_index
from puffin_fast.iceberg.index import stored as known_indexes
from puffin_fast.puffin import PuffinReader, PuffinWriter
from tests.iceberg.conftest import rows_of
from tests.kit.faults import RacingCatalog
from tests.kit.tables import path_of

UTC = datetime.UTC
DAY = datetime.datetime(2024, 2, 29, 1, 2, 3, 456789)
N, EACH = 4, 300

KEYS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "id": (pa.int64(), lambda i: i * 7919 % 1000),
    "i": (pa.int32(), lambda i: i % 400 - 200),
    "b": (pa.bool_(), lambda i: i % 2 == 0),
    "day": (pa.date32(), lambda i: DAY.date() + datetime.timedelta(i % 500)),
    "t": (pa.time64("us"), lambda i: (DAY + datetime.timedelta(seconds=i % 333)).time()),
    "ts": (pa.timestamp("us"), lambda i: DAY + datetime.timedelta(microseconds=i % 444)),
    "tz": (pa.timestamp("us", "UTC"), lambda i: DAY.replace(tzinfo=UTC, year=1970 + i % 50, day=1)),
    "price": (pa.decimal128(12, 2), lambda i: Decimal(i % 250 - 50).scaleb(-2)),
    "wide": (pa.decimal128(38, 0), lambda i: Decimal((i % 99 - 9) * 10**30)),
    "f": (pa.float32(), lambda i: (i % 50 - 25) / 2),
    "d": (pa.float64(), lambda i: float("nan") if i % 100 == 1 else -0.0 if i % 100 == 2 else (i % 70) / 4),
    "s": (pa.string(), lambda i: f"name {i % 300}"),
    "bin": (pa.binary(), lambda i: bytes([i % 256]) * (i % 7)),
    "u": (pa.uuid(), lambda i: uuid.UUID(int=i % 200)),
}  # fmt: skip


def rows(start: int, stop: int) -> pa.Table:
    """Rows of KEYS, every eleventh value null, a struct with a key, and the row's number."""
    columns = {
        name: pa.array([None if i % 11 == 5 else value(i) for i in range(start, stop)], kind)
        for name, (kind, value) in KEYS.items()
    }
    point = [None if i % 5 == 0 else {"x": i % 60, "tag": f"t{i % 3}"} for i in range(start, stop)]
    kind = pa.struct([("x", pa.int64()), ("tag", pa.string())])
    return pa.table(
        {**columns, "point": pa.array(point, kind), "n": pa.array(range(start, stop), pa.int64())}
    )


def make(catalog: RacingCatalog, name: str = "n.t") -> Table:
    table = iceberg.create_table(catalog, name, rows(0, 1).schema)
    for at in range(N):
        iceberg.append(table, rows(at * EACH, (at + 1) * EACH))
    return table


def pair(catalog: RacingCatalog, *indexes: str | list[str]) -> tuple[Table, Table]:
    """Two tables with the same rows; the first one has indexes."""
    table = make(catalog)
    for columns in indexes:
        iceberg.index_keys(table, columns)
    return table, make(catalog, "n.plain")


def numbers(table: Table) -> list[int]:
    found: list[int] = iceberg.scan(table, selected_fields=["n"]).to_arrow()["n"].to_pylist()
    return sorted(found)


def every_row(table: Table) -> pa.Table:
    """All columns but the one with NaN, which equals nothing."""
    return rows_of(table, order="n").drop(["d"])


def stored(table: Table) -> Path:
    (path,) = {path_of(s.statistics_path) for s in table.metadata.statistics}
    return path


def lookup_cache_cleared() -> None:
    known_indexes._known.clear()


def segment(data: bytes) -> key_index.Segment:
    return key_index.Segment(key_index.in_memory(data), len(data))


def replaced(table: Table, make_blob: Callable[[bytes], bytes]) -> None:
    """Writes other segments to the place of the stored ones."""
    path = stored(table)
    with PuffinReader(path) as reader:
        found = [(blob, reader.read(blob)) for blob in reader.blobs]
    lookup_cache_cleared()
    with PuffinWriter(path, overwrite=True) as writer:
        for blob, data in found:
            writer.add(make_blob(data), type=blob.type, fields=blob.fields)
    (known,) = table.metadata.statistics
    changed = known.model_copy(update={"file_size_in_bytes": path.stat().st_size})
    table.metadata = table.metadata.model_copy(update={"statistics": [changed]})  # not committed


def rows_live(table: Table) -> list[Any]:
    return sorted(iceberg.scan(table).to_arrow().to_pylist(), key=str)
