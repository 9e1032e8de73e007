"""Maintenance of tables by their names in Spark's catalogs; executors do what reads data files."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from puffin_fast import delta
from puffin_fast.errors import UnsupportedError
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.maintenance.expire_snapshots import ExpireSnapshotsResult
from puffin_fast.iceberg.maintenance.expire_snapshots import expire_snapshots as expire_here
from puffin_fast.iceberg.maintenance.maintain import FileSteps, MaintainResult, MaintenancePolicy, maintained
from puffin_fast.iceberg.maintenance.orphan_files import remove_orphan_files as remove_orphans_here
from puffin_fast.iceberg.maintenance.report import report as report_here
from puffin_fast.iceberg.maintenance.rewrite_job import RewriteDataFilesResult
from puffin_fast.iceberg.maintenance.verify import verify as verify_here
from puffin_fast.rows.findings import Findings, Level
from puffin_fast.rows.rewrite.file_groups import MIN_DELETED, RewriteTerms
from puffin_fast.spark.session.sessions import session_of
from puffin_fast.spark.session.with_session import of_session
from puffin_fast.spark.table.caches import refreshing
from puffin_fast.spark.table.compact import compact
from puffin_fast.spark.table.convert import convert_equality_deletes, convert_position_deletes
from puffin_fast.spark.table.index_keys import TASK_MEMORY, index_keys, on_executors
from puffin_fast.spark.table.job import MAIN
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.table.rewrite_data_files import rewrite_on_executors
from puffin_fast.spark.table.scan import is_delta, refuse
from puffin_fast.verbs.orphan_files import IN_FLIGHT, RemoveOrphanFilesResult

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession


@of_session
def verify(
    spark: SparkSession | DataFrame,
    table: Table | Any,
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
    version: int | None = None,
    level: Level = "files",
) -> Findings:
    """`puffin_fast.iceberg.verify` or `puffin_fast.delta.verify`; executors read the data files.

    The driver checks the metadata, and the deletes of Iceberg tables. It reads the footers of up to 256 data files, and
    with level "rows" up to 32 MiB of them; tasks read more, about 128 MiB or 256 footers each.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs; or a Delta table: its name, a path,
            a URI, or deltalake's `DeltaTable`.
        snapshot_id, branch, tag, as_of, level: as in `puffin_fast.iceberg.verify`; a Delta table has no snapshot ids,
            branches and tags.
        version: a version of a Delta table, instead of the newest.

    Returns:
        The same findings.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.verify` and `puffin_fast.delta.verify`.

    Examples:
        >>> list(pf.spark.verify(spark, table, level="rows"))  # no finding
        []
    """
    session = session_of(spark)
    table = table_in(session, table)
    if is_delta(table):
        refuse(table, "Delta", snapshot_id=snapshot_id, branch=branch, tag=tag)
        return delta.verify(table, version=version, as_of=as_of, level=level, workers=session)
    refuse(table, "Iceberg", version=version)
    return verify_here(
        table, snapshot_id=snapshot_id, branch=branch, tag=tag, as_of=as_of, level=level, workers=session
    )


@of_session
@refreshing
def maintain(
    spark: SparkSession | DataFrame,
    table: Table | Any,
    policy: MaintenancePolicy | delta.MaintenancePolicy | None = None,
    *,
    branch: str = MAIN,
    dry_run: bool = False,
) -> MaintainResult | delta.MaintainResult:
    """`puffin_fast.iceberg.maintain` or `puffin_fast.delta.maintain`; executors do the steps that read data files.

    For Iceberg tables, executors convert, rewrite, compact and index, as the functions of this package do; the driver
    expires snapshots and removes orphan files. Delta tables are maintained by the driver.

    Args:
        spark: the session, or a DataFrame of it.
        table: as in `verify`.
        policy: the policy of `puffin_fast.iceberg` or `puffin_fast.delta`; all steps by default.
        branch, dry_run: as in `puffin_fast.iceberg.maintain`; a Delta table has no branches.

    Returns:
        The same result.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.maintain` and `puffin_fast.delta.maintain`.

    Examples:
        >>> pf.spark.maintain(spark, table, dry_run=True).dry_run
        True
    """
    session = session_of(spark)
    table = table_in(session, table)
    if is_delta(table):
        refuse(table, "Delta", branch=None if branch == MAIN else branch)
        own: Any = delta.MaintenancePolicy() if policy is None else policy
        return delta.maintain(table, own, dry_run=dry_run)

    def rewrite(table: Table, terms: RewriteTerms, later: bool, dry_run: bool) -> RewriteDataFilesResult:
        request = Request(verb="rewrite_data_files", branch=branch)
        encode = None if later else on_executors(session, table, TASK_MEMORY)
        return rewrite_on_executors(session, table, terms, request, encode, dry_run=dry_run)

    steps = FileSteps(
        partial(convert_position_deletes, session, branch=branch),
        partial(convert_equality_deletes, session, branch=branch),
        rewrite,
        partial(compact, session, branch=branch),
        partial(index_keys, session, branch=branch),
    )
    given: Any = MaintenancePolicy() if policy is None else policy
    return maintained(table, given, steps, branch=branch, threads=None, dry_run=dry_run)


@of_session
def report(
    spark: SparkSession | DataFrame,
    table: Table | Any,
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
    version: int | None = None,
    share: float = MIN_DELETED,
) -> Any:
    """`puffin_fast.iceberg.report` or `puffin_fast.delta.report` of a table in the session's catalogs.

    The driver reads the metadata; no Spark job runs.

    Args:
        spark: the session, or a DataFrame of it.
        table, snapshot_id, branch, tag, as_of, version: as in `verify`.
        share: as in `puffin_fast.iceberg.report`.

    Returns:
        The same report.

    Raises:
        PuffinFastError: in the cases of `puffin_fast.iceberg.report` and `puffin_fast.delta.report`.

    Examples:
        >>> pf.spark.report(spark, table).totals["data_files"]
        1
    """
    table = table_in(session_of(spark), table)
    if is_delta(table):
        refuse(table, "Delta", snapshot_id=snapshot_id, branch=branch, tag=tag)
        return delta.report(table, version=version, as_of=as_of, share=share)
    refuse(table, "Iceberg", version=version)
    return report_here(table, snapshot_id=snapshot_id, branch=branch, tag=tag, as_of=as_of, share=share)


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
    return expire_here(
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
    """`puffin_fast.iceberg.remove_orphan_files` or that of Delta, of a table in the session's catalogs.

    The driver lists and removes the files; no Spark job runs.

    Args:
        spark: the session, or a DataFrame of it.
        table: as in `verify`.
        older_than, dry_run: as in `puffin_fast.iceberg.remove_orphan_files`.

    Returns:
        The same result.

    Raises:
        PuffinFastError: in the cases of `puffin_fast.iceberg.remove_orphan_files` and that of Delta.

    Examples:
        >>> pf.spark.remove_orphan_files(spark, table).dry_run
        True
    """
    table = table_in(session_of(spark), table)
    remove: Any = delta.remove_orphan_files if is_delta(table) else remove_orphans_here
    return remove(table, older_than=older_than, dry_run=dry_run)  # type: ignore[no-any-return]
