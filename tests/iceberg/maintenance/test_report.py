"""Reports: their numbers agree with the table, and their advice with the numbers; charts."""

from __future__ import annotations

import io
import json
import sys
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from rich.console import Console

from puffin_fast import iceberg
from puffin_fast._text import printable
from puffin_fast.errors import CorruptDataError, InvalidInputError, MissingExtraError
from tests.conftest import require_module
from tests.iceberg.maintenance.delete_files import delete_by_file, three_files
from tests.iceberg.maintenance.maintained import add_vector, made, tasks
from tests.kit.tables import path_of

PLOT = "pip install 'puffin-fast[plot]'"


def test_the_most_wasteful_file_is_listed_first(racing: SqlCatalog) -> None:
    table = made(racing, 3)
    iceberg.delete(table, "id = 5")
    iceberg.delete(table, "id >= 100 and id < 160")
    found = iceberg.report(table)
    rows = found.files.to_pylist()
    assert [(row["deleted"], row["share"], row["advice"]) for row in rows] == [
        (60, 0.6, "rewrite"),
        (1, 0.01, ""),
    ]
    left = iceberg.scan(table).to_arrow().num_rows
    totals = found.totals
    assert totals["rows"] - totals["deleted"] == left
    assert (totals["data_files"], totals["vectors"], totals["puffin_files"]) == (3, 2, 2)
    assert [sentence.split()[0] for sentence in found.advice] == ["compact:", "rewrite_data_files:"]
    assert iceberg.report(table, share=0.7).files["advice"].to_pylist() == ["", ""]
    with pytest.raises(InvalidInputError, match="share"):
        iceberg.report(table, share=1.5)


def test_the_advice_to_rewrite_is_what_the_verb_rewrites(racing: SqlCatalog) -> None:
    table = made(racing, 7)
    iceberg.delete(table, "id < 2")
    for _ in range(2):  # seven small data files; then one with many deleted rows
        found = iceberg.report(table)
        assert found.files["advice"].to_pylist() == ["rewrite"]
        said = next(sentence for sentence in found.advice if sentence.startswith("rewrite_data_files: "))
        done = iceberg.rewrite_data_files(table)
        assert said.split()[1] == str(done.data_files)
        assert iceberg.report(table).advice == ()
        iceberg.delete(table, "id < 300")


def test_following_the_advice_of_a_report_ends_it(racing: SqlCatalog) -> None:
    table, (first, second, _) = three_files(racing)
    delete_by_file(table, [(first, 1), (second, 2)])
    assert iceberg.report(table).advice[0].startswith("upgrade")
    iceberg.upgrade(table)
    found = iceberg.report(table)
    assert set(found.files["advice"].to_pylist()) == {"convert"}
    assert found.advice == ("convert: 1 position-delete file",)
    iceberg.convert_position_deletes(table)
    iceberg.delete(table, "id = 250")
    assert iceberg.report(table).advice == ("compact: 3 vectors in 2 small Puffin files",)
    iceberg.compact(table)
    assert iceberg.report(table).advice == ()


def test_a_table_that_needs_repair_is_reported(racing: SqlCatalog) -> None:
    table = made(racing, 1)
    data = tasks(table)[0].data
    add_vector(table, data, [1])
    add_vector(table, data, [2])
    found = iceberg.report(table)
    assert found.files["advice"].to_pylist() == ["repair"]
    assert found.advice[0].startswith("repair")


def printed(report: object) -> str:
    text = io.StringIO()
    Console(file=text, width=240).print(report)
    return text.getvalue()


def test_a_console_prints_it(racing: SqlCatalog) -> None:
    table = made(racing, 2)
    iceberg.delete(table, "id = 5")
    text = printed(iceberg.report(table))
    assert "n.t" in text
    assert "wasted_bytes" in text
    empty = printed(iceberg.report(table, snapshot_id=table.metadata.snapshots[0].snapshot_id))
    assert empty.startswith("n.t: data files 1, rows 100, n bytes ")  # and no count of zero
    assert "deleted" not in empty


def size_of(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")


@pytest.mark.parametrize("n_files", [0, 3])
def test_a_picture_is_drawn(racing: SqlCatalog, tmp_path: Path, n_files: int) -> None:
    require_module("matplotlib", PLOT)
    table = made(racing, n_files)
    if n_files:
        iceberg.delete(table, "id < 50")
    path = tmp_path / "picture.png"
    iceberg.report(table).picture(path)
    width, height = size_of(path)
    if n_files:
        iceberg.collect_ndv(table)
        iceberg.report(table).picture(path)
        assert size_of(path) == (width, 2 * height)  # three charts, and below them the distinct values
        iceberg.ndv_overlap((table, "id"), (table, "id")).picture(path)
        assert size_of(path) == (width / 3, height)


def test_deletes_are_reported_by_partition_and_over_snapshots(racing: SqlCatalog, tmp_path: Path) -> None:
    rows = pa.table({"id": range(300), "g": ["a", "b", None] * 100, "at": [date(2024, 1, 14)] * 300})
    table = iceberg.create_table(racing, "n.p", rows.schema, partition_spec=["g", "day(at)"])
    assert iceberg.report(table).snapshots.num_rows == iceberg.report(table).partitions.num_rows == 0
    iceberg.append(table, rows)
    iceberg.delete(table, "id < 30")
    iceberg.delete(table, "g = 'b' and id < 100")
    found = iceberg.report(table)
    assert [tuple(row.values()) for row in found.partitions.to_pylist()] == [
        ("g=b/at_day=2024-01-14", 1, 100, 33, 0.33),
        ("g=a/at_day=2024-01-14", 1, 100, 10, 0.1),
        ("g=null/at_day=2024-01-14", 1, 100, 10, 0.1),
    ]
    history = found.snapshots.to_pylist()
    assert [(row["operation"], row["delete_files"], row["position_deletes"]) for row in history] == [
        ("append", 0, 0),
        ("delete", 3, 30),
        ("delete", 3, 53),
    ]
    assert history[-1]["snapshot_id"] == table.metadata.current_snapshot_id
    assert iceberg.report(table, snapshot_id=history[0]["snapshot_id"]).snapshots.num_rows == 1
    require_module("matplotlib", PLOT)
    found.to_html(tmp_path / "report.html")
    assert "g=b/at_day=2024-01-14" in (tmp_path / "report.html").read_text()


NAMES = ["$5", "$x^2$", r"a$\frac{$", "_hidden", "<b>&", "名前", "a\nb\x1b[2J", "%d {x}", ""]


@pytest.mark.parametrize("usetex", [False, True])
def test_names_and_values_of_users_are_drawn_as_they_are(
    racing: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usetex: bool
) -> None:
    require_module("matplotlib", PLOT)
    import matplotlib.text

    drawn: list[str] = []
    draw = matplotlib.text.Text.draw

    def recorded(self: Any, renderer: Any) -> None:
        drawn.append(self.get_text())
        assert (self.get_usetex(), self.get_parse_math()) == (False, False)
        draw(self, renderer)

    kinds = {name or "$id": pa.string() for name in NAMES} | {"$p": pa.string()}
    rows = pa.table(dict.fromkeys(kinds, NAMES), pa.schema(kinds))
    table = iceberg.create_table(racing, "n.$t_{$", rows.schema, partition_spec=["$p"])
    iceberg.append(table, rows)
    iceberg.delete(table, "true", dry_run=True)
    iceberg.delete(table, "\"$p\" <> ''")
    iceberg.collect_ndv(table)
    report = iceberg.report(table)
    with matplotlib.rc_context({"text.usetex": usetex}):
        monkeypatch.setattr(matplotlib.text.Text, "draw", recorded)
        for form in ("png", "svg", "pdf"):
            report.picture(tmp_path / f"report.{form}")
        report.to_html(tmp_path / "report.html")
        iceberg.ndv_overlap((table, "$5"), (table, "$id")).picture(tmp_path / "overlap.svg")
    ElementTree.parse(tmp_path / "report.svg")
    assert "n.$t_{$: data files by deleted rows" in drawn
    assert {"$5", "$x^2$", r"a$\frac{$", "_hidden", "名前", r"a\nb\x1b[2J"} <= set(drawn)
    assert printable(report.partitions["partition"][0].as_py()) in drawn
    assert not any("mathdefault" in text for text in drawn)


def test_ids_of_snapshots_above_2_to_the_63_are_reported(racing: SqlCatalog) -> None:
    table = made(racing, 2)
    first, last = (snapshot.snapshot_id for snapshot in table.metadata.snapshots)
    metadata = path_of(table.metadata_location)
    metadata.write_text(metadata.read_text().replace(str(first), str(2**64 - 1)))
    found = iceberg.report(table.refresh()).snapshots
    assert found["snapshot_id"].to_pylist() == [2**64 - 1, last]


@pytest.mark.parametrize("time", [10**17, 253_402_300_800_000, 2**63 - 1, 2**70, -(2**63), -(2**70)])
def test_times_of_snapshots_that_no_clock_has_are_reported_as_unknown(
    racing: SqlCatalog, tmp_path: Path, time: int
) -> None:
    table = made(racing, 2)
    n_rows = iceberg.scan(table).count()
    metadata = path_of(table.metadata_location)
    document = json.loads(metadata.read_text())
    document["snapshots"][-1]["timestamp-ms"] = document["metadata-log"][0]["timestamp-ms"] = time
    metadata.write_text(json.dumps(document))
    table.refresh()
    report = iceberg.report(table)
    assert report.snapshots["committed_at"].to_pylist()[-1] is None
    assert "committed at an unknown time" in report._repr_html_()
    report.to_html(tmp_path / "report.html")
    assert iceberg.maintain(table, dry_run=True) is not None
    assert iceberg.scan(table).count() == n_rows
    if time >= 2**63 - 1:
        before = table.metadata_location
        with pytest.raises(CorruptDataError, match=r"last time in the metadata .* expected less than"):
            iceberg.append(table, iceberg.scan(table).to_arrow())
        assert table.refresh().metadata_location == before


def test_distinct_values_are_reported(racing: SqlCatalog) -> None:
    table = made(racing, 2)
    assert iceberg.report(table).ndv.num_rows == 0
    iceberg.collect_ndv(table)
    iceberg.delete(table, "id = 5")
    found = iceberg.report(table)
    assert found.ndv.equals(iceberg.ndv(table))
    assert "upper" in printed(found)
    first = table.metadata.snapshots[0].snapshot_id
    assert iceberg.report(table, snapshot_id=first).ndv.num_rows == 0
    path_of(table.metadata.statistics[0].statistics_path).unlink()
    lost = iceberg.report(table)
    assert lost.ndv.num_rows == 0
    assert "collect_ndv" in [sentence.split(":")[0] for sentence in lost.advice]


def test_key_indexes_are_reported_with_age_size_and_what_they_cover(racing: SqlCatalog) -> None:
    table = made(racing, 2)
    assert iceberg.report(table).key_indexes.num_rows == 0
    n_rows = iceberg.scan(table).count()
    built = iceberg.index_keys(table, "id")
    (whole,) = iceberg.report(table).key_indexes.to_pylist()
    assert (whole["columns"], whole["snapshot_id"], whole["snapshots_since"]) == ("id", built.snapshot_id, 0)
    assert (whole["n_bytes"], whole["segments"]) == (built.n_bytes, 1)
    assert (whole["data_files"], whole["rows"], whole["share_of_rows"]) == (built.data_files, n_rows, 1.0)
    assert whole["committed_at"].timestamp() * 1000 == table.metadata.snapshots[-1].timestamp_ms
    iceberg.append(table, iceberg.scan(table).to_arrow())
    iceberg.delete(table, "id = 5")
    found = iceberg.report(table)
    (part,) = found.key_indexes.to_pylist()
    assert (part["rows"], part["share_of_rows"], part["snapshots_since"]) == (n_rows, 0.5, 2)
    assert part["share_of_files"] == built.data_files / found.totals["data_files"]
    assert [sentence for sentence in found.advice if "index_keys: 1 data file came after" in sentence]
    assert "share_of_rows" in printed(found)
    assert "Key indexes" in found._repr_html_()
    path_of(table.metadata.statistics[-1].statistics_path).unlink()
    lost = iceberg.report(table)
    assert lost.key_indexes.num_rows == 0
    assert [sentence for sentence in lost.advice if "index_keys: a part of an index" in sentence]


def test_a_table_without_columns_to_count_is_refused_by_name(racing: SqlCatalog) -> None:
    kinds = pa.schema([("l", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.int64()))])
    table = iceberg.create_table(racing, "n.nested", kinds)
    iceberg.append(table, pa.table({"l": [[1, 2], [2]], "m": [[("a", 1)], []]}, kinds))
    with pytest.raises(InvalidInputError, match=r"name what is inside: l\.element, m\.key, m\.value"):
        iceberg.collect_ndv(table)
    assert iceberg.report(table).ndv.num_rows == 0
    assert iceberg.collect_ndv(table, ["l.element"]).ndv == {"l.element": 2}
    assert iceberg.ndv(table).num_rows == 1


def test_a_picture_without_matplotlib_names_the_extra(
    racing: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"puffin-fast\[plot\]"):
        iceberg.report(made(racing, 0)).picture(tmp_path / "picture.png")


def test_no_share_is_above_one_where_deletes_repeat(racing: SqlCatalog) -> None:
    table, (first, *_) = three_files(racing)
    for _ in range(3):
        delete_by_file(table, [(first, position) for position in range(60)])
    files: pa.Table = iceberg.report(table).files
    assert all(share <= 1 for share in files["share"].to_pylist())
