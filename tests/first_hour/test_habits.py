"""What users of other libraries type works, or the error or warning says what to type."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform

import puffin_fast as pf
from tests.kit.tables import delta_table, iceberg_table

ROWS = pa.table(
    {"id": [1, 2, 3], "state": ["new", "new", "old"], "at": [datetime(2026, 1, day) for day in (1, 2, 3)]}
)


class Both:
    """A table of each format with the same rows."""

    def __init__(self, catalog: SqlCatalog, folder: Path) -> None:
        self.tables = {
            pf.iceberg: iceberg_table(catalog, ROWS, name="shop.t"),
            pf.delta: delta_table(folder / "delta", ROWS),
        }


@pytest.fixture
def both(catalog: SqlCatalog, tmp_path: Path) -> Both:
    return Both(catalog, tmp_path)


def test_a_text_in_quotes_warns_that_the_quotes_are_stored(both: Both) -> None:
    for module, table in both.tables.items():
        with pytest.warns(
            UserWarning, match=r"column state: the text \"'sent'\" is stored with its quotes.* write 'sent'"
        ):
            module.update(table, "id = 1", {"state": "'sent'"})
        for plain in (pa.scalar("'kept'"), "it's", "'", "", "sent'"):
            module.update(table, "id = 2", {"state": plain})
        assert module.scan(table, "id = 1").to_arrow()["state"].to_pylist() == ["'sent'"]


def test_an_upsert_says_that_deleted_rows_were_replaced(both: Both) -> None:
    for module, table in both.tables.items():
        result = module.upsert(table, [{"id": 1, "state": "sent", "at": None}], "id")
        assert "rows_updated=1, rows_deleted=1 (replaced)" in repr(result)
        assert "1 (replaced)" in result._repr_html_()
        assert result.rows_deleted == 1
        rows = [
            {"id": 1, "state": "x", "at": None, "gone": True},
            {"id": 2, "state": "x", "at": None, "gone": False},
        ]
        result = module.upsert(table, rows, "id", delete_column="gone")
        assert "rows_deleted=2 (replaced, or deleted by 1 key)" in repr(result)


@pytest.mark.parametrize("kind", [list, tuple, set])
def test_keys_of_several_columns_are_tuples(both: Both, kind: Callable[[object], object]) -> None:
    for module, table in both.tables.items():
        keys = kind([(1, "new"), (2, "old"), (3, "old")])
        assert module.delete_keys(table, keys, ["id", "state"]).rows_deleted == 2
        assert module.delete_keys(table, kind([(2,)]), ["id"], dry_run=True).rows_deleted == 1
        with pytest.raises(pf.InvalidInputError, match=r"expected tuples of 2 values.* found one of 3"):
            module.delete_keys(table, [(1, "a"), (1, "a", 2)], ["id", "state"])
        with pytest.raises(pf.InvalidInputError, match="expected values of one type"):
            module.delete_keys(table, [(1, "a"), ("x", "b")], ["id", "state"])


def test_a_table_that_exists_is_returned_on_request(both: Both, catalog: SqlCatalog) -> None:
    path = both.tables[pf.delta]
    other = {"x": "long"}
    assert pf.iceberg.create_table(catalog, "shop.t", other, if_not_exists=True).schema().find_field("id")
    assert pf.delta.create_table(path, other, if_not_exists=True).version == 1
    assert pf.iceberg.create_table(catalog, "shop.u", other, if_not_exists=True).schema().find_field("x")
    assert pf.delta.create_table(f"{path}-new", other, if_not_exists=True).version == 0
    for call in (
        lambda: pf.iceberg.create_table(catalog, "shop.t", other),
        lambda: pf.delta.create_table(path, other),
    ):
        with pytest.raises(pf.InvalidInputError, match="exists"):
            call()
    for module in (pf.iceberg, pf.delta):
        with pytest.raises(AttributeError, match="if_not_exists=True"):
            module.create_table_if_not_exists  # noqa: B018


def test_a_new_table_has_a_sort_order(catalog: SqlCatalog) -> None:
    table = pf.iceberg.create_table(catalog, "shop.s", ROWS, sort_order=["state desc", "id nulls last"])
    schema = table.schema()
    expected = [
        SortField(schema.find_field(name).field_id, IdentityTransform(), direction, NullOrder.NULLS_LAST)
        for name, direction in (("state", SortDirection.DESC), ("id", SortDirection.ASC))
    ]
    assert [*table.sort_order().fields] == expected
    again = pf.iceberg.create_table(catalog, "shop.again", schema, sort_order=SortOrder(*expected))
    assert again.sort_order().fields == table.sort_order().fields
    assert pf.iceberg.create_table(catalog, "shop.none", schema).sort_order().is_unsorted
    with pytest.raises(pf.NotFoundError, match="sort_order 'stat'"):
        pf.iceberg.create_table(catalog, "shop.x", ROWS, sort_order=["stat"])
    with pytest.raises(TypeError, match="a Delta table has no sort order"):
        pf.delta.create_table("nowhere", ROWS, sort_order=["id"])


def test_relative_times_are_computed_in_python(both: Both) -> None:
    for module, table in both.tables.items():
        assert module.scan(table, f"at > '{datetime.now() - timedelta(days=100_000)}'").count() == 3
        with pytest.raises(TypeError, match=r"to_polars\(\).lazy\(\) is a LazyFrame"):
            module.scan(table).to_polars(lazy=True)
        assert module.scan(table).to_polars().lazy().collect().height == 3


@pytest.mark.parametrize(
    ("kind", "zone", "shown"),
    [("timestamptz", UTC, "now(timezone.utc) - "), ("timestamp", None, "now() is")],
)
def test_the_relative_time_that_an_error_shows_is_a_filter(
    kind: str, zone: timezone | None, shown: str, catalog: SqlCatalog, tmp_path: Path
) -> None:
    table = pf.iceberg.create_table(catalog, f"shop.{kind}", {"at": kind})
    pf.delta.create_table(tmp_path / kind, table.schema().as_arrow())
    for module, one in ((pf.iceberg, table), (pf.delta, tmp_path / kind)):
        with pytest.raises(pf.InvalidInputError, match="seven days ago") as error:
            module.scan(one, "at > now() - interval '7 days'").count()
        assert f"datetime.{shown}" in str(error.value)
        assert module.scan(one, f"at > '{datetime.now(zone) - timedelta(days=7)}'").count() == 0


def test_a_warning_that_is_an_error_leaves_no_table(catalog: SqlCatalog, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(pf.EngineSupportWarning):
            pf.delta.create_table(tmp_path / "d", ROWS)
        with pytest.raises(pf.EngineSupportWarning):
            pf.iceberg.create_table(catalog, "shop.v", {"v": "variant"})
        table = pf.iceberg.create_table(catalog, "shop.t", ROWS)
        with pytest.raises(pf.EngineSupportWarning):
            pf.delta.from_iceberg(table, tmp_path / "d")
        without = {"delta.enableDeletionVectors": "false"}
        pf.delta.create_table(tmp_path / "plain", ROWS, properties=without)
        with pytest.raises(pf.EngineSupportWarning):
            pf.delta.enable(tmp_path / "plain")
    assert pf.delta.snapshot(tmp_path / "plain").version == 0
    assert not (tmp_path / "d").exists()
    assert not catalog.table_exists("shop.v")
