"""Upserts by key, on executors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast._api.arguments import check_flags
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.rows.keys.key_columns import key_fields
from puffin_fast.rows.keys.keys import KeyBounds
from puffin_fast.rows.match.change_feed import ChangeFeed
from puffin_fast.rows.match.duplicate_keys import DuplicateKeys, OnDuplicateKeys, refuses_duplicates
from puffin_fast.rows.match.given_changes import (
    CHANGE_TYPE,
    check_changes,
    kinds_and_order,
    with_deletes_and_order,
)
from puffin_fast.rows.match.given_changes import DELETES as GIVEN_DELETES
from puffin_fast.rows.match.given_changes import ORDER as GIVEN_ORDER
from puffin_fast.rows.match.matching import check_clauses, fit, written_schema
from puffin_fast.rows.tasks import columns_of
from puffin_fast.spark.session.batches import collected, no_rows
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.session.sessions import check_dataframe
from puffin_fast.spark.session.with_session import of_dataframe
from puffin_fast.spark.table.caches import refreshing
from puffin_fast.spark.table.delete_keys import key_ends, sent_keys
from puffin_fast.spark.table.indexed_keys import candidate_rows, with_or_without
from puffin_fast.spark.table.job import (
    MAIN,
    Job,
    checked_id,
)
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.table.on_executors import ManyRowsError, attempt_on
from puffin_fast.spark.table.saved_rows import Saved, cached, saved
from puffin_fast.spark.table.spelling import as_in_table, key_names
from puffin_fast.spark.table.start import start
from puffin_fast.spark.table.verb import Part, Planned, Verb
from puffin_fast.spark.worker import upsert as worker
from puffin_fast.spark.worker.append import append
from puffin_fast.spark.worker.keys import spark_schema
from puffin_fast.spark.worker.upsert import DELETES, MATCH, ORDER
from puffin_fast.verbs.attempt import Purpose
from puffin_fast.verbs.options import OnConflict, Options
from puffin_fast.verbs.results import UpsertResult
from puffin_fast.verbs.upsert import Upsert, columns_to_set

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField
    from pyspark.sql import Column, DataFrame

    from puffin_fast.iceberg.index.lookup import KeyLookup
    from puffin_fast.rows.deletes.outcome import Outcome
    from puffin_fast.rows.keys.keys import Keys
    from puffin_fast.rows.tasks import Task


@of_dataframe
@refreshing
def upsert(
    data_df: DataFrame,
    table: Table | Any,
    join_cols: str | Sequence[str] | None = None,
    *,
    when_matched_update_all: bool = True,
    when_not_matched_insert_all: bool = True,
    skip_unchanged: bool = True,
    update_columns: Sequence[str] | None = None,
    delete_column: str | None = None,
    order_column: str | None = None,
    changes: bool | str = False,
    duplicate_keys: OnDuplicateKeys = "refuse",
    branch: str = MAIN,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> UpsertResult:
    """`puffin_fast.iceberg.upsert` or `puffin_fast.delta.upsert` on executors, for the rows of a DataFrame.

    The given rows are computed once, and kept in files of the job until it ends. Up to 32 MiB of them are sent to the
    tasks that search the data files for their keys, and the driver writes the changes: two Spark jobs, without a
    shuffle; one if at most 256 data files of at most 32 MiB have to be searched, which the driver does itself.

    For more rows, Spark joins their keys with the key columns of the data files between the lowest and the highest key,
    or with the rows that a key index names; the given rows are then shuffled to the data files that have rows of their
    keys, which are read once more. A task holds the given rows of its data files, and up to 128 MiB of inserted rows.

    Args:
        data_df: rows with all columns of the table, because whole rows are replaced (except with `update_columns`);
            names may differ in case, unless Spark is case-sensitive;
            their values must fit the table's columns exactly. UUIDs may be text. Spark has no types for times and
            nanoseconds.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs; or a Delta table: its name, a path,
            a URI, or deltalake's `DeltaTable`. A Delta table has no identifier fields, so that `join_cols` is needed,
            and no branches. Its change data feed has an updated row as a delete and an insert.
        join_cols, when_matched_update_all, when_not_matched_insert_all, skip_unchanged, update_columns: as in
            `puffin_fast.iceberg.upsert`.
        delete_column, order_column, duplicate_keys, branch, on_conflict, job_id, snapshot_properties, dry_run: as in
            `puffin_fast.iceberg.upsert`.
        changes: as in `puffin_fast.iceberg.upsert`. Rows of a DataFrame have no order: without ``_change_type``,
            ``_change_ordinal`` and ``_commit_version`` each key must be given once.

    Returns:
        The same result as `puffin_fast.iceberg.upsert` or `puffin_fast.delta.upsert`.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.upsert` and `puffin_fast.delta.upsert`.

    Examples:
        >>> rows = spark.createDataFrame([(1, 9, 1.0), (200, 9, 2.0)], "id long, customer long, price double")
        >>> result = pf.spark.upsert(rows, table, "id")
        >>> result.rows_updated, result.rows_inserted
        (1, 1)
    """
    table = table_in(check_dataframe(data_df).sparkSession, table)
    check_flags(skip_unchanged=skip_unchanged, dry_run=dry_run)
    refused = refuses_duplicates(duplicate_keys)
    update, insert = when_matched_update_all, when_not_matched_insert_all
    check_changes(changes, delete_column, order_column)
    if changes is False:
        feed = ChangeFeed(delete_column, order_column)
    else:
        data_df, feed = _marked(data_df, changes)
    check_clauses(update, insert, feed.delete_column)
    request = Request(
        verb="upsert", branch=branch, job_id=checked_id(job_id), snapshot_properties=snapshot_properties
    )
    job = start(data_df.sparkSession, table, request)
    data_df = as_in_table(data_df, job.schema())
    spelled = partial(key_names, data_df.sparkSession, job.schema())
    join_cols, update_columns = spelled(join_cols), spelled(update_columns)
    feed = ChangeFeed(*map(spelled, (feed.delete_column, feed.order_column)))  # type: ignore[arg-type]
    columns = columns_to_set(job.schema(), update_columns, join_cols, update=update)
    needed = None if insert or (update and columns is None) else columns or ()
    given = _Given.of(data_df, job, join_cols, needed, feed)
    job.check_compared([name for name, _ in given.fields])
    with ExitStack() as held:
        kept: Saved | None = None
        if not job.is_done():
            part = job.part(dry_run=dry_run, kind="upsert")
            kept = held.enter_context(saved(given.rows, part))
            if (few := kept.few()) is not None:
                action = Upsert(
                    rows=given.named(few).to_reader(),
                    join_cols=[name for name, _ in given.fields],
                    update=update,
                    insert=insert,
                    skip_unchanged=skip_unchanged,
                    update_columns=update_columns,
                    delete_column=feed.delete_column,
                    order_column=feed.order_column,
                    duplicate_keys=duplicate_keys,
                )
                options = Options(
                    verb="upsert",
                    branch=branch,
                    on_conflict=on_conflict,
                    job_id=job_id,
                    snapshot_properties=snapshot_properties,
                    dry_run=dry_run,
                )
                session = data_df.sparkSession
                with suppress(ManyRowsError):
                    attempt = attempt_on(session, table, options, part.name, job.started)
                    return attempt.run(action, UpsertResult)
        plan = _Upsert(
            job, given, kept, held, update, insert, update and skip_unchanged, columns, refused, dry_run
        )
        return job.run(plan.on, on_conflict, UpsertResult)  # type: ignore[no-any-return]


def _marked(data_df: DataFrame, changes: bool | str) -> tuple[DataFrame, ChangeFeed]:
    """Converts changes on executors to rows with the columns of a change feed."""
    from pyspark.sql.types import BooleanType, LongType, StructField, StructType

    names = data_df.columns
    kinds, order = kinds_and_order(names, changes)
    kept = with_deletes_and_order(no_rows(data_df).to_reader(), changes).schema.names
    fields = [field for field in data_df.schema.fields if field.name in kept]
    added = [StructField(GIVEN_DELETES, BooleanType()), StructField(GIVEN_ORDER, LongType())]
    rows = mapped(data_df, over_batches(worker.marked, changes=changes), StructType([*fields, *added]))
    if order is None and kinds != CHANGE_TYPE:
        return rows.drop(GIVEN_ORDER), ChangeFeed(GIVEN_DELETES)
    return rows, ChangeFeed(GIVEN_DELETES, GIVEN_ORDER)


@dataclass(frozen=True)
class _Given:
    """The given rows.

    Attributes:
        rows: columns c0, c1, …, then `DELETES`, and `ORDER` if the feed has an order.
        columns: the names of c0, c1, … in the table: those of `wanted`, or fewer if all rows delete their key.
        fields: the names and fields of the key's columns.
        feed: the columns of the caller's rows that mark deletes, and order the rows of a key.
        wanted: the columns that are written, and the key columns.
        schema: the schema of the table.
    """

    rows: DataFrame
    columns: list[str]
    fields: list[tuple[str, NestedField]]
    feed: ChangeFeed
    wanted: Schema
    schema: Schema

    @classmethod
    def of(
        cls,
        data_df: DataFrame,
        job: Verb,
        join_cols: str | Sequence[str] | None,
        columns: Collection[str] | None,
        feed: ChangeFeed,
    ) -> _Given:
        """Selects the key columns and the columns that are written: `columns`, or all columns of the table.

        Raises:
            InvalidInputError: a column is missing, is not in the table or is given twice, or its type does not fit.
            UnsupportedError: rows cannot be written to the table.
            NotFoundError: a key column or a column of the feed does not exist.
        """
        from pyspark.sql import functions

        schema = job.schema()
        fields = key_fields(schema, join_cols)
        wanted = written_schema(schema, fields, columns)
        none = no_rows(data_df)
        feed.deletes(none)
        if feed.order_column is not None:
            feed.order(none)
        fit(wanted, schema, feed.without(none, schema), all_columns=feed.delete_column is None)

        def column(name: str) -> Column:
            return functions.col("`" + name.replace("`", "``") + "`")

        given = set(none.column_names)
        job.check_rows()
        names = [field.name for field in wanted.fields if field.name in given]
        selected = [column(name).alias(f"c{at}") for at, name in enumerate(names)]
        deletes = functions.lit(False) if feed.delete_column is None else column(feed.delete_column)
        selected.append(deletes.alias(DELETES))
        if feed.order_column is not None:
            selected.append(column(feed.order_column).alias(ORDER))
        return cls(data_df.select(*selected), names, fields, feed, wanted, schema)

    def named(self, rows: pa.Table) -> pa.Table:
        """Returns `rows` with the names of the caller's columns."""
        given = dict(zip(self.columns, rows.columns, strict=False))
        for name, own in ((self.feed.delete_column, DELETES), (self.feed.order_column, ORDER)):
            if name is not None:
                given[name] = rows[own]
        return pa.table(given)

    @property
    def own(self) -> list[str]:
        """The names of the table's columns in DataFrames."""
        return [f"c{at}" for at in range(len(self.columns))]

    @property
    def keys(self) -> list[str]:
        """The names of the key's columns in DataFrames."""
        return [f"k{at}" for at in range(len(self.fields))]


class _Cached:
    """The given rows with their keys."""

    def __init__(self, given: _Given, kept: Saved, part: Job, held: ExitStack) -> None:
        from pyspark.sql import Window, functions
        from pyspark.sql.pandas.types import from_arrow_schema
        from pyspark.sql.types import StructType

        feed = given.feed
        options: dict[str, Any] = {"target": part.executor_view(), "columns": given.columns}
        body = over_batches(worker.keyed, **options, fields=given.fields, feed=feed)
        keys = from_arrow_schema(spark_schema(given.fields))
        rows = mapped(kept.frame(), body, StructType([*given.rows.schema.fields, *keys.fields]))
        if feed.order_column is not None:
            every = Window.partitionBy(*given.keys)
            last = functions.rank().over(every.orderBy(functions.col(ORDER).desc()))
            n_given = functions.count(functions.lit(1)).over(every)
            rows = rows.withColumns({"n_given": n_given, "rank": last}).where("rank = 1")
        if feed:
            last_of = [] if feed.order_column is None else given.keys
            body = over_batches(worker.checked, **options, wanted=given.wanted, last_of=last_of)
            rows = mapped(rows, body, rows.schema)
        self.rows = held.enter_context(cached(rows))
        facts = [functions.count(functions.lit(1)).alias("count")]
        if feed.order_column is not None:
            facts.append(functions.first(ORDER).alias(ORDER))
        several = self.rows.groupBy(*given.keys).agg(*facts).where(functions.col("count") > 1).limit(1)
        twice = collected(several).to_pylist()
        if twice and feed.order_column is not None:
            raise InvalidInputError(
                f"data: order_column {feed.order_column}: several rows of one key have its last value; "
                "expected one of them, or equal rows"
            )
        self.n_superseded = 0
        if feed.order_column is not None:
            (superseded,) = collected(self.rows.agg(functions.sum(functions.col("n_given") - 1))).columns
            self.n_superseded = superseded[0].as_py() or 0
        if twice:
            names = ", ".join(name for name, _ in given.fields)
            raise InvalidInputError(f"data: two rows with one key ({names}); expected each key once")
        self.ends = key_ends(self.rows.select(*given.keys), given.fields)
        self.is_empty = all(len(end) == 0 for end in self.ends)


@dataclass
class _Upsert:
    """An upsert that can be planned on any head; the given rows are computed on the first one only."""

    job: Verb
    given: _Given
    kept: Saved | None
    held: ExitStack
    update: bool
    insert: bool
    compared: bool
    set_columns: Sequence[str] | None
    refused: bool
    dry_run: bool
    cached: _Cached | None = None

    def on(self, base: Any) -> Planned:
        """Writes the deletes and the new rows of one commit."""
        job, given = self.job, self.given
        job.check_schema(given.schema)
        job.check_rows()
        if self.cached is None:
            assert self.kept is not None
            part = job.part(dry_run=self.dry_run, kind="upsert")
            self.cached = _Cached(given, self.kept, part, self.held)
        n_superseded = self.cached.n_superseded
        if self.cached.is_empty:
            return Planned().counting(rows_superseded=n_superseded)
        bounds = KeyBounds.between(job.metadata, given.fields, self.cached.ends)
        keys = self.cached.rows.select(*given.keys)
        few: list[Keys | None] = []

        def sent() -> Keys | None:
            few.append(sent_keys(keys, given.fields, job.metadata))
            return few[0]

        found, job.reads = job.matching(base, bounds, sent), None
        tasks: Sequence[Task] = columns_of(found)
        index = job.key_lookup(given.fields, tasks) if few == [None] else None
        names = [name for name, _ in given.fields]
        purpose = Purpose("MERGE", names, bounds, isolation="always", inserts=True)
        part, outcomes = with_or_without(lambda index: self._run(purpose, tasks, bounds, index), index)
        duplicates = sum((file.duplicates for file in part.report.matched), DuplicateKeys())
        if self.refused and duplicates.n_keys:
            part.remove_files()
            duplicates.refuse(names)
        several: dict[int, bool] = {}
        for file in part.report.matched:
            for key, is_updated in file.several.items():
                several[key] = several.get(key, False) or is_updated
        n_updated = sum(several.values())
        counts = {
            "rows_updated": sum(file.n_updated for file in part.report.matched) + n_updated,
            "rows_inserted": part.report.n_inserted,
            "rows_unchanged": sum(file.n_unchanged for file in part.report.matched)
            + len(several)
            - n_updated,
            "keys_deleted": sum(file.n_deleted for file in part.report.matched),
        }
        metrics = {"Updated": "rows_updated", "Inserted": "rows_inserted"}
        if given.feed.delete_column is not None:
            metrics["Deleted"] = "keys_deleted"
        history = {f"numTargetRows{what}": counts[name] for what, name in metrics.items()}
        sources = frozenset(file.path for file in part.report.matched)
        planned = part.planned(outcomes, part.report.entries, sources, history)
        return planned.counting(**counts, rows_superseded=n_superseded)

    def _run(
        self, purpose: Purpose, tasks: Sequence[Task], bounds: KeyBounds, index: KeyLookup | None
    ) -> tuple[Part, list[Outcome]]:
        """Runs the Spark job that replaces and inserts; returns the run and its deletes."""
        assert self.cached is not None
        part = self.job.part(purpose, dry_run=self.dry_run, kind="upsert")
        with ExitStack() as held:
            report = self._report(self.cached.rows, part, tasks, bounds, index, held)
            return part, part.run(report, tasks)

    def _report(
        self,
        rows: DataFrame,
        part: Job,
        tasks: Sequence[Task],
        bounds: KeyBounds,
        index: KeyLookup | None,
        held: ExitStack,
    ) -> DataFrame:
        """Returns the reports of the Spark job that replaces and inserts rows."""
        given = self.given

        def inserted(rows: DataFrame) -> DataFrame:
            return part.reports(rows, append, columns=given.columns)

        new = rows.where(f"NOT {DELETES}")
        if not tasks:
            new = new.select(*given.own) if self.insert else new.select(*given.own).limit(0)
            return inserted(new)
        matches = held.enter_context(cached(self._matches(rows, part, tasks, bounds, index)))
        pairs = matches.join(rows, given.keys).select(*MATCH, DELETES, *given.own).repartition("file")
        report = part.reports(
            pairs,
            worker.replace,
            columns=given.columns,
            tasks=tasks,
            update=self.update,
            compared=self.compared,
            set_columns=self.set_columns,
        )
        if not self.insert:
            return report
        new = new.join(matches.select(*given.keys), given.keys, "left_anti").select(*given.own)
        return report.unionAll(inserted(new))

    def _matches(
        self, rows: DataFrame, part: Job, tasks: Sequence[Task], bounds: KeyBounds, index: KeyLookup | None
    ) -> DataFrame:
        """The rows of the table that have a given key: the key's columns, and those of `MATCH`."""
        from pyspark.sql import Window, functions

        names = self.given.keys
        candidates = candidate_rows(
            rows.sparkSession,
            rows.select(*names),
            self.given.fields,
            part,
            tasks,
            bounds,
            index,
            null_safe=False,
            live=True,
        )
        found = candidates.join(rows.select(*names), names, "left_semi")
        every = Window.partitionBy(*names)
        return found.withColumns(
            {
                "n": functions.count(functions.lit(1)).over(every),
                "first": functions.row_number().over(every.orderBy("file", "pos")),
                "key": functions.min(functions.expr("shiftleft(cast(file AS bigint), 40) + pos")).over(every),
            }
        )
