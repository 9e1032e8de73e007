"""Appends and overwrites of the rows of a DataFrame, on executors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import NestedField

from puffin_fast._api.arguments import check_flags
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.rows.filters.filters import Filter, RowFilter
from puffin_fast.spark.session.batches import no_rows
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.session.sessions import check_dataframe
from puffin_fast.spark.session.with_session import of_dataframe
from puffin_fast.spark.table.caches import refreshing
from puffin_fast.spark.table.conditions import filter_only
from puffin_fast.spark.table.job import MAIN, Job, checked_id
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.table.search import searched
from puffin_fast.spark.table.spelling import as_in_table
from puffin_fast.spark.table.start import start
from puffin_fast.spark.table.verb import Part, Planned, Verb
from puffin_fast.spark.worker import append as worker
from puffin_fast.spark.worker.keys import spark_schema
from puffin_fast.verbs.attempt import Purpose
from puffin_fast.verbs.options import OnConflict
from puffin_fast.verbs.results import AppendResult, OverwriteResult

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import Column, DataFrame

    from puffin_fast.rows.deletes.outcome import Outcome


@of_dataframe
@refreshing
def append(
    data_df: DataFrame,
    table: Table | Any,
    *,
    branch: str = MAIN,
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> AppendResult:
    """`puffin_fast.iceberg.append` or `puffin_fast.delta.append` on executors, for the rows of a DataFrame.

    The DataFrame is computed once. Rows of a partitioned table are shuffled, so that one task writes each partition; in
    tables with a sort order, the rows of each data file are sorted. A task streams the rows of an unpartitioned table,
    if they are to be sorted through temporary files, and holds up to 128 MiB of rows otherwise.

    Args:
        data_df: rows; columns are matched by name (in any case, unless Spark is case-sensitive), and must fit the
            table's columns exactly. UUIDs may be text. Spark
            has no values for times and nanoseconds.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs; or a Delta table: its name, a path,
            a URI, or deltalake's `DeltaTable`. It has no branches.
        branch, job_id, snapshot_properties: as in `puffin_fast.iceberg.append`.
        dry_run: only compare the columns with the table's schema; no row is computed, and nothing is written.

    Returns:
        The same result as `puffin_fast.append`.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.append`.

    Examples:
        >>> rows = spark.createDataFrame([(200, 9, 1.0)], "id long, customer long, price double")
        >>> result = pf.spark.append(rows, table)
        >>> pf.spark.scan(spark, table, "customer = 9 and id > 100").count()
        1
    """
    table = table_in(check_dataframe(data_df).sparkSession, table)
    check_flags(dry_run=dry_run)
    request = Request(
        verb="append", branch=branch, job_id=checked_id(job_id), snapshot_properties=snapshot_properties
    )
    job = start(data_df.sparkSession, table, request)
    given = _Given.of(data_df, job)
    purpose = Purpose("WRITE", inserts=True)
    planned: Planned | None = None
    committed: Any = None
    if not dry_run:

        def written(base: Any) -> Planned:
            given.write()
            return given.planned([], given.part(purpose))

        planned, committed = job.commit(written, "merge")
    return job.finished(AppendResult, planned, committed)  # type: ignore[no-any-return]


@of_dataframe
@refreshing
def overwrite(
    data_df: DataFrame,
    table: Table | Any,
    row_filter: Filter | Column = AlwaysTrue(),  # noqa: B008
    *,
    branch: str = MAIN,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    log_predicate: bool = True,
) -> OverwriteResult:
    """`puffin_fast.iceberg.overwrite` or `puffin_fast.delta.overwrite` on executors, for the rows of a DataFrame.

    Executors write the given rows as `append` does, and search the data files for the rows to delete.

    Args:
        data_df, table: as in `append`. The DataFrame may read the table: rows are written before anything is deleted.
            For a Delta table it is computed again when another commit comes first.
        row_filter: a filter of Iceberg, or text or a Column with the same meaning as such a filter.
        branch, case_sensitive, on_conflict, job_id, snapshot_properties: as in `puffin_fast.iceberg.overwrite`.
        dry_run: only count the rows to delete and compute the given rows; nothing is written.
        log_predicate: as in `delete`.

    Returns:
        The same result as `puffin_fast.iceberg.overwrite` or `puffin_fast.delta.overwrite`.

    Raises:
        InvalidInputError: the filter is one that Spark would have to evaluate.
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.overwrite`.

    Examples:
        >>> rows = spark.createDataFrame([(7, 1, 2.5)], "id long, customer long, price double")
        >>> result = pf.spark.overwrite(rows, table, "id < 10")
        >>> result.rows_deleted, result.rows_appended
        (10, 1)
    """
    session = check_dataframe(data_df).sparkSession
    table = table_in(session, table)
    check_flags(case_sensitive=case_sensitive, dry_run=dry_run, log_predicate=log_predicate)
    request = Request(
        verb="overwrite", branch=branch, job_id=checked_id(job_id), snapshot_properties=snapshot_properties
    )
    job = start(session, table, request)
    schema = job.schema()
    row_filter = filter_only(session, row_filter, schema)
    matcher = RowFilter.bind(row_filter, schema, case_sensitive=case_sensitive)
    given = _Given.of(data_df, job, dry_run=dry_run)
    logged = [str(row_filter)] if log_predicate else None
    purpose = Purpose("WRITE", logged, matcher, isolation="update", inserts=True)

    def plan(base: Any) -> Planned:
        given.write()
        job.check_schema(schema)
        part = given.part(purpose)
        tasks = job.pruned(base, matcher)
        return given.planned(searched(session, part, tasks, job.finder(matcher)), part)

    return job.run(plan, on_conflict, OverwriteResult)  # type: ignore[no-any-return]


@dataclass
class _Given:
    """The given rows of a job. Those of an Iceberg table are written once for all of its attempts.

    Attributes:
        rows: columns c0, c1, ….
        columns: the names of c0, c1, … in the table.
        job: the job in progress.
        dry_run: whether nothing is written.
        n_rows: number of rows.
        entries: what a commit says of their data files; None before they are written.
        are_kept: whether these files are left when an attempt to commit them fails.
    """

    rows: DataFrame
    columns: list[str]
    job: Verb
    dry_run: bool = False
    n_rows: int = 0
    entries: list[Any] | None = field(default=None)
    are_kept: bool = True

    @classmethod
    def of(cls, data_df: DataFrame, job: Verb, *, dry_run: bool = False) -> _Given:
        """Checks the columns and the table's properties; raises as `check_rows` and `check_rows_fit` of the job."""
        job.check_rows()
        data_df = as_in_table(data_df, job.schema())
        none = no_rows(data_df)
        job.check_rows_fit(none.schema)
        rows = data_df.toDF(*(f"c{at}" for at in range(len(none.column_names))))
        return cls(rows, none.column_names, job, dry_run)

    def write(self) -> None:
        """Computes and writes the rows, unless their files are still there."""
        if self.entries is not None and self.are_kept:
            return
        part = self.part()
        part.run(self._report(part), (), "given rows")
        self.entries, self.n_rows = part.report.entries, part.report.n_inserted
        self.are_kept = self.job.keep(part)

    def part(self, purpose: Purpose | None = None) -> Part:
        """Returns one run of the executors."""
        return self.job.part(purpose, dry_run=self.dry_run, kind=self.job.request.verb)

    def planned(self, outcomes: Iterable[Outcome], part: Part) -> Planned:
        """The changes of a commit: deletes, and the data files of the given rows, which were written first."""
        return part.planned(outcomes, self.entries or ()).counting(rows_appended=self.n_rows)

    def _report(self, part: Job) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema
        from pyspark.sql.types import StructType

        metadata, rows = self.job.metadata, self.rows
        schema = metadata.schema()
        fields = [field for field in metadata.spec().fields if not isinstance(field.transform, VoidTransform)]
        if fields:
            kinds = [field.transform.result_type(schema.find_type(field.source_id)) for field in fields]
            named = [(f"k{at}", NestedField(at + 1, f"k{at}", kind)) for at, kind in enumerate(kinds)]
            partition = spark_schema(named)
            both = StructType([*rows.schema.fields, *from_arrow_schema(partition).fields])
            body = over_batches(
                worker.placed, target=part.executor_view(), columns=self.columns, fields=fields
            )
            placed = mapped(rows, body, both)
            names = partition.names
            rows = placed.repartition(*names).sortWithinPartitions(*names).drop(*names)
        return part.reports(rows, worker.append, columns=self.columns)
