"""Rows of all data frames and Arrow layouts are stored as PyIceberg stores them, and read by other engines."""

from __future__ import annotations

import datetime
import gc
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
)

from puffin_fast.columns.plain_types import plain, plain_type
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg import rewrite_data_files
from puffin_fast.iceberg.dml.tables import create_table
from puffin_fast.rows.match.given_rows import RowWriterSchema
from puffin_fast.tables.delete import delete, delete_keys
from puffin_fast.tables.overwrite import append
from puffin_fast.tables.scan import scan
from puffin_fast.tables.update import update
from puffin_fast.tables.upsert import upsert
from tests.conftest import require_module
from tests.iceberg.conftest import rows_of, rows_of_duckdb
from tests.iceberg.layouts import LAYOUTS
from tests.kit.rows import by_pyiceberg
from tests.kit.tables import files_of, iceberg_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table


def check(table: Table, connection: DuckDBPyConnection, expected: list[dict[str, Any]]) -> None:
    """Returns the rows of a table after checking that all readers return the same rows."""
    expected = sorted(expected, key=lambda row: row["id"])
    ours, theirs = scan(table).to_arrow(), table.scan().to_arrow()
    assert pa.concat_tables([ours, theirs]).num_rows == 2 * len(expected)
    assert ours.sort_by("id").to_pylist() == expected
    assert theirs.sort_by("id").to_pylist() == expected
    found = rows_of_duckdb(connection, table).select(["id"])
    assert found["id"].to_pylist() == [row["id"] for row in expected]


# Layouts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_plain_form_of_an_array_has_its_values_and_can_be_filtered(name: str) -> None:
    array = LAYOUTS[name].array
    for part in (array, array.slice(1), array.slice(1, 1), array.slice(0, 0), pa.nulls(3, array.type)):
        found = plain(part)
        found.validate(full=True)
        assert found.type == plain_type(array.type)
        assert found.to_pylist() == part.to_pylist()
        pc.filter(found, pa.array([True] * len(found), pa.bool_()))


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_of_a_column_can_be_appended_deleted_from_and_upserted(
    shared_catalog: SqlCatalog, namespace: str, duckdb_iceberg: DuckDBPyConnection, name: str
) -> None:
    layout = LAYOUTS[name]
    rows = pa.table({"id": pa.array([1, 2, 3, 4], pa.int64()), "c": layout.array})
    expected = pa.table({"id": rows["id"], "c": layout.stored}).to_pylist()
    schema = pa.schema([("id", pa.int64()), ("c", layout.stored.type)])
    for number, spec in enumerate(((), ("id",))):
        table = create_table(shared_catalog, f"{namespace}.t{number}", schema, partition_spec=spec)
        append(table, rows)
        check(table, duckdb_iceberg, expected)
        delete(table, "id = 3")
        check(table, duckdb_iceberg, [row for row in expected if row["id"] != 3])
        done = upsert(table, rows, ["id"])
        assert (done.rows_unchanged, done.rows_inserted) == (3, 1)
        check(table, duckdb_iceberg, expected)
    append(table, rows.to_reader() if number == 0 else rows)
    assert scan(table).to_arrow().num_rows == 8


def test_frames_of_every_library_can_be_appended_and_upserted(
    shared_catalog: SqlCatalog, namespace: str, duckdb_iceberg: DuckDBPyConnection
) -> None:
    duckdb, pandas, arro3 = (require_module(name) for name in ("duckdb", "pandas", "arro3.core"))
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "n", IntegerType()),
        NestedField(3, "word", StringType()),
        identifier_field_ids=[1],
    )
    plain_rows = [{"id": 1, "n": 5, "word": "a"}, {"id": 2, "n": None, "word": None}]
    rows = pa.Table.from_pylist(plain_rows)
    frames = {
        "pandas": pandas.DataFrame(plain_rows),
        "polars": require_module("polars").DataFrame(plain_rows),
        "duckdb": duckdb.sql("SELECT * FROM rows"),
        "arro3": arro3.Table.from_arrow(rows),
        "batch": rows.combine_chunks().to_batches()[0],
    }
    for name, frame in frames.items():
        table = create_table(shared_catalog, f"{namespace}.{name}", schema)
        append(table, frame)
        check(table, duckdb_iceberg, plain_rows)
        assert upsert(table, frame).rows_unchanged == 2
        delete(table, "id = 1")
        assert upsert(table, frame).rows_inserted == 1
        check(table, duckdb_iceberg, plain_rows)


# Nulls -----------------------------------------------------------------------------------------------------

INNER = pa.struct([("a", pa.int64())])
NULLS = {
    "list": (pa.list_(INNER), [[{"a": 1}], None, [], [None, {"a": None}]]),
    "map": (pa.map_(pa.string(), INNER), [[("k", {"a": 1})], None, [], [("k", None)]]),
    "list_in_list": (pa.list_(pa.list_(INNER)), [[[{"a": 1}], None], None, [[]], []]),
    "list_in_struct": (
        pa.struct([("l", pa.list_(INNER))]),
        [{"l": None}, None, {"l": []}, {"l": [{"a": 1}]}],
    ),
    "map_in_list": (
        pa.list_(pa.map_(pa.string(), INNER)),
        [[[("k", {"a": 1})], None], None, [[]], []],
    ),
    "list_in_map": (
        pa.map_(pa.string(), pa.list_(INNER)),
        [[("k", None), ("l", []), ("m", [{"a": 1}])], None, [], [("k", None)]],
    ),
}


@pytest.mark.parametrize("spec", [(), ("id",)], ids=["flat", "partitioned"])
@pytest.mark.parametrize("name", NULLS)
def test_a_null_list_or_map_of_structs_stays_null(
    shared_catalog: SqlCatalog,
    namespace: str,
    duckdb_iceberg: DuckDBPyConnection,
    name: str,
    spec: tuple[str, ...],
) -> None:
    kind, values = NULLS[name]
    rows = pa.table({"id": pa.array(range(4), pa.int64()), "c": pa.array(values, kind)})
    table = create_table(shared_catalog, f"{namespace}.t", rows.schema, partition_spec=spec)
    append(table, rows.to_reader())
    for _ in range(2):
        assert scan(table).to_arrow().sort_by("id").to_pylist() == rows.to_pylist()
        # PyIceberg's own scan gives an empty list here (apache/iceberg-python#3833)
        nulls = duckdb_iceberg.execute(
            f"SELECT id FROM iceberg_scan('{table.metadata_location}') WHERE c IS NULL"
        )
        assert nulls.fetchall() == [(at,) for at, value in enumerate(values) if value is None]
        upsert(table, rows, ["id"], skip_unchanged=False)
    assert upsert(table, rows, ["id"]).rows_unchanged == 4


def test_values_under_a_null_list_are_not_moved_to_another_list(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    values = pa.array([{"a": at} for at in range(4)], INNER)
    array = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 4], pa.int32()), values, mask=pa.array([False, True, False])
    )
    rows = pa.table({"id": pa.array(range(3), pa.int64()), "c": array})
    table = iceberg_table(shared_catalog, rows, name=f"{namespace}.t")
    assert scan(table).to_arrow().to_pylist() == rows.to_pylist()


REQUIRED = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "s", StructType(NestedField(3, "a", LongType(), required=True)), required=False),
    NestedField(4, "l", ListType(5, LongType(), element_required=True), required=False),
    NestedField(6, "m", MapType(7, StringType(), 8, LongType(), value_required=True), required=False),
)


def test_nullable_columns_fill_required_ones_where_they_hold_no_null(
    shared_catalog: SqlCatalog, namespace: str, capfd: pytest.CaptureFixture[str]
) -> None:
    table = create_table(shared_catalog, f"{namespace}.t", REQUIRED)
    good: dict[str, Any] = {"id": 1, "s": {"a": 1}, "l": [1], "m": [("k", 1)]}
    names = pa.schema(
        [
            ("id", pa.int64()),
            ("s", pa.struct([("a", pa.int64())])),
            ("l", pa.list_(pa.int64())),
            ("m", pa.map_(pa.string(), pa.int64())),
        ]
    )
    empty = {"id": 2, "s": None, "l": None, "m": None}
    append(table, pa.Table.from_pylist([good, empty], names))
    assert by_pyiceberg(table) == [good | {"m": {"k": 1}}, empty]
    files = files_of(table)
    for change, said in (
        ({"id": None}, "column id: id is required; expected no null, found 1"),
        ({"s": {"a": None}}, r"s\.a is required"),
        ({"l": [1, None]}, r"l\.element is required"),
        ({"m": [("k", None)]}, r"m\.value is required"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            append(table, pa.Table.from_pylist([{**good, **change}], names))
    with pytest.raises(InvalidInputError, match="required field 1"):
        append(table, pa.table({"l": pa.array([[1]])}))
    assert files_of(table) == files
    assert capfd.readouterr().out == ""


# Types -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (pa.array([1, None, 2**40]), pa.int32()),
        (pa.array([1.5]), pa.int64()),
        (pa.array([0.1]), pa.float32()),
        (pa.array([2**60 + 1]), pa.float64()),
        (pa.array([2**63], pa.uint64()), pa.int64()),
        (pa.array([Decimal("12345.67")]), pa.decimal128(4, 2)),
        (pa.array([Decimal("12.345")]), pa.decimal128(9, 2)),
        (pa.array([1001], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([1000], pa.timestamp("us")), pa.timestamp("us", "UTC")),
        (pa.array([1000], pa.timestamp("us", "UTC")), pa.timestamp("us")),
        (pa.array([b"\xff"]), pa.string()),
        (pa.array([b"ab"]), pa.binary(3)),
        (pa.array([1]), pa.string()),
        (pa.array(["1"]), pa.int64()),
        (pa.array(["no uuid"]), pa.uuid()),
        (pa.array([1], pa.duration("s")), pa.int64()),
    ],
)
def test_a_value_that_would_change_is_refused_with_its_column(
    shared_catalog: SqlCatalog, namespace: str, given: pa.Array, kind: pa.DataType
) -> None:
    table = create_table(shared_catalog, f"{namespace}.t", pa.schema([("c", kind)]))
    with pytest.raises(InvalidInputError, match=r"^data: .*\bc\b"):
        append(table, pa.table({"c": given}))
    assert table.metadata.snapshots == []


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [
        (pa.date32(), -719_162, 2_932_896),
        (pa.timestamp("us"), -62_135_596_800_000_000, 253_402_300_799_999_999),
        (pa.timestamp("us", "UTC"), -62_135_596_800_000_000, 253_402_300_799_999_999),
    ],
    ids=str,
)
@pytest.mark.parametrize("spec", [None, "day(c)", "year(c)", "c"])
def test_times_that_pyiceberg_cannot_write_are_refused_with_their_column(
    shared_catalog: SqlCatalog, namespace: str, kind: pa.DataType, first: int, last: int, spec: str | None
) -> None:
    schema = pa.schema([("id", pa.int64()), ("c", kind), ("many", pa.list_(kind))])
    options: dict[str, Any] = {} if spec is None else {"partition_spec": [spec]}
    table = create_table(shared_catalog, f"{namespace}.t", schema, **options)
    integer = pa.int32() if pa.types.is_date(kind) else pa.int64()
    limits = pa.array([first, last, None], integer)
    append(table, pa.table({"id": [1, 2, 3], "c": limits.cast(kind)}))
    assert rows_of(table)["c"].combine_chunks().cast(integer).equals(limits)
    for value in (first - 1, last + 1):
        moment = pa.array([value], integer).cast(kind)
        nested = pa.array([[value]], pa.list_(integer)).cast(pa.list_(kind))
        for rows in (
            pa.table({"id": [1], "c": moment, "many": pa.nulls(1, pa.list_(kind))}),
            pa.table({"id": [1], "c": limits.slice(0, 1).cast(kind), "many": nested}),
        ):
            with pytest.raises(InvalidInputError, match=r"data: column (c|many): .* years 1 to 9999"):
                append(table, rows)
            with pytest.raises(InvalidInputError, match=r"data: column (c|many): .* years 1 to 9999"):
                upsert(table, rows, ["id"])
    assert len(table.refresh().metadata.snapshots) == 1


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("spec", [None, "day(c)", "year(c)", "c"])
def test_all_nanoseconds_of_64_bits_are_written_and_rewritten(
    shared_catalog: SqlCatalog, namespace: str, zone: str | None, spec: str | None
) -> None:
    """From 1677 to 2262; PyIceberg truncates bounds to microseconds, of which the first do not fit 64 bits."""
    kind = pa.timestamp("ns", zone)
    stored = TimestampNanoType() if zone is None else TimestamptzNanoType()
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "c", stored),
        NestedField(3, "many", ListType(4, stored, element_required=False)),
    )
    options: dict[str, Any] = {} if spec is None else {"partition_spec": [spec]}
    table = create_table(shared_catalog, f"{namespace}.t", schema, **options)
    values = [-(2**63), -(2**63) + 1, 807 - 2**63, 0, 2**63 - 1, None]
    column = pa.array(values, pa.int64())
    many = pa.array([[value] for value in values], pa.list_(pa.int64())).cast(pa.list_(kind))
    rows = pa.table({"id": range(6), "c": column.cast(kind), "many": many})
    append(table, rows.slice(0, 2))
    append(table, rows.slice(2))
    rewrite_data_files(table, min_input_files=2)
    delete(table, "id = 3")
    update(table, "id = 1", {"id": 10})
    rewrite_data_files(table, min_deleted=0.01, min_input_files=2)
    found = scan(table).to_arrow().sort_by("id")
    assert found["c"].cast(pa.int64()).to_pylist() == [values[at] for at in (0, 2, 4, 5, 1)]
    assert found["many"].combine_chunks().flatten().cast(pa.int64()).to_pylist()[0] == values[0]
    moment = pa.scalar(1 - 2**63, pa.int64()).cast(kind)
    assert scan(table, pc.field("c") < moment).count() == 1


def test_values_are_stored_in_the_types_of_the_table(
    shared_catalog: SqlCatalog, namespace: str, duckdb_iceberg: DuckDBPyConnection
) -> None:
    key = uuid.UUID(int=7)
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    rows = pa.table(
        {
            "id": pa.array([1.0, 2.0]),
            "n": pa.array([3, None], pa.uint64()),
            "x": pa.array([0.5, float("nan")]),
            "d": pa.array([5, None]),
            "at": pa.array([moment, None], pa.timestamp("ms", "Europe/Berlin")),
            "key": pa.array([str(key), None]),
            "nothing": pa.nulls(2),
        }
    )
    kinds = [pa.int64(), pa.int32(), pa.float32(), pa.decimal128(9, 2), pa.timestamp("us", "UTC"), pa.uuid()]
    kinds.append(pa.list_(pa.int64()))
    table = create_table(
        shared_catalog, f"{namespace}.t", pa.schema([*zip(rows.column_names, kinds, strict=True)])
    )
    append(table, rows)
    (first, second) = scan(table).to_arrow().sort_by("id").to_pylist()
    stored = [1, 3, 0.5, Decimal("5.00"), moment, key, None]
    assert first == dict(zip(rows.column_names, stored, strict=True))
    assert [name for name, value in second.items() if value is not None] == ["id", "x"]
    assert pa.concat_tables([scan(table).to_arrow(), table.scan().to_arrow()]).num_rows == 4
    found = duckdb_iceberg.execute(
        f"SELECT id, key FROM iceberg_scan('{table.metadata_location}') ORDER BY id"
    )
    assert found.fetchall() == [(1, key), (2, None)]


STRUCT = pa.struct([("x", pa.int64())])


TWICE = pa.StructArray.from_arrays([pa.array([1])] * 2, names=["x"] * 2)


WRONG = {
    "a column twice": (
        pa.table([[1], [2], [1]], names=["id", "s", "id"]),
        "column id: expected once, found 2",
    ),
    "a field that the table lacks": (pa.table({"id": [1], "s": [{"x": 1, "b": 2}]}), r"no column s\.b"),
    "a field twice": (pa.table({"id": [1], "s": TWICE}), r"column s\.x: expected once, found 2"),
    "a field of elements twice": (
        pa.table({"id": [1], "l": pa.ListArray.from_arrays([0, 1], TWICE)}),
        r"column l\.(item|element)\.x: expected once, found 2",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_columns_and_fields_that_do_not_fit_are_refused(
    shared_catalog: SqlCatalog, namespace: str, name: str
) -> None:
    rows, said = WRONG[name]
    schema = pa.schema([("id", pa.int64()), ("s", STRUCT), ("l", pa.list_(STRUCT))])
    schema = pa.schema([field for field in schema if field.name in rows.column_names])
    table = create_table(shared_catalog, f"{namespace}.t", schema)
    for verb in (append, lambda table, rows: upsert(table, rows, "id")):
        with pytest.raises(InvalidInputError, match=said):
            verb(table, rows)
    assert table.refresh().metadata.snapshots == []


def test_ids_of_another_table_in_the_given_rows_do_not_matter(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = create_table(shared_catalog, f"{namespace}.t", pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    swapped = pa.schema(
        [
            pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "2"}),
            pa.field("b", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        ]
    )
    append(table, pa.table({"a": [1], "b": [2]}, schema=swapped))
    assert scan(table).to_arrow().to_pylist() == [{"a": 1, "b": 2}]


def test_partitions_of_nan_and_of_both_zeros_keep_their_rows(
    shared_catalog: SqlCatalog, namespace: str, duckdb_iceberg: DuckDBPyConnection
) -> None:
    values = [float("nan"), 0.0, -0.0, 1.5, None, float("nan"), -0.0]
    rows = pa.table({"id": pa.array(range(7), pa.int64()), "x": pa.array(values)})
    table = iceberg_table(shared_catalog, rows, name=f"{namespace}.t", partition=["x"])
    delete(table, "id = 5")
    expected = [repr(value) for at, value in enumerate(values) if at != 5]
    for found in (
        scan(table).to_arrow().sort_by("id"),
        rows_of(table),
        rows_of_duckdb(duckdb_iceberg, table),
    ):
        assert [repr(value) for value in found["x"].to_pylist()] == expected


def test_names_that_files_spell_differently_keep_their_values_at_all_depths(racing: Any) -> None:
    """PyIceberg writes `a.b` as `a_x2Eb`."""
    inner = [{"a.b": -i, "x y": f"v{i}", "x": [{"0": i}], "m": [("k", {"p/q": i})]} for i in range(3)]
    kind = pa.struct(
        [
            ("a.b", pa.int64()),
            ("x y", pa.string()),
            ("x", pa.list_(pa.struct([("0", pa.int64())]))),
            ("m", pa.map_(pa.string(), pa.struct([("p/q", pa.int64())]))),
        ]
    )
    rows = pa.table({"p.q": pa.array([*inner, None], kind), "1": pa.array([1, 2, None, 4], pa.int64())})
    table = iceberg_table(racing, rows)
    append(table, rows.slice(1, 2))
    found = scan(table, '"1" in (1, 4) or "1" = 2 or "1" is null').to_arrow().to_pylist()
    wanted = [*rows.to_pylist(), *rows.slice(1, 2).to_pylist()]
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    assert sorted(map(repr, table.scan().to_arrow().to_pylist())) == sorted(map(repr, wanted))


def test_frames_without_rows_are_accepted_whatever_their_null_types(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    pandas, polars = require_module("pandas"), require_module("polars")
    kinds = [
        pa.int64(),
        pa.string(),
        pa.decimal128(9, 2),
        pa.list_(pa.struct([("x", pa.uuid())])),
        pa.binary(3),
    ]
    schema = pa.schema([(f"c{at}", kind) for at, kind in enumerate(kinds)])
    for at, spec in enumerate(([], ["c0", "truncate[2](c2)"])):
        table = create_table(shared_catalog, f"{namespace}.t{at}", schema, partition_spec=spec)
        frames = (
            pandas.DataFrame(columns=schema.names),
            polars.DataFrame({name: [] for name in schema.names}),
        )
        for frame in frames:
            assert append(table, frame).commit.id is None
            assert upsert(table, frame, ["c0", "c2"]).commit.id is None
            assert delete_keys(table, frame, ["c0", "c1", "c4"]).commit.id is None
        assert table.refresh().metadata.snapshots == []


def test_a_table_of_nested_uuids_without_rows_is_scanned_and_changed(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    """Arrow has no empty arrays of these types, except of nulls."""
    schema = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.struct([("u", pa.uuid())])))])
    table = create_table(shared_catalog, f"{namespace}.t", schema)
    append(table, pa.table({"id": [1, 2], "l": pa.nulls(2, schema.field("l").type)}))
    for row_filter in ("id > 5", pc.field("id") > 5, pc.field("l").is_null() & (pc.field("id") > 5)):
        assert scan(table, row_filter).to_arrow().num_rows == 0
        assert delete(table, row_filter).rows_deleted == 0
        assert update(table, row_filter, {"id": 9}).rows_updated == 0
    assert delete_keys(table, scan(table).to_arrow(), "id").rows_deleted == 2
    assert scan(table).to_arrow().num_rows == 0


def test_schemas_of_thousands_of_columns_start_few_collections_of_garbage() -> None:
    """A full collection visits all objects of the process: its cost per column grew with their number."""
    schema = Schema(*(NestedField(at, f"c{at}", DoubleType()) for at in range(1, 2001)))
    rows = pa.schema([(field.name, pa.float64()) for field in schema.fields])
    RowWriterSchema(schema, rows)
    begun: list[str] = []

    def count(phase: str, info: Mapping[str, int]) -> None:
        begun.append(phase)

    usual = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # Python's own
    gc.callbacks.append(count)
    try:
        RowWriterSchema(schema, rows)
    finally:
        gc.callbacks.remove(count)
        gc.set_threshold(*usual)
    assert begun.count("start") <= 3  # about 20 without a pause
