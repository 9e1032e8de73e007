"""Appends and overwrites of the rows of a DataFrame, on executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import NestedField

from puffin_fast._run.arguments import check_flags
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.commit.request import Committed, Request
from puffin_fast.iceberg.delete_files.writer import WrittenDeletes
from puffin_fast.iceberg.dml.data_files import DataFileWriter
from puffin_fast.iceberg.dml.overwrite import OverwriteResult
from puffin_fast.iceberg.manifest import check_transforms
from puffin_fast.iceberg.plan.files import plan_snapshot
from puffin_fast.rows.filters.filters import Filter, RowFilter
from puffin_fast.rows.match.given_rows import RowWriterSchema
from puffin_fast.rows.rewrite.row_order import RowOrder
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.session.sessions import check_dataframe
from puffin_fast.spark.table.conditions import sql_condition
from puffin_fast.spark.table.iceberg_jobs import DeleteJob, Replaced, open_job
from puffin_fast.spark.table.job import MAIN, Job, checked_id
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.table.search import searched
from puffin_fast.spark.worker.keys import spark_schema
from puffin_fast.spark.worker.rows import REPORT
from puffin_fast.spark.worker.tasks import pack
from puffin_fast.verbs.options import OnConflict

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyspark.sql import Column, DataFrame

    from puffin_fast.iceberg.manifest import ManifestEntry

_BODIES = "puffin_fast.spark.worker.append"


def append(
    data_df: DataFrame,
    table: Table,
    *,
    branch: str = MAIN,
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> Committed | None:
    """`puffin_fast.iceberg.append` on executors, for the rows of a DataFrame.

    The DataFrame is computed once. Rows of a partitioned table are shuffled, so that one task writes each partition; in
    tables with a sort order, the rows of each data file are sorted. A task streams the rows of an unpartitioned table
    without a sort order, and holds up to 128 MiB of rows otherwise.

    Args:
        data_df: rows; columns are matched by name, and must fit the table's columns exactly. UUIDs may be text. Spark
            has no values for times and nanoseconds.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs.
        branch, job_id, snapshot_properties: as in `puffin_fast.iceberg.append`.
        dry_run: only compare the columns with the table's schema; no row is computed, and nothing is written.

    Returns:
        The commit; None if there were no rows, or in a dry run.

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
    job = open_job(table, request)
    given = _Given.of(data_df, job)
    if dry_run:
        return None
    _, committed = job.commit(lambda base: given.changes(WrittenDeletes()), "merge")
    return committed


def overwrite(
    data_df: DataFrame,
    table: Table,
    row_filter: Filter | Column = AlwaysTrue(),  # noqa: B008
    *,
    branch: str = MAIN,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> OverwriteResult:
    """`puffin_fast.iceberg.overwrite` on executors, for the rows of a DataFrame.

    Executors write the given rows as `append` does, and search the data files for the rows to delete.

    Args:
        data_df, table: as in `append`. The DataFrame may read the table: rows are written before anything is deleted.
        row_filter: a filter of Iceberg, or text or a Column with the same meaning as such a filter.
        branch, case_sensitive, on_conflict, job_id, snapshot_properties: as in `puffin_fast.iceberg.overwrite`.
        dry_run: only count the rows to delete and compute the given rows; nothing is written.

    Returns:
        The same result as `puffin_fast.iceberg.overwrite`.

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
    check_flags(case_sensitive=case_sensitive, dry_run=dry_run)
    request = Request(
        verb="overwrite", branch=branch, job_id=checked_id(job_id), snapshot_properties=snapshot_properties
    )
    job = open_job(table, request)
    schema = job.table.schema()
    condition, row_filter = sql_condition(session, row_filter, schema)
    if condition is not None:
        raise InvalidInputError(
            f"filter {row_filter}: Spark would have to evaluate it; expected a filter of Iceberg, or one that means "
            "the same in Spark's SQL"
        )
    matcher = RowFilter.bind(row_filter, schema, case_sensitive=case_sensitive)
    may_match = job.conflict_filter(matcher, isolation="update")
    given = _Given.of(data_df, job, dry_run=dry_run)

    def plan(base: Snapshot | None) -> Replaced:
        given.write()
        part = Job(job.table, job_id, "overwrite", dry_run=dry_run)
        written = WrittenDeletes()
        if base is not None:
            files = plan_snapshot(
                job.table, base, schema, matcher, case_sensitive=case_sensitive, metrics=True
            )
            finder = job.finder(matcher, case_sensitive=case_sensitive)
            outcomes = searched(session, part, files.tasks, finder, case_sensitive=case_sensitive)
            written = part.changes(outcomes, may_match)
        return given.changes(written)

    planned, committed = job.commit(plan, on_conflict)
    planned = planned or Replaced()
    result = job.result(planned.written, committed)
    return OverwriteResult(
        rows_deleted=result.rows_deleted,
        rows_appended=0 if result.repeated else given.n_rows,
        data_files=result.data_files,
        data_files_dropped=result.data_files_dropped,
        **planned.facts(result),
    )


@dataclass
class _Given:
    """The given rows of a job, which are written once for all of its attempts.

    Attributes:
        rows: columns c0, c1, ….
        columns: the names of c0, c1, … in the table.
        job: the job in progress.
        dry_run: whether nothing is written.
        n_rows: number of rows.
        entries: the manifest entries of their data files; None before they are written.
    """

    rows: DataFrame
    columns: list[str]
    job: DeleteJob
    dry_run: bool = False
    n_rows: int = 0
    entries: list[ManifestEntry] | None = field(default=None)

    @classmethod
    def of(cls, data_df: DataFrame, job: DeleteJob, *, dry_run: bool = False) -> _Given:
        """Checks the columns and the table's properties.

        Raises:
            InvalidInputError: a column is not in the table, is missing and required, or its type does not fit.
        """
        metadata = job.table.metadata
        schema, spec = metadata.schema(), metadata.spec()
        check_transforms(spec, schema)
        none = data_df.limit(0).toArrow()
        RowWriterSchema(schema, none.schema)
        DataFileWriter(job.table, schema, spec)  # checks the table's properties
        rows = data_df.toDF(*(f"c{at}" for at in range(len(none.column_names))))
        return cls(rows, none.column_names, job, dry_run)

    def write(self) -> None:
        """Computes and writes the rows, once."""
        if self.entries is not None:
            return
        table = self.job.table
        part = Job(table, self.job.request.job_id, self.job.request.verb, dry_run=self.dry_run)
        part.run(self._report(part), {})
        self.entries, self.n_rows = part.data_files, part.n_inserted
        table.created += [entry.file_path for entry in part.data_files]

    def changes(self, written: WrittenDeletes) -> Replaced:
        """The changes of a commit: deletes, and the data files of the given rows, which are written first."""
        self.write()
        return Replaced.of(written, self.entries or (), frozenset())

    def _report(self, part: Job) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema
        from pyspark.sql.types import StructType

        metadata, options = self.job.table.metadata, {"target": part.target(), "columns": self.columns}
        schema, rows = metadata.schema(), self.rows
        fields = [field for field in metadata.spec().fields if not isinstance(field.transform, VoidTransform)]
        if fields:
            kinds = [field.transform.result_type(schema.find_type(field.source_id)) for field in fields]
            named = [(f"k{at}", NestedField(at + 1, f"k{at}", kind)) for at, kind in enumerate(kinds)]
            partition = spark_schema(named)
            both = StructType([*rows.schema.fields, *from_arrow_schema(partition).fields])
            body = over_batches(_BODIES, "placed", **options, fields=pack(fields))
            placed = mapped(rows, body, both)
            names = partition.names
            rows = placed.repartition(*names).sortWithinPartitions(*names).drop(*names)
        order = metadata.sort_order_by_id(metadata.default_sort_order_id)
        ordered = RowOrder.of(order, metadata) if order is not None and order.fields else None
        return mapped(rows, over_batches(_BODIES, "append", **options, order=pack(ordered)), REPORT)
