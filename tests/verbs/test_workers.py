"""Verbs whose data files are read by the workers of an executor do what they do on threads."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import delta, iceberg
from puffin_fast.errors import CorruptDataError, InvalidInputError, PuffinFastError, UnsupportedError
from puffin_fast.rows.findings import Level
from tests.delta.tables import commit_of
from tests.iceberg.conftest import processes
from tests.kit.kinds import TRACKED
from tests.kit.tables import delta_table, path_of
from tests.rows.deletes.equality_deletes import delete_equal

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

N_FILES, ROWS = 4, 50


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with processes(2) as pool:
        yield pool


@pytest.fixture
def table(shared_catalog: SqlCatalog, namespace: str) -> Table:
    rows = pa.table({"id": range(N_FILES * ROWS), "s": [f"k{at % 7}" for at in range(N_FILES * ROWS)]})
    made = iceberg.create_table(shared_catalog, f"{namespace}.w", rows)
    for at in range(N_FILES):
        iceberg.append(made, rows.slice(at * ROWS, ROWS))
    return made


def files(table: Table) -> set[Path]:
    return {path for path in path_of(table.location()).rglob("*.*") if path.suffix != ".crc"}


@pytest.mark.parametrize("selected", [("*",), ("s",), ("_file", "_pos", "id"), ()])
def test_scans_have_the_rows_and_the_order_of_threads(
    table: Table, pool: ProcessPoolExecutor, selected: tuple[str, ...]
) -> None:
    iceberg.delete(table, "id % 5 = 1")
    for text in ("id % 3 = 0", "s = 'k2' and id > 20", "id < 0"):
        ours = iceberg.scan(table, text, selected, workers=pool)
        theirs = iceberg.scan(table, text, selected)
        assert ours.count() == theirs.count()
        assert ours.to_arrow() == theirs.to_arrow()
        assert sum(batch.num_rows for batch in ours.to_batches()) == theirs.count()
        assert ours.head(3) == theirs.head(3)


@pytest.mark.parametrize("sort_by", [None, ["s desc", "id"]])
def test_rewrites_keep_rows_and_row_ids(
    table: Table, pool: ProcessPoolExecutor, sort_by: list[str] | None
) -> None:
    iceberg.delete(table, "id % 5 = 1")
    names = ("id", "s", "_row_id")
    before = iceberg.scan(table, selected_fields=names).to_arrow().sort_by("id")
    result = iceberg.rewrite_data_files(table, min_deleted=0.1, sort_by=sort_by, workers=pool)
    assert (result.data_files, result.data_files_written, result.rows) == (N_FILES, 1, before.num_rows)
    assert iceberg.scan(table, selected_fields=names).to_arrow().sort_by("id") == before
    assert iceberg.verify(table, level="rows") == []


def test_a_failed_rewrite_leaves_no_file(table: Table, pool: ProcessPoolExecutor) -> None:
    paths = iceberg.scan(table, selected_fields=["_file"]).to_arrow()["_file"].unique().to_pylist()
    file = path_of(paths[-1])
    content = file.read_bytes()
    file.write_bytes(content[:40] + bytes([content[40] ^ 255]) + content[41:])
    data = path_of(table.location()) / "data"
    before = {*data.rglob("*")}
    with pytest.raises(CorruptDataError, match=file.name):
        iceberg.rewrite_data_files(table, min_input_files=2, target_file_size=1 << 14, workers=pool)
    assert {*data.rglob("*")} == before


def test_a_rewrite_of_a_delta_table_keeps_rows_and_leaves_no_other_file(
    pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    rows = pa.table({"id": range(N_FILES * ROWS), "s": [f"k{at % 7}" for at in range(N_FILES * ROWS)]})
    delta.create_table(path, rows.schema, properties=TRACKED, partition_columns=["s"])
    for at in range(N_FILES):
        delta.append(path, rows.slice(at * ROWS, ROWS))
    delta.delete(path, "id % 5 = 1")
    before = delta.scan(path).to_arrow().sort_by("id")
    done = delta.rewrite_data_files(path, min_deleted=0.1, workers=pool)
    assert done.commit.id is not None
    assert (done.data_files, done.data_files_written) == (7 * N_FILES, 7)
    assert delta.scan(path).to_arrow().sort_by("id") == before
    assert commit_of(path, done.commit.id)["commitInfo"][0]["tags"] == {"delta.rowTracking.preserved": "true"}
    assert delta.verify(path) == []
    assert delta.remove_orphan_files(path, older_than=timedelta(0), dry_run=True).files.num_rows == 0


def test_a_failed_rewrite_of_a_delta_table_leaves_no_file(pool: ProcessPoolExecutor, tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = pa.table({"id": range(ROWS), "s": [f"k{at % 2}" for at in range(ROWS)]})
    delta.create_table(path, rows.schema, partition_columns=["s"])
    for _ in range(N_FILES):
        delta.append(path, rows)
    file = max(path.rglob("*.parquet"))  # of the second group: the first one is written
    content = file.read_bytes()
    file.write_bytes(content[:20] + bytes(90) + content[110:])
    before = {*path.rglob("*")}
    with pytest.raises(CorruptDataError, match=file.name):
        delta.rewrite_data_files(path, min_input_files=2, target_file_size=1 << 14, workers=pool)
    assert {*path.rglob("*")} == before


def test_damage_is_found_as_on_threads(table: Table, pool: ProcessPoolExecutor) -> None:
    for file in sorted(files(table)):
        if file.suffix == ".parquet":
            content = file.read_bytes()
            file.write_bytes(content[:40] + bytes([content[40] ^ 255]) + content[41:])
    found = iceberg.verify(table, level="rows", workers=pool)
    assert len(found) == N_FILES
    assert found == iceberg.verify(table, level="rows")


def test_damage_of_a_delta_table_is_found_as_on_threads(pool: ProcessPoolExecutor, tmp_path: Path) -> None:
    path = damaged_delta(tmp_path / "t")
    levels: tuple[Level, ...] = ("files", "rows")
    for level in levels:
        found = delta.verify(path, level=level, workers=pool)
        assert len(found) == (1 if level == "files" else 2)
        assert found == delta.verify(path, level=level)


def damaged_delta(folder: Path) -> Path:
    """A table of three data files: one has a byte of another value among its pages, one is missing."""
    rows = pa.table({"id": range(90), "s": ["x" * 40] * 90})
    path = delta_table(folder, [rows.slice(at, 30) for at in (0, 30, 60)])
    first, second, _ = sorted(path.glob("*.parquet"))
    data = first.read_bytes()
    first.write_bytes(data[:20] + bytes(90) + data[110:])
    second.unlink()
    return path


def test_values_are_counted_as_on_threads(table: Table, pool: ProcessPoolExecutor) -> None:
    iceberg.delete(table, "s = 'k2'")
    found, expected = (iceberg.collect_ndv(table, workers=who, dry_run=True) for who in (pool, None))
    assert replace(found, commit=expected.commit) == expected


def test_equality_deletes_become_the_vectors_of_threads(
    shared_catalog: SqlCatalog, namespace: str, pool: ProcessPoolExecutor
) -> None:
    rows = pa.table({"id": range(N_FILES * ROWS)})
    made = [iceberg.create_table(shared_catalog, f"{namespace}.e{at}", rows) for at in range(2)]
    for one in made:
        for at in range(N_FILES):
            iceberg.append(one, rows.slice(at * ROWS, ROWS))
        delete_equal(one, [1], [(3,), (60,), (61,), (199,)])
        iceberg.append(one, rows.slice(60, 1))
    results = [
        iceberg.convert_equality_deletes(one, workers=workers)
        for one, workers in zip(made, (None, pool), strict=True)
    ]
    assert results[0].vectors_written == results[1].vectors_written == 3
    kept = sorted({*range(N_FILES * ROWS)} - {3, 61, 199})
    for one in made:
        assert sorted(iceberg.scan(one).to_arrow()["id"].to_pylist()) == kept


def test_position_deletes_become_the_vectors_of_threads(
    shared_catalog: SqlCatalog, namespace: str, pool: ProcessPoolExecutor
) -> None:
    rows = pa.table({"id": range(N_FILES * ROWS)})
    for at, workers in enumerate((None, pool)):
        name = f"{namespace}.p{at}"
        one = shared_catalog.create_table(name, rows.schema, properties={"format-version": "2"})
        for start in range(N_FILES):
            iceberg.append(one, rows.slice(start * ROWS, ROWS))
        iceberg.delete(one, "id % 7 = 3")
        iceberg.delete(one, "id < 60 and id % 5 = 1")
        kept = iceberg.scan(one).to_arrow()
        iceberg.upgrade(one)
        assert iceberg.convert_position_deletes(one, workers=workers).vectors_written == N_FILES
        assert iceberg.scan(one).to_arrow() == kept
        assert iceberg.verify(one, level="rows") == []


def test_maintenance_has_the_files_and_indexes_of_threads(table: Table, pool: ProcessPoolExecutor) -> None:
    for at in range(N_FILES):
        iceberg.delete(table, f"id = {at * ROWS + 7}")
    before = iceberg.scan(table).to_arrow()
    planned = iceberg.compact(table, dry_run=True)
    done = iceberg.compact(table, workers=pool)
    assert (done.puffin_files_written, done.puffin_files_removed) == (1, N_FILES)
    assert (done.vectors_written, done.commit.n_bytes) == (planned.vectors_written, planned.commit.n_bytes)
    index = iceberg.index_keys(table, "id", workers=pool)
    assert (index.segments, index.data_files, index.rows) == (1, N_FILES, N_FILES * ROWS)
    assert iceberg.scan(table).to_arrow() == before
    assert iceberg.verify(table, level="rows", workers=pool) == []
    policy = iceberg.MaintenancePolicy(("convert", "rewrite", "compact", "index"), min_deleted=0.01)
    kept = iceberg.maintain(table, policy, workers=pool)
    assert kept.data_files is not None
    assert (kept.data_files.data_files, kept.data_files.rows_purged) == (N_FILES, N_FILES)
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == sorted(before["id"].to_pylist())
    assert not [path for path in files(table) if path.suffix == ".segment"]


def test_a_worker_that_ends_fails_the_verb_and_leaves_the_table(table: Table) -> None:
    before = files(table)
    with processes(2) as pool:
        assert pool.submit(os.getpid).result() in pool._processes
        for pid in list(pool._processes):
            os.kill(pid, signal.SIGKILL)
        for _ in range(2):  # the second time the pool says so when work is submitted
            with pytest.raises(PuffinFastError, match="workers: a worker ended while it worked"):
                iceberg.delete(table, "s = 'k3'", workers=pool)
    assert files(table) == before
    assert iceberg.scan(table).count() == N_FILES * ROWS


def test_errors_of_data_files_come_from_workers_as_they_are(table: Table, pool: ProcessPoolExecutor) -> None:
    path = iceberg.scan(table, "id = 0", ["_file"]).to_arrow()["_file"][0].as_py()
    file = path_of(path)
    file.write_bytes(file.read_bytes()[:-8] + bytes(8))
    with pytest.raises(CorruptDataError, match=file.name) as caught:
        iceberg.delete(table, "s = 'k3'", workers=pool)
    assert caught.value.path == path


def test_executors_that_cannot_work_are_refused(table: Table) -> None:
    closed = ThreadPoolExecutor(1)
    closed.shutdown()
    with pytest.raises(InvalidInputError, match="workers: expected an executor that accepts work"):
        iceberg.delete(table, "s = 'k3'", workers=closed)
    given: Any = 2
    with pytest.raises(InvalidInputError, match=r"workers: expected a concurrent.futures.Executor, or None"):
        iceberg.scan(table, workers=given)
    with pytest.raises(InvalidInputError, match=r"Executor, a SparkSession, or None, found 2"):
        iceberg.verify(table, workers=given)


def test_a_table_that_cannot_be_pickled_is_refused(table: Table, pool: Executor) -> None:
    table.io.__dict__["lock"] = lambda: None
    with pytest.raises(UnsupportedError, match="workers: expected a table and a filter that can be pickled"):
        iceberg.scan(table, "s = 'k3'", workers=pool).to_arrow()
