"""Reports, results and scans as HTML: complete, escaped, and without any other file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

import puffin_fast as pf
from puffin_fast import iceberg
from tests.conftest import require_module
from tests.iceberg.conftest import current_snapshot
from tests.kit.tables import path_of, sqlite_catalog

NAME = "<b>&"


class Balanced(HTMLParser):
    """Fails if an element is not closed in its place."""

    EMPTY = frozenset({"meta", "br", "path", "use", "rect", "link", "image"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY:
            assert self.open.pop() == tag


def checked(html: str) -> str:
    parser = Balanced()
    parser.feed(html)
    assert not parser.open
    assert NAME not in html
    return html


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    catalog = sqlite_catalog(tmp_path)
    rows = pa.table({"id": range(1000), NAME: ["x"] * 1000})
    table = iceberg.create_table(catalog, "n.t", rows.schema)
    iceberg.append(table, rows)
    yield table
    catalog.engine.dispose()


def test_a_report_is_one_page(table: Table, tmp_path: Path) -> None:
    result = iceberg.delete(table, "id < 400")
    iceberg.collect_ndv(table)
    report = iceberg.report(table)
    report.to_html(tmp_path / "report.html")
    page = checked((tmp_path / "report.html").read_text())
    assert page.startswith("<!DOCTYPE html>")
    assert "400" in page
    assert page.count("<svg") == 1
    assert "&lt;b&gt;&amp;" in page  # the name of a column
    assert not re.search(r"<(script|link|img|iframe)\b", page)
    assert "400" in checked(report._repr_html_())
    assert f"<td>{result.commit.id}</td>" in checked(result._repr_html_())


def test_a_report_names_its_snapshot_and_says_that_there_are_no_deletes(table: Table, tmp_path: Path) -> None:
    require_module("matplotlib", "pip install 'puffin-fast[plot]'")
    path = tmp_path / "report.html"
    snapshot = current_snapshot(table)
    iceberg.report(table).to_html(path)
    fresh = checked(path.read_text())
    assert f"Snapshot {snapshot.snapshot_id}, committed 20" in fresh
    assert "Written 20" in fresh
    assert fresh.count("<!-- no deletes -->") == 3  # matplotlib writes texts as paths, and names them
    iceberg.delete(table, "id < 400")
    iceberg.report(table).to_html(path)
    page = checked(path.read_text())
    assert "<!-- no deletes -->" not in page
    assert "<!-- 0 B -->" in page  # the unit of an axis
    iceberg.delete(table, "true")
    iceberg.report(table).to_html(path)
    checked(path.read_text())


def test_results_show_their_parts_as_tables(table: Table) -> None:
    iceberg.delete(table, "id < 400")
    done = iceberg.maintain(table, iceberg.MaintenancePolicy(clean_older_than=timedelta(0)), dry_run=True)
    shown = checked(done._repr_html_())
    assert shown.count("<table>") >= 2  # steps that do nothing and zeros are left out
    orphans = iceberg.remove_orphan_files(table, older_than=timedelta(0))
    assert orphans.files.num_rows == 0
    (path_of(table.location()) / "orphan").write_text("x")
    orphans = iceberg.remove_orphan_files(table, older_than=timedelta(0))
    assert "/orphan</td>" in checked(orphans._repr_html_())
    added = iceberg.append(table, pa.table({"id": [5000], NAME: ["y"]}))
    assert f"<td>{added.commit.id}</td>" in checked(added._repr_html_())
    iceberg.collect_ndv(table)
    overlap = iceberg.ndv_overlap((table, "id"), (table, "id"))
    assert "lower 601, estimate 601, upper 601" in checked(overlap._repr_html_())
    for html in (shown, added._repr_html_(), orphans._repr_html_(), overlap._repr_html_()):
        assert not re.search(r"pyarrow|Result\(|Interval\(", html)


def test_a_sketch_shows_its_estimate_and_bounds() -> None:
    sketch = pf.ThetaSketch.from_arrow(range(20_000), "long")
    assert f"<th>estimate</th><td>{round(sketch.estimate):,}</td>" in checked(sketch._repr_html_())


def test_a_scan_shows_its_filter_and_its_columns(table: Table) -> None:
    shown = checked(iceberg.scan(table, f"\"{NAME}\" = 'x<y'")._repr_html_())
    assert "x&lt;y" in shown
    assert "int64" in shown


@pytest.mark.parametrize("positions", [[], [0], [(1 << 62) + 5], range(100_000), [0, 1 << 40], [7, 1 << 62]])
def test_a_bitmap_shows_its_density(positions: Sequence[int]) -> None:
    shown = checked(pf.PositionBitmap(positions)._repr_html_())
    assert ("<svg" in shown) == bool(len(positions))
