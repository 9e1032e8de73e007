"""Commands that change the rows of one table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from puffin_fast._api.packages import import_optional
from puffin_fast.cli import _files, _options
from puffin_fast.cli._common import (
    DRY_RUN,
    Answer,
    answers,
    fields_grid,
    grid,
    shown_warnings,
    tracked,
    with_commit,
)
from puffin_fast.cli._completed import complete_column
from puffin_fast.cli._paimon_path import PaimonPath
from puffin_fast.cli._path_table import PathTable
from puffin_fast.cli._paths import name_of, verb
from puffin_fast.errors import UnsupportedError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession


case_option = click.option("--case-insensitive", is_flag=True, help="Ignores the case of column names.")
conflict_option = click.option(
    "--on-conflict",
    type=click.Choice(["refuse", "merge"]),
    default="refuse",
    show_default=True,
    help="What to do if another commit deleted rows of the same data files: "
    "refuse, or merge its deletes with those of this command.",
)


def session() -> SparkSession:
    """Starts the session that the environment configures (spark-defaults.conf, SPARK_REMOTE), else a local one."""
    import_optional("pyspark.sql", extra="spark")
    from pyspark.sql import SparkSession

    return SparkSession.builder.appName("puffin-fast").getOrCreate()


def _changed(table: Table | PathTable, result: Any, *, dry_run: bool, **facts: object) -> Answer:
    """The text for the result of a job on rows."""
    name = name_of(table)
    counts: dict[str, Any] = {"table": name, **facts, **asdict(result)}
    explanation = getattr(result, "explanation", None)
    if explanation is not None:
        counts["explanation"] = explanation.rows()
    commit = counts["commit"]
    if commit["repeated"]:
        found = "the log" if commit["id"] is None else f"snapshot {commit['id']}"
        text: list[Any] = [f"{name}: nothing done: {found} has this job id"]
    elif not dry_run and commit["id"] is None:
        text = [f"{name}: nothing done: no rows to change"]
    else:
        shown = with_commit({name: value for name, value in counts.items() if name != "explanation"})
        job = click.get_current_context().info_name or ""
        text = [fields_grid(job, shown, title=DRY_RUN if dry_run else None)]
        if explanation is not None:
            text.append(grid(explanation.rows(), one_line=True))
    return Answer([counts], text)


@click.command()
@answers
@_options.on_table
@click.option(
    "--row-filter", required=True, help="Deletes these rows: 'a > 5 and b is null' (docs/filters.md)."
)
@case_option
@conflict_option
@_options.threads
@click.option("--spark", is_flag=True, help="Searches and encodes on Spark executors.")
@_options.commit
@_options.log_predicate
def delete(
    table: Table | PathTable, row_filter: str, case_insensitive: bool, spark: bool, **commit: Any
) -> Answer:
    """Deletes the rows of TABLE that a filter selects, in one commit.

    Writes deletion vectors, or position-delete files to an Iceberg table of format version 2. If no row matches,
    nothing is committed. The filter of a Paimon table is pypaimon's SQL.

    Example: puffin-fast delete shop.orders --row-filter "id = 7" --dry-run
    """
    commit["case_sensitive"] = not case_insensitive
    if spark:
        if commit.pop("threads") is not None:
            raise click.UsageError("--spark cannot be combined with --threads")
        from puffin_fast import spark as on_spark
        from puffin_fast.rows.filters.filters import RowFilter
        from puffin_fast.rows.filters.grammar import parse_filter

        # Spark would read text as its SQL, where number and date literals in text are ambiguous
        RowFilter.bind(row_filter, table.schema(), case_sensitive=not case_insensitive)
        if isinstance(table, PaimonPath):
            raise UnsupportedError(
                f"{table.path}: --spark expects a table of Iceberg or Delta, found one of {table.format}"
            )
        where = table.path if isinstance(table, PathTable) else table
        result = tracked(on_spark.delete)(session(), where, parse_filter(row_filter), **commit)
    else:
        result = verb(table, "delete")(row_filter, **commit)
    facts = {"row_filter": row_filter, "branch": commit["branch"]}
    return _changed(table, result, dry_run=commit["dry_run"], **facts)


@click.command()
@answers
@_options.on_table
@click.argument("data", type=_options.FILE)
@_options.input_format
@_options.commit
def append(table: Table | PathTable, data: str, input_format: str | None, **commit: Any) -> Answer:
    """Appends the rows of the file DATA to TABLE, in one commit.

    DATA is a .parquet, .arrow, .csv, .jsonl or .json file, path or URI, or -
    for standard input. The columns of CSV and JSON Lines are
    read in the types of TABLE.

    Example: puffin-fast append shop.orders new.parquet --job-id load-17
    """
    with _files.rows(data, table.schema(), input_format) as rows:
        done = verb(table, "append")(rows, **commit)
    facts = {"data": data, "branch": commit["branch"]}
    answer = _changed(table, done, dry_run=commit["dry_run"], **facts)
    if commit["dry_run"]:  # which reads no row
        counts: Any = answer.json
        counts[0].update(rows_appended=None, data_files_written=None)
    return answer


@click.command()
@answers
@_options.on_table
@click.argument("data", type=_options.FILE)
@_options.input_format
@click.option(
    "--row-filter", help="Deletes these rows: 'a > 5 and b is null' (docs/filters.md); 'true': all rows."
)
@click.option(
    "--dynamic-partitions",
    is_flag=True,
    help="Deletes all rows of the partitions to which rows of DATA belong.",
)
@case_option
@conflict_option
@_options.threads
@_options.commit
@_options.log_predicate
def overwrite(
    table: Table | PathTable,
    data: str,
    input_format: str | None,
    row_filter: str | None,
    dynamic_partitions: bool,
    case_insensitive: bool,
    **commit: Any,
) -> Answer:
    """Deletes rows of TABLE and appends the rows of the file DATA, in one commit.

    DATA is a .parquet, .arrow, .csv, .jsonl or .json file, path or URI, or -
    for standard input. The columns of CSV and JSON Lines are
    read in the types of TABLE. Either
    --row-filter or --dynamic-partitions selects the rows to delete.

    Example: puffin-fast overwrite shop.orders may.csv --dynamic-partitions
    """
    if (row_filter is None) is not dynamic_partitions:
        raise click.UsageError("expected either --row-filter or --dynamic-partitions")
    with _files.rows(data, table.schema(), input_format) as rows:
        if row_filter is None:
            del commit["log_predicate"]  # there is no filter
            result = verb(table, "dynamic_partition_overwrite")(rows, **commit)
        else:
            commit["case_sensitive"] = not case_insensitive
            result = verb(table, "overwrite")(rows, row_filter, **commit)
    facts = {"data": data, "branch": commit["branch"]}
    return _changed(table, result, dry_run=commit["dry_run"], **facts)


def _named_positions(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The rows with the columns file_path and pos, which have other names if `scan` wrote them."""
    import pyarrow as pa

    found = set(rows.schema.names)
    if not {"_file", "_pos"} <= found or found & {"file_path", "pos"}:
        return rows
    names = [{"_file": "file_path", "_pos": "pos"}.get(name, name) for name in rows.schema.names]
    schema = pa.schema([field.with_name(name) for field, name in zip(rows.schema, names, strict=True)])
    batches = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in rows)
    return pa.RecordBatchReader.from_batches(schema, batches)


@click.command("delete-positions")
@answers
@_options.on_table
@click.argument("positions", type=_options.FILE)
@_options.input_format
@conflict_option
@_options.threads
@_options.commit
def delete_positions(
    table: Table | PathTable, positions: str, input_format: str | None, **commit: Any
) -> Answer:
    """Deletes the rows of TABLE at the positions in the file POSITIONS, in one commit.

    POSITIONS is a .parquet, .arrow, .csv, .jsonl or .json file, path or URI, or -
    for standard input, with the columns file_path, as in the
    table's metadata, and pos, or with the columns of `scan --selected-fields _file,_pos`.

    Example: puffin-fast delete-positions shop.orders rows.csv
    """
    import_optional("pyiceberg", extra="iceberg")
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField, StringType

    schema = Schema(
        NestedField(1, "file_path", StringType(), required=True),
        NestedField(2, "pos", LongType(), required=True),
        NestedField(3, "_file", StringType()),
        NestedField(4, "_pos", LongType()),
    )
    with _files.rows(positions, schema, input_format) as rows:
        result = verb(table, "delete_positions")(_named_positions(rows), **commit)
    facts = {"positions": positions, "branch": commit["branch"]}
    return _changed(table, result, dry_run=commit["dry_run"], **facts)


@click.command("delete-keys")
@answers
@_options.on_table
@click.argument("keys", type=_options.FILE)
@_options.input_format
@_options.key
@click.option(
    "--null-safe", is_flag=True, help="Null equals null. Without it, a key with a null matches no row."
)
@conflict_option
@_options.threads
@_options.commit
def delete_keys(
    table: Table | PathTable, keys: str, input_format: str | None, join_cols: tuple[str, ...], **commit: Any
) -> Answer:
    """Deletes the rows of TABLE whose key is in the file KEYS, in one commit.

    KEYS is a .parquet, .arrow, .csv, .jsonl or .json file, path or URI, or -
    for standard input. The columns of CSV and JSON Lines are
    read in the types of TABLE.

    Example: puffin-fast delete-keys shop.orders keys.jsonl --join-col id
    """
    with _files.rows(keys, table.schema(), input_format) as rows:
        result = verb(table, "delete_keys")(rows, join_cols or None, **commit)
    facts = {"keys": keys, "branch": commit["branch"]}
    return _changed(table, result, dry_run=commit["dry_run"], **facts)


@click.command()
@answers
@_options.on_table
@click.option(
    "--row-filter", required=True, help="Updates these rows: 'a > 5 and b is null' (docs/filters.md)."
)
@click.option(
    "--set",
    "values",
    metavar="COLUMN=VALUE",
    multiple=True,
    required=True,
    callback=_options.pairs,
    help='Sets a column; repeatable. VALUE is as `scan` prints it, or null; "null" in quotes is text.',
)
@case_option
@conflict_option
@_options.threads
@_options.commit
@_options.log_predicate
def update(
    table: Table | PathTable, row_filter: str, values: dict[str, str], case_insensitive: bool, **commit: Any
) -> Answer:
    """Sets columns of the rows of TABLE that a filter selects, in one commit.

    The old rows are deleted by deletion vectors; the new rows are written to new data files.

    Example: puffin-fast update shop.orders --row-filter "id = 7" --set n=1
    """
    from puffin_fast.cli._assignments import typed_values

    commit["case_sensitive"] = not case_insensitive
    found = typed_values(values, table.schema(), case_sensitive=not case_insensitive)
    with shown_warnings(UserWarning):
        result = verb(table, "update")(row_filter, found, **commit)
    facts = {"row_filter": row_filter, "branch": commit["branch"]}
    return _changed(table, result, dry_run=commit["dry_run"], **facts)


@click.command()
@answers
@_options.on_table
@click.argument("data", type=_options.FILE)
@_options.input_format
@_options.key
@_options.clauses
@_options.duplicate_keys
@click.option(
    "--update-column",
    "update_columns",
    multiple=True,
    shell_complete=complete_column,
    help="Sets only this column of existing rows; repeatable.",
)
@click.option("--delete-column", help="Column of DATA: where it is true, the row with this key is deleted.")
@click.option(
    "--order-column",
    help="Column of DATA: of several rows with one key, the one with the greatest value counts.",
)
@conflict_option
@_options.threads
@_options.commit
def upsert(
    table: Table | PathTable,
    data: str,
    input_format: str | None,
    join_cols: tuple[str, ...],
    update_columns: tuple[str, ...],
    delete_column: str | None,
    order_column: str | None,
    **commit: Any,
) -> Answer:
    """Replaces the rows of TABLE whose key is in the file DATA, and inserts the rows whose key is new.

    DATA is a .parquet, .arrow, .csv, .jsonl or .json file, path or URI, or -
    for standard input, with all columns of TABLE. The columns of
    CSV and JSON Lines are read in the types of TABLE. There is one commit. Rows that are equal to the given row are not
    replaced. The key columns must be unique in TABLE.

    Example: puffin-fast upsert shop.orders - --join-col id --threads 4
    """
    with _files.rows(data, table.schema(), input_format) as rows:
        upsert = verb(table, "upsert")
        feed = {"delete_column": delete_column, "order_column": order_column}
        result = upsert(rows, join_cols or None, update_columns=update_columns or None, **feed, **commit)
    facts = {"data": data, "branch": commit["branch"]}
    return _changed(table, result, dry_run=commit["dry_run"], **facts)
