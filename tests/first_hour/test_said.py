"""Small things that a new user meets: texts of objects and errors, names that modules list."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, EqualTo, In, IsNull, Not, Or, StartsWith
from pyiceberg.table import Table

import puffin_fast as pf
from tests.kit.tables import iceberg_table

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    """The table ``shop.t`` with `ROWS`."""
    return iceberg_table(catalog, ROWS, name="shop.t")


@pytest.mark.parametrize("module", [pf.arrow, pf.dv, pf.errors, pf.lance, pf.paimon])
def test_modules_list_their_public_names(module: ModuleType) -> None:
    assert dir(module) == sorted(module.__all__)


def test_select_takes_a_list(table: Table) -> None:
    scan = pf.iceberg.scan(table)
    assert scan.select(["name", "id"]).schema == scan.select("name", "id").schema
    assert scan.select(["id"]).to_arrow().column_names == ["id"]


def test_texts_of_changes_have_the_filters_that_were_given(table: Table) -> None:
    assert "row_filter" not in repr(pf.iceberg.changes(table))
    assert "row_filter=id = 1" in repr(pf.iceberg.changes(table, row_filter="id = 1"))


def test_texts_have_filters_as_they_are_written(table: Table) -> None:
    row_filter = And(Or(EqualTo("id", 1), Not(IsNull("name"))), In("name", ["it's"]), StartsWith("name", "i"))
    text = "(id = 1 OR NOT (name IS NULL)) AND name = 'it''s' AND name LIKE 'i%'"
    assert f"row_filter={text}," in repr(pf.iceberg.scan(table, row_filter))
    assert pf.iceberg.scan(table, text).count() == pf.iceberg.scan(table, row_filter).count()
    with pytest.raises(pf.NotFoundError, match=r"^filter 'nmae = 1': no column nmae; did you mean name;"):
        pf.iceberg.delete(table, EqualTo("nmae", 1))
    with pytest.raises(pf.NotFoundError, match=r"^filter \(nmae < 5\): no column nmae; did you mean name;"):
        pf.iceberg.delete(table, pc.field("nmae") < 5)
    with pf.iceberg.accelerate(), pytest.raises(pf.InvalidInputError, match=r"such as pc\.utf8_lower"):
        table.delete("lower(name) = 'x'")


def test_errors_say_what_was_given_without_causes(table: Table, catalog: SqlCatalog) -> None:
    cases: list[tuple[str, Any]] = [
        ("shop.t: the table already exists", lambda: pf.iceberg.create_table(catalog, "shop.t", ROWS.schema)),
        ("data: type of field 1", lambda: pf.iceberg.append(table, {"id": ["x"]})),
        ("as_of=2030-01-01: expected a time zone", lambda: pf.iceberg.scan(table, as_of="2030-01-01")),
        ("no snapshot 1; the table has ", lambda: pf.iceberg.scan(table, snapshot_id=1)),
    ]
    for text, call in cases:
        with pytest.raises(pf.PuffinFastError) as caught:
            call()
        assert str(caught.value).startswith(text)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("given", "right"), [("start", "from_snapshot_id_exclusive"), ("query", "row_filter")]
)
def test_keywords_of_other_libraries_name_the_right_one(table: Table, given: str, right: str) -> None:
    with pytest.raises(TypeError, match=f"write {right}="):
        pf.iceberg.changes(table, **{given: 1})


def test_a_text_that_looks_like_sql_is_stored_with_a_warning(table: Table) -> None:
    for text in ("upper(name)", "name || '!'", "concat(name, id)"):
        with pytest.warns(
            UserWarning, match=r"is stored as it is, not evaluated.*pc\.field\('name'\)"
        ) as caught:
            pf.iceberg.update(table, "id = 1", {"name": text})
        assert caught[0].filename == __file__
        assert pf.iceberg.scan(table, "id = 1").to_arrow()["name"].to_pylist() == [text]
    with pytest.raises(
        pf.InvalidInputError, match=r"id: expected a value, found the text 'id \+ 1'; .*pc.field\('id'\)"
    ):
        pf.iceberg.update(table, "id = 1", {"id": "id + 1"})
    for plain in ("name", "name (old)", "id-17", "f(x)", pa.scalar("upper(name)")):
        pf.iceberg.update(table, "id = 1", {"name": plain})  # a warning would be an error
    pf.iceberg.update(table, "id = 1", {"name": pc.utf8_upper(pc.field("name"))})
    assert pf.iceberg.scan(table, "id = 1").to_arrow()["name"].to_pylist() == ["UPPER(NAME)"]
