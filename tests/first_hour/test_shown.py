"""What a user sees in a console: texts of scans, results and reports; methods that PyIceberg's scans have."""

from __future__ import annotations

import re
import traceback

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

import puffin_fast as pf
from tests.kit.tables import iceberg_table

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "word": list("abcdefghij")})


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    """The table ``shop.t`` with `ROWS`, and a branch and a tag of its first snapshot."""
    made = iceberg_table(catalog, ROWS, name="shop.t")
    first = made.current_snapshot()
    assert first is not None
    with pf.iceberg.v3_metadata(catalog), made.manage_snapshots() as change:
        change.create_branch(first.snapshot_id, "old").create_tag(first.snapshot_id, "v1")
    pf.iceberg.delete(made, "id < 4")
    return made


def test_scans_say_what_they_read(table: Table) -> None:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = repr(pf.iceberg.scan(table, "id > 5", ["id"], limit=3))
    columns = "columns: id: int64"
    assert found == f"Scan(shop.t, snapshot {snapshot.snapshot_id}, row_filter=id > 5, limit=3, {columns})"
    assert "row_filter" not in repr(pf.iceberg.scan(table))
    empty = pf.iceberg.create_table(table.catalog, "shop.empty", ROWS.schema)
    assert repr(pf.iceberg.scan(empty)).startswith("Scan(shop.empty, no snapshot, columns: ")


def test_results_have_no_walls_of_zeros(table: Table) -> None:
    for result in (
        pf.iceberg.maintain(table, dry_run=True),
        pf.iceberg.delete(table, "id = 5", dry_run=True),
        pf.iceberg.upsert(table, ROWS.slice(0, 1), "id", dry_run=True),
    ):
        assert not re.search(r"=(0|0\.0|None|False|\(\))[,)]", repr(result))
        assert repr(result).startswith(f"{type(result).__name__}(")
    assert "rows_deleted=1" in repr(pf.iceberg.delete(table, "id = 5", dry_run=True))


def test_reports_are_a_few_lines(table: Table) -> None:
    report = pf.iceberg.report(table)
    lines = repr(report).splitlines()
    assert lines[0].startswith(
        "Report(shop.t: data files 1, data files with deletes 1, rows 10, deleted 4, share 40.0%"
    )
    assert lines[1:] == [f"- {sentence}" for sentence in report.advice]


def test_the_report_of_a_notebook_has_its_charts(table: Table) -> None:
    pytest.importorskip("matplotlib")
    assert "<svg" in pf.iceberg.report(table)._repr_html_()


def test_scans_have_the_methods_of_scans_of_pyiceberg(table: Table) -> None:
    scan = pf.iceberg.scan(table, "id > 3;")
    assert scan.select("id").schema.names == ["id"]
    assert scan.select("_pos", "word").schema.names == ["word", "_pos"]
    with pytest.raises(pf.NotFoundError, match="nope"):
        scan.select("nope")
    assert scan.filter("id < 6 or id = 9").to_arrow()["id"].to_pylist() == [4, 5, 9]
    assert scan.filter(EqualTo("word", "e")).to_arrow()["id"].to_pylist() == [4]
    assert pf.iceberg.scan(table).filter(pc.field("id") == 7).filter(pc.field("word") == "h").count() == 1
    with pytest.raises(pf.InvalidInputError, match="found one of each"):
        scan.filter(pc.field("id") == 7)
    with pytest.raises(pf.InvalidInputError, match="character"):
        scan.filter("id = 1) or (true")
    assert scan.use_ref("old").count() == scan.use_ref("v1").count() == 6
    assert pf.iceberg.scan(table).use_ref("old").count() == 10
    with pytest.raises(pf.InvalidInputError, match="found one with tag"):
        scan.use_ref("v1").use_ref("main")
    with pytest.raises(pf.NotFoundError, match="nope"):
        scan.use_ref("nope")
    assert scan.to_arrow_batch_reader().read_all().num_rows == 6


def test_errors_of_filters_have_no_chain_of_causes(table: Table) -> None:
    for row_filter in ("id = 'x'", "nope = 1", "id = X'0'", "word like 'a\\b'", EqualTo("nope", 1)):
        with pytest.raises(pf.PuffinFastError) as raised:
            pf.iceberg.scan(table, row_filter)
        assert "direct cause" not in "".join(traceback.format_exception(raised.value))


def test_notebooks_show_no_zeros(table: Table) -> None:
    for shown in (
        pf.iceberg.maintain(table, dry_run=True),
        pf.iceberg.delete(table, "id = 1"),
        pf.iceberg.scan(table),
    ):
        html = shown._repr_html_()
        assert not re.search(r"<td[^>]*>(0|None|)</td>", html), html
