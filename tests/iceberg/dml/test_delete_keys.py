"""Deletes by keys: the rows that a join finds, for all types of keys, and refusals that change nothing."""

from __future__ import annotations

import random
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.types import LongType

from puffin_fast import delta
from puffin_fast.errors import InvalidInputError, NotFoundError, PuffinFastError
from puffin_fast.iceberg import append, create_table, delete_keys, plan_files, upsert, v3_metadata
from puffin_fast.rows.keys import key_set
from puffin_fast.rows.keys.keys import Keys
from puffin_fast.rows.scan import finder as row_search
from tests.iceberg.conftest import refused, rows_of, rows_of_duckdb
from tests.iceberg.dml.key_tables import KEYS, ROWS, N, left_after, made
from tests.kit.tables import iceberg_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table


def utc(*seconds: int) -> pa.Array:
    return pa.array([s * 10**9 for s in seconds], pa.timestamp("ns", "Europe/Berlin"))


SPLIT = ("long", "wide", "null", "only null", "string", "seconds", "two", "three")
"""Cases that are run on a partitioned table too: keys of its partition columns."""

CASES = [
    *((name, null_safe, (), False) for name in KEYS for null_safe in (False, True)),
    *((name, False, (), True) for name in KEYS),
    *((name, True, ("word", "bucket[3](small)", "day(time)"), False) for name in SPLIT),
    *((name, False, ("word", "truncate[10](id)"), False) for name in SPLIT),
]


@pytest.fixture(scope="module")
def copied(shared_catalog: SqlCatalog) -> Callable[[str, tuple[str, ...]], Table]:
    """Makes a table of ROWS in a namespace. Its data files are written once for each way to partition."""
    sources: dict[tuple[str, ...], str] = {}

    def copied(namespace: str, spec: tuple[str, ...]) -> Table:
        if spec not in sources:
            source = made(shared_catalog, namespace, spec=spec, files=1 if spec else 3)
            sources[spec] = source.metadata_location
        return shared_catalog.register_table(f"{namespace}.copy", sources[spec])

    return copied


@pytest.mark.parametrize(("name", "null_safe", "spec", "bitmaps"), CASES)
def test_exactly_the_rows_with_a_key_are_deleted(
    copied: Callable[[str, tuple[str, ...]], Table],
    namespace: str,
    duckdb_iceberg: DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    null_safe: bool,
    spec: tuple[str, ...],
    bitmaps: bool,
) -> None:
    if bitmaps:
        monkeypatch.setattr(key_set, "MAX_HASH_TABLE_VALUES", 0)
    keys, on = KEYS[name]
    table = copied(namespace, spec)
    expected = left_after(keys, on, null_safe=null_safe)
    done = delete_keys(table, keys, on, null_safe=null_safe)
    assert done.rows_deleted == N - len(expected)
    ids = table.scan(selected_fields=("id",)).to_arrow()["id"]
    assert sorted(ids.to_pylist()) == expected
    assert rows_of_duckdb(duckdb_iceberg, table, columns="id")["id"].to_pylist() == expected
    assert delete_keys(table, keys.to_reader(2), on, null_safe=null_safe).commit.id is None


IDS = [uuid.UUID(int=number << 64 | number) for number in range(10)]


@pytest.mark.parametrize("spec", [(), ("bucket[3](u)",)], ids=["flat", "partitioned"])
def test_uuids_are_found_by_bytes_and_by_text(
    shared_catalog: SqlCatalog, namespace: str, spec: tuple[str, ...]
) -> None:
    def ids_of(values: list[uuid.UUID | None]) -> pa.Array:
        return pa.array([value and value.bytes for value in values], pa.uuid())

    rows = pa.table({"id": range(10), "u": ids_of([*IDS[:-1], None])})
    table = create_table(shared_catalog, f"{namespace}.t", rows.schema, partition_spec=spec)
    append(table, rows)
    texts = [str(IDS[1]), str(IDS[2]).upper(), IDS[3].hex, "no uuid", str(IDS[4]) + "\n", None]
    for found, keys in (
        ([1, 2, 3], pa.table({"u": pa.array(texts, pa.string_view())})),
        ([5], pa.table({"u": ids_of([IDS[5]])})),
        ([6], pa.table({"u": [IDS[6].bytes, b"short"]})),
        ([7], pl.DataFrame({"u": [str(IDS[7])]})),
        ([8], pd.DataFrame({"u": [str(IDS[8])]})),
    ):
        before = rows_of(table)["id"].to_pylist()
        assert delete_keys(table, keys, "u").rows_deleted == len(found)
        assert [id for id in before if id not in rows_of(table)["id"].to_pylist()] == found
    assert delete_keys(table, pa.table({"u": pa.array(texts)}), "u", null_safe=True).rows_deleted == 1


def test_files_and_row_groups_without_a_key_are_not_read(
    shared_catalog: SqlCatalog, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_table(
        shared_catalog,
        f"{namespace}.t",
        ROWS.schema,
        properties={"write.parquet.row-group-limit": "10"},
    )
    for number in range(8):
        append(table, ROWS.slice(30 * number, 30))
    read: list[tuple[str, int]] = []
    batches = row_search.OpenedFile.batches

    def noted(self: Any, *args: Any, **named: Any) -> Any:
        for batch in batches(self, *args, **named):
            read.append((self.path, batch.first))
            yield batch

    monkeypatch.setattr(row_search.OpenedFile, "batches", noted)
    keys = pa.table({"id": pa.array([15, 226, 10**9], pa.int64())})
    opened = {t.data.file_path for t in plan_files(table, row_filter="id in (15, 226)").tasks}
    assert delete_keys(table, keys, ["id"]).rows_deleted == 2
    assert {path for path, _ in read} == opened
    assert [first for _, first in sorted(read, key=lambda at: at[1])] == [10, 10]
    read.clear()
    assert delete_keys(table, pa.table({"id": [-5, 1000]}), ["id"]).commit.id is None
    assert read == []


def test_partitions_without_a_key_are_not_planned(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace, spec=("word", "bucket[4](id)"), files=1)
    keys = pa.table({"word": ["w1", "w3"], "id": pa.array([14, 3], pa.int64())})
    bound = Keys.bind(table.metadata, keys, ["word", "id"])
    tasks = plan_files(table, row_filter=bound.expression).tasks
    assert 0 < len(tasks) <= 4
    assert {task.data.partition[0] for task in tasks} <= {"w1", "w3"}
    assert delete_keys(table, keys, ["word", "id"]).rows_deleted == 2


REFUSED: dict[str, tuple[Any, Any, type[PuffinFastError], str]] = {
    "unknown in the table": (pa.table({"nothing": [1]}), ["nothing"], NotFoundError, "no column nothing"),
    "unknown in the keys": (pa.table({"a": [1]}), ["id"], NotFoundError, "no column id, found a"),
    "unknown in a struct": (pa.table({"s": [{"b": "x"}]}), ["s.a"], NotFoundError, r"s\.a"),
    "text for numbers": (pa.table({"id": ["1"]}), ["id"], InvalidInputError, "id is string.* long"),
    "numbers for text": (pa.table({"word": [1]}), ["word"], InvalidInputError, "word is int64.* string"),
    "floats for integers": (pa.table({"id": [1.0]}), ["id"], InvalidInputError, "id is double"),
    "zone for none": (pa.table({"time": utc(1)}), ["time"], InvalidInputError, "time is timestamp"),
    "none for zone": (
        pa.table({"at": pa.array([1], pa.timestamp("us"))}),
        ["at"],
        InvalidInputError,
        "at is timestamp",
    ),
    "a struct": (pa.table({"s": [{"a": 1}]}), ["s"], InvalidInputError, "s is a struct"),
    "a list": (pa.table({"l": [[1]]}), ["l"], InvalidInputError, "l is a list"),
    "inside a list": (pa.table({"l.element": [1]}), ["l.element"], InvalidInputError, "inside a list"),
    "no columns": (pa.table({"id": [1]}), [], InvalidInputError, "at least one"),
    "no identifier": (pa.table({"id": [1]}), None, InvalidInputError, "no identifier fields"),
    "twice": (pa.table({"id": [1]}), ["id", "id"], InvalidInputError, "distinct columns"),
    "twice in the keys": (
        pa.table([pa.array([1]), pa.array([2])], ["id", "id"]),
        ["id"],
        InvalidInputError,
        "column id: expected once, found 2",
    ),
    "no rows": (5, ["id"], InvalidInputError, "keys"),
}


def test_bad_keys_are_refused_and_change_nothing(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    for keys, on, error, said in REFUSED.values():
        with refused(table, error, said):
            delete_keys(table, keys, on)


def test_identifier_fields_are_the_key_when_none_is_named(shared_catalog: SqlCatalog, namespace: str) -> None:
    rows = pa.table({"id": pa.array(range(9), pa.int64())}, pa.schema([pa.field("id", pa.int64(), False)]))
    table = create_table(shared_catalog, f"{namespace}.t", rows.schema)
    append(table, rows)
    with v3_metadata(shared_catalog), table.update_schema() as update:
        update.set_identifier_fields("id")
    assert delete_keys(table, pa.table({"id": [3, 4]})).rows_deleted == 2


def test_rows_deleted_before_do_not_count_again(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    delete_keys(table, pa.table({"id": range(50)}), ["id"])
    done = delete_keys(table, pa.table({"id": range(40, 60)}), ["id"])
    assert (done.rows_deleted, done.vectors_merged) == (10, 1)


def test_an_evolved_key_column_is_found_in_old_files(
    shared_catalog: SqlCatalog, namespace: str, duckdb_iceberg: DuckDBPyConnection
) -> None:
    table = made(shared_catalog, namespace)
    with v3_metadata(shared_catalog), table.update_schema() as update:
        update.rename_column("small", "n")
        update.update_column("small", LongType())
    with v3_metadata(shared_catalog), table.update_schema() as update:
        update.add_column("small", LongType())
    done = delete_keys(table, pa.table({"n": [3, 2**40], "small": [3, 3]}), ["n"])
    assert done.rows_deleted == sum(v == 3 for v in ROWS["small"].to_pylist())
    assert delete_keys(table, pa.table({"small": [3]}), ["small"]).commit.id is None
    assert delete_keys(table, pa.table({"small": pa.nulls(1)}), ["small"], null_safe=True).rows_deleted > 0
    assert rows_of_duckdb(duckdb_iceberg, table).num_rows == 0


def test_a_table_of_version_2_gets_position_delete_files(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = iceberg_table(shared_catalog, ROWS, name=f"{namespace}.t", version=2, by="pyiceberg")
    done = delete_keys(table, pa.table({"id": [1, 7]}), ["id"])
    assert (done.rows_deleted, done.position_delete_files_written, done.vectors_written) == (2, 1, 0)
    assert rows_of(table)["id"].to_pylist() == [i for i in range(N) if i not in (1, 7)]


def test_many_keys_against_many_row_groups_by_several_threads(
    shared_catalog: SqlCatalog, namespace: str, duckdb_iceberg: DuckDBPyConnection
) -> None:
    n = 200_000
    rng = random.Random(7)
    ids = list(range(n))
    rng.shuffle(ids)
    rows = pa.table({"id": pa.array(ids, pa.int64()), "w": pa.array([f"{i:x}" for i in ids])})
    table = create_table(
        shared_catalog,
        f"{namespace}.t",
        rows.schema,
        properties={"write.parquet.row-group-limit": "7000"},
    )
    append(table, rows)
    gone = set(rng.sample(range(2 * n), 100_000))
    done = delete_keys(table, pa.table({"id": pa.array(sorted(gone), pa.int64())}), ["id"], threads=4)
    assert done.rows_deleted == sum(i < n for i in gone)
    words = {f"{i:x}" for i in rng.sample(range(n), 50_000)}
    delete_keys(table, pa.table({"w": sorted(words)}), ["w"], threads=3)
    expected = [i for i in range(n) if i not in gone and f"{i:x}" not in words]
    assert rows_of_duckdb(duckdb_iceberg, table)["id"].to_pylist() == expected


def test_all_columns_of_a_feature_table_may_be_the_key(
    shared_catalog: SqlCatalog, namespace: str, tmp_path: Path
) -> None:
    names = [f"c{number}" for number in range(600)]
    rows = pa.table({name: [number, number + 1, number + 2] for number, name in enumerate(names)})
    table = create_table(shared_catalog, f"{namespace}.t", rows.schema)
    append(table, rows)
    assert delete_keys(table, rows.slice(0, 1), names).rows_deleted == 1
    assert upsert(table, rows.slice(1, 2), names[:-1]).rows_unchanged == 2
    delta.create_table(tmp_path / "t", rows.schema)
    delta.append(tmp_path / "t", rows)
    assert delta.delete_keys(tmp_path / "t", rows.slice(0, 1), names).rows_deleted == 1
    assert delta.upsert(tmp_path / "t", rows.slice(1, 2), names[:-1]).rows_unchanged == 2
