"""Small row groups that are read as one have the rows that they have one by one."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

import puffin_fast as pf
from puffin_fast.errors import PuffinFastError
from puffin_fast.rows.files import joined_groups
from puffin_fast.rows.files.joined_groups import SMALL_ROWS, spans_of
from tests.kit.tables import table_of_files
from tests.seeds import seeds

N = 5_000
FILTERS = (
    "k < 10",
    "k = 3 and d > 0.5",
    "k >= 0",
    "k < 300 and t like '%1%'",
    "s.x < 5",
    "t is null",
    "id < 3 or id > 4990",
    "b = true and m is not null",
)


def rows(rng: random.Random, n: int = N) -> pa.Table:
    """Rows of flat and nested columns with nulls; row groups without any, and of nothing but nulls."""
    share, block = rng.choice([0.0, 0.1, 0.9]), rng.randrange(n)

    def some(make: Callable[[int], Any]) -> list[Any]:
        return [None if rng.random() < share or block <= at < block + 400 else make(at) for at in range(n)]

    many = rng.choice([5, n])
    day = datetime.date(2020, 1, 1)
    return pa.table(
        {
            "id": pa.array(range(n), pa.int64()),
            "k": pa.array([rng.randrange(1000) for _ in range(n)], pa.int32()),
            "d": pa.array(some(lambda _: rng.random()), pa.float64()),
            "t": pa.array(some(lambda _: f"text {rng.randrange(many)}" * rng.randrange(3)), pa.string()),
            "b": pa.array(some(lambda at: at % 3 == 0), pa.bool_()),
            "n": pa.array(some(lambda at: Decimal(at) / 100), pa.decimal128(20, 2)),
            "day": pa.array(some(lambda at: day + datetime.timedelta(at)), pa.date32()),
            "raw": pa.array(some(lambda at: bytes([at % 256]) * (at % 20)), pa.binary()),
            "s": pa.array(
                some(lambda at: {"x": rng.choice([at % 100, None]), "y": f"{at % many}"}),
                pa.struct([("x", pa.int64()), ("y", pa.string())]),
            ),
            "l": pa.array(some(lambda at: [at] * (at % 4)), pa.list_(pa.int64())),
            "m": pa.array(some(lambda at: [(f"{at % 3}", at)]), pa.map_(pa.string(), pa.int64())),
        }
    )


def write(rng: random.Random, table: pa.Table, path: Path) -> None:
    """A file of row groups of some sizes, small ones and large ones, of one of three writers."""
    size = rng.choice([50, 100, 1000, N])
    flat = table.drop_columns(["l", "m"])
    match rng.choice(["pyarrow", "pyarrow", "pyarrow", "duckdb", "polars"]):
        case "duckdb":
            duckdb.sql(f"copy flat to '{path}' (format parquet, row_group_size {max(size, 100)})")
        case "polars":
            polars.from_arrow(flat).write_parquet(path, row_group_size=max(size, 100))  # type: ignore[union-attr]
        case _:
            options: dict[str, Any] = {
                "compression": rng.choice(["zstd", "snappy", "gzip", "none"]),
                "use_dictionary": rng.random() < 0.5,
                "data_page_version": rng.choice(["1.0", "2.0"]),
                "data_page_size": rng.choice([100, 1 << 20]),
            }
            with pq.ParquetWriter(path, table.schema, **options) as writer:
                at = 0
                while at < len(table):
                    n = rng.choice([size, size, 1, 2 * size, SMALL_ROWS + 100])
                    writer.write_table(table.slice(at, n), row_group_size=n)
                    at += n


def one_by_one(monkeypatch: pytest.MonkeyPatch, run: Callable[[], Any]) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(joined_groups, "_MOST_GROUPS", 1)
        return run()


@pytest.mark.parametrize("seed", seeds(8))
def test_rows_are_those_of_row_groups_one_by_one(
    catalog: InMemoryCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    path = tmp_path / "data.parquet"
    write(rng, rows(rng), path)
    table, whole = table_of_files(catalog, path), pq.read_table(path)
    known = [where for where in FILTERS if "m" in whole.column_names or "m is" not in where]
    if rng.random() < 0.5:
        gone = sorted(rng.sample(range(N), rng.choice([1, 100, 4000])))
        paths = pa.array([f"file://{path}"] * len(gone))
        pf.iceberg.delete_positions(table, pa.table({"file_path": paths, "pos": gone}))
        whole = whole.take(pa.array(np.delete(np.arange(N), gone)))
    for where in [None, *known]:
        options: dict[str, Any] = {} if where is None else {"row_filter": where}
        scan = pf.iceberg.scan(table, **options)
        expected = whole if where is None else duckdb.from_arrow(whole).filter(where).to_arrow_table()
        found = scan.to_arrow()
        assert found["id"].to_pylist() == expected["id"].to_pylist(), where
        assert found.equals(expected.cast(found.schema)), where
        assert scan.count() == len(expected)
        positions = pf.iceberg.scan(table, selected_fields=("id", "_pos"), **options).to_arrow()
        assert positions["_pos"].to_pylist() == positions["id"].to_pylist() == expected["id"].to_pylist()
        assert found.equals(one_by_one(monkeypatch, scan.to_arrow))


@pytest.mark.parametrize("seed", seeds(4))
def test_damaged_pages_are_found_as_one_by_one(
    catalog: InMemoryCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    path = tmp_path / "data.parquet"
    write(rng, rows(rng, 500), path)
    table, data = table_of_files(catalog, path), path.read_bytes()
    end = pq.read_metadata(path).serialized_size + 8

    def outcome() -> Any:
        try:
            return pf.iceberg.scan(table, row_filter="k < 500").to_arrow()
        except PuffinFastError as error:
            return type(error)

    for _ in range(15):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 5])):
            damaged[rng.randrange(4, len(data) - end)] = rng.randrange(256)
        path.write_bytes(damaged)
        found, expected = outcome(), one_by_one(monkeypatch, outcome)
        assert found.equals(expected) if isinstance(found, pa.Table) else found is expected


def test_a_first_row_group_is_read_alone(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    """The first rows of a scan do not wait for many row groups."""
    path = tmp_path / "data.parquet"
    pq.write_table(rows(random.Random(1)), path, row_group_size=10)
    first = next(iter(pf.iceberg.scan(table_of_files(catalog, path), threads=1).limit(3)))
    assert first.num_rows == 3
    runs = joined_groups.joined_groups(
        [(at, 10 * at, 10) for at in range(600)], [100] * 600, [0] * 600, 1 << 17
    )
    assert [len(run) for run in runs] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 89]


def test_spans_of_row_groups_that_do_not_follow_one_another() -> None:
    assert spans_of([(3, 30, 10), (4, 40, 5)]) is None
    found = spans_of([(3, 30, 10), (4, 40, 5), (6, 50, 1), (7, 51, 2), (9, 60, 4)])
    assert found is not None
    assert (found.starts.tolist(), found.stops.tolist()) == ([0, 20, 30], [15, 23, 34])


def test_runs_are_bounded() -> None:
    groups = [(at, 1000 * at, 1000) for at in range(20)]
    by_rows = joined_groups.joined_groups(groups, [1] * 20, [0] * 20, 3000)
    assert [len(run) for run in by_rows] == [1, 2, 3, 3, 3, 3, 3, 2]
    by_bytes = joined_groups.joined_groups(groups, [3 << 20] * 20, [0] * 20, 1 << 17)
    assert [len(run) for run in by_bytes] == [1] * 20
    large = [(0, 0, 5), (1, 5, SMALL_ROWS + 1), (2, 5000, 5), (3, 5005, 5)]
    assert [len(run) for run in joined_groups.joined_groups(large, [1] * 4, [0] * 4, 1 << 17)] == [1, 1, 2]
    texts = joined_groups.joined_groups(groups, [1] * 20, [joined_groups.MOST_TEXT_BYTES] * 20, 1 << 17)
    assert [len(run) for run in texts] == [1] * 20
