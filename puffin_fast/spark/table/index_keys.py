"""Indexes of keys, built on executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from puffin_fast._io import open_source
from puffin_fast._pyiceberg.metadata import without_history
from puffin_fast._run.groups import bins_of
from puffin_fast.iceberg.catalogs.working_table import WorkingTable
from puffin_fast.iceberg.index.build import ROW_BYTES, KeyIndexResult, build_index
from puffin_fast.iceberg.index.segment_maker import Encode, SegmentMaker
from puffin_fast.spark.dataframe.transforms import check_memory
from puffin_fast.spark.session.sessions import session_of
from puffin_fast.spark.session.with_session import of_session
from puffin_fast.spark.session.workers import spread
from puffin_fast.spark.table.caches import refreshing
from puffin_fast.spark.table.job import MAIN, Job
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.worker.indexed_keys import segments

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from puffin_fast.iceberg.manifest import ManifestEntry

TASK_MEMORY = 512 << 20
"""Default memory of a task, in bytes: 22 million rows."""


@of_session
@refreshing
def index_keys(
    spark: SparkSession | DataFrame,
    table: Table,
    join_cols: str | Sequence[str] | None = None,
    *,
    branch: str = MAIN,
    incremental: Literal["auto", False] = "auto",
    dry_run: bool = False,
    task_memory: int = TASK_MEMORY,
) -> KeyIndexResult:
    """`puffin_fast.iceberg.index_keys` on executors.

    Each task reads the key columns of some data files, and writes a segment to a file of the job. The driver copies the
    segments to the statistics file, one at a time, and commits it. If there are more than eight, it merges them, as
    `puffin_fast.iceberg.index_keys` does.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs.
        join_cols, branch, incremental, dry_run: as in `puffin_fast.iceberg.index_keys`.
        task_memory: bytes of memory of a task, 24 for each row; a larger data file has a task of its own.

    Returns:
        The same result as `puffin_fast.iceberg.index_keys`.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.index_keys`.

    Examples:
        >>> index = pf.spark.index_keys(spark, table, "id")
        >>> index.data_files, index.rows
        (1, 100)
    """
    session = session_of(spark)
    table = table_in(session, table)
    check_memory(task_memory)
    encode = on_executors(session, table, task_memory)
    return build_index(table, join_cols, encode, branch=branch, incremental=incremental, dry_run=dry_run)


def on_executors(session: SparkSession, table: Table, task_memory: int) -> Encode:
    """Returns what makes segments on executors.

    Args:
        table: names their files.
        task_memory: as for `index_keys`.
    """

    def encode(maker: SegmentMaker, new: Sequence[ManifestEntry], most_rows: int) -> Iterator[bytes]:
        most = max(1, min(most_rows, task_memory // ROW_BYTES))
        bins = bins_of(new, most, lambda data: data.record_count)
        part = Job(WorkingTable.of(table), None, "index")
        sent = SegmentMaker(maker.io, without_history(maker.metadata), maker.field_ids)
        try:
            reports = part.reports(spread(session, bins), segments, maker=sent, most_rows=most)
            part.run(reports, (), "segments of a key index")
            for segment in sorted(part.report.saved):
                assert segment.path is not None
                with open_source(segment.path, filesystem=maker.io, size=segment.file_size) as source:
                    yield source.read_at(0, segment.file_size)
        finally:
            part.remove_files()

    return encode
