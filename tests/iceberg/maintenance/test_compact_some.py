"""Compaction of given data files rewrites the Puffin files of their vectors, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from puffin_fast import iceberg
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError
from puffin_fast.iceberg.compat.table_properties import CARRY_SHARED_VECTORS
from puffin_fast.iceberg.manifest import ManifestEntry
from tests.iceberg.maintenance.delete_files import random_table
from tests.iceberg.maintenance.maintained import N, add_vector, ids, made, puffins, tasks

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table


def deleted_by_pairs(catalog: SqlCatalog, n_files: int) -> Table:
    """A table where each two neighboring data files have their vectors in one Puffin file."""
    table = made(catalog, n_files)
    for first in range(0, n_files, 2):
        iceberg.delete(table, f"id >= {first * N + 50} and id < {first * N + 150}")
    return table


def test_only_puffin_files_of_given_data_files_are_rewritten(racing: SqlCatalog) -> None:
    table = deleted_by_pairs(racing, 8)
    found, live, before = tasks(table), ids(table), puffins(table)
    old = [task.vector.file_path for task in found if task.vector]
    assert [old.index(path) for path in old] == [0, 0, 2, 2, 4, 4, 6, 6]
    result = iceberg.compact(table, file_paths=[found[0].data.file_path, found[5].data.file_path])
    assert (result.puffin_files_written, result.puffin_files_removed) == (1, 2)
    assert (result.vectors_written, result.vectors_removed, result.rows_deleted) == (4, 4, 0)
    new = [task.vector.file_path for task in tasks(table) if task.vector]
    assert [new[n] == old[n] for n in range(8)] == [False, False, True, True, False, False, True, True]
    assert puffins(table) == before - {old[0], old[4]} | {new[0]}
    assert ids(table) == live
    assert not iceberg.verify(table)


def test_a_single_small_file_stays(racing: SqlCatalog) -> None:
    table = deleted_by_pairs(racing, 4)
    path = tasks(table)[0].data.file_path
    assert iceberg.compact(table, file_paths=[path]).snapshot_id is None
    assert iceberg.compact(table, file_paths=[]).snapshot_id is None
    with iceberg.v3_metadata(racing):
        table.transaction().set_properties({CARRY_SHARED_VECTORS: "false"}).commit_transaction()
    iceberg.delete(table, f"id = {N + 60}")  # its vector moves: the file has a vector that nothing references
    assert iceberg.compact(table, file_paths=[path]).vectors_written == 1


@pytest.mark.parametrize("seed", range(6))
def test_all_data_files_are_compacted_as_without_paths(racing: SqlCatalog, seed: int) -> None:
    table = random_table(racing, seed)
    every = iceberg.compact(table, dry_run=True)
    some = iceberg.compact(table, dry_run=True, file_paths=[task.data.file_path for task in tasks(table)])
    names = ("vectors_written", "puffin_files_written", "positions", "rows_deleted")
    assert [getattr(some, name) for name in names] == [getattr(every, name) for name in names]


def test_dangling_vectors_of_these_puffin_files_are_removed(racing: SqlCatalog) -> None:
    table = deleted_by_pairs(racing, 4)
    first, second, third, _ = (task.data.file_path for task in tasks(table))
    live = ids(table)
    gone = range(N, 2 * N)
    iceberg.delete(table, f"id >= {N} and id < {2 * N}")  # the second data file is dropped
    assert second not in {task.data.file_path for task in tasks(table)}
    iceberg.compact(table, file_paths=[first, third])
    assert ids(table) == live - {*gone}
    assert not iceberg.verify(table)


def test_a_data_file_that_others_drop_meanwhile_is_left(racing: SqlCatalog) -> None:
    table = deleted_by_pairs(racing, 4)
    first, second, third, _ = (task.data.file_path for task in tasks(table))
    live, other = ids(table), racing.load_table(table.name())
    racing.before = [lambda: iceberg.delete(other, f"id >= {N} and id < {2 * N}")]  # type: ignore[attr-defined]
    result = iceberg.compact(table, file_paths=[first, second, third])
    assert (result.attempts, result.snapshot_id is None) == (2, False)
    assert ids(table) == live - {*range(N, 2 * N)}
    assert not iceberg.verify(table)


def test_entries_of_other_data_files_are_not_made(
    racing: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = deleted_by_pairs(racing, 8)
    path = tasks(table)[0].data.file_path
    made_of: list[str] = []
    check = ManifestEntry.__init__

    def init(self: ManifestEntry, *values: object, **named: object) -> None:
        check(self, *values, **named)  # type: ignore[arg-type]
        made_of.append(self.referenced_data_file or self.file_path)

    monkeypatch.setattr(ManifestEntry, "__init__", init)
    iceberg.compact(table, file_paths=[path], dry_run=True)
    assert len({*made_of}) == 2


def test_a_second_vector_is_an_error(racing: SqlCatalog) -> None:
    table = deleted_by_pairs(racing, 4)
    found = tasks(table)
    add_vector(table, found[0].data, [3])
    with pytest.raises(CorruptDataError, match="2 deletion vectors for one data file"):
        iceberg.compact(table, file_paths=[found[0].data.file_path])


def test_a_path_of_no_data_file_is_an_error(racing: SqlCatalog) -> None:
    table = deleted_by_pairs(racing, 2)
    with pytest.raises(NotFoundError, match=r"other\.parquet: expected a data file of the snapshot"):
        iceberg.compact(table, file_paths=["other.parquet"])
    with pytest.raises(InvalidInputError, match="file_paths: expected a sequence of names"):
        iceberg.compact(table, file_paths="other.parquet")
