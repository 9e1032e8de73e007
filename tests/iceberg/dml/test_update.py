"""Updates by a filter, compared with rows in Python; PyIceberg, DuckDB and Spark read the results."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg import types
from pyiceberg.schema import Schema

from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg import append, create_table, delete, scan, update, upsert, v3_metadata, verify
from tests.iceberg.conftest import refused, rows_of, summary_of, unchanged
from tests.iceberg.dml.example_rows import SCHEMA, START, N, check, made, of, row
from tests.kit.cases import each
from tests.kit.rows import by_pyiceberg

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from tests.kit.faults import RacingCatalog

Row = dict[str, Any]


def changed(rows: list[Row], where: Callable[[Row], bool], change: Callable[[Row], Row]) -> list[Row]:
    return [{**found, **change(found)} if where(found) else found for found in rows]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spec", [(), ("g",)], ids=["flat", "partitioned"])
def test_columns_are_set_to_values_and_expressions(
    shared_catalog: SqlCatalog,
    namespace: str,
    duckdb_iceberg: DuckDBPyConnection,
    version: int,
    spec: tuple[str, ...],
) -> None:
    table = made(shared_catalog, namespace, version=version, spec=spec)
    before = table.metadata.last_sequence_number
    done = update(table, "id >= 15 and id < 25", {"g": "new", "x": pc.field("x") * 2 + pc.field("id")})
    assert (done.rows_updated, done.commit.attempts) == (10, 1)
    assert done.data_files_written == 1  # in a partitioned table all move to one partition
    assert done.vectors_written + done.position_delete_files_written >= 1
    assert done.data_files == (6 if spec else 2)
    assert table.metadata.last_sequence_number == before + 1
    rows = changed(START, lambda r: 15 <= r["id"] < 25, lambda r: {"g": "new", "x": r["x"] * 2 + r["id"]})
    check(table, duckdb_iceberg, rows)
    done = update(table, "g = 'new'", {"g": None, "tags": ["t", None], "s": {"a": 1, "b": None}})
    assert done.rows_updated == 10
    rows = changed(
        rows,
        lambda r: r["g"] == "new",
        lambda r: {"g": None, "tags": ["t", None], "s": {"a": 1, "b": None}},
    )
    check(table, duckdb_iceberg, rows)
    assert summary_of(table)["operation"] == "overwrite"
    assert verify(table) == []


def test_expressions_see_the_old_row(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = create_table(shared_catalog, f"{namespace}.t", pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    append(table, pa.table({"a": [1, 2], "b": [10, 20]}))
    update(table, "a > 0", {"a": pc.field("b"), "b": pc.field("a")})
    assert sorted(map(str, rows_of(table, order="a").to_pylist())) == [
        "{'a': 10, 'b': 1}",
        "{'a': 20, 'b': 2}",
    ]


def test_only_live_rows_are_updated(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    delete(table, "id < 5")
    assert update(table, "id < 5", {"x": 0.0}).commit.id is None
    assert update(table, "id < 8", {"x": 0.0}).rows_updated == 3
    delete(table, "id = 6")
    assert [r["id"] for r in by_pyiceberg(table)] == [5, *range(7, N)]


def test_nothing_matches(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = create_table(shared_catalog, f"{namespace}.t", SCHEMA)
    assert update(table, "id = 1", {"x": 1.0}).commit.id is None
    append(table, of(START))
    with unchanged(table):
        done = update(table, "id = 1000", {"x": 1.0})
    assert (done.commit.id, done.rows_updated, done.commit.attempts) == (None, 0, 0)


POINT = types.StructType(types.NestedField(13, "x", types.IntegerType(), required=False))
TYPED = Schema(
    types.NestedField(1, "id", types.LongType(), required=True),
    types.NestedField(2, "i", types.IntegerType(), required=False),
    types.NestedField(3, "f", types.FloatType(), required=False),
    types.NestedField(4, "n", types.DecimalType(9, 2), required=False),
    types.NestedField(5, "d", types.DateType(), required=False),
    types.NestedField(6, "t", types.TimestampType(), required=False),
    types.NestedField(7, "z", types.TimestamptzType(), required=False),
    types.NestedField(8, "u", types.UUIDType(), required=False),
    types.NestedField(9, "w", types.DecimalType(38, 0), required=False),
    types.NestedField(10, "s", types.StringType(), required=True),
    types.NestedField(11, "c", types.TimeType(), required=False),
    types.NestedField(12, "p", POINT, required=False),
    types.NestedField(14, "l", types.ListType(19, types.TimestampType()), required=False),
    types.NestedField(
        15,
        "m",
        types.MapType(16, types.IntegerType(), 17, types.ListType(18, POINT, element_required=False)),
        required=False,
    ),
    types.NestedField(
        20,
        "r",
        types.StructType(
            types.NestedField(21, "u", types.UUIDType(), required=False),
            types.NestedField(
                22, "more", types.ListType(23, types.UUIDType(), element_required=False), required=False
            ),
        ),
        required=False,
    ),
)
UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")

ACCEPTED: list[tuple[str, Any, Any]] = [
    ("i", 5, 5),
    ("i", pa.scalar(5, pa.int8()), 5),
    ("i", pc.field("id").cast(pa.int64()), 1),
    ("f", 0.1, pc.cast(pa.scalar(0.1), pa.float32(), safe=False).as_py()),
    ("f", 3, 3.0),
    ("f", float("-inf"), float("-inf")),
    ("c", "10:30", time(10, 30)),
    ("c", "10:30:00.000001", time(10, 30, 0, 1)),
    ("t", pd.Timestamp(1000), datetime(1970, 1, 1, 0, 0, 0, 1)),
    ("n", Decimal("1.50"), Decimal("1.50")),
    ("n", "1.5", Decimal("1.50")),
    ("n", 7, Decimal("7.00")),
    ("d", date(2024, 1, 15), date(2024, 1, 15)),
    ("d", "2024-01-15", date(2024, 1, 15)),
    ("t", "2024-01-15 10:30:00", datetime(2024, 1, 15, 10, 30)),
    ("t", datetime(2024, 1, 15, 10, 30), datetime(2024, 1, 15, 10, 30)),
    ("z", datetime(2024, 1, 15, 10, 30, tzinfo=UTC), datetime(2024, 1, 15, 10, 30, tzinfo=UTC)),
    ("z", "2024-01-15 10:30:00+00:00", datetime(2024, 1, 15, 10, 30, tzinfo=UTC)),
    ("u", UUID, UUID),
    ("u", str(UUID), UUID),
    ("w", 10**30, Decimal(10**30)),
    ("w", None, None),
    ("s", "text", "text"),
    ("p", {"x": 1}, {"x": 1}),
    ("p", {}, {"x": None}),
    ("m", {1: [{"x": 2}, None]}, [(1, [{"x": 2}, None])]),
    ("m", [(1, [])], [(1, [])]),
    ("p", {"x": 2.0}, {"x": 2}),
    ("p", {"x": None}, {"x": None}),
    ("l", [datetime(2024, 1, 15)], [datetime(2024, 1, 15)]),
    ("r", {"u": UUID, "more": [str(UUID), None]}, {"u": UUID, "more": [UUID, None]}),
    ("r", {"u": UUID.bytes}, {"u": UUID, "more": None}),
]

REFUSED: list[tuple[str, Any]] = [
    ("i", 1.5),
    ("i", 2**31),
    ("i", "5"),
    ("i", True),
    ("f", "x"),
    ("f", 1e300),
    ("c", "10:30:00.0000001"),
    ("c", "10:30Z"),
    ("c", "24:00"),
    ("t", pd.Timestamp(1)),
    ("z", pd.Timestamp(1, tz="UTC")),
    ("n", Decimal("1.555")),
    ("n", 10**9),
    ("d", "not a date"),
    ("d", 5),
    ("t", datetime(2024, 1, 15, tzinfo=UTC)),
    ("z", datetime(2024, 1, 15)),
    ("u", "no uuid"),
    ("s", 5),
    ("s", None),
    ("id", None),
    ("s", pc.field("s") + 1),
    ("s", pc.field("nothing")),
    ("i", ...),
    ("p", {"y": 1}),
    ("p", {"x": 1, 5: 1}),
    ("m", {1: [{"x": 2}, {"y": 2}]}),
    ("m", [(1, [{"y": 2}])]),
    ("m", [1]),
    ("m", {1.5: []}),
    ("m", {2**31: []}),
    ("p", {"x": 1.5}),
    ("p", {"x": "1"}),
    ("l", [pd.Timestamp(1)]),
    ("r", {"u": "no uuid"}),
    ("r", {"more": [5]}),
]


@pytest.fixture(scope="module")
def typed(shared_catalog: SqlCatalog) -> Table:
    shared_catalog.create_namespace_if_not_exists("update_types")
    table = create_table(shared_catalog, "update_types.t", TYPED)
    append(table, pa.table({"id": pa.array([1], pa.int64()), "s": ["a"]}))
    return table


@each(("name", "value", "expected"), ACCEPTED)
def test_values_of_each_type(typed: Table, name: str, value: Any, expected: Any) -> None:
    assert update(typed, "id = 5", {name: value}).rows_updated == 0
    assert update(typed, "id = 1", {name: value}).rows_updated == 1
    (found,) = scan(typed, selected_fields=(name,)).to_arrow()[name].to_pylist()
    assert (uuid.UUID(bytes=found) if isinstance(found, bytes) else found) == expected


@each(("name", "value"), REFUSED)
def test_a_value_that_its_column_cannot_hold_is_refused(typed: Table, name: str, value: Any) -> None:
    for number in (1, 5):  # no row matches the second filter
        for dry_run in (False, True):
            with refused(typed, InvalidInputError, rf"values: .*\b{name}\b"):
                update(typed, f"id = {number}", {name: value}, dry_run=dry_run)


def test_bad_arguments_are_refused_and_change_nothing(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    wrong: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        ({}, {}, InvalidInputError, "at least one column"),
        ([("x", 1)], {}, InvalidInputError, "mapping"),
        ({"nothing": 1}, {}, NotFoundError, "no column nothing"),
        ({"s.a": 1}, {}, NotFoundError, "no column s.a"),
        ({"X": 1.0}, {}, NotFoundError, "no column X"),
        ({3: 1.0}, {}, InvalidInputError, "names of columns, found 3"),
        ({"x": 1.0, "X": 2.0}, {"case_sensitive": False}, InvalidInputError, "two"),
    ]
    for values, options, error, said in wrong:
        with refused(table, error, said):
            update(table, "id = 1", values, **options)
    assert update(table, "ID = 1", {"X": 7.0}, case_sensitive=False).rows_updated == 1


def test_an_identifier_field_is_refused(shared_catalog: SqlCatalog, namespace: str) -> None:
    schema = Schema(
        types.NestedField(1, "id", types.LongType(), required=True),
        types.NestedField(2, "x", types.LongType(), required=False),
        identifier_field_ids=[1],
    )
    table = create_table(shared_catalog, f"{namespace}.t", schema)
    append(table, pa.table({"id": pa.array([1, 2]), "x": pa.array([1, 2])}))
    with pytest.raises(InvalidInputError, match="identifier field"):
        update(table, "id = 1", {"id": 2})
    assert update(table, "id = 1", {"x": 2}).rows_updated == 1


def test_a_row_that_another_commit_adds_meanwhile_is_updated(racing: RacingCatalog) -> None:
    table = made(racing, "n")
    other = racing.load_table("n.t")
    racing.before.append(lambda: append(other, of([row(100, "theirs")])))
    done = update(table, "id = 3 or id = 100", {"g": "mine"}, on_conflict="merge")
    assert (done.rows_updated, done.commit.attempts) == (2, 2)
    assert [r["g"] for r in by_pyiceberg(table) if r["id"] in (3, 100)] == ["mine", "mine"]


@pytest.mark.jar
@pytest.mark.spark
@pytest.mark.parametrize("version", [2, 3])
def test_spark_reads_and_continues_what_we_update_and_upsert(
    shared_catalog: SqlCatalog, namespace: str, iceberg_spark: SparkSession, version: int
) -> None:
    """The row lineage after our updates equals that after Spark's on a copy of the table."""
    tables = {}
    for who in ("ours", "theirs"):
        shared_catalog.create_namespace(f"{namespace}_{who}")
        tables[who] = made(shared_catalog, f"{namespace}_{who}", version=version, spec=("g",))
        with v3_metadata(shared_catalog):
            tables[who].transaction().set_properties(
                {"write.update.mode": "merge-on-read", "write.delete.mode": "merge-on-read"}
            ).commit_transaction()
    names = {who: f"{shared_catalog.name}.{namespace}_{who}.t" for who in tables}

    def agree() -> None:
        found = []
        for who, table in tables.items():
            table.refresh()
            lineage = ", _row_id, _last_updated_sequence_number" if version == 3 else ""
            rows = iceberg_spark.sql(f"SELECT *{lineage} FROM {names[who]} ORDER BY id").toArrow()
            found.append(rows.to_pylist())
            assert by_pyiceberg(table) == rows.select(SCHEMA.names).to_pylist()
        assert found[0] == found[1]

    update(tables["ours"], "id < 10", {"x": pc.field("x") + 1, "g": "moved"})
    iceberg_spark.sql(f"UPDATE {names['theirs']} SET x = x + 1, g = 'moved' WHERE id < 10")
    agree()
    for name in names.values():  # Spark goes on in both
        iceberg_spark.sql(f"UPDATE {name} SET x = 0 WHERE id >= 5 AND id < 15")
        iceberg_spark.sql(f"DELETE FROM {name} WHERE id IN (7, 50)")
    agree()
    for table in tables.values():
        upsert(table, of([row(3, "new"), row(44, None), row(70)]), "id")
    agree()
    update(tables["ours"], "id between 12 and 40", {"g": None})
    iceberg_spark.sql(f"UPDATE {names['theirs']} SET g = NULL WHERE id BETWEEN 12 AND 40")
    agree()
