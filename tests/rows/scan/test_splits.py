"""Many small data files: one worker reads several of them and prefetches their vectors, in the order of the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from puffin_fast.errors import CorruptDataError, NotFoundError
from puffin_fast.iceberg.dml.tables import create_table
from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.parquet.column_chunks import ColumnChunks
from puffin_fast.rows.files import parquet
from puffin_fast.rows.scan import splits
from puffin_fast.rows.scan.splits import JOBS_PER_THREAD, jobs_of
from puffin_fast.tables.delete import delete
from puffin_fast.tables.overwrite import append
from puffin_fast.tables.scan import scan
from tests.kit.tables import path_of

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

N_FILES, N_ROWS = 48, 960


@pytest.fixture
def table(racing: SqlCatalog) -> Table:
    """A data file for each of 48 values of `p`, twenty rows each; every third row deleted, all where p = 7."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "p", LongType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))
    made = create_table(racing, "n.t", schema, partition_spec=spec)
    append(made, pa.table({"id": range(N_ROWS), "p": [i % N_FILES for i in range(N_ROWS)]}))
    delete(made, "p = 7 or id in (" + ", ".join(str(i) for i in range(0, N_ROWS, 7)) + ")")
    return made


def rows_in_plan_order(table: Table) -> list[dict[str, Any]]:
    tasks = plan_files(table).tasks
    assert len({task.vector.file_path for task in tasks if task.vector is not None}) == 1
    left = [
        [{"id": i, "p": p} for i in range(p, N_ROWS, N_FILES) if i % 7 and p != 7]
        for p in (task.data.partition[0] for task in tasks)
    ]
    return [row for rows in left for row in rows]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("job_bytes", [1, 5000, 1 << 20])
def test_rows_are_the_same_whatever_is_read_together(
    table: Table, monkeypatch: pytest.MonkeyPatch, threads: int, job_bytes: int
) -> None:
    monkeypatch.setattr(splits, "JOB_BYTES", job_bytes)
    answer = scan(table, threads=threads).to_arrow()
    answer.validate(full=True)
    assert answer.to_pylist() == rows_in_plan_order(table)
    assert scan(table, limit=100, threads=threads).to_arrow().to_pylist() == rows_in_plan_order(table)[:100]


@pytest.mark.parametrize("threads", [1, 2, 3, 100])
def test_jobs_hold_every_data_file_once_in_order(table: Table, threads: int) -> None:
    tasks = plan_files(table).tasks
    jobs = list(jobs_of(tasks, threads))
    assert [split.task for job in jobs for split in job] == tasks
    assert len(jobs) >= min(len(tasks), JOBS_PER_THREAD * threads)
    assert max(map(len, jobs)) == max(1, len(tasks) // (JOBS_PER_THREAD * threads))
    assert all(len(job) == 1 for job in jobs_of(tasks, threads, together=False))


def test_a_data_file_is_released_after_its_last_split(table: Table) -> None:
    tasks = plan_files(table).tasks
    (job,) = jobs_of(tasks[:1], 1)
    made = job[0].shared.opened(lambda _: object())  # type: ignore[arg-type,return-value]
    assert made is not None
    assert job[0].shared.__dict__["_opened"] is None


def test_one_broken_vector_or_missing_file_among_many_is_named(table: Table) -> None:
    tasks = plan_files(table).tasks
    broken = tasks[20].vector
    assert broken is not None
    path = path_of(broken.file_path)
    kept = path.read_bytes()
    at = (broken.content_offset or 0) + 10
    path.write_bytes(kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1 :])
    with pytest.raises(CorruptDataError, match=path.name):
        scan(table, threads=2).to_arrow()
    path.write_bytes(kept)
    assert scan(table, threads=2).to_arrow().num_rows == len(rows_in_plan_order(table))
    path_of(tasks[30].data.file_path).unlink()
    with pytest.raises(NotFoundError, match=path_of(tasks[30].data.file_path).name):
        scan(table, threads=2).to_arrow()


def test_vectors_that_disagree_with_the_manifest_are_refused_when_read_together(table: Table) -> None:
    answer = scan(table, threads=1)
    vector = answer.tasks()[20].vector
    assert vector is not None
    vector.record_count += 1
    with pytest.raises(CorruptDataError, match="cardinality"):
        answer.to_arrow()


def test_the_footer_of_a_file_in_parts_is_read_once(
    racing: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create_table(
        racing,
        "n.t",
        Schema(NestedField(1, "id", LongType())),
        properties={"write.parquet.row-group-limit": "100"},
    )
    append(made, pa.table({"id": range(1000)}))
    read: list[Any] = []
    opened: list[Any] = []
    footer_bytes, open_parquet = parquet.footer_bytes, parquet.open_parquet

    def watched(*args: Any, footer: Any = None, **options: Any) -> Any:
        opened.append(footer)
        return open_parquet(*args, footer=footer, **options)

    monkeypatch.setattr(parquet, "footer_bytes", lambda *args: read.append(args) or footer_bytes(*args))
    monkeypatch.setattr(parquet, "open_parquet", watched)
    for by_pyarrow in (False, True):
        if by_pyarrow:
            monkeypatch.setattr(ColumnChunks, "pages_of", lambda *args, **options: {})
        for _ in range(2):  # the first time, the schema is new
            read.clear()
            opened.clear()
            assert scan(made, threads=4).to_arrow()["id"].to_pylist() == list(range(1000))
            assert len(read) == 1
            assert opened.count(None) <= 1
            assert len(opened) > 4 if by_pyarrow else len(opened) <= 1
