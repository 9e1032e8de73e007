"""`verify` finds each damaged, missing or contradicting file of deletes, and nothing in a sound table."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from puffin_fast import PositionBitmap, iceberg
from puffin_fast._io import source
from puffin_fast.dv import iceberg as codec
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.manifest import ADDED, ManifestEntry
from tests.iceberg.maintenance.maintained import N, add_vector, flip, ids, kinds, made, puffins, tasks
from tests.kit.faults import RacingCatalog
from tests.kit.tables import path_of


def test_an_empty_table_has_no_deletes_and_nothing_wrong(racing: RacingCatalog) -> None:
    table = made(racing, 0)
    assert iceberg.deletes(table).num_rows == 0
    assert iceberg.verify(table) == []
    convert = (iceberg.convert_position_deletes, iceberg.convert_equality_deletes)
    for job in (iceberg.compact, iceberg.repair, *convert):
        assert job(table).commit.id is None


def rewrite_without_first_row(path: str) -> None:
    pq.write_table(pq.read_table(path_of(path)).slice(1), path_of(path))


DAMAGE: dict[str, tuple[str, Callable[[ManifestEntry, ManifestEntry], object]]] = {
    "checksum": ("corrupt", lambda dv, _: flip(dv, (dv.content_size_in_bytes or 0) - 1)),
    "magic of the file": ("corrupt", lambda dv, _: flip(dv, -(dv.content_offset or 0))),
    "cut": ("corrupt", lambda dv, _: os.truncate(path_of(dv.file_path), (dv.content_offset or 0) + 3)),
    "no Puffin file": ("missing", lambda dv, _: path_of(dv.file_path).unlink()),
    "no data file": ("missing", lambda _, data: path_of(data.file_path).unlink()),
    "other rows": ("mismatch", lambda _, data: rewrite_without_first_row(data.file_path)),
}
"""The kind of finding, and what is done to the files of a vector and of its data file."""


@pytest.mark.parametrize("name", DAMAGE)
def test_errors_in_files_are_found(racing: RacingCatalog, name: str) -> None:
    table = made(racing, 2)
    iceberg.delete(table, "id = 5")
    task = tasks(table)[0]
    assert task.vector is not None
    kind, damage = DAMAGE[name]
    damage(task.vector, task.data)
    findings = iceberg.verify(table)
    assert kind in {finding.kind for finding in findings}, findings
    assert {finding.path for finding in findings} <= {task.vector.file_path, task.data.file_path}
    assert {finding.data_file for finding in findings} <= {task.data.file_path, None}


def test_a_range_in_a_file_that_is_no_puffin_file_is_no_finding_but_compacted(racing: RacingCatalog) -> None:
    table = made(racing, 1)
    data = tasks(table)[0].data
    blob = codec.encode(PositionBitmap.from_positions([1, 2]))
    path = f"{table.location()}/data/deletion_vector_1.bin"
    path_of(path).write_bytes(b"\x01" + blob)
    place = {"file_path": path, "content_offset": 1, "content_size_in_bytes": len(blob)}
    add_vector(table, data, [1, 2], **place, file_size_in_bytes=1 + len(blob))
    assert iceberg.verify(table) == []
    assert ids(table) == set(range(100)) - {1, 2}
    assert iceberg.compact(table).vectors_written == 1
    assert ids(table) == set(range(100)) - {1, 2}


@pytest.mark.parametrize("broken", [False, True])
def test_a_puffin_file_is_opened_a_few_times_however_many_vectors_it_has(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    n_files = 12
    table = made(racing, n_files)
    iceberg.delete_keys(table, pa.table({"id": range(0, n_files * N, 7)}), ["id"])
    vectors = [task.vector for task in tasks(table) if task.vector is not None]
    assert len(vectors) == n_files
    (path,) = puffins(table)
    if broken:
        flip(vectors[3], 12)
    opened: list[str] = []
    fetched: list[int] = []
    open_source, fetch = source.open_source, source.LocalSource._fetch

    def opens(location: Any, **named: Any) -> Any:
        opened.append(str(location))
        return open_source(location, **named)

    def fetches(self: Any, offset: int, length: int) -> bytes:
        if path.endswith(str(self.path)):
            fetched.append(offset)
        return fetch(self, offset, length)

    monkeypatch.setattr("puffin_fast._io.open_source", opens)
    monkeypatch.setattr(source.LocalSource, "_fetch", fetches)
    assert kinds(table) == ["corrupt"] * broken
    result = iceberg.repair(table, dry_run=True)
    assert len(result.not_rewritten) == broken
    if not broken:
        assert opened.count(path) == 6, opened  # each job: for its footer, its blobs, and the vectors
        assert 6 <= len(fetched) <= 18, fetched


# Position deletes and partitions -------------------------------------------------------------------------------


def replace_entry(table: Table, entry: ManifestEntry, **wrong: Any) -> ManifestEntry:
    """Commits an entry again, with other fields."""
    new = {"status": ADDED, "snapshot_id": None, "sequence_number": None, "file_sequence_number": None}
    changed = replace(entry, **(new | wrong))
    commit(table, Changes(added=(changed,), removed=(entry,)), base=table.current_snapshot())
    return changed


def with_shared_position_deletes(catalog: RacingCatalog) -> Table:
    """A table of version 2 whose partition `p` = 0 has a position-delete file for two data files; `p` = 1 has none."""
    schema = pa.schema([("id", pa.int64()), ("p", pa.int64())])
    properties = {"format-version": "2", "write.delete.granularity": "partition"}
    table = catalog.create_table("n.t", schema, properties=properties)
    with table.update_spec() as update:
        update.add_identity("p")
    for first in (0, N):
        rows = pa.table({"id": range(first, first + N), "p": [int(i == N - 1) for i in range(N)]})
        iceberg.append(table, rows)
    iceberg.delete(table, f"id = 1 or id = {N + 1}")
    assert iceberg.deletes(table).num_rows == 2
    return table


def test_position_deletes_that_outlive_their_data_files_are_no_error_and_are_removed(
    racing: RacingCatalog,
) -> None:
    """Writers remove the files of one data file only: others may be needed by data files that were not planned."""
    table = with_shared_position_deletes(racing)
    iceberg.upgrade(table)
    assert iceberg.delete(table, "p = 0").data_files_dropped == 2
    assert iceberg.deletes(table)["state"].unique().to_pylist() == ["dangling"]
    assert kinds(table) == []
    assert iceberg.report(table).advice[0] == "convert: 1 position-delete file"
    assert not [sentence for sentence in iceberg.report(table).advice if sentence.startswith("compact")]
    assert iceberg.convert_position_deletes(table).position_delete_files_removed == 1
    assert iceberg.deletes(table).num_rows == 0
    assert kinds(table) == []
    assert ids(table) == {N - 1, 2 * N - 1}


BOUNDS = {"lower_bounds": {2147483546: b"~"}, "upper_bounds": {2147483546: b"~~"}}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (BOUNDS, "the partition and bounds of"),
        ({"partition": (1,)}, "the partition and bounds of"),
        ({"file_path": "file:///nowhere.parquet"}, "nowhere"),
    ],
)
def test_position_deletes_that_name_a_live_data_file_and_do_not_apply_are_found(
    racing: RacingCatalog, wrong: dict[str, Any], said: str
) -> None:
    table = with_shared_position_deletes(racing)
    (entry,) = {id(entry): entry for task in tasks(table) for entry in task.position_deletes}.values()
    if "file_path" in wrong:
        iceberg.delete(table, "p = 0")
    other = replace_entry(table, entry, **wrong)
    findings = [finding for finding in iceberg.verify(table) if finding.path == other.file_path]
    assert findings
    assert said in findings[-1].message


def partitioned(catalog: RacingCatalog, version: int, column: str) -> tuple[Table, list[ManifestEntry]]:
    """A table partitioned by a column that was not partitioned before, with a delete in each of its partitions."""
    schema = pa.schema([("id", pa.int64()), ("p", pa.string()), ("x", pa.float64())])
    rows = {"id": [1, 2, 3, 4], "p": ["a", "a", "b", None], "x": [1.0, 1.0, float("nan"), None]}
    table = catalog.create_table("n.t", schema)
    if version == 3:
        iceberg.upgrade(table)
    with iceberg.v3_metadata(catalog), table.update_spec() as update:
        update.add_identity(column)
    for _ in range(2):
        iceberg.append(table, pa.table(rows, schema))
    for id in (1, 3, 4):
        place = iceberg.scan(table, f"id = {id}", ("_file", "_pos")).to_arrow()[:1]
        iceberg.delete_positions(table, place.rename_columns(["file_path", "pos"]))
    return table, [entry for task in iceberg.plan_files(table).tasks for entry in task.deletes]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("column", ["p", "x"])
def test_sound_tables_have_no_finding(racing: RacingCatalog, version: int, column: str) -> None:
    """Null and NaN are partitions as others."""
    table, deletes = partitioned(racing, version, column)
    assert deletes
    assert iceberg.verify(table) == []


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "wrong", [{"partition": ("b",)}, {"partition": (None,)}, {"spec_id": 0, "partition": ()}], ids=str
)
def test_another_partition_or_spec_is_a_finding_and_deletes_apply_by_path(
    racing: RacingCatalog, version: int, wrong: dict[str, Any]
) -> None:
    table, deletes = partitioned(racing, version, "p")
    entry = next(entry for entry in deletes if entry.partition == ("a",))
    before = iceberg.scan(table).count()
    replace_entry(table, entry, **wrong)
    (found,) = [one for one in iceberg.verify(table) if "partition" in one.message]
    assert (found.kind, found.path, found.offset) == ("mismatch", entry.file_path, entry.content_offset)
    assert "expected partition spec 1, partition ('a',)" in found.message
    assert f"partition {wrong['partition']}" in found.message
    assert iceberg.scan(table).count() == before
    if version == 3:
        assert iceberg.repair(table).rows_deleted == 0
        assert iceberg.verify(table) == []
        assert iceberg.scan(table).count() == before
        assert iceberg.repair(table).commit.id is None
