"""Bounds of geometry and geography columns: which are no points, and that `verify` finds and `repair` removes them."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import errors, iceberg
from puffin_fast.iceberg.commit import snapshot_manifests
from puffin_fast.iceberg.compat import parquet_writer
from puffin_fast.iceberg.dml.data_files import DataFileWriter
from puffin_fast.iceberg.manifest import DATA, ManifestEntry, manifests_of, read_manifests
from puffin_fast.iceberg.manifest.geo_bounds import is_point
from tests.iceberg.conftest import current_snapshot, summary_of, unchanged

POINT = struct.pack("<BIdd", 1, 1, 1.0, 2.0)
KINDS = {"id": "long", "g": "geometry", "h": "geography(srid:4326, karney)"}
ROW_ID = 2147483540
LINEAGE = ["id", "_row_id", "_last_updated_sequence_number"]


@pytest.mark.parametrize(
    "coordinates", [(1.0, 2.0), (-180.0, 90.0), (0.0, 0.0), (1e300, -5e-324), (0.1, 1 / 3)]
)
@pytest.mark.parametrize("more", [(), (7.0,), (float("nan"), 7.5)])
def test_points_are_points(coordinates: tuple[float, ...], more: tuple[float, ...]) -> None:
    values = coordinates + more
    assert is_point(struct.pack(f"<{len(values)}d", *values))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [1, 2, 7, 17, 1001, 2003, 3007, 0x80000001, 0x20000002, 0xE0000003])
@pytest.mark.parametrize("n_bytes", [0, 1, 5, 15, 16, 17, 21, 24, 32, 40])
def test_the_start_of_a_geometry_is_no_point(order: str, kind: int, n_bytes: int) -> None:
    wkb = struct.pack(f"{order}BI6d", order == "<", kind, 1.5, -2.25, 3.125, 1e9, 13.377, 0.0)
    assert not is_point(wkb[:n_bytes])


def rows(*ids: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": id, "g": POINT, "h": POINT} for id in ids])


@pytest.fixture
def table(racing: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Three data files with bounds as earlier releases wrote them, and one without; one row is deleted."""
    with pytest.warns(errors.EngineSupportWarning):
        table = iceberg.create_table(racing, "n.geo", KINDS)
    with monkeypatch.context() as patch:
        for module in (parquet_writer, snapshot_manifests):
            patch.setattr(module, "unordered_fields", lambda schema: [])
        for id in range(3):
            iceberg.append(table, rows(2 * id, 2 * id + 1))
    iceberg.append(table, rows(6, 7))
    iceberg.delete(table, "id = 3")
    return table


def entries(table: Table) -> dict[str, ManifestEntry]:
    manifests = [one for one in manifests_of(table.io, current_snapshot(table)) if one.content == DATA]
    read = read_manifests(table.io, manifests, table.specs())
    return {entry.file_path: entry for _, some in read for entry in some}


def bounded(table: Table) -> set[int]:
    return {id for entry in entries(table).values() for id in {**entry.lower_bounds, **entry.upper_bounds}}  # type: ignore[dict-item]


def test_wrong_bounds_are_found_and_removed(table: Table) -> None:
    assert bounded(table) == {1, 2, 3}
    found = iceberg.verify(table)
    assert len(found) == 6
    assert all("expected points of 16, 24 or 32 bytes or none, found" in one.message for one in found)
    before, lineage = entries(table), iceberg.scan(table, selected_fields=LINEAGE).to_arrow()
    with unchanged(table):
        assert iceberg.repair(table, dry_run=True).bounds_removed == 3
    result = iceberg.repair(table)
    assert (result.bounds_removed, result.vectors_written, result.rows_deleted) == (3, 0, 0)
    assert iceberg.verify(table) == []
    assert iceberg.repair(table).commit.id is None
    assert bounded(table) == {1}
    assert iceberg.scan(table, selected_fields=LINEAGE).to_arrow() == lineage
    for path, entry in entries(table).items():
        assert replace(entry, status=0, lower_bounds={}, upper_bounds={}) == replace(
            before[path], status=0, lower_bounds={}, upper_bounds={}
        )
    assert summary_of(table)["operation"] == "replace"
    before_repair = table.history()[-2].snapshot_id
    assert iceberg.changes(table, from_snapshot_id_exclusive=before_repair).to_arrow().num_rows == 0


def test_wrong_bounds_of_new_files_are_not_committed(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever wrote the file, and counted its columns."""
    iceberg.repair(table)
    with monkeypatch.context() as patch:
        patch.setattr(parquet_writer, "unordered_fields", lambda schema: [])
        iceberg.append(table, rows(8))
        iceberg.update(table, "id = 8", {"id": 9})
    assert bounded(table) == {1, ROW_ID}


def test_bounds_that_are_points_stay(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer may have right ones."""
    corner = struct.pack("<dd", 1.0, 2.0)
    write = DataFileWriter.write

    def with_points(self: DataFileWriter, file: Any) -> ManifestEntry:
        entry = write(self, file)
        return replace(entry, lower_bounds={2: corner}, upper_bounds={2: corner})

    iceberg.repair(table)
    with monkeypatch.context() as patch:
        patch.setattr(DataFileWriter, "write", with_points)
        iceberg.append(table, rows(8))
    assert bounded(table) == {1, 2}
    assert iceberg.verify(table) == []
    assert iceberg.repair(table).commit.id is None


def test_filters_and_searches_take_no_notice_of_wrong_bounds(table: Table) -> None:
    assert iceberg.scan(table, "g is not null and id >= 0").count() == 7
    assert iceberg.scan(table, "g is null or h is null").count() == 0
    assert iceberg.delete(table, "h is null").rows_deleted == 0
    assert iceberg.update(table, "g is not null and id = 5", {"g": None}).rows_updated == 1
    assert iceberg.scan(table, "g is null").to_arrow()["id"].to_pylist() == [5]


def test_geometries_are_no_keys(table: Table) -> None:
    for name in ("g", "h"):
        for call in (
            lambda name=name: iceberg.delete_keys(table, {name: [POINT]}, name),
            lambda name=name: iceberg.upsert(table, rows(1), name),
            lambda name=name: iceberg.index_keys(table, name),
        ):
            with pytest.raises(
                errors.InvalidInputError, match=rf"join_cols: {name} is a geo.*expected a type"
            ):
                call()
