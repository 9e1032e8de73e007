"""The deletes of given data files are those that the list of all deletes has for them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin_fast import iceberg
from puffin_fast.errors import NotFoundError
from tests.iceberg.maintenance.delete_files import random_table
from tests.iceberg.maintenance.maintained import N, entries_made, made, tasks


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


@pytest.mark.parametrize("seed", range(6))
def test_those_of_given_data_files_are_listed_as_among_all(racing: SqlCatalog, seed: int) -> None:
    table = random_table(racing, seed)
    every = iceberg.deletes(table)
    paths = sorted(task.data.file_path for task in iceberg.plan_files(table).tasks)
    for some in ([path] for path in paths):
        assert iceberg.deletes(table, file_paths=some) == of_files(every, some)
    assert iceberg.deletes(table, file_paths=paths[::2]) == of_files(every, paths[::2])


def of_files(rows: pa.Table, paths: list[str]) -> pa.Table:
    return rows.filter(pc.is_in(rows["data_file"], pa.array(paths, pa.string())))


def test_entries_of_other_data_files_are_not_made(
    racing: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(racing, 5)
    iceberg.delete(table, "id >= 0 and id < 490 and id <> 7")
    path = iceberg.plan_files(table).tasks[0].data.file_path
    entries = entries_made(monkeypatch)
    found = iceberg.deletes(table, file_paths=[path])
    assert found["data_file"].to_pylist() == [path]
    assert {entry.content for entry in entries} == {0, 1}
    assert len(entries) == 2


def test_a_path_of_no_data_file_is_an_error(racing: SqlCatalog) -> None:
    table = made(racing, 2)
    assert iceberg.deletes(table, file_paths=[]).num_rows == 0
    with pytest.raises(NotFoundError, match=r"other\.parquet: expected a data file of the snapshot"):
        iceberg.deletes(table, file_paths=["other.parquet"])
