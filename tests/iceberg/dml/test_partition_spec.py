"""Partition specs of new tables: both spellings of transforms, and refusals before the table is created."""

from __future__ import annotations

import datetime
import json
import operator
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual, LessThan
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    TruncateTransform,
    parse_transform,
)
from pyiceberg.types import BinaryType, LongType

from puffin_fast import iceberg
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError
from tests.iceberg.conftest import refused, rows_of, rows_of_duckdb
from tests.kit.faults import RacingCatalog
from tests.kit.nanoseconds import nanosecond_types
from tests.kit.tables import iceberg_table, path_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.table import Table

ROWS = pa.table(
    {
        "id": pa.array([0, 1, None, 2**40], pa.int64()),
        "name": ["", "abcdef", None, "ü"],
        "ts": pa.array([datetime.datetime(1969, 12, 31, 23), None, *[datetime.datetime(2024, 2, 29, 1)] * 2]),
        "day(odd)": [1, 2, 3, None],
        "s": [{"x": 1}, {"x": 2}, None, {"x": None}],
        "l": [[1], [], None, [2]],
    }
)

SPELLINGS = [
    ("id", "identity", "id"), ("identity(id)", "identity", "id"), ("day(odd)", "identity", "day(odd)"),
    ("years(ts)", "year", "ts_year"), ("year(ts)", "year", "ts_year"), ("months(ts)", "month", "ts_month"),
    ("day(ts)", "day", "ts_day"), ("DAYS( ts )", "day", "ts_day"), ("hours(ts)", "hour", "ts_hour"),
    ("bucket[16](id)", "bucket[16]", "id_bucket"), ("bucket(16, id)", "bucket[16]", "id_bucket"),
    ("Bucket(16,name)", "bucket[16]", "name_bucket"), ("truncate[3](name)", "truncate[3]", "name_truncate"),
    ("truncate(3, name)", "truncate[3]", "name_truncate"), ("void(name)", "void", "name_void"),
    ("bucket(4, s.x)", "bucket[4]", "s.x_bucket"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "transform", "name"), SPELLINGS, ids=[text for text, *_ in SPELLINGS])
def test_both_spellings_of_a_transform_make_tables_that_take_rows(
    racing: RacingCatalog, text: str, transform: str, name: str
) -> None:
    table = iceberg.create_table(racing, "n.t", ROWS.schema, partition_spec=[text])
    (field,) = table.spec().fields
    assert (str(field.transform), field.name) == (transform, name)
    iceberg.append(table, ROWS)
    assert iceberg.scan(table).to_arrow().num_rows == 4
    assert iceberg.scan(table, "id = 0").to_arrow()["name"].to_pylist() == [""]
    assert iceberg.delete(table, "name = ''").rows_deleted == 1


@pytest.mark.parametrize(
    ("spec", "error", "said"),
    [
        (["bucket[0](id)"], InvalidInputError, "width from 1"),
        (["bucket(0, id)"], InvalidInputError, "width from 1"),
        (["truncate[0](name)"], InvalidInputError, "width from 1"),
        (["bucket[3000000000](id)"], InvalidInputError, "width from 1"),
        (["bucket[99999999999999999999](id)"], InvalidInputError, "expected a column, identity"),
        (["bucket(id)"], InvalidInputError, "bucket\\(16, c\\)"),
        (["bucket(id, 16)"], InvalidInputError, "bucket\\(16, c\\)"),
        (["bucket[-1](id)"], InvalidInputError, "bucket\\(16, c\\)"),
        (["day[2](ts)"], InvalidInputError, "day\\(c\\)"),
        (["day(id)"], InvalidInputError, "type long for transform: day"),
        (["hour(day)"], NotFoundError, "no column day"),
        (["truncate(2, ts)"], InvalidInputError, "type timestamp for transform"),
        (["weeks(ts)"], InvalidInputError, "expected a column, identity"),
        (["unknown(ts)"], InvalidInputError, "expected a column, identity"),
        (["day(ts"], InvalidInputError, "expected a column, identity"),
        (["nobody"], NotFoundError, "no column nobody; the table has id"),
        (["days(nobody)"], NotFoundError, "no column nobody"),
        (["s"], InvalidInputError, "non-primitive"),
        (["l.element"], InvalidInputError, "parent"),
        (["day(ts)", "days(ts)"], InvalidInputError, "another field is named 'ts_day'"),
        (["day(ts)", "hours(ts)"], InvalidInputError, "hour\\(ts\\): conflicts with day\\(ts\\)"),
        (["year(ts)", "id", "month(ts)"], InvalidInputError, "month\\(ts\\): conflicts with year\\(ts\\)"),
        ("id", InvalidInputError, "a sequence"),
        (PartitionSpec(PartitionField(3, 1000, parse_transform("days"), "d")), InvalidInputError, "unknown"),
        (PartitionSpec(PartitionField(1, 1000, BucketTransform(0), "b")), InvalidInputError, "width"),
        (PartitionSpec(PartitionField(2, 1000, TruncateTransform(-1), "b")), InvalidInputError, "width"),
        (PartitionSpec(PartitionField(1, 1000, DayTransform(), "d")), InvalidInputError, "type long"),
        (PartitionSpec(PartitionField(99, 1000, IdentityTransform(), "d")), InvalidInputError, "source"),
        (PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "name")), InvalidInputError, "column of the"),
    ],
    ids=str,
)  # fmt: skip
def test_a_spec_that_no_table_can_have_is_refused_at_creation(
    racing: RacingCatalog, spec: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        iceberg.create_table(racing, "n.t", ROWS.schema, partition_spec=spec)
    assert racing.list_tables("n") == []


def test_a_column_with_the_name_of_a_transform_is_a_column(racing: RacingCatalog) -> None:
    schema = pa.schema([("ts_day", pa.int64()), ("ts", pa.timestamp("us"))])
    with pytest.raises(InvalidInputError, match="another column of the table is named 'ts_day'"):
        iceberg.create_table(racing, "n.t", schema, partition_spec=["day(ts)"])
    table = iceberg.create_table(racing, "n.t", schema, partition_spec=["ts_day"])
    assert table.spec().fields[0].name == "ts_day"


@pytest.mark.parametrize("spec", [["id", "bucket(4, id)"], ["void(id)", "id"], ["ts", "day(ts)"]], ids=str)
def test_two_fields_may_be_of_one_column(racing: RacingCatalog, spec: list[str]) -> None:
    """PyIceberg's own append raises "Cannot have redundant partitions"."""
    table = iceberg.create_table(racing, "n.t", ROWS.schema, partition_spec=spec)
    iceberg.append(table, ROWS)
    assert table.scan(EqualTo("id", 1)).to_arrow()["name"].to_pylist() == ["abcdef"]
    assert iceberg.delete(table, "id = 1").rows_deleted == 1
    assert table.scan().to_arrow().num_rows == 3
    assert iceberg.verify(table) == []


NANOSECONDS = [-(10**9), -1, 0, 999, 1_705_314_600_123_456_789, 2**62, None]
HOUR = 3_600 * 10**9


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        ("identity", lambda ns: ns),
        ("hour", lambda ns: ns // HOUR),
        ("day", lambda ns: ns // (24 * HOUR)),
        ("year", lambda ns: pa.scalar(ns // 1000, pa.timestamp("us")).as_py().year - 1970),
        ("bucket[16]", lambda ns: BucketTransform(16).transform(LongType())(ns // 1000)),
    ],
)
def test_partitions_of_nanoseconds(
    racing: RacingCatalog, transform: str, expected: Callable[[int], int], zone: str | None
) -> None:
    """pyiceberg-core has no hours of nanoseconds, and PyIceberg's record no nanoseconds."""
    rows = pa.table({"id": range(len(NANOSECONDS)), "ns": pa.array(NANOSECONDS, pa.timestamp("ns", zone))})
    table = iceberg.create_table(
        racing,
        "n.t",
        rows.schema,
        types=nanosecond_types(rows.schema),
        partition_spec=[f"{transform}(ns)"],
    )
    iceberg.append(table, rows)
    found = {task.data.partition[0] for task in iceberg.plan_files(table).tasks}
    assert found == {None if ns is None else expected(ns) for ns in NANOSECONDS}
    assert iceberg.scan(table).to_arrow().sort_by("id")["ns"].cast(pa.int64()).to_pylist() == NANOSECONDS
    assert iceberg.delete(table, "ns is null").rows_deleted == 1
    assert iceberg.delete(table, pc.field("ns") == rows["ns"][4]).rows_deleted == 1
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 5]
    assert iceberg.verify(table) == []


BYTES = [
    None, b"", b"a", b"ab", b"abc", b"ab\x00", b"\x00\x00", b"\xff", b"\xff\xff", b"\xff\xff\xff", b"/?=",
]  # fmt: skip


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_truncated_bytes_are_the_first_ones(
    racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection, kind: pa.DataType
) -> None:
    """PyIceberg's own append raises a ValueError of pyiceberg-core."""
    rows = pa.table({"id": range(len(BYTES)), "b": pa.array(BYTES).cast(kind)})
    schema = pa.schema([("id", pa.int64()), ("b", pa.binary())])
    table = iceberg.create_table(racing, "n.t", schema, partition_spec=["truncate[2](b)"])
    iceberg.append(table, rows)
    transform = TruncateTransform(2).transform(BinaryType())
    assert {task.data.partition[0] for task in iceberg.plan_files(table).tasks} == set(map(transform, BYTES))
    for sign, compares, predicate in (
        ("=", operator.eq, EqualTo),
        ("<", operator.lt, LessThan),
        (">=", operator.ge, GreaterThanOrEqual),
    ):
        for value in BYTES[1:]:
            expected = [i for i, given in enumerate(BYTES) if given is not None and compares(given, value)]
            filters: list[Any] = [f"b {sign} X'{value.hex()}'", predicate("b", value)]
            for row_filter in filters:
                found = iceberg.scan(table, row_filter).to_arrow()["id"].to_pylist()
                assert sorted(found) == expected, row_filter
            found = table.scan(filters[1]).to_arrow()["id"].to_pylist()
            assert sorted(found) == expected, filters[1]
    assert iceberg.delete(table, "b > X'6162' or b is null").rows_deleted == 6
    for found in (rows_of(table), rows_of_duckdb(duckdb_iceberg, table)):
        assert found["b"].to_pylist() == [b"", b"a", b"ab", b"\x00\x00", b"/?="]
    assert iceberg.verify(table) == []


@pytest.mark.parametrize(
    ("kind", "lowest"),
    [
        (pa.int32(), -(2**31)),
        (pa.int64(), -(2**63)),
        (pa.decimal128(4, 2), Decimal("-99.99")),
        (pa.decimal128(38, 2), Decimal("-" + "9" * 36 + ".99")),
    ],
    ids=str,
)
def test_a_number_whose_truncation_is_below_its_type_is_refused(
    racing: RacingCatalog, kind: pa.DataType, lowest: Any
) -> None:
    """Its partition would be the highest one, and no filter would find the row."""
    table = iceberg.create_table(
        racing, "n.t", pa.schema([("x", kind)]), partition_spec=["truncate[1000](x)"]
    )
    iceberg.append(table, pa.table({"x": pa.array([abs(lowest) // 10**40, None], kind)}))
    said = rf"column x: truncate\[1000\] of {lowest} is below the range of "
    with refused(table, InvalidInputError, said):
        iceberg.append(table, pa.table({"x": pa.array([lowest], kind)}))


# A column of the spec that was dropped ---------------------------------------------------------------------------

PARTS = pa.table({"id": range(10), "part": ["a", "b"] * 5})


def dropped(catalog: RacingCatalog, transform: str, *, is_known: bool = True) -> Table:
    """A table whose column was dropped after the spec got another transform.

    Args:
        catalog: of the table.
        transform: of the column.
        is_known: an earlier schema has the column, and a spec its identity, of which the table has two files.
    """
    table = iceberg_table(catalog, PARTS if is_known else PARTS.schema, version=2, partition=["part"])
    with table.update_spec() as update:
        update.remove_field("part")
    with table.update_schema() as update:
        update.delete_column("part")
    path = path_of(table.metadata_location)
    document = json.loads(path.read_bytes())
    field = {"name": "part", "transform": transform, "source-id": 2, "field-id": 1000}
    document["partition-specs"].append({"spec-id": 7, "fields": [field]})
    document["default-spec-id"] = 7
    if not is_known:
        document["schemas"] = [
            schema for schema in document["schemas"] if schema["schema-id"] == document["current-schema-id"]
        ]
    path.write_text(json.dumps(document))
    return catalog.load_table("n.t")


@pytest.mark.parametrize("is_known", [True, False])
def test_void_of_a_dropped_column_is_written_by_all_verbs(racing: RacingCatalog, is_known: bool) -> None:
    table = dropped(racing, "void", is_known=is_known)
    new = pa.table({"id": range(10, 14)})
    assert iceberg.append(table, new, dry_run=True).commit.id is None
    iceberg.append(table, new)
    iceberg.delete(table, "id in (0, 10)")
    iceberg.update(table, "id = 11", {"id": 101})
    iceberg.upsert(table, pa.table({"id": [12, 20]}), join_cols=["id"])
    iceberg.rewrite_data_files(table, min_deleted=0.01)
    assert iceberg.verify(table) == []
    expected = [*(range(1, 10) if is_known else ()), 12, 13, 20, 101]
    assert rows_of(table)["id"].to_pylist() == expected
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == expected
    iceberg.overwrite(table, new)
    assert rows_of(table)["id"].to_pylist() == [10, 11, 12, 13]


def test_fields_of_type_unknown_are_valid_avro(racing: RacingCatalog) -> None:
    table = dropped(racing, "void", is_known=False)
    iceberg.append(table, pa.table({"id": [1]}))
    (manifest,) = table.inspect.manifests()["path"].to_pylist()
    reader: Any = fastavro.reader(BytesIO(path_of(manifest).read_bytes()))
    assert '"null", "null"' not in reader.metadata["avro.schema"]
    assert next(reader)["data_file"]["partition"] == {"part": None}


def test_other_transforms_of_a_dropped_column_are_refused(racing: RacingCatalog) -> None:
    table = dropped(racing, "bucket[4]")
    for dry_run in (True, False):
        with pytest.raises(CorruptDataError, match="source-id of field part: expected a column of schema"):
            iceberg.append(table, pa.table({"id": [1]}), dry_run=dry_run)
