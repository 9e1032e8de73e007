"""What a user of SQL writes as a filter works, or the error names the form that works."""

from __future__ import annotations

import datetime as dt
import pickle

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import puffin_fast as pf
from tests.kit.cases import each
from tests.kit.tables import iceberg_table

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": ["Anna", "anne\\x", None],
        "date": [dt.date(2026, 1, day) for day in (1, 2, 3)],
        "at": [dt.datetime(2026, 1, day, 12) for day in (1, 2, 3)],
        "t": pa.array([dt.time(hour) for hour in (1, 2, 3)], pa.time64("us")),
    }
)


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    """The table ``shop.t`` with `ROWS`."""
    return iceberg_table(catalog, ROWS, name="shop.t")


WORKS = {
    "date = DATE '2026-01-02'": [2],
    "DATE '2026-01-02' <= date": [2, 3],
    "date in (date '2026-01-01', '2026-01-03')": [1, 3],
    "at >= TIMESTAMP '2026-01-02 12:00:00' and at < timestamp '2026-01-03'": [2],
    "at between TIMESTAMP '2026-01-02' and TIMESTAMP '2026-01-04 00:00:00.5'": [2, 3],
    "t < TIME '02:00'": [1],
    "name ILIKE 'AN%'": [1, 2],
    "name ilike 'anna'": [1],
    "name not ilike 'ANNA'": [2],
    r"name ilike '%\\X'": [2],
    "not (name ilike '%X')": [1],
    "name like 'AN%'": [],
    "id = 1;": [1],
    "id = 1 ; ": [1],
    "date is not null": [1, 2, 3],
}


@each("row_filter", WORKS)
def test_forms_of_sql_work(table: Table, row_filter: str) -> None:
    expected = WORKS[row_filter]
    assert pf.iceberg.scan(table, row_filter).to_arrow()["id"].to_pylist() == expected
    assert pf.iceberg.scan(table, f"not not ({row_filter.rstrip('; ')})").count() == len(expected)
    assert pf.iceberg.delete(table, row_filter, dry_run=True).rows_deleted == len(expected)


@each("name, near", [("Id", "id"), ("nmae", "name"), ("t.id", "id"), ("x", "")])
def test_an_unknown_column_is_refused_with_a_near_name(table: Table, name: str, near: str) -> None:
    with pytest.raises(pf.NotFoundError) as caught:
        pf.iceberg.scan(table, f"{name} = 5")
    hint = f"; did you mean {near}" * bool(near)
    assert (
        str(caught.value)
        == f"filter '{name} = 5': no column {name}{hint}; the table has id, name, date, at, t"
    )


REFUSED = {
    "contains(name, 'a')": "such as name LIKE '%a%'$",
    "name.startswith('a')": "such as name LIKE 'a%'$",
    "isnan(id)": "such as id IS NAN$",
    "cast(id as int) = 1": "such as id = 5: a literal is converted",
    "id::int = 1": "a filter has no casts$",
    "id = 1 | id = 2": "; write OR$",
    "id = @x": "a value is written into the text",
    "name = 'a": "the text has no ' at its end$",
    'name = "a"': "text needs 'single quotes'$",
    '"id = 1': 'the name has no " at its end$',
    "1 < id < 3": "a comparison has one operator: 1 < id AND id < 5$",
    "name and id = 1": "a boolean column is compared: name = TRUE$",
    " ": "'true' is for all rows$",
    "date = '2026-13-01'": "'2024-01-15', found '2026-13-01'$",
    "mod(id, 2) = 0": "id % 2 = 0",
    "id * 2 > 6": r'pc\.field\("id"\) \* 2 > 6',
    "lower(name) = 'anna'": r'pc\.utf8_lower\(pc\.field\("name"\)\).*ILIKE',
    "name || 'x' = 'y'": "functions, arithmetic and other columns need a PyArrow expression",
    "year(date) = 2026": r'pc\.year\(pc\.field\("date"\)\) == 2024',
    "id = 1; drop table t": "expected AND, OR or the end, found drop|expected .* the end, found drop",
    "date = DATE '1/2/2026'": r"DATE: expected text such as '2024-01-15', found '1/2/2026'",
    "date = DATE 5": "needs|expected a literal",
    "id = None": "write IS NULL",
    "id is None": "write IS NULL",
    "name = n5": "text needs quotes: 'n5'",
    "SELECT * FROM t": "write only the condition",
    "WHERE id = 5": "write only the condition",
    "delete from t where id = 5": "write only the condition",
    "`id` = 5": 'a column needs no quotes, or "double quotes"',
    "[id] = 5": 'a column needs no quotes, or "double quotes"',
    "id IN [1,2]": r"IN \(1, 2\)",
    "id = 5 && id = 6": "write AND",
    "id = 5 || id = 6": "write OR",
    "!(id = 5)": "write NOT",
    "name = \u2018n5\u2019": "straight 'single quotes'",
    "date > 2024-01-01": "a date needs quotes",
    "id = :x": "a value is written into the text",
    "id = ?": "a value is written into the text",
    "id = 5 -- c": "no comments",
    "id = 0x10": "decimal number",
    "id = 1_000": "digits without _",
    "name RLIKE 'n'": "LIKE 'a%'",
    "name ~ 'n'": "LIKE 'a%'",
    "at > now()": "the time is written as text",
    "at > current_timestamp": "the time is written as text",
    "at > now() - interval 7 days": r"timedelta\(days=7\)",
    "at > '2026-01-01' - interval 7 days": r"timedelta\(days=7\)",
    "at > date_sub(current_date(), 7)": r"timedelta\(days=7\)",
    "at > interval 7 days": r"timedelta\(days=7\)",
}


@each("row_filter", REFUSED)
def test_other_forms_are_refused_with_one_that_works(table: Table, row_filter: str) -> None:
    with pytest.raises(pf.InvalidInputError, match=REFUSED[row_filter]):
        pf.iceberg.scan(table, row_filter)


def test_the_named_forms_work(table: Table) -> None:
    for form, expected in (
        (pc.remainder(pc.field("id"), 2) == 0, [2]),
        (pc.utf8_lower(pc.field("name")) == "anna", [1]),
        (pc.year(pc.field("date")) == 2026, [1, 2, 3]),
        (pc.field("id") * 2 > 4, [3]),
        (pc.utf8_length(pc.field("name")) == 4, [1]),
        (pc.utf8_trim_whitespace(pc.field("name")) == "Anna", [1]),
    ):
        assert pf.iceberg.scan(table, form).to_arrow()["id"].to_pylist() == expected


def test_other_keywords_name_the_right_one(table: Table) -> None:
    for call, right in (
        (lambda: pf.iceberg.delete(table, where="id = 1"), "row_filter"),
        (lambda: pf.iceberg.delete(table, predicate="id = 1"), "row_filter"),
        (lambda: pf.iceberg.delete(table, delete_filter="id = 1"), "row_filter"),
        (lambda: pf.iceberg.upsert(table, ROWS, on="id"), "join_cols"),
        (lambda: pf.iceberg.append(table, df=ROWS), "data"),
        (lambda: pf.iceberg.scan(table, columns=["id"]), "selected_fields"),
        (lambda: pf.iceberg.scan(table, row_fitler="id = 1"), "row_filter"),
        (lambda: pf.iceberg.update(table, "id = 1", set={"id": 2}), "values"),
        (lambda: pf.delta.delete("d", where="id = 1"), "row_filter"),
        (lambda: pf.delta.upsert("d", ROWS, on="id"), "join_cols"),
        (lambda: pf.spark.delete(None, table, where="id = 1"), "row_filter"),
    ):
        with pytest.raises(TypeError, match=f"got an unexpected keyword argument .*; write {right}="):
            call()
    for unlike in ({"min_snapshotz": 3}, {"snapshot_id": 5}, {"retain": 3}, {"older": 5}):
        with pytest.raises(TypeError, match=f"{next(iter(unlike))}'; it has table, older_than, retain_last"):
            pf.iceberg.expire_snapshots(table, **unlike)  # type: ignore[call-arg]
    for call, hint in (
        (lambda: pf.iceberg.expire_snapshots(table, min_snapshots=3), "write retain_last="),
        (lambda: pf.iceberg.expire_snapshots(table, snapshots_ids=[5]), "write snapshot_ids="),
        (lambda: pf.iceberg.expire_snapshots(table, keep=3), "write retain_last="),
        (lambda: pf.delta.scan("d", version_as_of=3), "write snapshot_id="),
        (lambda: pf.delta.scan("d", timestamp_as_of="2024-01-01"), "write as_of="),
        (lambda: pf.iceberg.upsert(table, ROWS, left_on="id"), "write join_cols="),
        (lambda: pf.iceberg.rewrite_data_files(table, zorder=["id"]), "sort_by= sorts the rows"),
        (lambda: pf.iceberg.scan(table, selectedFields=["id"]), "write selected_fields="),
        (
            lambda: pf.iceberg.changes(table, from_snapshot_id_inclusive=5),
            "it has table, from_snapshot_id_exc",
        ),
        (lambda: pf.delta.create_table("d", ROWS, partition_by=["id"]), "write partition_columns="),
    ):
        with pytest.raises(TypeError, match=hint):
            call()
    with pf.iceberg.transaction(table) as tx, pytest.raises(TypeError, match="write row_filter="):
        tx.delete(where="id = 1")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'nonsense'; it has table, row_filter, "):
        pf.iceberg.delete(table, "id = 1", nonsense=1)  # type: ignore[call-arg]
    assert pickle.loads(pickle.dumps(pf.iceberg.delete)) is pf.iceberg.delete


def test_an_upsert_of_some_columns_names_the_argument_for_it(table: Table) -> None:
    with pytest.raises(pf.InvalidInputError, match=r"no column name.*update_columns sets some"):
        pf.iceberg.upsert(table, ROWS.select(["id", "date"]), "id")
