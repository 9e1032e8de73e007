"""Tables with many, damaged or dangling delete files: listed, verified, compacted, repaired; no delete is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast import PositionBitmap, iceberg
from puffin_fast._io import source
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.compat.table_properties import CARRY_SHARED_VECTORS
from tests.iceberg.conftest import files_of, local, rows_of_duckdb
from tests.iceberg.maintenance.maintained import N, add_vector, ids, made, puffins, tasks

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

    from puffin_fast.iceberg.manifest import ManifestEntry
    from tests.iceberg.conftest import RacingCatalog


def kinds(table: Table) -> list[str]:
    return [finding.kind for finding in iceberg.verify(table)]


# Listing deletes -------------------------------------------------------------------------------------------


def test_deletes_are_listed_with_their_place_and_share(racing: SqlCatalog) -> None:
    table = made(racing, 2)
    assert iceberg.deletes(table).num_rows == 0
    iceberg.delete(table, "id >= 20 and id < 45")
    (row,) = iceberg.deletes(table).to_pylist()
    first = tasks(table)[0]
    assert first.vector is not None
    assert row == {
        "data_file": first.data.file_path,
        "rows": N,
        "kind": "vector",
        "state": "applies",
        "path": first.vector.file_path,
        "offset": first.vector.content_offset,
        "n_bytes": first.vector.content_size_in_bytes,
        "deleted": 25,
        "share": 0.25,
        "sequence_number": 3,
    }
    before = table.metadata.snapshots[1].snapshot_id
    assert iceberg.deletes(table, snapshot_id=before).num_rows == 0


def test_an_empty_table_has_no_deletes_and_nothing_wrong(racing: SqlCatalog) -> None:
    table = made(racing, 0)
    assert iceberg.deletes(table).num_rows == 0
    assert iceberg.verify(table) == []
    for job in (
        iceberg.compact,
        iceberg.repair,
        iceberg.convert_position_deletes,
        iceberg.convert_equality_deletes,
    ):
        assert job(table).snapshot_id is None


# Compact ---------------------------------------------------------------------------------------------------


def test_many_puffin_files_become_one(racing: SqlCatalog, duckdb_iceberg: DuckDBPyConnection) -> None:
    table = made(racing, 6)
    for number in range(6):
        iceberg.delete(table, f"id >= {number * N + 10} and id < {number * N + 13 + number}")
    before, old = ids(table), {task.data.file_path: task.vector for task in tasks(table)}
    assert len(puffins(table)) == 6
    planned = iceberg.compact(table, dry_run=True)
    result = iceberg.compact(table)
    assert (result.puffin_files_written, result.puffin_files_removed, result.vectors_written) == (1, 6, 6)
    assert (planned.puffin_files_removed, planned.n_bytes) == (6, result.n_bytes)
    assert len(puffins(table)) == 1
    assert ids(table) == before == set(rows_of_duckdb(duckdb_iceberg, table)["id"].to_pylist())
    for task in tasks(table):
        was = old[task.data.file_path]
        assert was is not None
        assert task.vector is not None
        assert (task.vector.sequence_number, task.vector.record_count) == (
            was.sequence_number,
            was.record_count,
        )
    assert iceberg.verify(table) == []
    assert iceberg.compact(table).snapshot_id is None


def test_a_file_of_mostly_superseded_vectors_is_rewritten(racing: SqlCatalog) -> None:
    table = made(racing, 4)
    iceberg.delete(table, "id < 400 and id >= 0 and id != 50 and id != 150 and id != 250 and id != 350")
    (old,) = puffins(table)
    with iceberg.v3_metadata(racing):
        table.transaction().set_properties({CARRY_SHARED_VECTORS: "false"}).commit_transaction()
    iceberg.delete(table, "id = 50 or id = 150")  # drops two data files, and with them their vectors
    assert iceberg.compact(table, target_file_size=1).puffin_files_removed == 1
    assert old not in puffins(table)
    assert ids(table) == {250, 350}
    assert iceberg.compact(table, target_file_size=1).snapshot_id is None


def test_dangling_vectors_are_dropped(racing: SqlCatalog) -> None:
    table = made(racing, 3)
    iceberg.delete(table, "id = 5 or id = 105")
    commit(table, Changes(removed=(tasks(table)[0].data,)), base=table.current_snapshot())
    assert kinds(table) == ["dangling"]
    assert "compact: 1 vector of no live data file" in iceberg.report(table).advice
    result = iceberg.compact(table)
    assert (result.vectors_removed, result.vectors_written) == (2, 1)  # the file's other vector moves along
    assert kinds(table) == []
    assert ids(table) == set(range(100, 300)) - {105}


def with_shared_position_deletes(catalog: SqlCatalog) -> Table:
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
    racing: SqlCatalog,
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


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"lower_bounds": {2147483546: b"~"}, "upper_bounds": {2147483546: b"~~"}},
            "the partition and bounds of",
        ),
        ({"partition": (1,)}, "the partition and bounds of"),
        ({"file_path": "file:///nowhere.parquet"}, "nowhere"),
    ],
)
def test_position_deletes_that_name_a_live_data_file_and_do_not_apply_are_found(
    racing: SqlCatalog, wrong: dict[str, Any], said: str
) -> None:
    table = with_shared_position_deletes(racing)
    (entry,) = {id(entry): entry for task in tasks(table) for entry in task.position_deletes}.values()
    if "file_path" in wrong:
        iceberg.delete(table, "p = 0")
    other = replace(
        entry, status=1, snapshot_id=None, sequence_number=None, file_sequence_number=None, **wrong
    )
    commit(table, Changes(added=(other,), removed=(entry,)), base=table.current_snapshot())
    findings = [finding for finding in iceberg.verify(table) if finding.path == other.file_path]
    assert findings
    assert said in findings[-1].message


@pytest.mark.parametrize("target_file_size", [60, 90, 110, 120, 200])
def test_compacting_twice_changes_nothing(racing: RacingCatalog, target_file_size: int) -> None:
    table = made(racing, 6)
    for number in range(6):  # vectors of different sizes, above and below half of the target
        iceberg.delete(table, f"id >= {number * N} and id < {number * N + 1 + 7 * number}")
        iceberg.delete(table, f"id = {number * N + 80}")
    before = ids(table)
    iceberg.compact(table, target_file_size=target_file_size)
    assert iceberg.compact(table, target_file_size=target_file_size).snapshot_id is None
    assert ids(table) == before


def test_a_delete_during_compaction_is_kept(racing: RacingCatalog) -> None:
    table = made(racing, 3)
    for number in range(3):
        iceberg.delete(table, f"id = {number * N}")
    other = racing.load_table("n.t")
    racing.before = [lambda: iceberg.delete(other, "id = 7 or id = 107")]
    result = iceberg.compact(table)
    assert result.attempts == 2
    assert ids(table) == set(range(300)) - {0, 100, 200, 7, 107}
    assert iceberg.verify(table) == []
    assert len(puffins(table)) == 1


@pytest.mark.parametrize("size", [0, -5])
def test_a_target_size_below_one_is_refused(racing: SqlCatalog, size: int) -> None:
    with pytest.raises(InvalidInputError, match="target_file_size"):
        iceberg.compact(made(racing, 0), target_file_size=size)


# Verify ----------------------------------------------------------------------------------------------------


def flip(path: str, at: int) -> None:
    data = bytearray(local(path).read_bytes())
    data[at] ^= 1
    local(path).write_bytes(data)


def damage(name: str, vector: ManifestEntry, data: ManifestEntry) -> None:
    at, length = vector.content_offset or 0, vector.content_size_in_bytes or 0
    if name == "checksum":
        flip(vector.file_path, at + length - 1)
    elif name == "magic of the file":
        flip(vector.file_path, 0)
    elif name == "cut":
        os.truncate(local(vector.file_path), at + 3)
    elif name == "no Puffin file":
        local(vector.file_path).unlink()
    elif name == "no data file":
        local(data.file_path).unlink()
    elif name == "other rows":
        pq.write_table(pq.read_table(local(data.file_path)).slice(1), local(data.file_path))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("checksum", "corrupt"),
        ("magic of the file", "corrupt"),
        ("cut", "corrupt"),
        ("no Puffin file", "missing"),
        ("no data file", "missing"),
        ("other rows", "mismatch"),
    ],
)
def test_errors_in_files_are_found(racing: SqlCatalog, name: str, kind: str) -> None:
    table = made(racing, 2)
    iceberg.delete(table, "id = 5")
    task = tasks(table)[0]
    assert task.vector is not None
    damage(name, task.vector, task.data)
    findings = iceberg.verify(table)
    assert kind in {finding.kind for finding in findings}, findings
    assert {finding.path for finding in findings} <= {task.vector.file_path, task.data.file_path}
    assert {finding.data_file for finding in findings} <= {task.data.file_path, None}


@pytest.mark.parametrize(
    "wrong",
    [
        {"record_count": 4},
        {"content_offset": 5},
        {"content_size_in_bytes": 30},
        {"file_size_in_bytes": 1},
    ],
)
def test_a_wrong_entry_is_found_and_repaired(racing: SqlCatalog, wrong: dict[str, int]) -> None:
    table = made(racing, 2)
    add_vector(table, tasks(table)[0].data, [3, 4, 5], **wrong)
    assert set(kinds(table)) == {"mismatch"}
    result = iceberg.repair(table)
    if "file_size_in_bytes" not in wrong:
        assert (result.vectors_written, result.rows_deleted, result.not_rewritten) == (1, 0, ())
        assert table.current_snapshot().summary.operation.value == "replace"  # type: ignore[union-attr]
        assert iceberg.verify(table) == []
    assert ids(table) == set(range(200)) - {3, 4, 5}


def test_positions_past_the_rows_are_found_and_not_repaired(racing: SqlCatalog) -> None:
    table = made(racing, 1)
    add_vector(table, tasks(table)[0].data, [3, N])
    assert kinds(table) == ["mismatch"]
    result = iceberg.repair(table)
    assert result.snapshot_id is None
    assert "less than 100 rows" in result.not_rewritten[0]


def test_a_range_in_a_file_that_is_no_puffin_file_is_no_finding_but_compacted(racing: SqlCatalog) -> None:
    from puffin_fast.dv import iceberg as codec

    table = made(racing, 1)
    data = tasks(table)[0].data
    blob = codec.encode(PositionBitmap.from_positions([1, 2]))
    path = f"{table.location()}/data/deletion_vector_1.bin"
    local(path).write_bytes(b"\x01" + blob)
    place = {"file_path": path, "content_offset": 1, "content_size_in_bytes": len(blob)}
    add_vector(table, data, [1, 2], **place, file_size_in_bytes=1 + len(blob))
    assert iceberg.verify(table) == []
    assert ids(table) == set(range(100)) - {1, 2}
    assert iceberg.compact(table).vectors_written == 1
    assert ids(table) == set(range(100)) - {1, 2}


# Repair ----------------------------------------------------------------------------------------------------


def test_several_vectors_of_a_data_file_become_their_union(
    racing: SqlCatalog, duckdb_iceberg: DuckDBPyConnection
) -> None:
    table = made(racing, 3)
    first, second, _ = (task.data for task in tasks(table))
    for positions in ([1, 2], [2, 3], [50]):
        add_vector(table, first, positions)
    add_vector(table, second, [9])
    assert kinds(table) == ["duplicate"]
    with pytest.raises(CorruptDataError, match="two deletion vectors"):
        ids(table)
    result = iceberg.repair(table)
    assert (result.vectors_written, result.vectors_removed, result.positions) == (1, 3, 4)
    expected = set(range(300)) - {1, 2, 3, 50, 109}
    assert ids(table) == expected == set(rows_of_duckdb(duckdb_iceberg, table)["id"].to_pylist())
    assert iceberg.verify(table) == []
    assert iceberg.repair(table).snapshot_id is None


def test_several_vectors_are_not_united_when_one_cannot_be_read(racing: SqlCatalog) -> None:
    table = made(racing, 2)
    first, second = (task.data for task in tasks(table))
    add_vector(table, first, [1, 2])
    broken = add_vector(table, first, [3])
    for positions in ([5], [6]):
        add_vector(table, second, positions)
    flip(broken.file_path, (broken.content_offset or 0) + 4)
    result = iceberg.repair(table)
    assert (result.vectors_written, result.vectors_removed) == (1, 2)
    assert first.file_path in result.not_rewritten[0]
    assert set(kinds(table)) == {"duplicate", "corrupt"}


def test_a_delete_during_a_repair_is_kept(racing: RacingCatalog) -> None:
    table = made(racing, 2)
    first, second = (task.data for task in tasks(table))
    for positions in ([1], [2]):
        add_vector(table, first, positions)
    other = racing.load_table("n.t")
    racing.before = [lambda: add_vector(other, first, [3]), lambda: add_vector(other, second, [4])]
    assert iceberg.repair(table).attempts == 2
    assert ids(table) == set(range(200)) - {1, 2, 3, 104}


# Orphan files ----------------------------------------------------------------------------------------------

AT_ONCE = timedelta()


def test_files_of_live_snapshots_are_needed(racing: SqlCatalog) -> None:
    table = made(racing, 2)
    iceberg.delete(table, "id = 1")
    iceberg.delete(table, "id = 2")
    assert iceberg.orphan_files(table, older_than=AT_ONCE).num_rows == 0
    orphan = local(table.location()) / "data" / "orphan.puffin"
    orphan.write_bytes(b"x" * 7)
    assert iceberg.orphan_files(table).num_rows == 0  # it may be a commit's that is on its way
    assert iceberg.orphan_files(table, older_than=timedelta.max).num_rows == 0
    (row,) = iceberg.orphan_files(table, older_than=AT_ONCE).to_pylist()
    assert (local(row["path"]), row["n_bytes"]) == (orphan, 7)


def test_files_that_expiring_would_make_orphans_are_listed(racing: SqlCatalog) -> None:
    table = made(racing, 2)
    iceberg.delete(table, "id = 1")
    old = puffins(table)
    iceberg.delete(table, "id = 2")
    found = iceberg.orphan_files(table, keep=[], older_than=AT_ONCE)["path"].to_pylist()
    assert old <= set(found)
    assert not puffins(table) & set(found)
    before = ids(table)
    for path in found:
        local(path).unlink()
    assert ids(table) == before
    assert iceberg.verify(table) == []
    with pytest.raises(NotFoundError, match="no snapshot 17"):
        iceberg.orphan_files(table, keep=[17])


def test_every_file_io_lists_orphans(tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    io = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
    catalog = SqlCatalog("f", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh", **io)
    catalog.create_namespace("n")
    table = made(catalog, 2)
    iceberg.delete(table, "id = 1")
    iceberg.delete(table, "id = 101")
    assert iceberg.verify(table) == []
    assert iceberg.compact(table).puffin_files_removed == 2
    assert iceberg.orphan_files(table, older_than=AT_ONCE).num_rows == 0
    freed = iceberg.orphan_files(table, older_than=AT_ONCE, keep=[])["path"].to_pylist()
    assert sum(path.endswith(".puffin") for path in freed) == 2
    assert all(local(path).exists() for path in freed)
    local(puffins(table).pop()).unlink()
    assert kinds(table) == ["missing", "missing"]
    catalog.engine.dispose()


Job = Callable[..., iceberg.RewriteResult]


@pytest.mark.parametrize("job", [iceberg.compact, iceberg.repair])
def test_dry_runs_leave_no_file(racing: SqlCatalog, job: Job) -> None:
    table = made(racing, 2)
    first, second = (task.data for task in tasks(table))
    add_vector(table, first, [1])
    add_vector(table, second, [1])
    if job is iceberg.repair:
        add_vector(table, second, [2])
    before = files_of(table)
    result = job(table, dry_run=True)
    assert (result.vectors_written, result.snapshot_id, result.dry_run) == (
        2 if job is iceberg.compact else 1,
        None,
        True,
    )
    assert files_of(table) == before


@pytest.mark.parametrize("broken", [False, True])
def test_a_puffin_file_is_opened_a_few_times_however_many_vectors_it_has(
    racing: SqlCatalog, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    n_files = 12
    table = made(racing, n_files)
    iceberg.delete_keys(table, pa.table({"id": range(0, n_files * N, 7)}), ["id"])
    vectors = [task.vector for task in tasks(table) if task.vector is not None]
    (path,) = {vector.file_path for vector in vectors}
    assert len(vectors) == n_files
    if broken:
        data = bytearray(local(path).read_bytes())
        data[(vectors[3].content_offset or 0) + 12] ^= 0xFF
        local(path).write_bytes(data)
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
    findings = iceberg.verify(table)
    assert [finding.kind for finding in findings] == (["corrupt"] if broken else [])
    result = iceberg.repair(table, dry_run=True)
    assert len(result.not_rewritten) == broken
    if not broken:
        assert opened.count(path) == 6, opened  # each job: for its footer, its blobs, and the vectors
        assert 6 <= len(fetched) <= 18, fetched
