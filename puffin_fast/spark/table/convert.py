"""Conversion of position deletes and equality deletes to deletion vectors, on executors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from puffin_fast._run.groups import bins_of
from puffin_fast.columns.objects import Objects
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.maintenance.convert import (
    EqualityConverter,
    PositionConversion,
    equality_conversion,
)
from puffin_fast.iceberg.maintenance.rewrite import RewriteResult, Rewritten, rewrite
from puffin_fast.iceberg.plan.files import snapshot_of
from puffin_fast.rows.scan.splits import data_bytes
from puffin_fast.rows.shared_deletes import NO_DELETES, distinct
from puffin_fast.spark.dataframe.transforms import TASK_MEMORY, by_file, check_memory
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.session.sessions import session_of
from puffin_fast.spark.session.with_session import of_session
from puffin_fast.spark.session.workers import OPEN_BYTES, TASK_BYTES, spread
from puffin_fast.spark.table.caches import refreshing
from puffin_fast.spark.table.job import MAIN, Job, bins_of_tasks, checked_id, task_rows
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.table.saved_rows import MOST_BYTES
from puffin_fast.spark.worker import conversions
from puffin_fast.spark.worker.marked import MARKED

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from puffin_fast.iceberg.maintenance.convert import Candidates
    from puffin_fast.iceberg.manifest import ManifestEntry
    from puffin_fast.iceberg.plan.inventory import DeleteInventory, FileDeletes
    from puffin_fast.rows.shared_deletes import SharedDeletes


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
    task_memory: int = TASK_MEMORY,
) -> RewriteResult:
    """`puffin_fast.iceberg.convert_position_deletes` on executors.

    If the delete files of a data file apply to no other data file, one task reads them and writes the deletion vector;
    it holds the positions of one data file. Each delete file that applies to several data files is read once, in
    batches of a million rows; one partial vector for each data file and batch is shuffled.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs.
        branch, job_id, snapshot_properties, dry_run: as in `puffin_fast.iceberg.convert_position_deletes`.
        task_memory: as for `encode_deletes`, for the tasks after the shuffle.

    Returns:
        The same result as `puffin_fast.iceberg.convert_position_deletes`.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.convert_position_deletes`.

    Examples:
        >>> pf.spark.convert_position_deletes(spark, table).snapshot_id is None  # the table has none
        True
    """
    session = session_of(spark)
    table = table_in(session, table)
    checked_id(job_id)
    check_memory(task_memory)

    def work(table: Table, inventory: DeleteInventory) -> Rewritten:
        conversion = PositionConversion.of(inventory)
        if not conversion.files:
            return Rewritten.of(table, (), conversion.terms(()))
        tasks = [file.task for file in conversion.files.values()]
        job = Job(table, job_id, "convert", dry_run=dry_run)
        outcomes = job.run(_converted(session, job, conversion.files.values(), task_memory), tasks)
        left = [one for one in job.report.superseded if one.path in conversion.files]
        return Rewritten.of(table, outcomes, conversion.terms(left), conversion.reasons(left))

    request = Request(
        verb="convert_position_deletes", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties
    )
    return rewrite(table, work, request, dry_run=dry_run)


def _converted(session: SparkSession, job: Job, files: Iterable[FileDeletes], task_memory: int) -> DataFrame:
    """Converts the position deletes of data files; returns the reports."""
    alone: list[FileDeletes] = []
    sharing: list[FileDeletes] = []
    for file in files:
        task = replace(file, equality_deletes=NO_DELETES)
        (sharing if file.position_deletes.is_shared else alone).append(task)
    reports = []
    if alone:
        alone.sort(key=lambda file: file.data.spec_id)
        bins = bins_of(alone, TASK_BYTES, lambda file: _n_bytes(file.position_deletes))
        reports.append(job.reports(spread(session, bins), conversions.positions))
    if sharing:
        items, starts = shared_files(sharing)
        shared = bins_of(items, TASK_BYTES, lambda item: _n_bytes(item[:1]))
        body = over_batches(conversions.read, target=job.executor_view(), files=starts)
        partials = mapped(spread(session, shared), body, MARKED)
        remaining = Objects.of([replace(file, position_deletes=NO_DELETES) for file in sharing])
        rows, common = task_rows(session, [file.data.file_path for file in sharing], remaining)
        marked = by_file(partials.unionAll(rows))
        reports.append(job.reports(marked, conversions.unite, memory=task_memory, common=common))
    return reports[0] if len(reports) == 1 else reports[0].unionAll(reports[1])


def shared_files(
    files: Iterable[FileDeletes],
) -> tuple[list[tuple[ManifestEntry, list[tuple[int, int]]]], dict[str, dict[int, int]]]:
    """Returns the position-delete files of data files, and to which data files they apply, in memory linear in both.

    Returns:
        Each delete file with its places: the numbers of the lists that contain it, and its index in each list. By path
        of a data file, the numbers of the lists of delete files that apply to it, and in each list the index of the
        first one that does.
    """
    numbers: dict[SharedDeletes, int] = {}
    starts: dict[str, dict[int, int]] = {}
    for file in files:
        parts = file.position_deletes.parts
        starts[file.data.file_path] = {numbers.setdefault(one, len(numbers)): start for one, start in parts}
    items: dict[str, tuple[ManifestEntry, list[tuple[int, int]]]] = {}
    for shared, number in numbers.items():
        for at in range(shared.first or 0, len(shared.entries)):
            entry = shared.entries[at]
            items.setdefault(entry.file_path, (entry, []))[1].append((number, at))
    return [*items.values()], starts


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
        >>> pf.spark.convert_equality_deletes(spark, table).snapshot_id is None  # the table has none
        True
    """
    session = session_of(spark)
    table = table_in(session, table)
    checked_id(job_id)

    def work(table: Table, inventory: DeleteInventory) -> Rewritten:
        files, terms = equality_conversion(inventory)
        if not files:
            return Rewritten.of(table, (), terms)
        job = Job(table, job_id, "convert", dry_run=dry_run)
        converter = EqualityConverter(table.io, table.metadata)
        deletes = distinct(file.equality_deletes for file in files)
        if sum(entry.file_size_in_bytes for entry in deletes) <= MOST_BYTES:
            converter.look_up(snapshot_of(table.metadata, branch), files)
        bins = _bins_by_keys(converter.narrowed(files))
        if not bins:
            return Rewritten.of(table, (), terms)
        report = job.reports(spread(session, bins), conversions.equality)
        outcomes = job.run(report, [file.task for file in files])
        return Rewritten.of(table, outcomes, terms)

    request = Request(
        verb="convert_equality_deletes", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties
    )
    return rewrite(table, work, request, dry_run=dry_run)


_Searched = tuple["FileDeletes", "Candidates | None"]
"""A data file, and the rows that may have a deleted key."""


def _bins_by_keys(files: Iterable[_Searched]) -> list[list[_Searched]]:
    """Groups data files with the same equality deletes."""

    def keys(item: _Searched) -> list[tuple[int, int]]:
        return [(id(shared), start) for shared, start in item[0].equality_deletes.parts]

    def n_bytes(item: _Searched) -> int:
        file, found = item
        return data_bytes(file, None if found is None else found.positions) + OPEN_BYTES

    return bins_of_tasks(sorted(files, key=keys), lambda item: (item[0],), n_bytes)


def _n_bytes(entries: Iterable[ManifestEntry]) -> int:
    """Cost of reading delete files, in bytes."""
    return sum(entry.file_size_in_bytes + OPEN_BYTES for entry in entries)
