"""Compaction writes the vectors of small Puffin files to few; no delete is lost, and dangling vectors go."""

from __future__ import annotations

import pytest
from duckdb import DuckDBPyConnection
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.compat.table_properties import CARRY_SHARED_VECTORS
from tests.iceberg.conftest import rows_of_duckdb, unchanged
from tests.iceberg.maintenance.delete_files import random_table
from tests.iceberg.maintenance.maintained import N, add_vector, entries_made, ids, kinds, made, puffins, tasks
from tests.kit.faults import RacingCatalog


def share_no_files(table: Table) -> None:
    """Deletes move the vectors that they change, and leave the others in their Puffin files."""
    with iceberg.v3_metadata(table.catalog):
        table.transaction().set_properties({CARRY_SHARED_VECTORS: "false"}).commit_transaction()


def test_many_puffin_files_become_one(racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection) -> None:
    table = made(racing, 6)
    for number in range(6):
        iceberg.delete(table, f"id >= {number * N + 10} and id < {number * N + 13 + number}")
    before = ids(table)
    old = {task.data.file_path: task.vector for task in tasks(table)}
    assert len(puffins(table)) == 6
    with unchanged(table):
        planned = iceberg.compact(table, dry_run=True)
    result = iceberg.compact(table)
    assert (result.puffin_files_written, result.puffin_files_removed, result.vectors_written) == (1, 6, 6)
    assert (planned.puffin_files_removed, planned.commit.n_bytes) == (6, result.commit.n_bytes)
    assert (planned.commit.id, planned.vectors_written, planned.dry_run) == (None, 6, True)
    assert len(puffins(table)) == 1
    assert ids(table) == before == set(rows_of_duckdb(duckdb_iceberg, table)["id"].to_pylist())
    for task in tasks(table):
        was, now = old[task.data.file_path], task.vector
        assert was is not None
        assert now is not None
        assert (now.sequence_number, now.record_count) == (was.sequence_number, was.record_count)
    assert iceberg.verify(table) == []
    assert iceberg.compact(table).commit.id is None


def test_a_file_of_mostly_superseded_vectors_is_rewritten(racing: RacingCatalog) -> None:
    table = made(racing, 4)
    iceberg.delete(table, "id < 400 and id >= 0 and id != 50 and id != 150 and id != 250 and id != 350")
    (old,) = puffins(table)
    share_no_files(table)
    iceberg.delete(table, "id = 50 or id = 150")  # drops two data files, and with them their vectors
    assert iceberg.compact(table, target_file_size=1).puffin_files_removed == 1
    assert old not in puffins(table)
    assert ids(table) == {250, 350}
    assert iceberg.compact(table, target_file_size=1).commit.id is None


def test_dangling_vectors_are_dropped(racing: RacingCatalog) -> None:
    table = made(racing, 3)
    iceberg.delete(table, "id = 5 or id = 105")
    commit(table, Changes(removed=(tasks(table)[0].data,)), base=table.current_snapshot())
    assert kinds(table) == ["dangling"]
    assert "compact: 1 vector of no live data file" in iceberg.report(table).advice
    result = iceberg.compact(table)
    assert (result.vectors_removed, result.vectors_written) == (2, 1)  # the file's other vector moves along
    assert kinds(table) == []
    assert ids(table) == set(range(100, 300)) - {105}


@pytest.mark.parametrize("target_file_size", [60, 90, 110, 120, 200])
def test_compacting_twice_changes_nothing(racing: RacingCatalog, target_file_size: int) -> None:
    table = made(racing, 6)
    for number in range(6):  # vectors of different sizes, above and below half of the target
        iceberg.delete(table, f"id >= {number * N} and id < {number * N + 1 + 7 * number}")
        iceberg.delete(table, f"id = {number * N + 80}")
    before = ids(table)
    iceberg.compact(table, target_file_size=target_file_size)
    assert iceberg.compact(table, target_file_size=target_file_size).commit.id is None
    assert ids(table) == before


def test_a_delete_during_compaction_is_kept(racing: RacingCatalog) -> None:
    table = made(racing, 3)
    for number in range(3):
        iceberg.delete(table, f"id = {number * N}")
    other = racing.load_table("n.t")
    racing.before = [lambda: iceberg.delete(other, "id = 7 or id = 107")]
    assert iceberg.compact(table).commit.attempts == 2
    assert ids(table) == {*range(300)} - {0, 100, 200, 7, 107}
    assert iceberg.verify(table) == []
    assert len(puffins(table)) == 1


# Of given data files -----------------------------------------------------------------------------------------


def deleted_by_pairs(catalog: RacingCatalog, n_files: int) -> tuple[Table, list[str]]:
    """A table where each two neighboring data files have their vectors in one Puffin file; and its data files."""
    table = made(catalog, n_files)
    for first in range(0, n_files, 2):
        iceberg.delete(table, f"id >= {first * N + 50} and id < {first * N + 150}")
    return table, [task.data.file_path for task in tasks(table)]


def test_only_puffin_files_of_given_data_files_are_rewritten(racing: RacingCatalog) -> None:
    table, paths = deleted_by_pairs(racing, 8)
    live, before = ids(table), puffins(table)
    old = [task.vector.file_path for task in tasks(table) if task.vector]
    assert [old.index(path) for path in old] == [0, 0, 2, 2, 4, 4, 6, 6]
    result = iceberg.compact(table, file_paths=[paths[0], paths[5]])
    assert (result.puffin_files_written, result.puffin_files_removed) == (1, 2)
    assert (result.vectors_written, result.vectors_removed, result.rows_deleted) == (4, 4, 0)
    new = [task.vector.file_path for task in tasks(table) if task.vector]
    assert [new[n] == old[n] for n in range(8)] == [False, False, True, True, False, False, True, True]
    assert puffins(table) == before - {old[0], old[4]} | {new[0]}
    assert ids(table) == live
    assert iceberg.verify(table) == []


def test_a_single_small_file_stays(racing: RacingCatalog) -> None:
    table, (path, *_) = deleted_by_pairs(racing, 4)
    assert iceberg.compact(table, file_paths=[path]).commit.id is None
    assert iceberg.compact(table, file_paths=[]).commit.id is None
    share_no_files(table)
    iceberg.delete(table, f"id = {N + 60}")  # its vector moves: the file has a vector that nothing references
    assert iceberg.compact(table, file_paths=[path]).vectors_written == 1


@pytest.mark.parametrize("seed", range(6))
def test_all_data_files_are_compacted_as_without_paths(racing: RacingCatalog, seed: int) -> None:
    table = random_table(racing, seed)
    every = iceberg.compact(table, dry_run=True)
    some = iceberg.compact(table, dry_run=True, file_paths=[task.data.file_path for task in tasks(table)])
    names = ("vectors_written", "puffin_files_written", "positions", "rows_deleted")
    assert [getattr(some, name) for name in names] == [getattr(every, name) for name in names]


@pytest.mark.parametrize("is_raced", [False, True], ids=["before", "meanwhile"])
def test_a_data_file_that_is_dropped_leaves_no_vector(racing: RacingCatalog, is_raced: bool) -> None:
    table, paths = deleted_by_pairs(racing, 4)
    live, other = ids(table), racing.load_table("n.t")
    racing.before = [lambda: iceberg.delete(other, f"id >= {N} and id < {2 * N}")]
    if is_raced:
        result = iceberg.compact(table, file_paths=paths[:3])
        assert (result.commit.attempts, result.commit.id is None) == (2, False)
    else:
        racing.before.pop()()
        iceberg.compact(table.refresh(), file_paths=[paths[0], paths[2]])
    assert paths[1] not in {task.data.file_path for task in tasks(table)}
    assert ids(table) == live - {*range(N, 2 * N)}
    assert iceberg.verify(table) == []


def test_entries_of_other_data_files_are_not_made(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, (path, *_) = deleted_by_pairs(racing, 8)
    entries = entries_made(monkeypatch)
    iceberg.compact(table, file_paths=[path], dry_run=True)
    assert len({entry.referenced_data_file or entry.file_path for entry in entries}) == 2


def test_a_second_vector_is_an_error(racing: RacingCatalog) -> None:
    table, (path, *_) = deleted_by_pairs(racing, 4)
    add_vector(table, tasks(table)[0].data, [3])
    with pytest.raises(CorruptDataError, match="2 deletion vectors for one data file"):
        iceberg.compact(table, file_paths=[path])


def test_bad_arguments_are_refused(racing: RacingCatalog) -> None:
    table, _ = deleted_by_pairs(racing, 2)
    with pytest.raises(NotFoundError, match=r"other\.parquet: expected a data file of the snapshot"):
        iceberg.compact(table, file_paths=["other.parquet"])
    with pytest.raises(InvalidInputError, match="file_paths: expected a sequence of names"):
        iceberg.compact(table, file_paths="other.parquet")
    for size in (0, -5):
        with pytest.raises(InvalidInputError, match="target_file_size"):
            iceberg.compact(table, target_file_size=size)
