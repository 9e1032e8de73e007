"""A change of few data files makes entries of these only, and its commit reads only the manifests that have them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

import puffin_fast as pf
from puffin_fast.errors import ConflictError, NotFoundError
from puffin_fast.iceberg import plan_files
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.manifest import DELETES, ManifestEntry, key_of, manifests_of, read_manifest, reader
from tests.iceberg.conftest import current_snapshot, refused
from tests.kit.faults import RacingCatalog
from tests.kit.tables import iceberg_table

N_FILES = 12


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    """A table of one manifest for each data file, and one for each of three vectors."""
    rows = [pa.table({"id": pa.array(range(10), pa.int64())})] * N_FILES
    table = iceberg_table(racing, rows, properties={"commit.manifest-merge.enabled": "false"})
    for path in paths(table)[:3]:
        pf.iceberg.delete_positions(table, pa.table({"file_path": [path], "pos": [1]}))
    return table


def paths(table: Table) -> list[str]:
    return sorted(task.data.file_path for task in plan_files(table).tasks)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each manifest was read, and the number of entries that were made."""
    found: Counter[str] = Counter()
    init, read = ManifestEntry.__init__, reader.read_columns

    def made(self: ManifestEntry, *args: Any, **named: Any) -> None:
        found["entries"] += 1
        init(self, *args, **named)

    def columns(io: Any, manifest: Any, *args: Any, **named: Any) -> Any:
        found[manifest.path] += 1
        return read(io, manifest, *args, **named)

    monkeypatch.setattr(ManifestEntry, "__init__", made)
    monkeypatch.setattr(reader, "read_columns", columns)
    return found


def test_positions_of_one_file_touch_its_vector_only(table: Table, counted: Counter[str]) -> None:
    path = paths(table)[0]
    before = [task.data.file_path for task in plan_files(table).tasks].index(path)
    counted.clear()
    result = pf.iceberg.delete_positions(table, pa.table({"file_path": [path, path], "pos": [2, 1]}))
    assert (result.rows_deleted, result.vectors_merged) == (1, 1)
    assert (
        counted.pop("entries") <= 8
    )  # data file, vector, old and new vector, and copies of these; not one of each file
    assert sorted(counted.values()) == [1] * (before + 3) + [2]  # no data manifest after that of the file
    assert pf.iceberg.scan(table).count() == 10 * N_FILES - 4


def test_a_path_that_is_no_live_file_changes_nothing(table: Table) -> None:
    positions = pa.table({"file_path": [paths(table)[0], "lost.parquet"], "pos": [2, 1]})
    with refused(table, NotFoundError, r"lost\.parquet: expected a data file"):
        pf.iceberg.delete_positions(table, positions)


def test_files_of_a_transaction_are_found_by_their_paths(table: Table) -> None:
    """Positions of files that the transaction added or changed itself."""
    old = set(paths(table))
    with pf.iceberg.transaction(table) as transaction:
        transaction.append(pa.table({"id": pa.array([77, 78], pa.int64())}))
        transaction.delete("id = 77")
        transaction.delete_positions(pa.table({"file_path": [min(old)], "pos": [5]}))
        transaction.delete_positions(pa.table({"file_path": [min(old)], "pos": [6]}))
    assert pf.iceberg.scan(table).count() == 10 * N_FILES - 3 - 2 + 1
    (new,) = set(paths(table)) - old
    pf.iceberg.delete_positions(table, pa.table({"file_path": [new], "pos": [1]}))
    assert pf.iceberg.scan(table, "id > 70").count() == 0


@pytest.mark.parametrize("known", ["none", "another", "its own", "all"])
def test_a_vector_is_removed_whatever_is_known_of_its_manifest(table: Table, known: str) -> None:
    """A manifest that held it may have been merged by another commit."""
    head = current_snapshot(table)
    manifests = [manifest.path for manifest in manifests_of(table.io, head) if manifest.content == DELETES]
    vector = next(task.vector for task in plan_files(table).tasks if task.vector is not None)
    (own,) = [
        manifest.path
        for manifest in manifests_of(table.io, head)
        if key_of(vector) in map(key_of, read_manifest(table.io, manifest, table.specs()))
    ]
    another = next(path for path in manifests if path != own)
    near = {"none": [], "another": [another], "its own": [own], "all": manifests}[known]
    changes = Changes(removed=(vector,), operation="replace", manifests=frozenset(near))
    assert commit(table, changes, base=head) is not None
    assert pf.iceberg.scan(table.refresh()).count() == 10 * N_FILES - 2


def test_a_vector_that_is_not_live_is_a_conflict_whatever_is_known_of_its_manifest(table: Table) -> None:
    head = current_snapshot(table)
    vector = next(task.vector for task in plan_files(table).tasks if task.vector is not None)
    manifests = frozenset(manifest.path for manifest in manifests_of(table.io, head))
    lost = replace(vector, file_path="lost.puffin")
    for near in (frozenset[str](), manifests):
        with pytest.raises(ConflictError, match=r"lost\.puffin: expected a live file of the table"):
            commit(table, Changes(removed=(vector, lost), manifests=near), base=head)
