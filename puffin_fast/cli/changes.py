"""The command ``changes``: what was inserted, deleted and updated between two snapshots of a table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from puffin_fast.cli import _options
from puffin_fast.cli._common import Answer, answers
from puffin_fast.cli._completed import complete_column
from puffin_fast.cli._path_table import PathTable
from puffin_fast.cli._paths import name_of, verb
from puffin_fast.cli.look import times_answer
from puffin_fast.cli.scan import check_target, to_option, written
from puffin_fast.cli.table import case_option

if TYPE_CHECKING:
    from pyiceberg.table import Table

COUNTED = {"inserts": "insert", "deletes": "delete", "updates": "update_postimage"}
"""The counts that `changes` prints, and the lines that they count: an update has one after-image."""


@click.command()
@answers
@_options.on_table
@click.option(
    "--from-snapshot-id",
    type=int,
    help="The state before: the changes begin after this snapshot, or version of Delta. Default: the empty table.",
)
@click.option(
    "--to-snapshot-id",
    type=int,
    help="The state after: the last snapshot, or version of Delta. Default: the current one.",
)
@click.option(
    "--from-timestamp",
    callback=_options.time,
    help="The state before, by the time at which it was current: "
    "a timestamp with a time zone, or milliseconds since 1970.",
)
@click.option("--to-timestamp", callback=_options.time, help="The state after, by its time.")
@click.option("--branch", help="Follows the history of this branch instead of main.")
@click.option("--tag", help="Follows the history that ends with the snapshot of this tag.")
@click.option("--net", is_flag=True, help="Compares the two states, however many snapshots are between them.")
@click.option("--no-updates", is_flag=True, help="Returns an update as a delete and an insert.")
@click.option(
    "--join-col",
    "join_cols",
    multiple=True,
    shell_complete=complete_column,
    help="Key column that finds updates of rows without row ids; repeatable. Default: the identifier fields.",
)
@_options.rows
@case_option
@_options.threads
@to_option
def changes(
    table: Table | PathTable,
    from_snapshot_id: int | None,
    to_snapshot_id: int | None,
    from_timestamp: str | int | None,
    to_timestamp: str | int | None,
    no_updates: bool,
    join_cols: tuple[str, ...],
    case_insensitive: bool,
    to: str | None,
    **options: Any,
) -> Answer:
    """Counts the rows of TABLE that each snapshot inserted, deleted and updated; --to writes them.

    The rows have the column _change_type: insert, delete, update_preimage or update_postimage (docs/changes.md).

    Example: puffin-fast changes shop.orders --from-timestamp 2026-01-01T00:00Z --to changes.parquet
    """
    check_target(to)
    found = verb(table, "changes")(
        from_snapshot_id,
        to_snapshot_id,
        from_timestamp_exclusive=from_timestamp,
        to_timestamp_inclusive=to_timestamp,
        updates=not no_updates,
        join_cols=join_cols or None,
        case_sensitive=not case_insensitive,
        **options,
    )
    if to is not None:
        return written(name_of(table), found, to)
    return times_answer(table, _counts(found.to_reader()), "no changes", COUNTED)


def _counts(reader: pa.RecordBatchReader) -> list[dict[str, Any]]:
    """The number of lines of each commit by their kind, in the order in which the commits come."""
    number = "_commit_version" if "_commit_version" in reader.schema.names else "_commit_snapshot_id"
    keys = [number, "_commit_timestamp", "_change_type"]
    counts: dict[tuple[int, int], Counter[str]] = {}
    for batch in reader:
        grouped = pa.Table.from_batches([batch]).select(keys).group_by(keys, use_threads=False)
        found = grouped.aggregate([([], "count_all")])
        times = found["_commit_timestamp"].cast(pa.int64()).to_pylist()
        columns = (found[name].to_pylist() for name in (number, "_change_type", "count_all"))
        for time, commit, kind, count in zip(times, *columns, strict=True):
            counts.setdefault((commit, time), Counter())[kind] += count
    return [
        {
            "timestamp_ms": time // 1000,
            number.removeprefix("_commit_"): commit,
            **{name: kinds[kind] for name, kind in COUNTED.items()},
        }
        for (commit, time), kinds in counts.items()
    ]
