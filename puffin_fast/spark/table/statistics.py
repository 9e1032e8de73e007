"""NDV statistics, collected on executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from puffin_fast._pyiceberg.metadata import without_history
from puffin_fast._run.arguments import check_flags
from puffin_fast.iceberg.statistics.collect import NdvResult, collect, select
from puffin_fast.spark.session.batches import collected
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.session.sessions import session_of
from puffin_fast.spark.session.with_session import of_session
from puffin_fast.spark.session.workers import spread
from puffin_fast.spark.table.caches import refreshing
from puffin_fast.spark.table.job import bins_of_shares, shares_of
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.worker.sketches import SKETCHES, of_files, unite
from puffin_fast.theta import ThetaSketch

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from puffin_fast.iceberg.statistics.columns import SketchedColumn
    from puffin_fast.rows.tasks import Task


@of_session
@refreshing
def collect_ndv(
    spark: SparkSession | DataFrame,
    table: Table,
    columns: Sequence[str] | None = None,
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
    incremental: Literal["auto", False] = "auto",
    case_sensitive: bool = True,
    dry_run: bool = False,
) -> NdvResult:
    """`puffin_fast.iceberg.collect_ndv` on executors.

    Each task reads about 128 MiB of data files into one sketch for each column. Sketches of a column are united on
    an executor; the driver receives one row for each column, writes the statistics file and commits it.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs.
        columns, snapshot_id, branch, tag, as_of, incremental, case_sensitive, dry_run: as in
            `puffin_fast.iceberg.collect_ndv`.

    Returns:
        The same result as `puffin_fast.iceberg.collect_ndv`, which commits the same bytes.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.collect_ndv`.

    Examples:
        >>> pf.spark.collect_ndv(spark, table, ["customer"]).ndv
        {'customer': 10}
    """
    check_flags(dry_run=dry_run)
    session = session_of(spark)
    table = table_in(session, table)
    selection = select(
        table,
        columns,
        snapshot_id=snapshot_id,
        branch=branch,
        tag=tag,
        as_of=as_of,
        case_sensitive=case_sensitive,
    )

    def sketch(some: Sequence[SketchedColumn], tasks: Sequence[Task]) -> Mapping[int, ThetaSketch]:
        reader = selection.reader(some, without_history(selection.table.metadata))
        bins = bins_of_shares(shares_of(tasks))
        partial = over_batches(of_files, reader=reader)
        sketches = mapped(spread(session, bins), partial, SKETCHES)
        if len(bins) > 1:
            sketches = mapped(sketches.repartition("column"), over_batches(unite), SKETCHES)
        rows = collected(sketches).to_pylist()
        return {row["column"]: ThetaSketch.from_bytes(row["sketch"]) for row in rows}

    return collect(selection, sketch, incremental=incremental, dry_run=dry_run)
