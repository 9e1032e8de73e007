"""A commit that removes a vector moves the others of its Puffin file to new files; they do not change."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.compat.table_properties import CARRY_SHARED_VECTORS, MOST_VECTORS
from puffin_fast.iceberg.manifest import DELETED, manifests_of, read_manifests
from puffin_fast.puffin.vectors import read_vector
from puffin_fast.rows.deletes.loader import ReadAhead
from tests.iceberg.conftest import rows_of, set_properties
from tests.kit.faults import RacingCatalog
from tests.kit.tables import files_of, iceberg_table, path_of

FILES = 250
"""More than two Puffin files have vectors."""


def made(racing: RacingCatalog, n_files: int = FILES, **properties: str) -> Table:
    """A table with a partition of ten rows for each data file, the first of which is deleted."""
    rows = pa.table({"id": range(10 * n_files), "p": [i // 10 for i in range(10 * n_files)]})
    table = iceberg_table(racing, rows, partition=("p",), properties=properties)
    iceberg.delete(table, f"id in ({', '.join(str(10 * i) for i in range(n_files))})")
    return table


def vectors(table: Table) -> dict[int, Any]:
    """The entries of the live vectors by partition."""
    table.refresh()
    found = {task.data.partition[0]: task.vector for task in iceberg.plan_files(table).tasks}
    return {partition: vector for partition, vector in found.items() if vector is not None}


def puffin_files(table: Table) -> Counter[str]:
    return Counter(vector.file_path for vector in vectors(table).values())


def removed_and_live(table: Table) -> set[str]:
    """Puffin files of which the newest snapshot has live vectors, and of which any snapshot removed one."""
    found = set()
    for snapshot in table.metadata.snapshots:
        manifests = manifests_of(table.io, snapshot)
        for _, entries in read_manifests(table.io, manifests, table.specs(), live_only=False):
            found |= {entry.file_path for entry in entries if entry.is_vector and entry.status == DELETED}
    return found & puffin_files(table).keys()


@pytest.mark.parametrize(
    ("verb", "carried"),
    [
        (lambda t: iceberg.delete(t, "id = 1"), 99),
        (lambda t: iceberg.delete(t, "p = 3"), 99),
        (lambda t: iceberg.delete(t, "id in (1, 1001, 1002, 2001)"), 99 + 99 + 49),
        (lambda t: iceberg.delete_keys(t, pa.table({"id": [1]}), "id"), 99),
        (lambda t: iceberg.update(t, "id = 1", {"id": 9999}), 99),
        (lambda t: iceberg.overwrite(t, pa.table({"id": [9999], "p": [0]}), "p = 0"), 99),
        (lambda t: iceberg.delete(t, "p >= 100"), 0),
        (lambda t: iceberg.append(t, pa.table({"id": [9999], "p": [0]})), 0),
    ],
)
def test_no_file_has_live_and_removed_vectors(racing: RacingCatalog, verb: Any, carried: int) -> None:
    table = made(racing)
    before = vectors(table)
    assert sorted(puffin_files(table).values()) == [50, MOST_VECTORS, MOST_VECTORS]
    verb(table)
    after = vectors(table)
    assert not removed_and_live(table)
    moved = {
        p: after[p]
        for p in before.keys() & after.keys()
        if after[p].file_path != before[p].file_path and after[p].record_count == before[p].record_count
    }
    assert len(moved) == carried
    for p, vector in moved.items():
        assert vector.sequence_number == before[p].sequence_number
        old, new = (
            read_vector(one.file_path, one.content_offset, one.content_size_in_bytes, filesystem=table.io)
            for one in (before[p], vector)
        )
        assert old == new
    assert max(puffin_files(table).values()) <= MOST_VECTORS
    assert list(iceberg.verify(table)) == []
    assert iceberg.scan(table).to_arrow().sort_by("id").equals(rows_of(table))


def test_the_property_turns_it_off_and_verify_names_the_file(racing: RacingCatalog) -> None:
    table = made(racing, **{CARRY_SHARED_VECTORS: "false"})
    ((path, n),) = puffin_files(table).items()
    assert n == FILES
    iceberg.delete(table, "id = 1")
    assert puffin_files(table)[path] == FILES - 1
    (found,) = iceberg.verify(table)
    assert (found.kind, found.path) == ("stale", path)
    assert f"1 of {FILES} vectors were superseded" in found.message
    set_properties(table, {CARRY_SHARED_VECTORS: "true"})
    iceberg.delete(table, "id = 11")  # heals the file, which has more vectors than files have now
    assert not removed_and_live(table)
    assert max(puffin_files(table).values()) <= MOST_VECTORS
    assert list(iceberg.verify(table)) == []


def test_compact_moves_the_live_vectors_of_a_shared_file(racing: RacingCatalog) -> None:
    table = made(racing, 120, **{CARRY_SHARED_VECTORS: "false"})
    iceberg.delete(table, "id = 1")
    set_properties(table, {CARRY_SHARED_VECTORS: "true"})
    iceberg.compact(table)
    assert max(puffin_files(table).values()) == MOST_VECTORS
    assert list(iceberg.verify(table)) == []
    iceberg.compact(table)
    assert sorted(puffin_files(table).values()) == [20, MOST_VECTORS]
    assert iceberg.compact(table).commit.id is None


@pytest.mark.parametrize("word", ["", "no", "1"])
def test_another_word_is_refused(racing: RacingCatalog, word: str) -> None:
    with pytest.raises(InvalidInputError, match=CARRY_SHARED_VECTORS):
        made(racing, 2, **{CARRY_SHARED_VECTORS: word})


@pytest.mark.parametrize("theirs", ["id = 11", "p = 1"], ids=["vector", "dropped"])
@pytest.mark.parametrize("ours", ["id = 1", "p = 0"], ids=["vector", "dropped"])
def test_writers_of_one_file_stand_beside_each_other(racing: RacingCatalog, ours: str, theirs: str) -> None:
    """Neither plans again: a vector that the other one moved is found where it is."""
    table = made(racing, 5)
    racing.before.append(lambda: iceberg.delete(racing.load_table("n.t"), theirs))
    assert iceberg.delete(table, ours).commit.attempts == 2
    expected = iceberg.scan(table).to_arrow().sort_by("id")["id"].to_pylist()
    gone = {*range(0, 50, 10)}
    for text in (ours, theirs):
        column, _, value = text.split()
        gone |= {int(value)} if column == "id" else {*range(10 * int(value), 10 * int(value) + 10)}
    assert expected == [i for i in range(50) if i not in gone]
    assert not removed_and_live(table)
    assert list(iceberg.verify(table)) == []


def test_a_compaction_beside_a_delete_is_no_conflict(racing: RacingCatalog) -> None:
    table = made(racing, 5)
    iceberg.append(table, pa.table({"id": [100, 101], "p": [9, 9]}))
    iceberg.delete(table, "id = 100")
    racing.before.append(lambda: iceberg.compact(racing.load_table("n.t")))
    assert iceberg.delete(table, "id = 1").commit.attempts == 2
    assert not removed_and_live(table)
    assert list(iceberg.verify(table)) == []


def test_a_lost_race_leaves_no_copies(racing: RacingCatalog) -> None:
    table = made(racing, 5)
    racing.before.append(lambda: iceberg.append(racing.load_table("n.t"), pa.table({"id": [999], "p": [9]})))
    iceberg.delete(table, "id = 1")
    named = {
        task.vector.file_path
        for snapshot in table.metadata.snapshots
        for task in iceberg.plan_files(table, snapshot_id=snapshot.snapshot_id).tasks
        if task.vector
    }
    assert {path for path in files_of(table) if path.suffix == ".puffin"} == {path_of(path) for path in named}


def test_a_file_that_is_lost_does_not_keep_rows_from_being_removed(racing: RacingCatalog) -> None:
    table = made(racing, 3)
    (path,) = puffin_files(table)
    path_of(path).unlink()
    iceberg.delete(table, "p = 1")
    assert puffin_files(table) == {path: 2}


def test_vectors_that_were_carried_are_no_changes_and_not_read(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(racing, 5)
    before = table.metadata.current_snapshot_id
    iceberg.delete(table, "id in (1, 12)")
    iceberg.delete(table, "id = 23")
    read: list[str] = []
    ranges = ReadAhead.__init__

    def counted(self: ReadAhead, io: Any, entries: Any, **options: Any) -> None:
        read.extend(entry.referenced_data_file for entry in entries)
        ranges(self, io, entries, **options)

    monkeypatch.setattr(ReadAhead, "__init__", counted)
    found = iceberg.changes(table, from_snapshot_id_exclusive=before).to_arrow()
    assert sorted(zip(found["id"].to_pylist(), found["_change_type"].to_pylist(), strict=True)) == [
        (1, "delete"),
        (12, "delete"),
        (23, "delete"),
    ]
    assert len(set(read)) == 3


def test_no_file_of_a_transaction_has_superseded_vectors(racing: RacingCatalog) -> None:
    table = made(racing, 5)
    with iceberg.transaction(table) as transaction:
        transaction.delete("id in (1, 11, 21)")
        transaction.delete("id = 2")
        transaction.update("id = 12", {"id": 999})
    assert list(iceberg.verify(table)) == []
    assert not removed_and_live(table)
    assert {p: vector.record_count for p, vector in vectors(table).items()} == {0: 3, 1: 3, 2: 2, 3: 1, 4: 1}
    assert iceberg.scan(table).to_arrow().sort_by("id").equals(rows_of(table))
