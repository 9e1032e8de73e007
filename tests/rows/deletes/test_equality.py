"""Equality deletes, compared with a list of rows, and with DuckDB and Spark if they can read the table."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform

from puffin_fast.errors import CorruptDataError, PuffinFastError
from puffin_fast.iceberg.catalogs.catalog_commit import commit_upgrade
from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.rows.keys.key_set import KeySet
from puffin_fast.tables.overwrite import append
from puffin_fast.tables.scan import scan
from tests.rows.deletes.equality_deletes import FIELDS, SCHEMA, delete_equal, evolved

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession


def rows_of(scanned: Any) -> list[str]:
    return sorted(repr(row) for row in scanned.to_arrow().to_pylist())


def test_null_equals_null_and_nan_equals_nan() -> None:
    fields = (FIELDS[2], FIELDS[4])
    keys = KeySet.of(
        fields,
        [pa.array([None, 1, 2, None], pa.int32()), pa.array([None, float("nan"), 0.5, 3.0])],
    )
    rows = {
        2: pa.array([None, 1, 2, None, 2, None, 1], pa.int32()),
        4: pa.array([None, float("nan"), 0.5, 3.0, None, 0.5, 0.5]),
    }
    assert keys.contains(rows).tolist() == [True] * 4 + [False] * 3
    assert len(keys) == 4


def random_history(table: Table, seed: int, *, nulls: bool) -> Iterator[list[dict[str, Any]]]:
    """Runs random appends and deletes; yields the expected rows, kept in a list, after each."""
    chance = random.Random(seed)
    choices: dict[int, list[Any]] = {
        1: [*range(8)],
        2: [None, 1, 2, 3],
        3: [None, "", "a", "bb"],
        4: [None, 0.5, 1.5],
    }
    rows: list[dict[str, Any]] = []

    def value(id: int) -> Any:
        return chance.choice(choices[id] if nulls or id == 1 else choices[id][1:])

    for _ in range(10):
        if chance.random() < 0.5 or not rows:
            new = [{f.name: value(f.field_id) for f in SCHEMA.fields} for _ in range(chance.randint(1, 30))]
            append(table, pa.Table.from_pylist(new, SCHEMA.as_arrow()))
            rows += new
        else:
            ids = sorted(chance.sample([1, 2, 3, 4], chance.randint(1, 3)))
            keys = [tuple(value(id) for id in ids) for _ in range(chance.randint(1, 4))]
            delete_equal(table, ids, keys)
            names = [FIELDS[id].name for id in ids]
            rows = [row for row in rows if tuple(row[name] for name in names) not in keys]
        yield rows


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("version", [2, 3])
def test_random_appends_and_deletes_agree_with_a_list(
    racing: SqlCatalog, duckdb_iceberg: DuckDBPyConnection, seed: int, version: int, nulls: bool
) -> None:
    table = racing.create_table("n.t", SCHEMA, properties={"format-version": "2"})
    if version == 3:
        commit_upgrade(table)
    for rows in random_history(table, seed, nulls=nulls):
        assert rows_of(scan(table)) == sorted(map(repr, rows))
        wanted = [row for row in rows if row["k"] is not None and row["k"] > 1]
        assert rows_of(scan(table, "k > 1", ("s", "id"))) == sorted(
            repr({"id": row["id"], "s": row["s"]}) for row in wanted
        )
    if not nulls:  # DuckDB 1.5.5 deletes rows with a null, too, where one column is compared to a value
        query = f"SELECT * FROM iceberg_scan('{table.metadata_location}')"
        found = duckdb_iceberg.execute(query).to_arrow_table().to_pylist()
        assert sorted(map(repr, found)) == sorted(map(repr, rows))


@pytest.mark.spark
@pytest.mark.jar
@pytest.mark.parametrize("seed", [10, 11])
def test_spark_agrees_with_a_list(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str, seed: int
) -> None:
    table = shared_catalog.create_table(f"{namespace}.t", SCHEMA, properties={"format-version": "2"})
    *_, rows = random_history(table, seed, nulls=True)
    answer = iceberg_spark.sql(f"SELECT * FROM shared.{namespace}.t").toArrow().to_pylist()
    assert sorted(map(repr, answer)) == sorted(map(repr, rows)) == rows_of(scan(table))


def test_deletes_find_columns_that_were_renamed_promoted_dropped_or_added(racing: SqlCatalog) -> None:
    table = evolved(racing)
    left = [i for i in range(24) if i % 3 != 0 and not (i % 4 == 1 and i % 3 == 1) and i % 4 != 3]
    assert scan(table).to_arrow().sort_by("id").to_pylist() == [
        {"id": i, "x": i / 2, "extra": None} for i in left
    ]
    delete_equal(table, [5], [(None,)])  # older files lack the column: all of their rows have a null there
    assert scan(table).to_arrow().num_rows == 0


def test_deletes_of_a_partition_leave_other_partitions_alone(racing: SqlCatalog) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "k"))
    table = racing.create_table("n.t", SCHEMA, partition_spec=spec, properties={"format-version": "2"})
    rows = [{"id": i, "k": k, "s": "s", "x": 0.0} for i in range(4) for k in (None, 1, 2)]
    table.append(pa.Table.from_pylist(rows, SCHEMA.as_arrow()))
    delete_equal(table, [1], [(0,)], partition=(1,))
    delete_equal(table, [1], [(1,)], partition=(None,))
    left = [r for r in rows if (r["id"], r["k"]) not in ((0, 1), (1, None))]
    assert rows_of(scan(table)) == sorted(map(repr, left))
    with table.update_spec() as update:
        update.remove_field("k")
    delete_equal(table, [1], [(2,)])  # an unpartitioned spec: everywhere
    left = [r for r in left if r["id"] != 2]
    assert rows_of(scan(table)) == sorted(map(repr, left))
    assert rows_of(scan(table, "k = 1")) == sorted(repr(r) for r in left if r["k"] == 1)


def test_a_delete_file_without_its_columns_is_refused(racing: SqlCatalog) -> None:
    table = racing.create_table("n.t", SCHEMA, properties={"format-version": "2"})
    table.append(pa.table({"id": [1], "k": pa.array([1], pa.int32()), "s": ["a"], "x": [0.0]}))
    delete_equal(table, [1], [(1,)])
    (task,) = plan_files(table).tasks
    (entry,) = task.equality_deletes
    pq.write_table(pa.table({"other": [1]}), entry.file_path.removeprefix("file://"))
    with pytest.raises(PuffinFastError, match="field"):
        scan(table).to_arrow()


def test_an_entry_without_ids_is_refused(racing: SqlCatalog) -> None:
    table = racing.create_table("n.t", SCHEMA, properties={"format-version": "2"})
    table.append(pa.table({"id": [1], "k": pa.array([1], pa.int32()), "s": ["a"], "x": [0.0]}))
    delete_equal(table, [], [])
    with pytest.raises(CorruptDataError, match="equality_ids"):
        plan_files(table)
