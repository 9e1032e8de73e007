"""The delete index finds delete files by path, bounds, partition and sequence number, in linear time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadata

from puffin_fast.iceberg import plan_files
from puffin_fast.iceberg.manifest import ManifestEntry
from puffin_fast.iceberg.plan.delete_index import DeleteIndex
from puffin_fast.iceberg.plan.inventory import take_inventory
from puffin_fast.rows.shared_deletes import FILE_PATH_ID
from tests.iceberg.plan.planned import data, positions, table_of

paths = st.sampled_from(["", "a", "b", "ba", "c", "é", "z"])
bounds = st.one_of(st.none(), st.tuples(paths, paths))
numbers = st.integers(0, 4)


def applies(delete: ManifestEntry, file: ManifestEntry) -> bool:
    """Whether a delete file applies to a data file, by the rule of the specification."""
    path = file.file_path.encode()
    lower = (delete.lower_bounds or {}).get(FILE_PATH_ID, path)
    upper = (delete.upper_bounds or {}).get(FILE_PATH_ID, path)
    newer = (delete.sequence_number or 0) >= (file.sequence_number or 0)
    return newer and lower <= path <= upper and delete.partition == file.partition


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> TableMetadata:
    return table_of(tmp_path_factory.mktemp("index")).metadata


@given(
    files=st.lists(st.tuples(paths, numbers), max_size=8),
    deletes=st.lists(st.tuples(bounds, numbers), max_size=12),
)
def test_the_index_finds_the_delete_files_that_apply(
    metadata: TableMetadata,
    files: list[tuple[str, int]],
    deletes: list[tuple[tuple[str, str] | None, int]],
) -> None:
    index = DeleteIndex(metadata)
    entries = [positions(f"p{at}", number, pair) for at, (pair, number) in enumerate(deletes)]
    index.add(entries)
    for task in index.tasks([data(path, number) for path, number in files]):
        found = {entry.file_path for entry in task.position_deletes}
        assert found == {entry.file_path for entry in entries if applies(entry, task.data)}
        assert len(found) == len(task.position_deletes)


def test_data_files_with_equal_deletes_share_one_tuple(tmp_path: Path) -> None:
    n = 300
    wide = [positions(f"w{at}", 60) for at in range(n)]
    narrow = [positions(f"p{at}", 60, (f"d{at:06d}", f"d{at + 1:06d}")) for at in range(n)]
    for deletes, per_file in ((wide, n), (narrow, 2)):
        table = table_of(tmp_path, *(data(f"d{at:06d}", 1) for at in range(n)), *deletes)
        plan, found = plan_files(table), take_inventory(table, table.current_snapshot())
        assert plan.unused == found.dangling == []
        for files in (plan.tasks, found.files):
            groups = {id(file.position_deletes): file.position_deletes for file in files}
            assert sum(map(len, groups.values())) <= 3 * n
            assert {len(file.position_deletes) for file in files[1:-1]} == {per_file}
