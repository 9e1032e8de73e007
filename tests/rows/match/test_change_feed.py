"""Upserts of some columns, and of change feeds, compared with a dictionary; PyIceberg and DuckDB read the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, LongType, NestedField, StringType

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError, NotFoundError
from tests.iceberg.dml.example_rows import SCHEMA, START, made, of, row
from tests.kit.rows import by_pyiceberg
from tests.kit.tables import files_of
from tests.rows.v3_tables import ONE, VARIANT, rewritten

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

    from tests.kit.faults import RacingCatalog

FEED = pa.schema([*SCHEMA, ("gone", pa.bool_()), ("at", pa.int64())])


UPDATE_B: dict[str, Any] = {"update_columns": ["b"], "when_not_matched_insert_all": False}
ONLY_DELETE: dict[str, Any] = {
    "delete_column": "gone",
    "when_matched_update_all": False,
    "when_not_matched_insert_all": False,
}


def feed(*changes: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([{"gone": False, "at": 0, **change} for change in changes], FEED)


def test_every_row_of_a_key_gets_the_columns(racing: RacingCatalog) -> None:
    schema = pa.schema([("k", pa.int64()), ("a", pa.string()), ("b", pa.string())])
    table = iceberg.create_table(racing, "n.t", schema)
    iceberg.append(table, pa.table({"k": [1, 1, 2, None], "a": list("wxyz"), "b": list("wxyz")}, schema))
    iceberg.append(table, pa.table({"k": [1, 3], "a": list("pq"), "b": list("pq")}, schema))
    given = pa.table({"k": [1, 3, 9], "b": ["new", "q", "none"], "gone": [False, False, True]})
    done = iceberg.upsert(table, given, "k", **UPDATE_B, delete_column="gone")
    assert (done.rows_updated, done.rows_deleted, done.rows_unchanged, done.rows_inserted) == (1, 3, 1, 0)
    found = iceberg.scan(table).to_arrow().sort_by("a").to_pylist()
    assert [tuple(one.values()) for one in found] == [
        (1, "p", "new"),
        (3, "q", "q"),
        (1, "w", "new"),
        (1, "x", "new"),
        (2, "y", "y"),
        (None, "z", "z"),
    ]
    gone = pa.table(
        {"k": [1, 3], "b": [None, "z"], "gone": [True, False]},
        schema=pa.schema([("k", pa.int64()), ("b", pa.string()), ("gone", pa.bool_())]),
    )
    done = iceberg.upsert(table, gone, "k", **UPDATE_B, delete_column="gone")
    assert (done.rows_updated, done.keys_deleted, done.rows_deleted) == (1, 1, 4)
    assert sorted(map(str, iceberg.scan(table).to_arrow()["b"].to_pylist())) == ["y", "z", "z"]


def test_columns_of_the_feed_that_the_table_has_are_written(racing: RacingCatalog) -> None:
    schema = pa.schema([("k", pa.int64()), ("at", pa.timestamp("us")), ("gone", pa.bool_())])
    table = iceberg.create_table(racing, "n.t", schema)
    given = pa.table({"k": [1, 1, 2], "at": [5, 9, 1], "gone": [True, False, True]}, schema)
    done = iceberg.upsert(table, given, "k", delete_column="gone", order_column="at")
    assert (done.rows_inserted, done.rows_superseded) == (1, 1)
    assert iceberg.scan(table).to_arrow().to_pylist() == [given.to_pylist()[1]]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["b", "a", "c"]),
        pa.array(["b", "a", "c"]).dictionary_encode(),
        pa.array([2, 1, 3], pa.decimal128(5, 2)),
        pa.array([2.5, -1.0, 3.0]),
        pa.array([2, 1, 3], pa.timestamp("ns", "UTC")),
        pa.array([b"b", b"a", b"c"], pa.binary_view()),
        pa.array(["b", "a", "c"], pa.string_view()),
    ],
    ids=lambda values: str(values.type),
)
def test_the_order_may_have_any_type_with_an_order(racing: RacingCatalog, values: pa.Array) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("k", pa.int64()), ("n", pa.int64())]))
    given = pa.table({"k": [1, 1, 1], "n": [1, 2, 3], "order": values})
    iceberg.upsert(table, given, "k", order_column="order")
    assert iceberg.scan(table).to_arrow().to_pylist() == [{"k": 1, "n": 3}]


REQUIRED = Schema(
    NestedField(1, "k", LongType(), required=True),
    NestedField(2, "s", StringType(), required=True),
    NestedField(3, "u", LongType()),
    NestedField(4, "ok", BooleanType()),
    identifier_field_ids=[1],
)


def three_rows(catalog: RacingCatalog) -> Table:
    table = iceberg.create_table(catalog, "n.t", REQUIRED)
    iceberg.append(table, pa.table({"k": range(3), "s": list("abc"), "u": range(3), "ok": [True] * 3}))
    return table


def test_what_does_not_fit_is_refused_and_changes_nothing(racing: RacingCatalog) -> None:
    table = three_rows(racing)
    location, files = table.metadata_location, files_of(table)

    def given(**columns: list[Any]) -> pa.Table:
        return pa.table({"k": [1, 1], "s": ["x", "y"], "u": [1, 2], "ok": [True, False]} | columns)

    def keys(**columns: Any) -> pa.Table:
        return given(k=[0, 1], **columns)

    alike = given(s=["x", "x"], u=[1, 1], ok=[None, None], o=[5, 5], d=[True, False])
    order, gone, mixed = {"order_column": "o"}, {"delete_column": "d"}, {"d": [False, True]}
    no_insert, no_update = {"when_not_matched_insert_all": False}, {"when_matched_update_all": False}
    cases: dict[str, list[tuple[pa.Table, dict[str, Any]]]] = {
        "two rows with one key": [(given(), {}), (given(d=[True, True]), gone)],
        "several rows of one key": [(given(o=[5, 5]), order), (alike, order | gone)],
        "expected no null, found 1": [(given(o=[5, None]), order), (keys(d=[True, None]), gone)],
        "found NaN": [(given(o=[5.0, float("nan")]), order)],
        "with an order, found struct": [(given(o=[{"a": 1}] * 2), order)],
        "no column o in data": [(given(), order)],
        "no column d in data": [(given(), gone)],
        "expected booleans, found int64": [(keys(d=[0, 1]), gone), (keys(d=[0, None]), gone)],
        "the table has no column d": [(keys(d=[True, True]), {})],
        "s is required": [
            (keys(s=[None, "x"]), {}),
            (keys(s=[None, "x"]), {"update_columns": ["s"]}),
            (keys(s=[None, "x"], **mixed), gone),
        ],
        "u.: expected int64": [
            (keys(u=["a", "b"]), {"update_columns": ["u"]}),
            (keys(u=["a", "b"], **mixed), gone),
        ],
        "key column or an identifier": [
            (keys(), {"update_columns": ["k"]}),
            (keys(), {"update_columns": ["k"], "join_cols": "u"}),
        ],
        "expected distinct columns": [(keys(), {"update_columns": ["u", "u"]})],
        "no column v; the table has": [(keys(), {"update_columns": ["v"]})],
        "expected when_matched_update_all=True": [(keys(), {"update_columns": ["u"]} | no_update)],
        "no column s": [(keys().select(["k", "u"]), {"update_columns": ["u"]})],
        "no column u; expected the columns k, u": [
            (keys().select(["k", "s"]), {"update_columns": ["u"]} | no_insert)
        ],
        "at least one": [(keys(), no_update | no_insert)],
        "another column": [(keys(d=[True] * 2), gone | {"order_column": "d"})],
        "null in key": [
            (keys(u=[None, 1]), {"join_cols": "u"}),
            (keys(u=[None, 1], d=[True, False]), {"join_cols": "u"} | gone),
        ],
    }
    for text, calls in cases.items():
        error = (
            NotFoundError
            if text.startswith(("no column o", "no column d", "no column v"))
            else InvalidInputError
        )
        for data, options in calls:
            with pytest.raises(error, match=text):
                iceberg.upsert(table, data, **options)
    assert (table.metadata_location, files_of(table)) == (location, files)


def test_columns_of_one_name_are_refused_and_no_rows_change_nothing(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", REQUIRED)
    options = {"delete_column": "gone", "order_column": "at"}
    for name in ("k", "gone", "at", "s"):
        names = ["k", "s", "u", "ok", "gone", "at", name]
        data = pa.table([[1], ["a"], [1], [True], [True], [1], [1]], names=names)
        with pytest.raises(InvalidInputError, match=f"column {name}: expected once, found 2"):
            iceberg.upsert(table, data, **options)
    empty = pa.table({name: [] for name in ("k", "s", "u", "ok", "gone", "at")})
    assert iceberg.upsert(table, empty, **options).commit.id is None
    assert iceberg.upsert(table, empty, update_columns=["u"], **options).commit.id is None


def test_a_deleted_row_needs_only_its_key(racing: RacingCatalog) -> None:
    table = three_rows(racing)
    data = pa.table(
        {"k": [0, 1, 5], "s": [None, "x", None], "u": [None] * 3, "ok": [None] * 3, "d": [True, False, True]}
    )
    done = iceberg.upsert(table, data, delete_column="d")
    assert (done.keys_deleted, done.rows_updated, done.rows_inserted) == (1, 1, 0)
    only = pa.table({"k": [1], "d": [True]})
    done = iceberg.upsert(table, data.slice(2), **{**ONLY_DELETE, "delete_column": "d"})
    assert done.commit.id is None
    assert sorted(iceberg.scan(table).to_arrow()["k"].to_pylist()) == [1, 2]
    done = iceberg.upsert(table, only, **{**ONLY_DELETE, "delete_column": "d"})
    assert (done.keys_deleted, done.rows_deleted) == (1, 1)
    assert iceberg.scan(table).to_arrow()["k"].to_pylist() == [2]


TOMBSTONES = pa.table({"k": [1, 7, 2], "d": [True] * 3})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"when_not_matched_insert_all": False},
        {"when_matched_update_all": False},
        {"update_columns": ["u"]},
        {"update_columns": ["u"], "when_not_matched_insert_all": False},
        {"order_column": "k"},
        {"skip_unchanged": False},
    ],
    ids=str,
)
def test_a_feed_of_deletes_needs_only_keys(racing: RacingCatalog, options: dict[str, Any]) -> None:
    table = three_rows(racing)
    files = files_of(table)
    mixed = TOMBSTONES.set_column(1, "d", pa.array([True, False, True]))
    with pytest.raises(InvalidInputError, match="no column"):
        iceberg.upsert(table, mixed, delete_column="d", **options)
    with pytest.raises(InvalidInputError, match="the table has no column v"):
        iceberg.upsert(table, TOMBSTONES.append_column("v", pa.array([1] * 3)), delete_column="d", **options)
    assert files_of(table) == files
    done = iceberg.upsert(table, TOMBSTONES, delete_column="d", **options)
    assert (done.keys_deleted, done.rows_deleted, done.rows_inserted, done.rows_updated) == (2, 2, 0, 0)
    assert iceberg.scan(table).to_arrow()["k"].to_pylist() == [0]


@pytest.mark.parametrize("version", [2, 3])
def test_equal_changes_of_a_key_are_one(shared_catalog: SqlCatalog, namespace: str, version: int) -> None:
    table = made(shared_catalog, namespace, version=version)
    nan = float("nan")
    new, late = row(3, "new", nan), {**row(4, "late"), "tags": ["a", None]}
    given = feed(
        {**new, "at": 5},
        {**late, "at": 2},
        {**new, "at": 5},
        {**row(3, "old"), "at": 4},
        {**row(3, "older"), "at": 4},
        {**late, "at": 2},
        {**late, "at": 2},
        {"id": 5, "gone": True, "at": 1},
        {**row(5, "not read"), "gone": True, "at": 1},
    )
    done = iceberg.upsert(table, given, "id", delete_column="gone", order_column="at")
    counts = (done.rows_updated, done.rows_inserted, done.keys_deleted, done.rows_superseded)
    assert counts == (2, 0, 1, 6)
    assert [found["g"] for found in by_pyiceberg(table)[3:6]] == ["new", "late", START[6]["g"]]
    for other in ({"g": "b"}, {"x": 0.5}, {"tags": ["a"]}, {"s": {"a": 0, "b": None}}, {"gone": True}):
        changes = feed({**late, "at": 2}, {**late, "at": 2}, {**late, **other, "at": 2}, {**late, "at": 2})
        with pytest.raises(InvalidInputError, match="several rows of one key have its last value"):
            iceberg.upsert(table, changes, "id", delete_column="gone", order_column="at")
    twice = of([new, new])
    with pytest.raises(InvalidInputError, match="two rows with one key"):
        iceberg.upsert(table, twice, "id")


def test_columns_of_version_3_types_are_carried_through(racing: RacingCatalog) -> None:
    def change(document: dict[str, Any]) -> None:
        kinds = {"id": "long", "n": "long", "v": "variant", "u": "unknown", "g": "geometry"}
        document["schemas"][0]["fields"] = [
            {"id": at, "name": name, "required": False, "type": kind}
            for at, (name, kind) in enumerate(kinds.items(), start=1)
        ]

    schema = pa.schema([("id", pa.int64()), ("n", pa.int64()), *((c, pa.binary()) for c in "vug")])
    rewritten(iceberg.create_table(racing, "n.t", schema).metadata_location, change)
    table = iceberg.load_table(racing, "n.t")

    def rows(*ids: int, n: int = 0) -> pa.Table:
        return pa.table(
            {
                "id": ids,
                "n": [n] * len(ids),
                "v": pa.array([{**ONE, "value": b"\x0c" + bytes([id])} for id in ids], VARIANT),
                "u": pa.nulls(len(ids)),
                "g": [bytes([id]) for id in ids],
            }
        )

    iceberg.append(table, rows(*range(10)))
    expected = {row["id"]: row for row in rows(*range(10)).to_pylist()}
    set_n = pa.table({"id": [1, 2, 3], "n": [7, 7, 7], "gone": [False, False, True]})
    iceberg.upsert(
        table, set_n, "id", update_columns=["n"], when_not_matched_insert_all=False, delete_column="gone"
    )
    del expected[3]
    for id in (1, 2):
        expected[id] |= {"n": 7}
    feed = rows(2, 4, 2, 20, n=9).append_column("at", pa.array([1, 2, 3, 4]))
    iceberg.upsert(table, feed, "id", order_column="at")
    iceberg.overwrite(table, rows(30), "id = 5")
    del expected[5]
    with iceberg.transaction(table) as tx:
        tx.append(rows(40, 41))
        tx.update("id = 40 or id = 1", {"n": 11})
        tx.upsert(rows(41, 6, n=12), "id")
    for n, ids in {9: (2, 4, 20), 0: (30,), 11: (40,), 12: (41, 6)}.items():
        expected |= {row["id"]: row for row in rows(*ids, n=n).to_pylist()}
    expected[1] |= {"n": 11}
    assert {row["id"]: row for row in iceberg.scan(table).to_arrow().to_pylist()} == expected
    assert iceberg.verify(table) == []
