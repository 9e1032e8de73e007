"""Several verbs in one commit.

One snapshot of Iceberg, because the specification allows a snapshot to add data files together with the deletion
vectors of their rows ("Scan Planning": a vector applies if the data file's sequence number is not larger than its own).
With several snapshots in one commit, readers could travel to states between the verbs, and rows that a later verb
deletes would get row ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from puffin_fast._api.keywords import public
from puffin_fast.tables.opening import open_table
from puffin_fast.verbs.options import OnConflict, Options
from puffin_fast.verbs.transaction import Transaction

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from puffin_fast.tables.opening import TableLike


@public
def transaction(
    table: TableLike,
    *,
    branch: str = "main",
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
    log_predicate: bool = True,
) -> Transaction:
    """Runs several verbs in one commit: all of them, or none.

        with pf.transaction(table) as tx:
            tx.delete("day = '2026-01-01'")
            tx.append(rows)

    Each verb sees the rows as the verbs before it left them. The block's end commits one snapshot or version; an
    exception or an interrupt in the block leaves the table as it was, and removes the files. If another commit came
    first, all verbs are run again in the cases in which one of them alone would be: see `delete`. In Delta's change
    data feed of a transaction with several changes, an update is a delete and an insert.

    Args:
        table: as `delete`. It is refreshed when the block begins.
        branch: an existing branch of an Iceberg table.
        on_conflict: what to do if a concurrent commit deleted rows of the same data files or removed one:
            ``"refuse"`` raises, ``"merge"`` runs all verbs again on top of it.
        job_id: as `delete`. If it is in the table's history, the verbs do nothing.
        snapshot_properties, log_predicate: as `delete`. Delta's log never has the filters of several verbs.
        workers: as for `delete`, for all verbs of the block.
        dry_run: run the verbs, but do not commit. Files are written and removed again at the end, because later verbs
            read them.

    Raises:
        InvalidInputError: an argument; or, from a verb, that it is outside of the block.
        UnsupportedError, NotFoundError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`, when the
            block begins or ends.

    Examples:
        >>> with pf.transaction(table) as transaction:
        ...     first = transaction.delete("id = 1")
        ...     second = transaction.update("id = 2", {"price": 0.0})
        >>> first.rows_deleted, second.rows_updated
        (1, 1)
        >>> len(table.snapshots())  # the rows that were appended, and the transaction
        2
    """
    options = Options(
        verb="transaction",
        branch=branch,
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        workers=workers,
        dry_run=dry_run,
        log_predicate=log_predicate,
    )
    found = open_table(table)
    found.check(options)
    return Transaction(partial(found.attempt, options))
