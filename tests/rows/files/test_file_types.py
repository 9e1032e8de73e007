"""Data files whose types or names are legal, but not those that Iceberg's own writers choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.schema import Schema
from pyiceberg.types import (
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UnknownType,
    UUIDType,
)

from puffin_fast.errors import CorruptDataError, UnsupportedError
from puffin_fast.tables.delete import delete, delete_keys
from puffin_fast.tables.scan import scan
from puffin_fast.tables.upsert import upsert
from tests.rows.files.formats import ids, named_by_mapping, register

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

UNSIGNED = {8: 200, 16: 40_000, 32: 3_000_000_000, 64: 2**63 - 1}
"""The width of an unsigned type, and a number that is negative in the signed type (but that of 64 bits)."""


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("bits", UNSIGNED)
@pytest.mark.parametrize("version", ["1.0", "2.6"])
def test_bounds_of_unsigned_numbers_exclude_no_row_group(
    shared_catalog: SqlCatalog, namespace: str, bits: int, version: Any, nested: bool
) -> None:
    large = UNSIGNED[bits]
    numbers = pa.array([1, large, 7], getattr(pa, f"uint{bits}")())
    column = pa.StructArray.from_arrays([numbers], ["n"]) if nested else numbers
    rows = pa.table({"id": pa.array([0, 1, 2], pa.int64()), "n": column})
    kind = pa.struct([("n", pa.int64())]) if nested else pa.int64()
    table, path, local = named_by_mapping(
        shared_catalog, namespace, pa.schema([("id", pa.int64()), ("n", kind)])
    )
    pq.write_table(rows, local, row_group_size=1, version=version)
    register(table, path, "PARQUET", 3)
    name = "n.n" if nested else "n"
    assert ids(table, f"{name} > 100") == [1]
    assert ids(table, f"{name} = {large}") == [1]
    assert ids(table, f"{name} < 100") == [0, 2]
    assert scan(table, f"{name} >= {large}").count() == 1
    if not nested:
        keys = pa.table({"n": pa.array([large], pa.int64())})
        assert delete_keys(table, keys, ["n"], dry_run=True).rows_deleted == 1
        assert upsert(table, pa.table({"id": [5], "n": [large]}), ["n"], dry_run=True).rows_updated == 1
    assert delete(table, f"{name} > 100").rows_deleted == 1
    assert ids(table) == [0, 2]


@pytest.mark.parametrize(("bits", "nested"), [(32, False), (64, False), (64, True)])
def test_unsigned_numbers_have_the_type_of_the_table_or_are_refused(
    shared_catalog: SqlCatalog, namespace: str, bits: int, nested: bool
) -> None:
    kind = getattr(pa, f"int{bits}")()
    wanted = pa.list_(kind) if nested else kind
    table, path, local = named_by_mapping(
        shared_catalog, namespace, pa.schema([("id", pa.int64()), ("n", wanted)])
    )
    for most, fits in ((2 ** (bits - 1) - 1, True), (2 ** (bits - 1), False)):
        values = pa.array([1, most, None], getattr(pa, f"uint{bits}")())
        column = pa.ListArray.from_arrays([0, 1, 2, 3], values) if nested else values
        pq.write_table(pa.table({"id": pa.array([0, 1, 2], pa.int64()), "n": column}), local)
        if fits:
            register(table, path, "PARQUET", 3)
        reads: list[Any] = [
            lambda: scan(table).to_arrow(),
            lambda: pa.Table.from_batches(scan(table).to_batches()),
            lambda: scan(table, string_views=True).to_arrow(),
            lambda: scan(table, "id >= 0").to_arrow(),
            *([] if nested else [lambda: scan(table, "n > 0 or n is null").to_arrow()]),
        ]
        for read in reads:
            if fits:
                found = read()["n"]
                assert (found.type.value_type if nested else found.type) == kind
                assert found.to_pylist() == column.to_pylist()
            else:
                with pytest.raises(CorruptDataError, match=f"{path}: Parquet file: .*{most} not in range"):
                    read()


@pytest.mark.parametrize("kind", [pa.timestamp("ms"), pa.timestamp("ms", "UTC")], ids=str)
def test_timestamps_beyond_the_range_of_the_table_are_refused(
    shared_catalog: SqlCatalog, namespace: str, kind: pa.DataType
) -> None:
    wanted = pa.timestamp("us", kind.tz)
    table, path, local = named_by_mapping(shared_catalog, namespace, pa.schema([("t", wanted)]))
    pq.write_table(pa.table({"t": pa.array([2**60 + 3, 0], kind)}), local)
    register(table, path, "PARQUET", 2)
    with pytest.raises(CorruptDataError, match=f"{path}: Parquet file: .* out of bounds"):
        scan(table).to_arrow()
    with pytest.raises(CorruptDataError, match="out of bounds"):
        delete(table, f"t < '1900-01-01{'+00:00' if kind.tz else ''}'")


def test_times_are_within_a_day(shared_catalog: SqlCatalog, namespace: str) -> None:
    table, path, local = named_by_mapping(
        shared_catalog, namespace, pa.schema([("t", pa.time64("us"))]), "ORC"
    )
    orc.write_table(pa.table({"t": pa.array([0, None, 86_399_999_999], pa.int64())}), local)
    register(table, path, "ORC", 3)
    assert scan(table).to_arrow()["t"].cast(pa.int64()).to_pylist() == [0, None, 86_399_999_999]
    for number in (-1, 86_400_000_000):
        orc.write_table(pa.table({"t": pa.array([0, number, 5], pa.int64())}), local)
        with pytest.raises(CorruptDataError, match=f"{path}.* time of day: .*found {number}"):
            scan(table).to_arrow()


def test_texts_in_a_column_of_uuids_are_refused_with_and_without_a_filter(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table, path, local = named_by_mapping(shared_catalog, namespace, Schema(NestedField(1, "v", UUIDType())))
    texts = ["00000000-0000-0000-0000-000000000001", "f0000000-0000-0000-0000-000000000001"]
    pq.write_table(pa.table({"v": texts}), local, row_group_size=1)
    register(table, path, "PARQUET", 2)
    for row_filter in ("true", f"v = '{texts[0]}'"):
        with pytest.raises(CorruptDataError, match=path):
            scan(table, row_filter).to_arrow()
        with pytest.raises(CorruptDataError, match=path):
            delete(table, f"{row_filter} and v is not null")


def avro(fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": "t", "fields": fields}


def test_types_of_version_3_are_read_from_avro(shared_catalog: SqlCatalog, namespace: str) -> None:
    schema = {"id": "long", "t": "timestamp_ns", "z": "timestamptz_ns", "v": "unknown"}
    table, path, local = named_by_mapping(shared_catalog, namespace, schema, "AVRO")
    assert isinstance(table.schema().find_type("v"), UnknownType)
    nanos = {"type": "long", "logicalType": "timestamp-nanos"}
    written = avro(
        [
            {"name": "id", "type": "long", "field-id": 1},
            {"name": "t", "type": ["null", {**nanos, "adjust-to-utc": False}], "field-id": 2},
            {"name": "z", "type": ["null", {**nanos, "adjust-to-utc": True}], "field-id": 3},
            {"name": "v", "type": "null", "field-id": 4},
        ]
    )
    times = [1_700_000_000_123_456_789, -1, None]
    rows = [{"id": at, "t": time, "z": time, "v": None} for at, time in enumerate(times)]
    with local.open("wb") as sink:
        fastavro.writer(sink, written, rows, codec="deflate")
    register(table, path, "AVRO", 3)
    found = scan(table).to_arrow()
    assert found["t"].cast(pa.int64()).to_pylist() == found["z"].cast(pa.int64()).to_pylist() == times
    assert found["v"].to_pylist() == [None] * 3
    assert ids(table, "t > '2023-11-14 22:13:20.123456788'") == [0]
    assert delete(table, "z <= '1970-01-01T00:00:00+00:00'").rows_deleted == 1


def test_avro_schemas_that_are_none_of_icebergs_are_refused(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table, path, local = named_by_mapping(shared_catalog, namespace, pa.schema([("id", pa.int64())]), "AVRO")
    written = avro([{"name": "id", "type": ["null", "long"], "field-id": 1}])
    with local.open("wb") as sink:
        fastavro.writer(sink, written, [])
    local.write_bytes(local.read_bytes().replace(b'["null", "long"]', b"[" + b" " * 14 + b"]"))
    register(table, path, "AVRO", 1)
    with pytest.raises(UnsupportedError, match=f"{path}: AVRO; expected a schema of Iceberg's types"):
        scan(table).to_arrow()


@pytest.mark.parametrize("order", [1, -1])
def test_names_of_orc_with_dots_are_those_of_columns(
    shared_catalog: SqlCatalog, namespace: str, order: int
) -> None:
    schema = Schema(
        NestedField(1, "x", LongType()), NestedField(2, "a", StructType(NestedField(3, "b", StringType())))
    )
    table, path, local = named_by_mapping(shared_catalog, namespace, schema, "ORC")
    numbered = [
        (pa.array([1, 2]), pa.field("a.b", pa.int64(), metadata={"iceberg.id": "1"})),
        (
            pa.array([{"b": "x"}, {"b": "y"}]),
            pa.field(
                "a",
                pa.struct([pa.field("b", pa.string(), metadata={"iceberg.id": "3"})]),
                metadata={"iceberg.id": "2"},
            ),
        ),
    ][::order]
    arrays, fields = zip(*numbered, strict=True)
    orc.write_table(pa.table(list(arrays), schema=pa.schema(fields)), local)
    register(table, path, "ORC", 2)
    assert scan(table).to_arrow().to_pylist() == [{"x": 1, "a": {"b": "x"}}, {"x": 2, "a": {"b": "y"}}]
    assert scan(table, selected_fields=("a",)).to_arrow().to_pylist() == [
        {"a": {"b": "x"}},
        {"a": {"b": "y"}},
    ]


def test_a_name_in_orc_that_is_no_text_is_damage(shared_catalog: SqlCatalog, namespace: str) -> None:
    table, path, local = named_by_mapping(
        shared_catalog, namespace, pa.schema([("abcdef", pa.int64())]), "ORC"
    )
    orc.write_table(pa.table({"abcdef": [1]}), local, compression="uncompressed")
    local.write_bytes(local.read_bytes().replace(b"abcdef", b"abc\x80ef"))
    register(table, path, "ORC", 1)
    with pytest.raises(CorruptDataError, match=f"{path}: ORC file"):
        scan(table).to_arrow()


def test_errors_name_the_format(shared_catalog: SqlCatalog, namespace: str) -> None:
    table, path, local = named_by_mapping(
        shared_catalog, namespace, Schema(NestedField(1, "t", TimestampType())), "ORC"
    )
    orc.write_table(pa.table({"t": pa.array(["x"])}), local)
    register(table, path, "ORC", 1)
    with pytest.raises(CorruptDataError, match="expected timestamp"):
        scan(table).to_arrow()


@pytest.mark.parametrize("order", [1, -1])
def test_a_column_with_a_dot_does_not_prune_for_a_field_of_a_struct(
    shared_catalog: SqlCatalog, namespace: str, order: int
) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.struct([("b", pa.int64())]))])
    table, path, local = named_by_mapping(shared_catalog, namespace, schema)
    columns = [("id", [0, 1, 2]), ("v", [{"b": 1}, {"b": 2}, {"b": 3}]), ("v.b", [10, 20, 30])][::order]
    pq.write_table(pa.table(dict(columns)), local, row_group_size=1)
    register(table, path, "PARQUET", 3)
    assert ids(table, "v.b < 3") == [0, 1]
    assert delete(table, "v.b < 3").rows_deleted == 2
    assert ids(table) == [2]
