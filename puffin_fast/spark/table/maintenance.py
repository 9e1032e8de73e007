"""Maintenance of tables by their names in Spark's catalogs; executors do what reads data files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from pyiceberg.expressions import AlwaysTrue

from puffin_fast import iceberg
from puffin_fast.delta.log.snapshot import snapshot
from puffin_fast.delta.scans.plan import DeltaTable
from puffin_fast.errors import UnsupportedError
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.rows.findings import Findings, Level
from puffin_fast.rows.rewrite.file_groups import MIN_DELETED, MIN_INPUT_FILES
from puffin_fast.spark.session.sessions import session_of
from puffin_fast.spark.session.with_session import of_session
from puffin_fast.spark.table.caches import refreshing
from puffin_fast.spark.table.conditions import filter_only
from puffin_fast.spark.table.job import MAIN, checked_id
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.table.scan import is_delta
from puffin_fast.tables.maintain import maintain as maintain_here
from puffin_fast.tables.orphan_files import remove_orphan_files as remove_here
from puffin_fast.tables.report import report as report_here
from puffin_fast.tables.rewrite_data_files import rewrite_data_files as rewrite_here
from puffin_fast.tables.verify import verify as verify_here
from puffin_fast.verbs.maintenance import (
    ExpireSnapshotsResult,
    KeyIndexResult,
    MaintainResult,
    MaintenancePolicy,
    NdvResult,
    RewriteDataFilesResult,
    RewriteResult,
)
from puffin_fast.verbs.options import OnConflict
from puffin_fast.verbs.remove_orphan_files import IN_FLIGHT, RemoveOrphanFilesResult
from puffin_fast.verbs.table_report import Report

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.sorting import SortOrder
    from pyspark.sql import Column, DataFrame, SparkSession


@of_session
@refreshing
def compact(
    spark: SparkSession | DataFrame,
    table: Table,
    *,
    target_file_size: int | None = None,
    file_paths: Sequence[str] | None = None,
    branch: str = MAIN,
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> RewriteResult:
    """`puffin_fast.iceberg.compact` on executors.

    Each task writes one Puffin file of the target size. It holds its deletion vectors, and the bytes of adjacent blobs
    that are read together.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs.
        target_file_size, file_paths, branch, job_id, snapshot_properties, dry_run: as in
            `puffin_fast.iceberg.compact`.

    Returns:
        The same result as `puffin_fast.iceberg.compact`.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.compact`.

    Examples:
        >>> pf.spark.compact(spark, table, dry_run=True).commit.id is None
        True
    """
    session = session_of(spark)
    checked_id(job_id)
    return iceberg.compact(
        table_in(session, table),
        target_file_size=target_file_size,
        file_paths=file_paths,
        branch=branch,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        workers=session,
        dry_run=dry_run,
    )


@of_session
@refreshing
def convert_position_deletes(
    spark: SparkSession | DataFrame,
    table: Table,
    *,
    branch: str = MAIN,
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> RewriteResult:
    """`puffin_fast.iceberg.convert_position_deletes` on executors.

    One task reads the delete files of some data files and writes their deletion vectors, so nothing is shuffled. Data
    files with the same delete files are grouped, so that few tasks read these. A task holds the positions of its data
    files, and of one delete file at a time the bitmaps.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs.
        branch, job_id, snapshot_properties, dry_run: as in `puffin_fast.iceberg.convert_position_deletes`.

    Returns:
        The same result as `puffin_fast.iceberg.convert_position_deletes`.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.convert_position_deletes`.

    Examples:
        >>> pf.spark.convert_position_deletes(spark, table).commit.id is None  # the table has none
        True
    """
    session = session_of(spark)
    checked_id(job_id)
    return iceberg.convert_position_deletes(
        table_in(session, table),
        branch=branch,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        workers=session,
        dry_run=dry_run,
    )


@of_session
@refreshing
def convert_equality_deletes(
    spark: SparkSession | DataFrame,
    table: Table,
    *,
    branch: str = MAIN,
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> RewriteResult:
    """`puffin_fast.iceberg.convert_equality_deletes` on executors.

    One task searches a data file and writes its deletion vector, so nothing is shuffled. A task holds the keys of
    the equality deletes that apply to its data files, a batch of the key columns, and one deletion vector. Data
    files with the same equality deletes are grouped, so that few tasks read these. If the equality deletes have at most
    32 MiB, the driver looks their keys up in the table's key indexes, and tasks read only rows that may have one.

    Args:
        spark, table, branch, job_id, snapshot_properties, dry_run: as in `convert_position_deletes`.

    Returns:
        The same result as `puffin_fast.iceberg.convert_equality_deletes`.

    Raises:
        PuffinFastError: as in `puffin_fast.iceberg.convert_equality_deletes`.

    Examples:
        >>> pf.spark.convert_equality_deletes(spark, table).commit.id is None  # the table has none
        True
    """
    session = session_of(spark)
    checked_id(job_id)
    return iceberg.convert_equality_deletes(
        table_in(session, table),
        branch=branch,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        workers=session,
        dry_run=dry_run,
    )


@of_session
@refreshing
def rewrite_data_files(
    spark: SparkSession | DataFrame,
    table: Table | Any,
    row_filter: Filter | Column = AlwaysTrue(),  # noqa: B008
    *,
    min_deleted: float = MIN_DELETED,
    min_file_size: int | None = None,
    min_input_files: int = MIN_INPUT_FILES,
    target_file_size: int | None = None,
    max_commits: int = 1,
    sort_by: SortOrder | Sequence[str] | None = None,
    branch: str = MAIN,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> RewriteDataFilesResult:
    """`puffin_fast.rewrite_data_files` on executors.

    Groups of data files are rewritten in parallel; a group is read and written by one task, so nothing is shuffled. The
    driver commits once.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs; or a Delta table: its name, a path,
            a URI, or deltalake's `DeltaTable`.
        row_filter: a filter of Iceberg, also as text, or a Column with the meaning of one: it chooses data files by
            their metadata.
        min_deleted, min_file_size, min_input_files, target_file_size, max_commits, sort_by, branch, case_sensitive,
            on_conflict, job_id, snapshot_properties, dry_run: as in `puffin_fast.rewrite_data_files`.

    Returns:
        The same result.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.rewrite_data_files`.

    Examples:
        >>> result = pf.spark.delete(spark, table, "customer < 5")
        >>> pf.spark.rewrite_data_files(spark, table, min_deleted=0.3).data_files
        1
    """
    session = session_of(spark)

    from pyspark.sql import Column

    table = table_in(session, table)
    if isinstance(row_filter, Column):
        schema = DeltaTable.of(snapshot(table)).schema.schema if is_delta(table) else table.schema()
        row_filter = filter_only(session, row_filter, schema)
    return rewrite_here(
        table,
        row_filter,
        min_deleted=min_deleted,
        min_file_size=min_file_size,
        min_input_files=min_input_files,
        target_file_size=target_file_size,
        max_commits=max_commits,
        sort_by=sort_by,
        branch=branch,
        case_sensitive=case_sensitive,
        on_conflict=on_conflict,
        job_id=checked_id(job_id),
        snapshot_properties=snapshot_properties,
        workers=session,
        dry_run=dry_run,
    )


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
) -> KeyIndexResult:
    """`puffin_fast.iceberg.index_keys` on executors.

    Each task reads the key columns of data files of at most 22 million rows (a larger data file has a task of its own),
    and writes a segment to a file of the job. The driver copies the
    segments to the statistics file, one at a time, and commits it. If there are more than eight, it merges them, as
    `puffin_fast.iceberg.index_keys` does.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs.
        join_cols, branch, incremental, dry_run: as in `puffin_fast.iceberg.index_keys`.

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
    return iceberg.index_keys(
        table, join_cols, branch=branch, incremental=incremental, workers=session, dry_run=dry_run
    )


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
    session = session_of(spark)
    return iceberg.collect_ndv(
        table_in(session, table),
        columns,
        snapshot_id=snapshot_id,
        branch=branch,
        tag=tag,
        as_of=as_of,
        incremental=incremental,
        case_sensitive=case_sensitive,
        workers=session,
        dry_run=dry_run,
    )


@of_session
def verify(
    spark: SparkSession | DataFrame,
    table: Table | Any,
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
    level: Level = "files",
) -> Findings:
    """`puffin_fast.verify`; executors read the data files.

    The driver checks the metadata, and the deletes of Iceberg tables. It reads the footers of up to 256 data files, and
    with level "rows" up to 32 MiB of them; tasks read more, about 128 MiB or 256 footers each.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs; or a Delta table: its name, a path,
            a URI, or deltalake's `DeltaTable`.
        snapshot_id, branch, tag, as_of, level: as in `puffin_fast.verify`.

    Returns:
        The same findings.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.verify`.

    Examples:
        >>> list(pf.spark.verify(spark, table, level="rows"))  # no finding
        []
    """
    session = session_of(spark)
    return verify_here(
        table_in(session, table),
        snapshot_id=snapshot_id,
        branch=branch,
        tag=tag,
        as_of=as_of,
        level=level,
        workers=session,
    )


@of_session
@refreshing
def maintain(
    spark: SparkSession | DataFrame,
    table: Table | Any,
    policy: MaintenancePolicy = MaintenancePolicy(),  # noqa: B008
    *,
    branch: str = MAIN,
    dry_run: bool = False,
) -> MaintainResult:
    """`puffin_fast.maintain`; executors do the steps that read data files.

    Executors convert, rewrite, compact and index, as the functions of this package do; the driver expires snapshots and
    removes orphan files.

    Args:
        spark: the session, or a DataFrame of it.
        table: as in `verify`.
        policy, branch, dry_run: as in `puffin_fast.maintain`.

    Returns:
        The same result.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.maintain`.

    Examples:
        >>> pf.spark.maintain(spark, table, dry_run=True).dry_run
        True
    """
    session = session_of(spark)
    return maintain_here(table_in(session, table), policy, branch=branch, workers=session, dry_run=dry_run)


@of_session
def report(
    spark: SparkSession | DataFrame,
    table: Table | Any,
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
    share: float = MIN_DELETED,
) -> Report:
    """`puffin_fast.report` of a table in the session's catalogs.

    The driver reads the metadata; no Spark job runs.

    Args:
        spark: the session, or a DataFrame of it.
        table, snapshot_id, branch, tag, as_of: as in `verify`.
        share: as in `puffin_fast.report`.

    Returns:
        The same report.

    Raises:
        PuffinFastError: in the cases of `puffin_fast.report`.

    Examples:
        >>> pf.spark.report(spark, table).totals["data_files"]
        1
    """
    return report_here(
        table_in(session_of(spark), table),
        snapshot_id=snapshot_id,
        branch=branch,
        tag=tag,
        as_of=as_of,
        share=share,
    )


@of_session
@refreshing
def expire_snapshots(
    spark: SparkSession | DataFrame,
    table: Table | Any,
    *,
    older_than: timedelta | None = None,
    retain_last: int | None = None,
    snapshot_ids: Iterable[int] | None = None,
    dry_run: bool = False,
) -> ExpireSnapshotsResult:
    """`puffin_fast.iceberg.expire_snapshots` of a table in the session's catalogs.

    The driver reads the metadata and removes the files; no Spark job runs.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table, or its name in the session's catalogs.
        older_than, retain_last, snapshot_ids, dry_run: as in `puffin_fast.iceberg.expire_snapshots`.

    Returns:
        The same result.

    Raises:
        PuffinFastError: in the cases of `puffin_fast.iceberg.expire_snapshots`; Delta tables have no snapshots.

    Examples:
        >>> pf.spark.expire_snapshots(spark, table, retain_last=1, dry_run=True).dry_run
        True
    """
    table = table_in(session_of(spark), table)
    if is_delta(table):
        raise UnsupportedError(
            f"{table}: a table of Delta, expected one of Iceberg; Spark's VACUUM removes files"
        )
    return iceberg.expire_snapshots(
        table, older_than=older_than, retain_last=retain_last, snapshot_ids=snapshot_ids, dry_run=dry_run
    )


@of_session
def remove_orphan_files(
    spark: SparkSession | DataFrame,
    table: Table | Any,
    *,
    older_than: timedelta = IN_FLIGHT,
    dry_run: bool = True,
) -> RemoveOrphanFilesResult:
    """`puffin_fast.remove_orphan_files` of a table in the session's catalogs.

    The driver lists and removes the files; no Spark job runs.

    Args:
        spark: the session, or a DataFrame of it.
        table: as in `verify`.
        older_than, dry_run: as in `puffin_fast.remove_orphan_files`.

    Returns:
        The same result.

    Raises:
        PuffinFastError: in the cases of `puffin_fast.remove_orphan_files`.

    Examples:
        >>> pf.spark.remove_orphan_files(spark, table).dry_run
        True
    """
    return remove_here(table_in(session_of(spark), table), older_than=older_than, dry_run=dry_run)
