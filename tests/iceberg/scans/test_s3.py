"""Tables on an object store (S3 by moto); the requests are counted."""

from __future__ import annotations

import gc
import itertools
import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin_fast import iceberg
from puffin_fast.errors import CorruptDataError, NotFoundError, PuffinFastError
from puffin_fast.iceberg.manifest import DATA, DELETES, manifests_of, read_manifest
from puffin_fast.iceberg.manifest import reader as manifest_reader
from puffin_fast.iceberg.manifest.reader import Fetched
from puffin_fast.parquet.column_chunks import ColumnChunks
from puffin_fast.puffin import vectors as files
from puffin_fast.rows.files import parquet
from tests.iceberg.conftest import current_snapshot
from tests.iceberg.verbs import REWRITES, ROWS, WRITES
from tests.kit.object_store import Store, catalog, store
from tests.kit.tables import iceberg_table, parts

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["catalog", "store"]


IDS = pa.table({"id": range(3000)})
UNCOMPRESSED = {"write.parquet.compression-codec": "uncompressed"}
GROUP_ROWS, N_GROUPS = 20_000, 6
FOOTER = 64 << 10
"""Bytes at a file's end that a Parquet reader asks for before it knows anything."""


def test_a_table_on_s3_is_written_and_read(catalog: SqlCatalog) -> None:
    table = iceberg_table(catalog, parts(pa.table({"id": range(300), "w": ["old"] * 300}), 3))
    iceberg.delete(table, "id >= 90 and id < 110")
    iceberg.delete_keys(table, pa.table({"id": [5, 205]}), ["id"])
    iceberg.upsert(table, pa.table({"id": [6, 300], "w": ["new", "new"]}), ["id"])
    expected = {id: "old" for id in (*range(90), *range(110, 300)) if id not in (5, 205)}
    expected |= {6: "new", 300: "new"}

    def agree() -> None:
        scan = iceberg.scan(table)
        views = iceberg.scan(table, string_views=True).to_polars().to_arrow()
        for rows in (scan.to_arrow(), scan.to_polars().to_arrow(), views, table.scan().to_arrow()):
            assert rows.num_rows == len(expected)
            assert dict(zip(rows["id"].to_pylist(), rows["w"].to_pylist(), strict=True)) == expected
        assert iceberg.verify(table) == []

    agree()
    assert iceberg.compact(table).puffin_files_written == 1
    agree()
    assert iceberg.repair(table).commit.id is None
    assert iceberg.deletes(table).num_rows == 3
    at_once = timedelta(seconds=-5)
    assert iceberg.orphan_files(table, older_than=at_once).num_rows == 0
    freed = iceberg.orphan_files(table, older_than=at_once, keep=[])["path"].to_pylist()
    for path in freed:
        table.io.delete(path)
    agree()


def test_a_vector_beyond_the_end_of_its_file_is_an_error(catalog: SqlCatalog) -> None:
    table = iceberg_table(catalog, IDS.slice(0, 100))
    iceberg.delete(table, "id < 50 and id <> 7")
    (task,) = iceberg.plan_files(table).tasks
    assert task.vector is not None
    offset = task.vector.content_offset
    data = table.io.new_input(task.vector.file_path).open().read()
    assert offset is not None
    for size in (0, offset, offset + 9):
        with table.io.new_output(task.vector.file_path).create(overwrite=True) as file:
            file.write(data[:size])
        with pytest.raises(CorruptDataError, match="range beyond the end") as caught:
            iceberg.scan(table).to_arrow()
        assert caught.value.path == task.vector.file_path


def test_position_deletes_become_vectors_on_s3(catalog: SqlCatalog) -> None:
    table = iceberg_table(catalog, IDS.slice(0, 100), version=2)
    iceberg.delete(table, "id < 10")
    iceberg.upgrade(table)
    assert iceberg.convert_position_deletes(table).vectors_written == 1
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == list(range(10, 100))


def test_a_warehouse_that_is_read_only(catalog: SqlCatalog, store: Store) -> None:
    table = iceberg_table(catalog, parts(ROWS, 2))
    for id in (20, 70):
        iceberg.delete(table, f"id = {id}")
    head, rows = table.metadata.current_snapshot_id, iceberg.scan(table).to_arrow()
    store.denied.update({"PUT", "POST", "DELETE"})
    try:
        for job in (*WRITES.values(), REWRITES["compact"]):
            with pytest.raises(PuffinFastError):
                job(table)
    finally:
        store.denied.clear()
    table.refresh()
    assert table.metadata.current_snapshot_id == head
    assert iceberg.scan(table).to_arrow().equals(rows)
    assert iceberg.orphan_files(table, older_than=timedelta(seconds=-5)).num_rows == 0


def test_one_vector_costs_one_request_for_its_own_bytes(catalog: SqlCatalog, store: Store) -> None:
    table = iceberg_table(catalog, parts(pa.table({"id": range(5000)}), 5))
    some = [1000 * number + at for number in range(5) for at in range(0, 1000, number + 3)]
    iceberg.delete_keys(table, pa.table({"id": some}), ["id"])
    vectors = [task.vector for task in iceberg.plan_files(table).tasks if task.vector is not None]
    assert (len(vectors), len({vector.file_path for vector in vectors})) == (5, 1)
    for vector in vectors:
        offset, length = vector.content_offset, vector.content_size_in_bytes
        assert offset is not None
        assert length is not None
        store.requests.clear()
        bitmap = files.read_vector(vector.file_path, offset=offset, length=length, filesystem=table.io)
        assert len(bitmap) == vector.record_count
        assert store.reads(vector.file_path) == [(offset, offset + length)]
        assert len(store.requests) <= 2  # and one for the file's size, where the FileIO asks


def test_a_scan_reads_the_vectors_of_its_data_files_only(catalog: SqlCatalog, store: Store) -> None:
    table = iceberg_table(catalog, parts(IDS, 3))
    iceberg.delete(table, "id in (5, 1005, 1007, 2005)")
    first, second, third = sorted(iceberg.plan_files(table).tasks, key=lambda t: t.data.sequence_number or 0)
    store.requests.clear()
    assert iceberg.scan(table, "id >= 1000 and id < 2000").to_arrow().num_rows == 998
    assert second.vector is not None
    offset, length = second.vector.content_offset or 0, second.vector.content_size_in_bytes or 0
    assert store.reads(second.vector.file_path) == [(offset, offset + length)]
    assert store.reads(second.data.file_path)
    for other in (first, third):
        assert store.reads(other.data.file_path) == []


def test_manifests_of_data_and_delete_files_are_requested_together(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = iceberg_table(catalog, parts(IDS, 3))
    iceberg.delete(table, "id in (5, 1005, 1007, 2005)")
    all_wait, read = threading.Barrier(4, timeout=60), manifest_reader.read_together

    def together(*given: Any) -> list[bytes | None]:
        all_wait.wait()
        return read(*given)

    monkeypatch.setattr(manifest_reader, "read_together", together)
    plan = iceberg.plan_files(table, row_filter="id >= 1000 and id < 2000")
    assert [task.vector is not None for task in plan.tasks] == [True]
    assert len(iceberg.plan_files(table).tasks) == 3


@pytest.mark.parametrize("row_filter", ["id < 1000", "id >= 9000"], ids=["some", "none"])
def test_a_plan_leaves_no_threads(catalog: SqlCatalog, row_filter: str) -> None:
    table = iceberg_table(catalog, parts(IDS, 3))
    iceberg.delete(table, "id in (5, 1005, 2005)")
    before = {*threading.enumerate()}
    gc.disable()
    try:
        iceberg.plan_files(table, row_filter=row_filter)
        left = [t.name for t in {*threading.enumerate()} - before if t.name.startswith("puffin_fast")]
    finally:
        gc.enable()
    assert left == []


def test_a_manifest_of_deletes_that_cannot_be_read_is_no_error_until_it_is_wanted(
    catalog: SqlCatalog,
) -> None:
    table = iceberg_table(catalog, IDS)
    iceberg.delete(table, "id in (5, 7)")
    snapshot = current_snapshot(table)
    every = manifests_of(table.io, snapshot)
    first, then = ([one for one in every if one.content == content] for content in (DATA, DELETES))
    lost = replace(then[0], path=then[0].path + ".lost")
    fetched = Fetched.together(table.io, first, [lost, *then])
    assert fetched is not None
    assert fetched.take(first[0])
    assert fetched.take(then[0])
    fetched = Fetched.together(table.io, first, [lost, *then])
    assert fetched is not None
    assert fetched.take(lost) is None
    assert fetched.take(then[0])
    with pytest.raises(NotFoundError):
        read_manifest(table.io, lost)


def test_vectors_of_small_data_files_are_read_together(catalog: SqlCatalog, store: Store) -> None:
    rows = pa.table({"id": range(160), "p": [i % 32 for i in range(160)]})
    table = iceberg_table(catalog, rows, partition=("p",))
    iceberg.delete(table, "id < 32")
    (path,) = {task.vector.file_path for task in iceberg.plan_files(table).tasks if task.vector is not None}
    store.requests.clear()
    assert iceberg.scan(table, threads=1).to_arrow().num_rows == 128
    assert len(store.reads(path)) == 1


def test_a_scan_costs_few_requests_for_the_bytes_that_it_needs(
    catalog: SqlCatalog, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_files, n_rows = 5, 30_000
    ids = np.arange(n_files * n_rows)
    rows = pa.table({"id": ids, "x": ids * 7919, "y": ids * 104_729})
    table = iceberg_table(catalog, parts(rows, n_files), properties=UNCOMPRESSED)
    iceberg.delete_keys(table, pa.table({"id": ids[::3]}), ["id"])
    n_manifests = len(manifests(table))
    footers = []
    for task in iceberg.plan_files(table).tasks:
        with table.io.new_input(task.data.file_path).open() as stream:
            footers.append(pq.read_metadata(stream))
    for reader, fields in itertools.product(("pages", "PyArrow"), (("id", "x", "y"), ("id", "y"))):
        case = reader, fields
        if reader == "PyArrow":
            monkeypatch.setattr(ColumnChunks, "pages_of", lambda *args, **options: {})
        store.requests.clear()
        found = iceberg.scan(table, selected_fields=fields).to_arrow()
        assert found.num_rows == n_files * n_rows * 2 // 3, case
        heads = [request for request in store.requests if request.method == "HEAD"]
        gets = [request for request in store.requests if request.method == "GET"]
        in_parts = len(fields) == 2  # with a column between that is not read
        # the manifest list, the manifests, the vectors; of each data file the footer, and its columns
        assert len(gets) <= 1 + n_manifests + 1 + n_files * (2 + in_parts), case
        if "pyarrow" in catalog.properties["py-io-impl"].rpartition(".")[0]:
            assert len(heads) <= 1 + n_manifests + 1 + n_files, case
        else:
            assert len(heads) <= 1, case
        chunks = [footer.row_group(0).column(at) for footer in footers for at in range(rows.num_columns)]
        needed = sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in fields)
        data = sum(request.stop - request.start for request in gets if request.path.endswith(".parquet"))
        assert data <= needed + n_files * FOOTER, case


def test_a_data_file_of_another_size_than_stated_is_read(catalog: SqlCatalog, store: Store) -> None:
    table = iceberg_table(catalog, pa.table({"id": range(300_000)}))
    (task,) = iceberg.plan_files(table).tasks
    size = task.data.file_size_in_bytes
    assert size > FOOTER
    for wrong in (1, 8, size - 1, size + 1, 2 * size, 0, -1):
        reader = parquet.ParquetReader(table.io, task.data.file_path, size=wrong)
        again = reader.reopen()
        for one in (reader, again):
            found = one.columns(0, ["id"], 1 << 17, use_threads=False).read(299_000, 1000, None)
            assert found["id"].to_pylist() == [*range(299_000, 300_000)]
    missing = table.location() + "/data/none.parquet"
    for stated in (None, size):
        with pytest.raises(NotFoundError, match="no such file"):
            parquet.ParquetReader(table.io, missing, size=stated)


def manifests(table: Table) -> list[Any]:
    snapshot = current_snapshot(table)
    return snapshot.manifests(table.io)


@pytest.fixture
def wide(catalog: SqlCatalog) -> tuple[Table, str, pq.FileMetaData]:
    """A table of one data file with six row groups of two columns, 160 KB each; its path and footer."""
    properties = {"write.parquet.row-group-limit": str(GROUP_ROWS), **UNCOMPRESSED}
    ids = np.arange(GROUP_ROWS * N_GROUPS)
    table = iceberg_table(catalog, pa.table({"id": ids, "x": ids * 7919}), properties=properties)
    path = iceberg.plan_files(table).tasks[0].data.file_path
    with table.io.new_input(path).open() as stream:
        footer = pq.read_metadata(stream)
    assert footer.num_row_groups == N_GROUPS
    return table, path, footer


def span(footer: pq.FileMetaData, group: int, columns: tuple[int, ...]) -> tuple[int, int]:
    """The bytes of some neighbouring columns of a row group."""
    chunks = [footer.row_group(group).column(at) for at in columns]
    starts = [min(filter(None, (c.dictionary_page_offset, c.data_page_offset))) for c in chunks]
    return min(starts), max(s + c.total_compressed_size for s, c in zip(starts, chunks, strict=True))


@pytest.mark.parametrize("where", ["a filter", "a filter on one column", "a vector"])
def test_a_scan_reads_the_row_groups_that_it_needs(
    store: Store, wide: tuple[Table, str, pq.FileMetaData], where: str
) -> None:
    table, path, footer = wide
    columns, fields = (0, 1), ("id", "x")
    if where == "a vector":
        iceberg.delete(table, f"id < {2 * GROUP_ROWS} or id >= {3 * GROUP_ROWS}")
        filter = "id >= 0"
    else:
        filter = f"id >= {2 * GROUP_ROWS} and id < {2 * GROUP_ROWS + 10}"
        if where.endswith("one column"):
            columns, fields = (0,), ("id",)
    store.requests.clear()
    found = iceberg.scan(table, filter, fields).to_arrow()
    assert found["id"][0].as_py() == 2 * GROUP_ROWS
    start, stop = span(footer, 2, columns)
    tail = span(footer, N_GROUPS - 1, (1,))[1] - FOOTER
    reads = store.reads(path)
    assert all((start <= a and b <= stop) or a >= tail for a, b in reads), (reads, start, stop, tail)
    assert sum(b - a for a, b in reads) <= stop - start + 2 * FOOTER
    assert len(reads) <= 6


def test_a_delete_reads_its_filters_columns_of_the_row_groups_that_may_match(
    store: Store, wide: tuple[Table, str, pq.FileMetaData]
) -> None:
    table, path, footer = wide
    store.requests.clear()
    assert iceberg.delete(table, f"id = {3 * GROUP_ROWS + 5}").rows_deleted == 1
    start, stop = span(footer, 3, (0,))
    tail = span(footer, N_GROUPS - 1, (1,))[1] - FOOTER
    reads = store.reads(path)
    assert all((start <= a and b <= stop) or a >= tail for a, b in reads), (reads, start, stop, tail)
    assert len(reads) <= 4
