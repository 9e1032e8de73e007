"""Filters as text: LIKE and three-valued logic as in DuckDB, NaN as in PyArrow (IEEE 754)."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pyiceberg.expressions import EqualTo, LessThanOrEqual, Not
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.filters.grammar import parse_filter
from tests.iceberg.conftest import rows_of
from tests.kit.faults import RacingCatalog

NAN, INF = float("nan"), float("inf")
FLOATS = [None, NAN, -0.0, 0.0, 1.5, -1.5, 2.0, INF, -INF]
WORDS = [
    None,
    "",
    "a",
    "ab",
    "a_b",
    "a%b",
    "axb",
    "A",
    "ü",
    "üb",
    "漢字",
    "a\nb",
    "a\\b",
    "_1",
    "x1y",
    "it's",
]
KINDS = pa.schema(
    [("id", pa.int64()), ("x", pa.float64()), ("f", pa.float32()), ("s", pa.string()), ("n", pa.int32())]
)


def rows(rng: random.Random, n: int) -> pa.Table:
    columns = {
        "id": list(range(n)),
        "x": [rng.choice(FLOATS) for _ in range(n)],
        "f": [rng.choice(FLOATS) for _ in range(n)],
        "s": [rng.choice(WORDS) for _ in range(n)],
        "n": [rng.choice([None, -1, 0, 1, 2, 2**31 - 1]) for _ in range(n)],
    }
    return pa.table(columns, schema=KINDS)


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    """A table of 14 files. It is partly sorted, so that bounds prune; some files have only NaN or NULL."""
    rng = random.Random(5)
    whole = rows(rng, 280)
    made = racing.create_table("n.t", KINDS, properties={"format-version": "2"})
    for column in ("x", "s", "n"):
        whole = whole.sort_by(column) if rng.random() < 0.9 else whole
    for first in range(0, 280, 20):
        made.append(whole.slice(first, 20))
    iceberg.upgrade(made)
    return made


def float_test(rng: random.Random) -> tuple[str, str]:
    """A comparison for us, and the equal one for DuckDB, where NaN is larger than each number."""
    column, op = rng.choice("xf"), rng.choice(["<", "<=", ">", ">=", "=", "<>"])
    value = rng.choice(["0", "-0.0", "1.5", "2", "-1.5", "1000.5"])
    text = f"{column} {op} {value}" if rng.random() < 0.8 else f"{value} {op} {column}"
    return text, f"case when isnan({column}) then {'true' if op == '<>' else 'false'} else {text} end"


def pattern(rng: random.Random) -> str:
    parts = ["%", "_", "a", "b", "ü", "漢", "1", "\\%", "\\_", "\\\\", "''"]
    return "".join(rng.choice(parts) for _ in range(rng.randrange(5)))


def predicate(rng: random.Random) -> tuple[str, str]:
    """The text of a predicate for us, and the text of the equal one for DuckDB."""
    no = rng.choice(["", "not "])
    kind = rng.randrange(8)
    if kind <= 1:
        return float_test(rng)
    if kind == 2:
        text = f"s {no}like '{pattern(rng)}'"
        return text, f"{text} escape '\\'"
    if kind == 3:
        text = f"s {rng.choice(['<', '>=', '='])} '{rng.choice(['', 'a', 'ab', 'ü', 'a_b'])}'"
    elif kind == 4:
        text = f"n {no}in ({rng.choice(['1, 2', '0', '-1, 7, 2147483647', '3, 5000000000'])})"
    elif kind == 5:
        text = f"n {no}between {rng.choice([-1, 0, 1])} and {rng.choice([1, 2, 5])}"
    elif kind == 6:
        text = f"{rng.choice('xfsn')} is {no}null"
    else:
        column = rng.choice("xf")
        return f"{column} is {no}nan", f"{no}isnan({column})"
    return text, text


def generated(rng: random.Random, depth: int = 3) -> tuple[str, str]:
    if depth == 0 or rng.random() < 0.3:
        return predicate(rng)
    if rng.random() < 0.3:
        ours, theirs = generated(rng, depth - 1)
        return f"not ({ours})", f"not ({theirs})"
    word = rng.choice(["and", "or"])
    left, right = generated(rng, depth - 1), generated(rng, depth - 1)
    return f"({left[0]}) {word} ({right[0]})", f"({left[1]}) {word} ({right[1]})"


def test_filters_select_the_same_rows_as_duckdb_in_three_valued_logic(table: Table) -> None:
    rng, whole = random.Random(17), rows_of(table)
    with duckdb.connect() as connection:
        connection.register("arrow", whole)  # on a registered table, DuckDB lets PyArrow evaluate comparisons
        connection.execute("create table t as select * from arrow")
        for _ in range(250):
            ours, theirs = generated(rng)
            expected = {row[0] for row in connection.execute(f"select id from t where {theirs}").fetchall()}
            assert set(iceberg.scan(table, ours, ["id"]).to_arrow()["id"].to_pylist()) == expected, ours


def test_deletes_take_the_rows_that_scans_show(table: Table) -> None:
    rng = random.Random(19)
    left = set(rows_of(table)["id"].to_pylist())
    for _ in range(12):
        first = rng.randrange(200)
        text = f"id between {first} and {first + 60} and ({generated(rng, depth=2)[0]})"
        shown = set(iceberg.scan(table, text, ["id"]).to_arrow()["id"].to_pylist())
        assert iceberg.delete(table, text).rows_deleted == len(shown), text
        left -= shown
        assert set(rows_of(table)["id"].to_pylist()) == left, text
    assert left


def test_a_negated_comparison_selects_nan_regardless_of_bounds(racing: RacingCatalog) -> None:
    table = racing.create_table("n.t", pa.schema([("id", pa.int64()), ("d", pa.float64())]))
    for first, values in ((0, [-1.0, NAN]), (2, [NAN, NAN]), (4, [1.0, None]), (6, [None, -2.0])):
        table.append(pa.table({"id": [first, first + 1], "d": values}, schema=table.schema().as_arrow()))
    iceberg.upgrade(table)
    expressions: list[tuple[Any, list[int]]] = [
        ("not (d <= 0)", [1, 2, 3, 4]),
        (Not(LessThanOrEqual("d", 0.0)), [1, 2, 3, 4]),
        (~(pc.field("d") <= 0), [1, 2, 3, 4]),
        ("not (d < 5)", [1, 2, 3]),
        ("not (d between -5 and 5)", [1, 2, 3]),
        ("d <> 1", [0, 1, 2, 3, 7]),
        ("d not in (1, -1)", [1, 2, 3, 7]),
        ("d > 0", [4]),
        ("d <= 0 or d > 0", [0, 4, 7]),
        ("not (d <= 0 or d > 0)", [1, 2, 3]),
        ("not (d is nan or d <= 0)", [4]),
        ("d is not nan", [0, 4, 7]),
    ]
    for expression, ids in expressions:
        assert iceberg.scan(table, expression).to_arrow().sort_by("id")["id"].to_pylist() == ids, expression
    assert iceberg.delete(table, "not (d <= 0)").rows_deleted == 4
    assert rows_of(table)["id"].to_pylist() == [0, 5, 6, 7]


ONE_TEXT = Schema(NestedField(1, "s", StringType()))

CODES = ["1", "A1", "_1", "A1x", "_1x", "11", "A_1", "%", "50%", None, "A\\1", "A\\", "A\\\\"]

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
    (r"code like '%\\'", lambda c: c.endswith("\\")),
    (r"code not like '%\\'", lambda c: not c.endswith("\\")),
    (r"code like '%\' escape '|'", lambda c: c.endswith("\\")),
    (r"code like 'A\\%%'", lambda c: c.startswith("A\\")),
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


@pytest.mark.parametrize("n_parts", [1, 2, 3])
def test_every_short_pattern_matches_the_values_of_its_regular_expression(n_parts: int) -> None:
    alphabet = ["a", "\\", "%", "_", "\n", "."]
    values = ["".join(some) for n in range(4) for some in itertools.product(alphabet, repeat=n)]
    column = {1: pa.array(values, pa.large_string())}
    wildcards = {"%": "(?s:.*)", "_": "(?s:.)"}
    for parts in itertools.product(["a", "\\\\", "\\%", "\\_", "%", "_", "\n", "."], repeat=n_parts):
        wanted = re.compile("".join(wildcards.get(part) or re.escape(part[-1]) for part in parts))
        found = RowFilter.bind(f"s like '{''.join(parts)}'", ONE_TEXT).mask(column, len(values))
        assert found.tolist() == [wanted.fullmatch(value) is not None for value in values], parts


def test_a_boolean_is_a_literal_on_the_left() -> None:
    for left, right in (("true = ok", "ok = true"), ("FALSE <> ok and id = 1", "ok <> false and id = 1")):
        assert parse_filter(left) == parse_filter(right)


def test_texts_without_like_have_the_same_meaning_in_pyiceberg() -> None:
    texts = [
        "id > 5", "5 > id", "id == 5", "id != -5", "id <> 5", "a.b = 'it''s'", '"in" = 1', "x = 1.5",
        "id in (1, 2)", "id not in (1, 2)", "id in (1)", "s in ('a', 'b')", "x is nan", "x is not nan",
        "x is null", "x is not null", "id between 1 and 2", "not id = 1 and x = 2", "id = 1 or id = 2 and id = 3",
        "(id = 1 or id = 2) and not (id = 3)", "ok = true", "true", "FALSE", "ID IS NULL", "s = '2024-01-01'",
        "id = 1 or id = 2 or id = 3 or id = 4 or id = 5",
    ]  # fmt: skip
    for text in texts:
        assert parse_filter(text) == parse(text), text


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
        ("id = 1e9999999999999999999", "at character 6: expected a number, found 1e9999999999999999999"),
        ("id = -1e-9999999999999999999", "at character 7: expected a number"),
        ("id = " + "9" * 4301, "at character 6: expected a number of at most 640 digits, found 4301"),
        ("id in (1, -" + "9" * 641 + ")", "at most 640 digits, found 642"),
        ("id = '" + "9" * 4301 + "'", "at most 640 digits, found 4301"),
        ("id = '1e9999999999999999999'", "expected a number, found 1e9999999999999999999"),
        ("s = '\ud800'", "surrogates not allowed"),
        ("s like '%\ud800'", "surrogates not allowed"),
        ("s not like '_\ud800_'", "surrogates not allowed"),
        ("id = 1; delete", "the end, found delete"),
        ("", "found the end"),
        ("(" * 100_000, "too deeply"),
        ("not " * 100_000 + "id = 1", "too deeply"),
    ],
    ids=lambda text: text[:30],
)
def test_invalid_text_is_refused_with_the_position_and_a_hint(text: str, said: str) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "s", StringType()))
    with pytest.raises(InvalidInputError, match=said) as caught:
        RowFilter.bind(text, schema)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("sign", [1, -1])
def test_integers_of_thousands_of_digits_are_beyond_all_columns_or_refused(sign: int) -> None:
    number = sign * 10**5000
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "s", StringType()), NestedField(3, "x", DoubleType())
    )
    for column in ("id", "x"):
        assert RowFilter.bind(EqualTo(column, number), schema).always_false
    with pytest.raises(InvalidInputError, match="more than 640 digits"):
        RowFilter.bind(EqualTo("s", number), schema)


def test_a_name_is_refused_if_two_columns_differ_from_it_only_by_case(racing: RacingCatalog) -> None:
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
        with pytest.raises(InvalidInputError, match="ambiguous if case is ignored; the table has a, A"):
            call()
    assert table.refresh().metadata_location == before
    assert iceberg.scan(table, "ID = 0", ["Id"], case_sensitive=False).to_arrow().to_pydict() == {"id": [0]}
    assert iceberg.scan(table, "a = 1 and A = 2").to_arrow()["id"].to_pylist() == [0]
    assert iceberg.delete(table, "A = 1").rows_deleted == 1
    assert rows_of(table)["id"].to_pylist() == [0]


def test_numbers_are_refused_for_date_and_time_columns_in_text(racing: RacingCatalog) -> None:
    kinds = pa.schema([("day", pa.date32()), ("at", pa.timestamp("us")), ("t", pa.time64("us"))])
    table = iceberg.create_table(racing, "n.t", kinds)
    for text in ("day > 2024", "at > 1.5", "t in (1, 2)", "not (at <= 5)"):
        with pytest.raises(InvalidInputError, match=r"expected a .* such as '"):
            iceberg.delete(table, text)


def test_expressions_of_pyiceberg_for_pyarrow_cannot_replace_the_evaluator() -> None:
    """If this fails, a newer PyIceberg may replace the evaluator: see the docstring of `evaluator.py`."""
    schema = Schema(NestedField(1, "n", LongType()), NestedField(2, "x", DoubleType()))
    values = pa.table({"n": pa.array([1, None], pa.int64()), "x": [-0.0, 1.0]})
    for text, ours, theirs in (
        ("n not in (1, 5) or x = 7", [False, False], [False, True]),
        ("x in (0.0, 5)", [True, False], [False, False]),
    ):
        bound = RowFilter.bind(text, schema)
        columns = {1: values["n"].combine_chunks(), 2: values["x"].combine_chunks()}
        assert bound.mask(columns, 2).tolist() == ours
        expression = expression_to_pyarrow(bind(schema, bound.expression, case_sensitive=True))
        found = ds.dataset(values).scanner(columns={"match": expression}).to_table()
        assert found["match"].to_pylist() == theirs
