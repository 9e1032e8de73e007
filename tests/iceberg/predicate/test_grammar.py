"""Filters as text: SQL's LIKE, literals, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyiceberg.expressions.parser import parse
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.predicate.filters import RowFilter
from puffin_fast.iceberg.predicate.grammar import parsed
from tests.iceberg.conftest import RacingCatalog, rows_of

CODES = ["1", "A1", "_1", "A1x", "_1x", "11", "A_1", "%", "50%", None, "A\\1"]

LIKES: list[tuple[str, Callable[[str], bool]]] = [
    ("code like '_1%'", lambda c: c[1:2] == "1"),
    ("code not like '_1%'", lambda c: c[1:2] != "1"),
    ("not (code like '_1%')", lambda c: c[1:2] != "1"),
    (r"code like '\_1%'", lambda c: c.startswith("_1")),
    ("code like '!_1%' escape '!'", lambda c: c.startswith("_1")),
    (r"code not like '%\%'", lambda c: not c.endswith("%")),
    ("code like '%1'", lambda c: c.endswith("1")),
    ("code like '%1%x'", lambda c: "1" in c and c.endswith("x")),
    ("code like '1'", lambda c: c == "1"),
    ("code like 'A1%'", lambda c: c.startswith("A1")),
    ("code like '%'", lambda c: True),
    (r"code like 'A\\1'", lambda c: c == "A\\1"),
    (r"code like 'A\1' escape '|'", lambda c: c == "A\\1"),
    ("code like ''", lambda c: c == ""),
]


@pytest.mark.parametrize(("text", "holds"), LIKES, ids=[text for text, _ in LIKES])
def test_like_has_the_meaning_of_sql_in_scans_and_deletes(
    racing: RacingCatalog, text: str, holds: Callable[[str], bool]
) -> None:
    made = racing.create_table("n.t", pa.schema([("code", pa.string())]))
    for first in range(0, len(CODES), 3):
        made.append(pa.table({"code": pa.array(CODES[first : first + 3], pa.string())}))
    iceberg.upgrade(made)
    wanted = [c for c in CODES if c is not None and holds(c)]
    assert sorted(iceberg.scan(made, text).to_arrow()["code"].to_pylist()) == sorted(wanted)
    assert iceberg.delete(made, text).rows_deleted == len(wanted)
    assert set(made.scan().to_arrow()["code"].to_pylist()) == {c for c in CODES if c not in wanted}


def test_texts_of_pyiceberg_mean_the_same_but_for_like() -> None:
    texts = [
        "id > 5", "5 > id", "id == 5", "id != -5", "id <> 5", "a.b = 'it''s'", '"in" = 1', "x = 1.5",
        "id in (1, 2)", "id not in (1, 2)", "id in (1)", "s in ('a', 'b')", "x is nan", "x is not nan",
        "x is null", "x is not null", "id between 1 and 2", "not id = 1 and x = 2", "id = 1 or id = 2 and id = 3",
        "(id = 1 or id = 2) and not (id = 3)", "ok = true", "true", "FALSE", "ID IS NULL", "s = '2024-01-01'",
        "id = 1 or id = 2 or id = 3 or id = 4 or id = 5",
    ]  # fmt: skip
    for text in texts:
        assert parsed(text) == parse(text), text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id =", "at character 5: expected a literal, found the end"),
        ("id = 1 or (id = 2", "at character 18: expected \\), found the end"),
        ("id = 5 5", "at character 8: expected AND, OR or the end, found 5"),
        ("id = other", "found other; .*PyArrow expression"),
        ("abs(id) = 1", "found \\(; .*PyArrow expression"),
        ("id = null", "write IS NULL"),
        ("id not in (1, null)", "write IS NULL"),
        ("x = NaN", "write IS NAN"),
        ('s = "a"', "'single quotes'"),
        ("in = 1", "expected a column or a literal, found in"),
        ("id in ()", "expected a literal"),
        ("s like 'a", "found 'a"),
        (r"s like 'a\b'", "after the escape character"),
        ("s like 'a!' escape '!'", "found the end"),
        ("s like 'a' escape 'ab'", "one character"),
        ("id like '1%'", "column of type string, found long"),
        ("b = x'0'", "hexadecimal"),
        ("id = 1; delete", "found ;"),
        ("", "found the end"),
        ("(" * 100_000, "too deeply"),
        ("not " * 100_000 + "id = 1", "too deeply"),
    ],
    ids=lambda text: text[:30],
)
def test_text_that_is_no_filter_is_refused_with_where_and_what_to_write(text: str, said: str) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "s", StringType()))
    with pytest.raises(InvalidInputError, match=said) as caught:
        RowFilter.bind(text, schema)
    assert len(str(caught.value)) < 500


def test_a_name_that_means_two_columns_without_its_case_is_refused(racing: RacingCatalog) -> None:
    kinds = pa.schema([("a", pa.int64()), ("A", pa.int64()), ("id", pa.int64())])
    table = iceberg.create_table(racing, "n.t", kinds)
    iceberg.append(table, pa.table({"a": [1, 2], "A": [2, 1], "id": [0, 1]}, schema=kinds))
    before = table.metadata_location
    for call in (
        lambda: iceberg.delete(table, "a = 1", case_sensitive=False),
        lambda: iceberg.scan(table, "A = 1", case_sensitive=False),
        lambda: iceberg.scan(table, selected_fields=["A"], case_sensitive=False),
        lambda: iceberg.plan_files(table, row_filter="a = 1", case_sensitive=False),
    ):
        with pytest.raises(InvalidInputError, match="ambiguous without its case, the table has a, A"):
            call()
    assert table.refresh().metadata_location == before
    assert iceberg.scan(table, "ID = 0", ["Id"], case_sensitive=False).to_arrow().to_pydict() == {"id": [0]}
    assert iceberg.scan(table, "a = 1 and A = 2").to_arrow()["id"].to_pylist() == [0]
    assert iceberg.delete(table, "A = 1").rows_deleted == 1
    assert rows_of(table)["id"].to_pylist() == [0]


def test_numbers_are_no_dates_in_text(racing: RacingCatalog) -> None:
    kinds = pa.schema([("day", pa.date32()), ("at", pa.timestamp("us")), ("t", pa.time64("us"))])
    table = iceberg.create_table(racing, "n.t", kinds)
    for text in ("day > 2024", "at > 1.5", "t in (1, 2)", "not (at <= 5)"):
        with pytest.raises(InvalidInputError, match=r"expected a .* such as '"):
            iceberg.delete(table, text)
