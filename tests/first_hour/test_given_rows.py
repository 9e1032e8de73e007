"""What a new user passes as rows, keys, positions and schemas works, or the error says what to pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import puffin_fast as pf
from puffin_fast.iceberg.dml import tables
from tests.first_hour.given import MADE, ROWS
from tests.kit.rows import by_us


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    """The empty table ``shop.t`` with the columns of `ROWS`."""
    return pf.iceberg.create_table(catalog, "shop.t", ROWS.schema)


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_every_kind_of_rows_is_appended(table: Table, make: Callable[[], Any]) -> None:
    pf.iceberg.append(table, make())
    assert by_us(table) == ROWS.to_pylist()


def test_rows_of_duckdb_are_appended(table: Table) -> None:
    duckdb = pytest.importorskip("duckdb")
    pf.iceberg.append(table, duckdb.sql("SELECT 1::BIGINT AS id, 'a' AS word"))
    assert by_us(table) == [{"id": 1, "word": "a"}]


def test_keys_that_only_later_dicts_have_are_columns(table: Table) -> None:
    pf.iceberg.append(table, [{"id": 1}, {"id": 2, "word": "b"}])
    assert by_us(table) == [{"id": 1, "word": None}, {"id": 2, "word": "b"}]


def test_a_list_without_rows_appends_nothing(table: Table) -> None:
    assert pf.iceberg.append(table, []).commit.id is None


def test_a_named_index_of_pandas_is_a_column_in_every_verb(table: Table) -> None:
    frame = ROWS.to_pandas().set_index("id")
    pf.iceberg.append(table, frame)
    changed = frame.assign(word="z").iloc[:1]
    assert pf.iceberg.upsert(table, changed, "id").rows_updated == 1
    with pf.iceberg.transaction(table) as tx:
        tx.delete_keys(frame.iloc[1:], "id")
        tx.append(frame.iloc[2:])
    assert by_us(table) == [{"id": 1, "word": "z"}, {"id": 3, "word": "c"}]


def test_several_levels_of_an_index(catalog: SqlCatalog) -> None:
    frame = pd.DataFrame({"n": [5, 6]}, index=pd.MultiIndex.from_tuples([(1, 2), (3, 4)], names=["id", None]))
    table = pf.iceberg.create_table(catalog, "shop.levels", frame)
    pf.iceberg.append(table, frame)
    assert by_us(table) == [{"id": 1, "n": 5}, {"id": 3, "n": 6}]


WRONG: dict[str, tuple[Any, str]] = {
    "a path": ("orders.parquet", r"found str; pass pyarrow.dataset.dataset\(path\)"),
    "numbers": ([1, 2], "found list"),
    "a column": (pd.Series([1, 2]), "found one column, a Series of pandas; pass"),
    "a number": (5, "found int"),
    "one text as a column": ({"id": [1], "word": "abc"}, "found dict: word is one text"),
}


@pytest.mark.parametrize(("given", "said"), WRONG.values(), ids=WRONG)
def test_other_objects_are_refused_with_what_to_pass(table: Table, given: Any, said: str) -> None:
    with pytest.raises(pf.InvalidInputError, match=rf"^data: expected Arrow rows .*{said}"):
        pf.iceberg.append(table, given)


def test_a_frame_of_spark_is_refused_with_what_to_write(table: Table) -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})()
    with pytest.raises(pf.InvalidInputError, match=r"found DataFrame; pass \.toArrow\(\).*writeTo"):
        pf.iceberg.append(table, frame)


@pytest.mark.parametrize("keys", [
    [1, 2], (1, 2), {1, 2}, range(1, 3), pa.array([1, 2]), pa.chunked_array([[1], [2]]), pd.Series([1, 2]),
    pd.Index([1, 2]), pl.Series([1, 2]), [{"id": 1}, {"id": 2}], {"id": [1, 2]}, pd.Series([1, 2]).to_numpy(),
], ids=lambda keys: type(keys).__name__)  # fmt: skip
def test_keys_of_one_column_need_no_table(table: Table, keys: Any) -> None:
    pf.iceberg.append(table, ROWS)
    assert pf.iceberg.delete_keys(table, keys, "id", dry_run=True).rows_deleted == 2
    with pf.iceberg.transaction(table) as tx:
        tx.delete_keys(keys, "id")
    assert by_us(table) == ROWS.slice(2).to_pylist()


def test_keys_of_one_column_need_its_name(table: Table) -> None:
    pf.iceberg.append(table, ROWS)
    with pytest.raises(
        pf.InvalidInputError, match="keys: expected the name of one column for a list, found 2"
    ):
        pf.iceberg.delete_keys(table, [1, 2], ["id", "word"])


def test_positions_by_path(table: Table) -> None:
    pf.iceberg.append(table, ROWS)
    path = pf.iceberg.scan(table, selected_fields=["_file"]).to_arrow()["_file"][0].as_py()
    assert pf.iceberg.delete_positions(table, {path: [0, 1]}, dry_run=True).rows_deleted == 2
    given = {path: pf.PositionBitmap.from_positions([0])}
    assert pf.iceberg.delete_positions(table, given).rows_deleted == 1
    with pf.iceberg.transaction(table) as tx:
        tx.delete_positions({path: range(1, 2)})
    assert by_us(table) == ROWS.slice(2).to_pylist()
    assert pf.iceberg.delete_positions(table, {}).rows_deleted == 0
    with pytest.raises(pf.InvalidInputError, match="positions"):
        pf.iceberg.delete_positions(table, {path: ["one"]})


def test_a_table_gets_the_columns_of_a_frame(catalog: SqlCatalog) -> None:
    frame = ROWS.to_pandas()
    given = [
        ROWS,
        frame,
        frame.set_index("id"),
        pl.DataFrame(frame),
        pl.DataFrame(frame).lazy(),
        ROWS.to_pylist(),
    ]
    given += [ds.dataset(ROWS), {"id": pa.int64(), "word": pa.string()}]
    for at, rows in enumerate(given):
        table = pf.iceberg.create_table(catalog, f"shop.t{at}", rows)
        assert [(field.name, str(field.field_type)) for field in table.schema().fields] == [
            ("id", "long"),
            ("word", "string"),
        ]
        assert table.current_snapshot() is None
    named = pf.iceberg.create_table(catalog, "shop.named", {"id": "long", "word": "string"})
    assert named.schema().as_struct() == table.schema().as_struct()
    again = pf.iceberg.create_table(catalog, "shop.again", table)
    assert again.schema().as_struct() == table.schema().as_struct()
    with pytest.raises(
        pf.InvalidInputError, match=r"schema: expected a schema of PyIceberg or Arrow, or .*found int"
    ):
        pf.iceberg.create_table(catalog, "shop.wrong", 5)


def test_errors_name_all_columns_that_do_not_fit(catalog: SqlCatalog, tmp_path: Path) -> None:
    schema = {"id": "long", "amount": "int", "day": "date", "note": "string"}
    table = pf.iceberg.create_table(catalog, "shop.wide", schema)
    pf.delta.create_table(tmp_path / "wide", schema)
    keys = pa.table({"id": ["x"], "amount": ["y"]})
    with pytest.raises(
        pf.InvalidInputError, match=r"keys: column id is string.*\nkeys: column amount is string"
    ):
        pf.iceberg.delete_keys(table, keys, join_cols=["id", "amount"])
    with pytest.raises(pf.NotFoundError, match="update_columns: no column zz, yy; the table has id, amount"):
        pf.iceberg.upsert(table, keys, "id", update_columns=["zz", "yy"])
    of_types = {"id": ["x"], "amount": ["y"], "day": [1.5], "note": ["ok"]}
    of_values = {"id": [1], "amount": [1 << 40], "day": [None], "note": ["ok"]}
    lines = [
        "data: 3 columns do not fit the table",
        r"  id      type of field 1 \(id\): expected int64, found string",
        r"  amount  type of field 2 \(amount\): expected int32, found string",
        r"  day     type of field 3 \(day\): expected date32\[day\], found double",
    ]
    for call in (
        lambda rows: pf.iceberg.append(table, rows),
        lambda rows: pf.iceberg.upsert(table, rows, "id"),
        lambda rows: pf.iceberg.overwrite(table, rows),
        lambda rows: pf.delta.append(tmp_path / "wide", rows),
    ):
        with pytest.raises(pf.InvalidInputError, match="\n".join(lines)):
            call(pa.table(of_types))
        with pytest.raises(pf.InvalidInputError, match=r"^data: column amount: an integer is not in range"):
            call(pa.table(of_values))
        both = pa.table(of_values | {"id": pa.array([1 << 63], pa.uint64())})
        with pytest.raises(
            pf.InvalidInputError, match=r"^data: 2 columns do not fit the table\n  id  .*\n  amount "
        ):
            call(both)


def test_errors_never_print_rows(table: Table) -> None:
    """Arguments in the wrong place are named by their type."""
    secret = pd.DataFrame({"id": [1], "word": ["secret"]})
    pf.iceberg.append(table, secret)
    calls: list[Callable[[Any], Any]] = [
        lambda rows: pf.iceberg.append(rows, table),
        lambda rows: pf.iceberg.delete(table, rows),
        lambda rows: pf.iceberg.scan(table, rows),
        lambda rows: pf.iceberg.scan(table, selected_fields=[rows]),
        lambda rows: pf.iceberg.scan(table, limit=rows),
        lambda rows: pf.iceberg.scan(table, threads=rows),
        lambda rows: pf.iceberg.scan(table, branch=rows),
        lambda rows: pf.iceberg.scan(table, as_of=rows),
        lambda rows: pf.iceberg.scan(table, case_sensitive=rows),
        lambda rows: pf.iceberg.upsert(table, rows, [rows]),
        lambda rows: pf.iceberg.update(table, "id = 1", rows),
        lambda rows: pf.iceberg.update(table, "id = 1", {"word": rows}),
        lambda rows: pf.iceberg.append(table, rows, job_id=rows),
        lambda rows: pf.iceberg.append(table, rows, snapshot_properties=rows),
        lambda rows: pf.iceberg.create_table(rows, "shop.x", rows),
        lambda rows: pf.iceberg.create_table(table.catalog, rows, rows),
        lambda rows: pf.iceberg.create_table(table.catalog, "shop.x", rows, partition_spec=[rows]),
        lambda rows: pf.iceberg.create_table(table.catalog, "shop.x", rows, types=rows),
        lambda rows: pf.iceberg.load_table(table.catalog, rows),
        lambda rows: pf.iceberg.delete(table, "id = 1", on_conflict=rows),
        lambda rows: pf.iceberg.upsert(table, rows, "id", duplicate_keys=rows),
        lambda rows: pf.iceberg.maintain(table, rows),
        lambda rows: pf.delta.scan(rows),
    ]
    for rows in (secret, pa.table(secret), pl.DataFrame(secret), secret.to_dict("records")):
        for call in calls:
            with pytest.raises(pf.PuffinFastError) as raised:
                call(rows)
            assert "secret" not in str(raised.value)


@pytest.mark.parametrize("name", sorted(pf.errors.__all__))
def test_errors_are_at_the_top_of_the_package(name: str) -> None:
    assert getattr(pf, name) is getattr(pf.errors, name)
    assert name in pf.__all__


def test_only_public_names_are_listed() -> None:
    for module in (pf, pf.iceberg, pf.delta, pf.spark):
        listed = {name for name in dir(module) if not name.startswith("__")}
        assert listed == set(module.__all__)
    assert "annotations" not in dir(pf)
    assert tables.__name__ not in dir(pf.iceberg)
