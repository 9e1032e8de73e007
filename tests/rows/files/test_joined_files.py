"""Small data files that are read as one have the rows that they have one by one."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table

import puffin_fast as pf
from puffin_fast.errors import PuffinFastError
from puffin_fast.rows.scan import file_reader
from tests.kit.seeds import seeds
from tests.kit.tables import iceberg_table
from tests.rows.files.random_files import random_rows

N_FILES = 40
FILTERS = (
    "k < 5",
    "k < 3 and d > 50",
    "t like '000%'",
    "s.x < 5",
    "t is null",
    "id < 3 or id > 900",
    "p = 1",
)


def files(rng: random.Random, folder: Path) -> list[Path]:
    """Small files of two writers, in runs; some have several row groups, one is large."""
    sizes, found, first = [rng.choice([1, 7, 30]) for _ in range(N_FILES)], [], 0
    sizes[20] = 5000
    rows = random_rows(rng, sum(sizes)).drop_columns(["x", "m"])
    for number, size in enumerate(sizes):
        path, partition = folder / f"{number:02}.parquet", pa.array([first % 3] * size, pa.int32())
        table = rows.slice(first, size).append_column("p", partition)
        if number // 5 % 3 == 1:
            polars.DataFrame(table).write_parquet(path)
        else:
            codec, group = rng.choice(["zstd", "zstd", "none"]), rng.choice([10, 100, 100])
            pq.write_table(table, path, compression=codec, row_group_size=group)
        first += size
        found.append(path)
    return found


def table_of(catalog: InMemoryCatalog, paths: list[Path], *, partitioned: bool) -> Table:
    partition = ["p"] if partitioned else []
    table = iceberg_table(catalog, pq.read_schema(paths[0]), version=2, partition=partition)
    table.add_files([f"file://{path}" for path in paths])
    return table


def one_by_one(monkeypatch: pytest.MonkeyPatch, run: Callable[[], Any]) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(file_reader, "MOST_FILES", 1)
        return run()


@pytest.mark.parametrize("seed", seeds(5))
def test_rows_are_those_of_files_one_by_one(
    catalog: InMemoryCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    paths = files(rng, tmp_path)
    table = table_of(catalog, paths, partitioned=rng.random() < 0.5)
    deleted = rng.choice([None, "k < 20", "id < 100", "s.x = 3"])
    if deleted is not None:
        pf.iceberg.delete(table, deleted)
    for where in [None, *FILTERS]:
        options: dict[str, Any] = {} if where is None else {"row_filter": where}
        scan = pf.iceberg.scan(table, **options)
        found, expected = scan.to_arrow(), one_by_one(monkeypatch, scan.to_arrow)
        assert found.schema == expected.schema, where
        assert repr(found.to_pylist()) == repr(expected.to_pylist()), where  # NaN is not equal to itself
        assert scan.count() == len(expected) == one_by_one(monkeypatch, scan.count)
        by_pyiceberg = table.refresh().scan(**options, selected_fields=("id",)).to_arrow()
        assert sorted(found["id"].to_pylist()) == sorted(by_pyiceberg["id"].to_pylist()), where
        located = pf.iceberg.scan(table, selected_fields=("id", "_file", "_pos"), **options).to_arrow()
        assert located["id"].to_pylist() == found["id"].to_pylist()
        assert str(scan.explain()) == one_by_one(monkeypatch, lambda scan=scan: str(scan.explain()))


def test_files_of_partitions_that_differ_in_a_sign_are_read_apart(
    catalog: InMemoryCatalog, tmp_path: Path
) -> None:
    """The partition has the value of the column, which the files lack."""
    schema = pa.schema([("id", pa.int64()), ("d", pa.float64())])
    table = iceberg_table(catalog, schema, version=2, partition=["d"])
    for number in range(N_FILES):
        table.append(pa.table({"id": [number], "d": [-0.0 if number % 3 else 0.0]}))
    for path in tmp_path.rglob("*.parquet"):
        pq.write_table(pq.ParquetFile(path).read(["id"]), path)
    found = pf.iceberg.scan(table, threads=1).to_arrow().sort_by("id")
    assert [str(value) for value in found["d"].to_pylist()] == [
        "-0.0" if number % 3 else "0.0" for number in range(N_FILES)
    ]


@pytest.mark.parametrize("listed", [False, True], ids=["texts", "lists"])
def test_long_texts_of_a_dictionary_do_not_make_large_batches(
    catalog: InMemoryCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    most, paths = 1 << 20, [tmp_path / f"{number}.parquet" for number in range(100)]
    for number, path in enumerate(paths):
        text = f"{number:03}" + "x" * 4000
        pq.write_table(pa.table({"id": [number] * 100, "t": [[text] if listed else text] * 100}), path)
    table = table_of(catalog, paths, partitioned=False)
    monkeypatch.setattr(file_reader, "MOST_TEXT_BYTES", most)
    batches = [*pf.iceberg.scan(table, threads=1).to_batches()]
    assert sum(map(len, batches)) == 100 * len(paths)
    assert max(batch.get_total_buffer_size() for batch in batches) < 2 * most


@pytest.mark.parametrize("seed", seeds(2))
def test_a_damaged_file_is_named(
    catalog: InMemoryCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    paths = files(rng, tmp_path)
    table = table_of(catalog, paths, partitioned=False)

    def outcome() -> Any:
        try:
            return pf.iceberg.scan(table, row_filter="k < 5", threads=1).to_arrow()
        except PuffinFastError as error:
            return str(error)

    n_errors = 0
    for _ in range(8):
        path = rng.choice(paths)
        data = path.read_bytes()
        damaged = bytearray(data)
        end = pq.read_metadata(path).serialized_size + 8
        for _ in range(20):
            damaged[rng.randrange(4, len(data) - end)] = rng.randrange(256)
        path.write_bytes(damaged)
        found, expected = outcome(), one_by_one(monkeypatch, outcome)
        assert type(found) is type(expected)
        if isinstance(found, pa.Table):
            assert pc.sum(found["id"]) == pc.sum(expected["id"])
            assert found["k"].equals(expected["k"])
        else:
            n_errors += 1
            assert found == expected
            assert str(path) in found
        path.write_bytes(data)
    assert n_errors > 0
