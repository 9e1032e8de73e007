"""Tests docs/filters.md: the forms and literals that it lists are accepted or refused as it says."""

from __future__ import annotations

import datetime
import re
import uuid
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from puffin_fast import iceberg
from puffin_fast.errors import PuffinFastError
from tests.kit.faults import RacingCatalog
from tests.kit.tables import iceberg_table, sqlite_catalog

PAGE = (Path(__file__).parents[3] / "docs" / "filters.md").read_text()

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "price", DecimalType(9, 2)),
    NestedField(4, "x", DoubleType()),
    NestedField(5, "f", FloatType()),
    NestedField(6, "ok", BooleanType()),
    NestedField(7, "day", DateType()),
    NestedField(8, "t", TimeType()),
    NestedField(9, "ts", TimestampType()),
    NestedField(10, "tz", TimestamptzType()),
    NestedField(11, "u", UUIDType()),
    NestedField(12, "raw", BinaryType()),
    NestedField(13, "two", FixedType(2)),
    NestedField(14, "unit price", LongType()),
    NestedField(17, "ns", TimestampNanoType()),
    NestedField(18, "nstz", TimestamptzNanoType()),
    NestedField(15, "address", StructType(NestedField(16, "city", StringType()))),
)

UTC = datetime.UTC

MATCHING = {
    "id": [5, -5, 1000, 7, 0, None],
    "name": ["a", "b", "it's", "a\\b", "A1", None],
    "price": [Decimal("1.50"), Decimal("7.00"), None, Decimal("30.00"), Decimal("2.00"), None],
    "x": [1.0, -1.0, float("inf"), float("nan"), 6.0, None],
    "f": [0.1, 0.2, float("nan"), -0.0, 5.0, None],
    "ok": [True, False, None, True, False, None],
    "day": [datetime.date(2024, 1, 15), *[datetime.date(2025, 1, 1)] * 4, None],
    "t": [datetime.time(10, 30, 0, 250_000), datetime.time(1), None, datetime.time(23), datetime.time(0), None],
    "ts": [datetime.datetime(2024, 1, 15, 10, 30, 0, 123_456), *[datetime.datetime(2020, 1, 1)] * 4, None],
    "tz": [datetime.datetime(2024, 1, 15, 10, 30, tzinfo=UTC), *[datetime.datetime(2020, 1, 1, tzinfo=UTC)] * 4, None],
    "ns": [1705314600123456789, *[0] * 4, None],
    "nstz": [1705314600123456789, *[0] * 4, None],
    "u": [uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, *[bytes(16)] * 4, None],
    "raw": [b"\x00\xff", b"", b"a", b"b", b"c", None],
    "two": [b"\x00\xff", b"ab", b"cd", b"ef", b"gh", None],
    "unit price": [6, 5, 4, 3, 2, None],
    "address": [{"city": "Bern"}, {"city": None}, None, {"city": "Chur"}, {"city": ""}, None],
}  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    folder = tmp_path_factory.mktemp("page")
    made = iceberg_table(sqlite_catalog(folder), SCHEMA)
    kinds = made.schema().as_arrow()
    iceberg.append(made, pa.table(MATCHING, schema=pa.schema([_plain(field) for field in kinds])))
    return made


def _plain(field: pa.Field) -> pa.Field:
    return field.with_type(pa.binary(16)) if field.name == "u" else field


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its header row."""
    section = re.split(r"\n##+ ", PAGE.split(f"## {heading}\n")[1])[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def texts(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


FORMS = [text for row in rows("Forms") for text in texts(row[1])]
TAKEN = [text for row in rows("Literals") for text in texts(row[1])]
REFUSED = [text for row in rows("Literals") for text in texts(row[2])]
IN_PROSE = ['"unit price" > 5', "address.city = 'Bern'", "id < 99999999999999999999", "f = 0.1"]


def taken(table: Table, text: str) -> list[int | None]:
    found: list[int | None] = iceberg.scan(table, text, ["id"]).to_arrow()["id"].to_pylist()
    return found


def test_all_examples_of_the_page_are_found() -> None:
    assert (len(FORMS), len(TAKEN), len(REFUSED)) == (21, 30, 13)
    for text in IN_PROSE:
        assert f"`{text}`" in PAGE


@pytest.mark.parametrize("text", [*FORMS, *TAKEN, *IN_PROSE])
def test_examples_select_some_rows_and_deletes_remove_the_same(table: Table, text: str) -> None:
    found = taken(table, text)
    assert (len(found) > 0) == (text not in ("false", "name like '50!%' escape '!'"))
    assert len(found) < 6 or text in ("true",)
    assert iceberg.delete(table, text, dry_run=True).rows_deleted == len(found)


@pytest.mark.parametrize("text", REFUSED)
def test_refused_examples_are_refused(table: Table, text: str) -> None:
    for call in (iceberg.scan, iceberg.delete):
        with pytest.raises(PuffinFastError, match="filter"):
            call(table, text)  # type: ignore[operator]


@pytest.mark.parametrize("row", rows("NaN"), ids=lambda row: row[0])
def test_nan_is_compared_as_the_page_says(racing: RacingCatalog, row: list[str]) -> None:
    (text,) = texts(row[0])
    values = pa.table({"x": [float("nan"), 5.0, 1.0, 7.0, None]})
    made = iceberg_table(racing, values)
    ours = any(x != x for x in iceberg.scan(made, text).to_arrow()["x"].to_pylist())
    assert ours == (row[1] == "yes")
    with duckdb.connect() as connection:
        connection.register(
            "arrow", values
        )  # on a registered table, DuckDB lets PyArrow evaluate comparisons
        connection.execute("create table t as select * from arrow")
        theirs = f"select 1 from t where isnan(x) and {texts(row[2])[0] if '`' in row[2] else text}"
        assert bool(connection.execute(theirs).fetchall()) == row[2].startswith("yes")


@pytest.mark.parametrize(
    ("row", "values"),
    [
        *zip(
            rows("Rows that engines treat differently"),
            [
                {"x": [float("nan"), 1.0]},
                {"x": [float("nan"), 1e31]},
                {"name": [None, "hr"]},
                {"name": ["it", "hr"]},
            ],
            strict=True,
        )
    ],
    ids=["nan, low bounds", "nan, high bounds", "null", "null in a list"],
)
def test_rows_of_engines_are_as_the_page_says(
    racing: RacingCatalog, row: list[str], values: dict[str, list[object]]
) -> None:
    """The first of two rows is that of the page."""
    (text,) = texts(row[0])
    data = pa.table(values)
    made = iceberg_table(racing, data)
    if row[2] == "refused":
        with pytest.raises(PuffinFastError, match="found NULL"):
            iceberg.delete(made, text)
    else:
        iceberg.delete(made, text)
        left = iceberg.scan(made).to_arrow().column(0).to_pylist()
        assert (str(data.column(0)[0].as_py()) not in map(str, left)) == (row[2] == "yes")
    with duckdb.connect() as connection:
        connection.register("arrow", data)
        connection.execute("create table t as select * from arrow")
        connection.execute(f"delete from t where {text}")
        left = [value for (value,) in connection.execute("select * from t").fetchall()]
        assert (str(data.column(0)[0].as_py()) not in map(str, left)) == (row[5] == "yes")
