"""Bloom filters are written by the table's properties, and what they leave out is never a row that matches."""

from __future__ import annotations

import decimal
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import In
from pyiceberg.types import DecimalType, LongType

from puffin_fast import delta, iceberg
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.files.reader import DataFiles
from tests.iceberg.conftest import refused
from tests.kit.cases import each
from tests.kit.tables import iceberg_table, path_of

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

ENABLED = "write.parquet.bloom-filter-enabled.column."
NAMES = ("id", "small", "price", "text", "day")
FILTERS = {ENABLED + name: "true" for name in (*NAMES, "flag", "point.x", "no_such_column")}
N = 4000


def rows(seed: int, n: int = N) -> pa.Table:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-(1 << 20), 1 << 20, n)
    nulls = rng.random(n) < 0.1
    return pa.table(
        {
            "id": numbers,
            "small": pa.array((numbers // 3).astype(np.int32), mask=nulls),
            "price": pa.array(
                [decimal.Decimal(int(number)).scaleb(-2) for number in numbers], pa.decimal128(9, 2)
            ),
            "text": pa.array([f"t{number % 5000}" for number in numbers], mask=nulls),
            "day": pa.array((numbers % 30_000).astype(np.int32), pa.date32()),
            "flag": numbers % 2 == 0,
            "point": [{"x": int(number)} for number in numbers],
        }
    )


def make(catalog: SqlCatalog, name: str, **properties: str) -> Table:
    return iceberg_table(catalog, [rows(seed) for seed in range(4)], name=name, properties=properties)


@pytest.fixture
def twins(shared_catalog: SqlCatalog, namespace: str) -> tuple[Table, Table]:
    limit = {"write.parquet.row-group-limit": "1500"}
    return (
        make(shared_catalog, f"{namespace}.with", **limit, **FILTERS),
        make(shared_catalog, f"{namespace}.without", **limit),
    )


def same(left: Table, right: Table, row_filter: Any) -> int:
    found, expected = (iceberg.scan(table, row_filter).to_arrow() for table in (left, right))
    assert found.equals(expected)
    assert iceberg.scan(left, row_filter).count() == len(found)
    return len(found)


def step(table: Table, row_filter: Any) -> int:
    """Row groups that filters leave out."""
    return iceberg.scan(table, row_filter).explain()["Bloom filters"].row_groups or 0


def test_files_that_are_asked_in_one_call_are_explained_like_others(
    shared_catalog: SqlCatalog, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{namespace}.t"
    table = make(shared_catalog, name, **{"write.parquet.row-group-limit": "1500"}, **FILTERS)
    for seed in range(4, 10):
        iceberg.append(table, rows(seed))
    iceberg.delete(table, "id < 0")
    asked: list[bool] = []

    def opened(files: DataFiles, *given: Any) -> Any:
        found = excluded(files, *given)
        asked.append(found is not None)
        return found

    excluded = DataFiles._excluded
    monkeypatch.setattr(DataFiles, "_excluded", opened)
    keys = [rows(100)["id"][at].as_py() for at in range(3)] + [rows(6)["id"][0].as_py()]
    texts = [f"id in ({keys[0]}, {keys[1]})", f"id in ({keys[2]}, {keys[3]})", f"id = {abs(keys[0])}"]
    fast = [iceberg.scan(table, text).explain() for text in texts]
    found = [iceberg.scan(table, text, threads=1).to_arrow() for text in texts]
    assert sum(asked) > 20
    monkeypatch.setattr(DataFiles, "_excluded", lambda *_: None)
    assert fast == [iceberg.scan(table, text).explain() for text in texts]
    assert found == [iceberg.scan(table, text).to_arrow() for text in texts]
    assert iceberg.delete_keys(table, pa.table({"id": keys}), "id").rows_deleted == sum(
        rows(seed)["id"].to_pylist().count(key) for seed in range(10) for key in keys if key >= 0
    )


def test_scans_and_verbs_find_the_rows_that_they_find_without_filters(twins: tuple[Table, Table]) -> None:
    left, right = twins
    rng = np.random.default_rng(1)
    n_found = n_left_out = 0
    for seed in range(4):
        some = rows(seed)
        for name in NAMES:
            there = some[name].take(rng.integers(0, N, 3)).drop_null().to_pylist()
            absent = rows(100 + seed)[name].take([0, 1]).drop_null().to_pylist()
            for values in (there[:1], there, absent, [*there, *absent]):
                if values:
                    texts = [str(value) if isinstance(value, date) else value for value in values]
                    n_found += same(left, right, In(name, texts))
                    n_left_out += step(left, In(name, texts))
    assert n_found > 100
    assert n_left_out > 200
    assert step(right, f"id = {rows(0)['id'][0].as_py()}") == 0
    for verb in (
        lambda table: iceberg.delete_keys(table, rows(2).select(["id"]).slice(0, 5), "id"),
        lambda table: iceberg.delete_keys(
            table, rows(3).select(["text", "small"]).slice(0, 50), ["text", "small"]
        ),
        lambda table: iceberg.delete_keys(table, rows(3).select(["small"]), "small", null_safe=True),
        lambda table: iceberg.delete(table, f"price = {rows(1)['price'][7].as_py()} and id < 0"),
        lambda table: iceberg.update(table, f"id = {rows(1)['id'][9].as_py()}", {"text": "changed"}),
        lambda table: iceberg.upsert(table, rows(1).slice(100, 3), "id", duplicate_keys="replace"),
        lambda table: iceberg.rewrite_data_files(table, min_deleted=0.0),
    ):
        for table in twins:
            verb(table)
        assert same(left, right, "id is not null") > 0
        same(left, right, "text = 'changed'")


def test_promoted_and_renamed_columns_are_found(twins: tuple[Table, Table]) -> None:
    small, price = (rows(2)[name][11].as_py() for name in ("small", "price"))
    for table in twins:
        with iceberg.accelerate(), table.update_schema() as update:
            update.update_column("small", LongType())
            update.update_column("price", DecimalType(20, 2))
            update.rename_column("small", "large")
    assert same(*twins, f"large = {small} or large = {1 << 40}") > 0
    assert same(*twins, f"large in ({small}, {1 << 40})") > 0
    assert same(*twins, f"price = {price}") > 0
    assert step(twins[0], f"large = {(1 << 18) + 1}") > 0


def test_the_properties_of_the_table_say_which_columns_have_filters(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = make(
        shared_catalog,
        f"{namespace}.t",
        **FILTERS
        | {
            ENABLED + "day": "false",
            "write.parquet.bloom-filter-fpp.column.text": "0.2",
            "write.parquet.bloom-filter-ndv.column.id": "100",
            "write.parquet.bloom-filter-max-bytes": "4096",
        },
    )
    (path,) = {task.data.file_path for task in iceberg.plan_files(table).tasks[:1]}
    group = pq.ParquetFile(path_of(path)).metadata.row_group(0)
    sizes = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    n_bytes = {name: one.bloom_filter_length for name, one in sizes.items() if one.bloom_filter_length}
    assert n_bytes.keys() == {"id", "small", "price", "text", "point.x"}
    assert n_bytes["id"] < n_bytes["text"] < n_bytes["small"]
    assert all(
        4096 / 2 <= n < 4096 + 32 for name, n in n_bytes.items() if name in ("small", "price", "point.x")
    )
    assert all(one.has_column_index and one.has_offset_index for one in sizes.values())


@each(
    ("name", "value"),
    [
        (ENABLED + "id", "yes"),
        ("write.parquet.bloom-filter-fpp.column.id", "1"),
        ("write.parquet.bloom-filter-fpp.column.id", "x"),
        ("write.parquet.bloom-filter-fpp.column.id", "nan"),
        ("write.parquet.bloom-filter-ndv.column.id", "-3"),
        ("write.parquet.bloom-filter-max-bytes", "1e6"),
    ],
)
def test_properties_that_filters_cannot_have_are_refused(
    shared_catalog: SqlCatalog, namespace: str, name: str, value: str
) -> None:
    place = f"{namespace}.t{value}"
    table = iceberg_table(shared_catalog, rows(0).schema, name=place, properties={name: value})
    with refused(table, InvalidInputError, name):
        iceberg.append(table, rows(0))


def test_other_engines_use_the_filters(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = iceberg_table(shared_catalog, rows(0), name=f"{namespace}.t", properties=FILTERS)
    (path,) = {task.data.file_path for task in iceberg.plan_files(table).tasks}
    there, absent = rows(0)["id"][0].as_py(), rows(50)["id"][0].as_py()
    with duckdb.connect() as connection:
        for value, excluded in ((there, False), (absent, True)):
            query = f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{path_of(path)}', 'id', {value})"
            assert {found for (found,) in connection.execute(query).fetchall()} == {excluded}


def test_filters_that_contradict_the_bounds_are_not_trusted(twins: tuple[Table, Table]) -> None:
    """All their bits are zero: they have no value, not even the lowest one."""
    value = rows(2)["id"][0].as_py()
    for task in iceberg.plan_files(twins[0]).tasks:
        path = path_of(task.data.file_path)
        data = bytearray(path.read_bytes())
        footer = pq.ParquetFile(path).metadata
        for number in range(footer.num_row_groups):
            chunk = footer.row_group(number).column(0)
            stop = chunk.bloom_filter_offset + chunk.bloom_filter_length
            data[chunk.bloom_filter_offset + 32 : stop] = bytes(stop - chunk.bloom_filter_offset - 32)
        path.write_bytes(data)
    assert same(*twins, f"id = {value}") > 0


def test_a_key_that_is_not_there_costs_a_few_blocks(shared_catalog: SqlCatalog, namespace: str) -> None:
    given = {"id": np.random.default_rng(0).permutation(2_000_000) * 2}
    properties = {ENABLED + "id": "true"}
    table = iceberg_table(shared_catalog, given, name=f"{namespace}.t", properties=properties)
    scan = iceberg.scan(table, "id = 1000001")
    before = n_bytes_read()
    assert scan.count() == 0
    assert n_bytes_read() - before < 200_000
    assert iceberg.scan(table, "id = 1000002").count() == 1


def n_bytes_read() -> int:
    """Bytes that this process has read from files, as Linux counts them."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"])


def test_tables_of_delta_are_searched_by_filters(tmp_path: Path) -> None:
    import deltalake

    filters = deltalake.BloomFilterProperties(True, fpp=0.01, ndv=N)
    columns = deltalake.ColumnProperties(bloom_filter_properties=filters)
    writer = deltalake.WriterProperties(default_column_properties=columns)
    for seed in range(3):
        deltalake.write_deltalake(tmp_path / "t", rows(seed), mode="append", writer_properties=writer)
    delta.enable(tmp_path / "t")
    value, absent = rows(1)["id"][0].as_py(), rows(50)["id"][0].as_py()
    assert delta.scan(tmp_path / "t", f"id = {absent}").explain()["Bloom filters"].data_files == 3
    expected = sum(rows(seed)["id"].to_pylist().count(value) for seed in range(3))
    assert delta.delete_keys(tmp_path / "t", {"id": [value]}, "id").rows_deleted == expected > 0
    assert delta.scan(tmp_path / "t", f"id = {value}").count() == 0


@pytest.mark.spark
@pytest.mark.jar
def test_filters_of_spark_are_asked(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    iceberg_spark.createDataFrame(rows(9).select(["id", "text"]).to_pandas()).createOrReplaceTempView("given")
    iceberg_spark.sql(
        f"CREATE TABLE shared.{namespace}.t USING iceberg TBLPROPERTIES ('{ENABLED}id' = 'true',"
        f" '{ENABLED}text' = 'true', 'write.parquet.dict-size-bytes' = '1') AS SELECT * FROM given"
    )
    table = shared_catalog.load_table(f"{namespace}.t")
    for number in range(20):
        value = rows(9)["id"][number].as_py()
        assert iceberg.scan(table, f"id = {value}").count() == rows(9)["id"].to_pylist().count(value)
    assert step(table, f"id = {rows(50)['id'][0].as_py()}") > 0
    assert step(table, "text = 't17!'") > 0
