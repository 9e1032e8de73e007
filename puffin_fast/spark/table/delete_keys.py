"""Deletes by the keys in a DataFrame, searched and written by executors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import UUIDType

from puffin_fast._api.arguments import check_flags, check_integer
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.rows.deletes.outcome import Outcome
from puffin_fast.rows.keys.key_columns import distinct_keys, key_fields, key_schema, keys_of_batch
from puffin_fast.rows.keys.keys import KeyBounds, Keys
from puffin_fast.rows.tasks import Task, columns_of, distinct_files, paths_of
from puffin_fast.spark.dataframe.transforms import TASK_MEMORY, by_file, check_memory
from puffin_fast.spark.session.batches import collected, no_rows
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.session.sessions import check_dataframe
from puffin_fast.spark.session.with_session import of_dataframe
from puffin_fast.spark.table.caches import refreshing
from puffin_fast.spark.table.indexed_keys import candidate_rows, named_rows, with_or_without
from puffin_fast.spark.table.job import (
    MAIN,
    Job,
    checked_id,
    task_rows,
)
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.table.saved_rows import MOST_BYTES, MOST_ROWS, cached, saved
from puffin_fast.spark.table.search import searched
from puffin_fast.spark.table.spelling import as_in_table, key_names
from puffin_fast.spark.table.start import start
from puffin_fast.spark.table.verb import Planned
from puffin_fast.spark.worker.keys import MORE, from_spark, matched, normalised, spark_schema, up_to
from puffin_fast.spark.worker.marked import MARKED
from puffin_fast.spark.worker.tasks import extend
from puffin_fast.verbs.attempt import Purpose
from puffin_fast.verbs.options import OnConflict
from puffin_fast.verbs.results import DeleteResult

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

    from puffin_fast.iceberg.index.lookup import KeyLookup

UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\z"  # $ would accept a trailing newline

Fields = list[tuple[str, "NestedField"]]


@of_dataframe
@refreshing
def delete_keys(
    keys_df: DataFrame,
    table: Table | Any,
    join_cols: str | Sequence[str] | None = None,
    *,
    null_safe: bool = False,
    branch: str = MAIN,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    broadcast_keys: int = MOST_ROWS,
    task_memory: int = TASK_MEMORY,
) -> DeleteResult:
    """`puffin_fast.iceberg.delete_keys` on executors, for the keys in a DataFrame.

    The keys are computed once, and kept in files of the job until it ends. Few keys are sent to every task. The data
    files whose partition and bounds admit a key are searched, each by one task that also writes its deletes: nothing is
    shuffled. A task holds the keys (up to five times their bytes), a batch of the key columns and one file of vectors.
    Up to 256 data files with up to 32 MiB of key columns are searched by the driver. If there are more keys, Spark
    joins them with the key columns of the data files between the lowest and the highest key. Of data files that a key
    index covers, only the rows that it names are joined: executors look the keys up, by ranges of their hashes. If it
    stores keys exactly, these rows are not even read. A task is then bounded by `task_memory` and by Spark's own
    limits.

    Args:
        keys_df: the keys, in columns named as in the table (in any case, unless Spark is case-sensitive); other columns
            are ignored, and duplicates are allowed.
        table: as in `delete`; a Delta table has no identifier fields, so `join_cols` is needed.
        join_cols, null_safe, branch, on_conflict, job_id, snapshot_properties, dry_run: as in
            `puffin_fast.iceberg.delete_keys`. A key of a uuid column is binary, or a string as in Spark.
        broadcast_keys: up to this number of distinct keys (and 32 MiB of them) are sent to every task.
        task_memory: as for `encode_deletes`.

    Returns:
        The same result as `puffin_fast.iceberg.delete_keys`.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.delete_keys`.

    Examples:
        >>> keys = spark.createDataFrame([(3,), (5,), (500,)], "id long")
        >>> pf.spark.delete_keys(keys, table, "id").rows_deleted
        2
    """
    session = check_dataframe(keys_df).sparkSession
    table = table_in(session, table)
    check_memory(task_memory)
    check_integer("broadcast_keys", broadcast_keys, least=0, optional=False)
    check_flags(null_safe=null_safe, dry_run=dry_run)
    request = Request(
        verb="delete_keys", branch=branch, job_id=checked_id(job_id), snapshot_properties=snapshot_properties
    )
    job = start(session, table, request)
    fields = key_fields(job.schema(), key_names(session, job.schema(), join_cols))
    job.check_compared([*fields])
    rows = _selected(as_in_table(keys_df, job.schema()), fields, null_safe=null_safe)
    if job.is_done():
        return job.run(lambda base: Planned(), on_conflict, DeleteResult)  # type: ignore[no-any-return]

    with saved(rows, job.part(dry_run=dry_run), distinct=True) as kept:
        few = kept.few(broadcast_keys)
        if few is not None:
            columns = distinct_keys(few, list(_plain(fields).items()), null_safe=null_safe)
            keys = Keys.of(job.metadata, fields, columns)

            def search(tasks: Sequence[Task]) -> Planned:
                part = job.part(Purpose("DELETE", matcher=keys), dry_run=dry_run)
                return part.planned(searched(session, part, tasks, job.finder(keys)))

            return job.run_delete(keys, search, on_conflict)  # type: ignore[no-any-return]

        plain = list(_plain(fields).items())
        body = over_batches(normalised, fields=plain, null_safe=null_safe)
        with cached(mapped(kept.frame(), body, spark_schema(fields))) as given:
            bounds = KeyBounds.between(job.metadata, fields, key_ends(given, fields))

            def join(tasks: Sequence[Task]) -> Planned:
                job.reads = None

                def found(index: KeyLookup | None) -> Planned:
                    part = job.part(Purpose("DELETE", matcher=bounds), dry_run=dry_run)
                    outcomes = _joined(
                        *(given, fields, part, tasks, bounds, index),
                        null_safe=null_safe,
                        task_memory=task_memory,
                    )
                    return part.planned(outcomes)

                return with_or_without(found, job.key_lookup(fields, tasks))

            return job.run_delete(bounds, join, on_conflict)  # type: ignore[no-any-return]


def _selected(keys_df: DataFrame, fields: Fields, *, null_safe: bool) -> DataFrame:
    """Selects the key columns as k0, k1, …; raises an error if a column cannot be compared with the table's.

    Raises:
        NotFoundError, InvalidInputError: as `delete_keys`.
    """
    from pyspark.sql import functions

    columns, schema = [], keys_df.schema
    for name, field in fields:
        quoted, kind = _column(schema, name)
        column = functions.col(quoted)
        if kind.startswith("string collate"):  # a case-insensitive collation would merge different keys
            column, kind = column.cast("string"), "string"
        if (
            isinstance(field.field_type, UUIDType) and kind == "string"
        ):  # a text that is not a uuid cannot match
            keys_df = keys_df.where(column.isNull() | column.rlike(UUID))
            column = functions.unhex(functions.replace(column, functions.lit("-"), functions.lit("")))
        columns.append(column)
    rows = keys_df.select(*columns).toDF(*_plain(fields))
    kinds = no_rows(rows).schema.types
    none = [pa.array([], kind) for kind in kinds]
    keys_of_batch(pa.RecordBatch.from_arrays(none, [name for name, _ in fields]), fields, null_safe=null_safe)
    return rows


def _plain(fields: Fields) -> dict[str, NestedField]:
    """The key columns by names without dots, which DataFrame functions would read as struct fields."""
    return {f"k{at}": field for at, (_, field) in enumerate(fields)}


def _column(schema: StructType, name: str) -> tuple[str, str]:
    """Returns the quoted name and the type of a column, or of a struct field if no column has the name.

    Raises:
        NotFoundError: there is neither a column nor a field with the name.
        InvalidInputError: two columns have the name.
    """
    paths = sorted(_paths(schema, name), key=len)
    if not paths:
        raise NotFoundError(f"keys: no column {name}, found {', '.join(schema.names) or 'none'}")
    found = [path for path in paths if len(path) == len(paths[0])]
    if len(found) > 1:
        raise InvalidInputError(f"keys: {len(found)} columns {name}")
    quoted = (f"`{field.name.replace('`', '``')}`" for field in found[0])
    return ".".join(quoted), found[0][-1].dataType.simpleString()


def _paths(kind: DataType, name: str) -> Iterator[list[StructField]]:
    """Yields the fields from a column down to a field; a dot separates two names or belongs to a name."""
    for field in getattr(kind, "fields", ()):
        if field.name == name:
            yield [field]
        elif name.startswith(f"{field.name}."):
            yield from ([field, *path] for path in _paths(field.dataType, name[len(field.name) + 1 :]))


def sent(rows: DataFrame, limit: int = MOST_ROWS) -> pa.Table | None:
    """Returns the rows, or None if they exceed the limits. The driver never receives more than the limits."""
    from pyspark.sql.types import BooleanType, StructField, StructType

    body = over_batches(up_to, n_bytes=MOST_BYTES)
    schema = StructType([*rows.schema.fields, StructField(MORE, BooleanType())])
    few = collected(mapped(rows.limit(limit + 1), body, schema))
    if few.num_rows > limit or few.nbytes > MOST_BYTES or pc.any(few[MORE]).as_py():
        return None
    return few.drop_columns([MORE])


def sent_keys(cached: DataFrame, fields: Fields, metadata: TableMetadata) -> Keys | None:
    """Returns the keys in the types of `spark_schema`, or None if there are many."""
    few = sent(cached)
    if few is None:
        return None
    columns = (column.combine_chunks() for column in few.columns)
    return Keys.of(metadata, fields, [*map(from_spark, columns, key_schema(fields).types)])


def key_ends(cached: DataFrame, fields: Fields) -> list[pa.Array]:
    """Returns for each key column its lowest and highest value, and null if it has one."""
    from pyspark.sql import functions

    schema = key_schema(fields)
    wanted: list[Column] = []
    for name in schema.names:
        column = functions.col(name)
        wanted += [functions.min(column), functions.max(column), functions.count(column)]
    names = [str(at) for at in range(len(wanted) + 1)]
    found = collected(cached.agg(*wanted, functions.count(functions.lit(1))).toDF(*names))
    (n_rows,) = found.columns[-1].to_pylist()
    ends = []
    for at, field in enumerate(schema):
        low, high, count = (column.combine_chunks() for column in found.columns[3 * at : 3 * at + 3])
        both = pa.concat_arrays([low, high]).drop_null()
        nulls = pa.nulls(int(count[0].as_py() < n_rows), both.type)
        ends.append(from_spark(pa.concat_arrays([both, nulls]), field.type))
    return ends


def _joined(
    cached: DataFrame,
    fields: Fields,
    job: Job,
    tasks: Sequence[Task],
    bounds: KeyBounds,
    index: KeyLookup | None,
    *,
    null_safe: bool,
    task_memory: int,
) -> list[Outcome]:
    """Joins the keys with the rows of data files, and writes the deletes of the rows that match.

    Of data files that an index covers, only the rows that it names are joined; if it is exact, none.
    """
    if not tasks:
        return []
    session = cached.sparkSession
    every = distinct_files(columns_of(tasks))
    exact = index is not None and index.exact
    if index is not None and exact and every.has_any("equality_deletes"):
        exact = not any(task.equality_deletes for task in every if task.data.file_path in index.covered)
    marked: list[DataFrame] = []
    read, files = every, paths_of(every)
    if index is not None and exact:
        marked.append(named_rows(cached, index))
        read = every.take([at for at, path in enumerate(files) if path not in index.covered])
    if read:
        rest = None if exact else index
        rows = candidate_rows(
            *(session, cached, fields, job, read, bounds, rest), null_safe=null_safe, task_memory=task_memory
        )
        other = cached.toDF(*(f"of_{name}" for name in cached.columns))
        pairs = [(rows[name], other[f"of_{name}"]) for name in cached.columns]
        same = reduce(lambda a, b: a & b, (x.eqNullSafe(y) if null_safe else x == y for x, y in pairs))
        matches = rows.join(other, same, "left_semi").select("file", "pos")
        body = over_batches(matched, files=paths_of(read), memory=task_memory)
        marked.append(mapped(matches, body, MARKED))
    tasks_of_rows, common = task_rows(session, files, every)
    rows_by_file = by_file(reduce(lambda a, b: a.unionAll(b), marked, tasks_of_rows))
    return job.run(job.reports(rows_by_file, extend, memory=task_memory, common=common), every)
