"""Null structs with required fields, and rare types and names in nested columns, in all verbs."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimeType,
    UUIDType,
)

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError, UnsupportedError
from puffin_fast.rows.rewrite import sorted_rows

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

INNER = StructType(
    NestedField(5, "u", UUIDType(), required=True),
    NestedField(6, "t", StringType(), required=True),
    NestedField(7, "l", ListType(8, LongType()), required=True),
    NestedField(9, "d", StructType(NestedField(10, "z", DecimalType(5, 2), required=True)), required=True),
)
NESTED = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(
        2,
        "s",
        StructType(NestedField(3, "x", LongType(), required=True), NestedField(4, "i", INNER, required=True)),
        required=False,
    ),
    NestedField(11, "l", ListType(12, INNER, element_required=False), required=False),
    NestedField(13, "m", MapType(14, StringType(), 15, INNER, value_required=False), required=False),
)
UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")
VALUE: dict[str, Any] = {"u": UUID.bytes, "t": "a", "l": [1], "d": {"z": Decimal("1.50")}}
INNER_ARROW = pa.struct(
    [
        ("u", pa.binary(16)),
        ("t", pa.string()),
        ("l", pa.list_(pa.int64())),
        ("d", pa.struct([("z", pa.decimal128(5, 2))])),
    ]
)
ROWS = pa.Table.from_pylist(
    [
        {"id": 1, "s": {"x": 1, "i": VALUE}, "l": [VALUE, None], "m": [("a", VALUE), ("b", None)]},
        {"id": 2, "s": None, "l": None, "m": None},
        {"id": 3, "s": None, "l": [None], "m": []},
    ],
    pa.schema(
        [
            ("id", pa.int64()),
            ("s", pa.struct([("x", pa.int64()), ("i", INNER_ARROW)])),
            ("l", pa.list_(INNER_ARROW)),
            ("m", pa.map_(pa.string(), INNER_ARROW)),
        ]
    ),
)


def made(catalog: SqlCatalog, namespace: str, schema: Any, **options: Any) -> Table:
    return iceberg.create_table(catalog, f"{namespace}.t", schema, **options)


def rows_of(table: Table) -> list[dict[str, Any]]:
    """The rows, UUIDs as bytes."""
    rows = iceberg.scan(table).to_arrow()
    rows.validate(full=True)
    found: list[dict[str, Any]] = rows.sort_by("id").to_pylist()
    for row in found:
        inner = [row["s"] and row["s"]["i"], *(row["l"] or ()), *(item for _, item in row["m"] or ())]
        for struct in filter(None, inner):
            struct["u"] = getattr(struct["u"], "bytes", struct["u"])
    return found


def test_all_verbs_keep_null_structs_with_required_fields(
    shared_catalog: SqlCatalog, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(shared_catalog, namespace, NESTED)
    iceberg.append(table, ROWS)
    assert rows_of(table) == ROWS.to_pylist()
    taken = pa.concat_tables([ROWS, ROWS]).take(pa.array([3, 4, 5]))  # no values below the nulls
    iceberg.overwrite(table, taken)
    assert rows_of(table) == ROWS.to_pylist()
    monkeypatch.setattr(sorted_rows, "RUN_BYTES", 1)
    iceberg.rewrite_data_files(table, min_deleted=0.0, sort_by=["id desc"])
    assert rows_of(table) == ROWS.to_pylist()
    new = {"x": 5, "i": VALUE | {"u": UUID, "d": {"z": 2}}}
    assert iceberg.update(table, "id = 2", {"s": new, "m": None}).rows_updated == 1
    expected = ROWS.to_pylist()
    expected[1]["s"] = {"x": 5, "i": VALUE | {"d": {"z": Decimal("2.00")}}}
    assert rows_of(table) == expected
    assert iceberg.update(table, "id = 2", {"s": None}).rows_updated == 1
    assert iceberg.upsert(table, ROWS, "id").rows_unchanged == 3
    assert iceberg.upsert(table, ROWS.slice(0, 0), "id", update_columns=["s"]).rows_updated == 0
    gone = ROWS.slice(0, 1).append_column("gone", pa.array([True]))
    assert iceberg.upsert(table, gone, "id", delete_column="gone").keys_deleted == 1
    assert rows_of(table) == ROWS.to_pylist()[1:]


FRAMES: dict[str, Callable[[], Any]] = {
    "polars": lambda: pl.DataFrame({"id": [1, 2], "s": [{"x": 1}, None]}),
    "duckdb": lambda: duckdb.sql(
        "select 1 as id, {'x': 1} as s union all select 2, null order by id"
    ).to_arrow_table(),
    "a mask": lambda: pa.table(
        {
            "id": [1, 2],
            "s": pa.StructArray.from_arrays([pa.array([1, 2**62])], ["x"], mask=pa.array([False, True])),
        }
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_with_null_structs_are_appended(name: str, shared_catalog: SqlCatalog, namespace: str) -> None:
    inner = StructType(NestedField(3, "x", DecimalType(3, 0), required=True))
    table = made(
        shared_catalog,
        namespace,
        Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "s", inner, required=False)),
    )
    iceberg.append(table, FRAMES[name]())
    assert iceberg.scan(table).to_arrow().to_pylist() == [
        {"id": 1, "s": {"x": Decimal(1)}},
        {"id": 2, "s": None},
    ]
    with pytest.raises(InvalidInputError, match="x is required"):
        iceberg.append(
            table, pa.table({"id": [3], "s": pa.array([{"x": None}], pa.struct([("x", pa.int64())]))})
        )


def test_text_below_a_null_struct_is_not_parsed(shared_catalog: SqlCatalog, namespace: str) -> None:
    inner = StructType(NestedField(2, "u", UUIDType(), required=False))
    table = made(shared_catalog, namespace, Schema(NestedField(1, "s", inner, required=False)))
    iceberg.append(table, pa.table({"s": pa.array([{"u": str(UUID)}, None])}))
    assert iceberg.scan(table).to_arrow()["s"].to_pylist() == [{"u": UUID}, None]


def test_a_column_with_a_uuid_that_older_files_lack_is_null(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = made(shared_catalog, namespace, pa.schema([("id", pa.int64())]))
    iceberg.append(table, pa.table({"id": [1]}))
    with iceberg.v3_metadata(shared_catalog), table.update_schema() as change:
        change.add_column("s", StructType(NestedField(2, "u", UUIDType(), required=False)))
    assert iceberg.scan(table).to_arrow().to_pylist() == [{"id": 1, "s": None}]
    iceberg.append(table, pa.table({"id": [2]}))
    assert iceberg.scan(table).to_arrow()["s"].null_count == 2


def test_names_with_dots_are_found_by_all_verbs(shared_catalog: SqlCatalog, namespace: str) -> None:
    rows = pa.table({"id": [2, 1], "s": [{"a.b": 2}, {"a.b": 1}]})
    table = made(shared_catalog, namespace, rows.schema, partition_spec=["s.a.b"])
    iceberg.append(table, rows)
    assert iceberg.upsert(table, rows, ["s.a.b"]).rows_unchanged == 2
    assert iceberg.rewrite_data_files(table, sort_by=["s.a.b"], min_deleted=0.0).rows == 2
    assert iceberg.delete_keys(table, pa.table({"s.a.b": [1]}), "s.a.b").rows_deleted == 1
    assert iceberg.scan(table, 's."a.b" = 2').to_arrow()["id"].to_pylist() == [2]


def test_what_no_data_file_represents_is_refused_by_name(shared_catalog: SqlCatalog, namespace: str) -> None:
    rows = pa.table({"id": [1], "s": [{"a": 1}], "l": [[1]]})
    table = made(shared_catalog, namespace, rows.schema)
    iceberg.append(table, rows)
    with pytest.raises(InvalidInputError, match=r"l\.element is inside of a list or map"):
        iceberg.rewrite_data_files(table, sort_by=["l.element"], min_deleted=0.0)
    with iceberg.v3_metadata(shared_catalog), table.update_schema() as change:
        change.delete_column(("s", "a"))
    for verb in (
        lambda: iceberg.append(table, pa.table({"id": [3]})),
        lambda: iceberg.update(table, "id = 1", {"id": 7}),
        lambda: iceberg.rewrite_data_files(table, min_deleted=0.0, sort_by=["id"]),
    ):
        with pytest.raises(UnsupportedError, match=r"structs without fields.*: s"):
            verb()
    assert iceberg.scan(table).to_arrow()["s"].to_pylist() == [{}]
    names = pa.schema([("a b", pa.int64()), ("a_x20b", pa.int64())])
    with iceberg.v3_metadata(shared_catalog):  # `create_table` refuses these names
        alike = shared_catalog.create_table(f"{namespace}.alike", names, properties={"format-version": "3"})
    with pytest.raises(UnsupportedError, match="a_x20b"):
        iceberg.append(alike, pa.table({"a b": [1], "a_x20b": [2]}))


def test_values_of_other_types_are_refused(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(
        shared_catalog,
        namespace,
        Schema(
            NestedField(1, "b", BinaryType(), required=False),
            NestedField(2, "t", TimeType(), required=False),
            NestedField(3, "n", LongType(), required=False),
        ),
    )
    iceberg.append(table, pa.table({"n": [1]}))
    addresses = pl.DataFrame({"b": pl.Series([b"abc"], dtype=pl.Object)})
    periods = pd.DataFrame({"n": pd.period_range("2020-01", periods=1, freq="M")})
    for rows, message in ((addresses, "Object"), (periods, r"n: pandas\.period")):
        with pytest.raises(InvalidInputError, match=message):
            iceberg.append(table, rows)
    zoned = datetime.time(1, tzinfo=datetime.UTC)
    with pytest.raises(InvalidInputError, match=r"column t.*without a time zone"):
        iceberg.update(table, "true", {"t": zoned})


ROW_FILTERS: dict[str, Callable[[int | None, int | None], bool]] = {
    "s.x is null": lambda x, y: x is None,
    "s.x is not null": lambda x, y: x is not None,
    "not (s.x is not null)": lambda x, y: x is None,
    "s.x < 3000000000": lambda x, y: x is not None,
    "not (s.x < 3000000000)": lambda x, y: False,
    "s.x > 3000000000 or s.x = 2": lambda x, y: x == 2,
    "s.x <> 3000000000": lambda x, y: x is not None,
    "s.x not in (3000000000, 1)": lambda x, y: x not in (None, 1),
    "S.T.Y is null": lambda x, y: y is None,
    "s.t.y is not null and s.x > 1": lambda x, y: y is not None and x is not None and x > 1,
    "s.t.y is null or s.x = 1": lambda x, y: y is None or x == 1,
}
"""Filters and what SQL says of ``s.x`` and ``s.t.y``."""


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("row_filter", ROW_FILTERS)
def test_a_required_field_is_null_where_its_struct_is(
    row_filter: str, required: bool, shared_catalog: SqlCatalog, namespace: str
) -> None:
    innermost = StructType(NestedField(4, "y", LongType(), required=True))
    inner = StructType(
        NestedField(2, "x", IntegerType(), required=True), NestedField(3, "t", innermost, required=required)
    )
    table = made(shared_catalog, namespace, Schema(NestedField(1, "s", inner, required=required)))
    rows: list[Any] = [{"x": 1, "t": {"y": 1}}, {"x": 2, "t": {"y": 2}}]
    if not required:
        rows += [None, {"x": 2, "t": None}, {"x": 1, "t": None}]
    for some in (rows[:2], rows[2:], rows, rows[-1:]):
        kind = iceberg.scan(table).to_arrow().schema
        iceberg.append(table, pa.table({"s": pa.array(some, kind.field("s").type)}))

    def matches(row: Any) -> bool:
        return ROW_FILTERS[row_filter](row and row["x"], row and row["t"] and row["t"]["y"])

    appended = rows[:2] + rows[2:] + rows + rows[-1:]
    options = {"case_sensitive": False}
    found = iceberg.scan(table, row_filter, **options).to_arrow()["s"].to_pylist()
    wanted = [row for row in appended if matches(row)]
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    assert iceberg.scan(table, row_filter, **options).count() == len(wanted)
    iceberg.delete(table, row_filter, **options)
    left = iceberg.scan(table).to_arrow()["s"].to_pylist()
    assert sorted(map(repr, left)) == sorted(repr(row) for row in appended if not matches(row))


@pytest.mark.parametrize("values", [[[{"x": 1}, {"x": 2}], None], [[{"x": 1}, None], None]])
def test_lists_of_a_fixed_size_of_structs_are_appended(
    values: list[Any], shared_catalog: SqlCatalog, namespace: str
) -> None:
    struct = pa.struct([("x", pa.int64())])
    table = made(shared_catalog, namespace, pa.schema([("l", pa.list_(struct))]))
    iceberg.append(table, pa.table({"l": pa.array(values, pa.list_(struct, 2))}))
    assert iceberg.scan(table).to_arrow()["l"].to_pylist() == values
