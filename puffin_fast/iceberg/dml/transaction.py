"""Several verbs in one commit: one snapshot.

One snapshot, because the specification allows a snapshot to add data files together with the deletion vectors of their
rows ("Scan Planning": a vector applies if the data file's sequence number is not larger than its own). With several
snapshots in one commit, readers could travel to states between the verbs, and rows that a later verb deletes would get
row ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.dml.attempt import IcebergAttempt
from puffin_fast.iceberg.dml.delete import DeleteResult
from puffin_fast.iceberg.dml.overwrite import OverwriteResult
from puffin_fast.iceberg.dml.update import UpdateResult
from puffin_fast.iceberg.dml.upsert import UpsertResult
from puffin_fast.iceberg.plan.files import metadata_of
from puffin_fast.verbs import transaction as verbs
from puffin_fast.verbs.options import OnConflict, Options

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.table import Table


def transaction(
    table: Table,
    *,
    branch: str = MAIN_BRANCH,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
) -> Transaction:
    """Runs several verbs in one commit: all of them, or none.

        with iceberg.transaction(table) as tx:
            tx.delete("day = '2026-01-01'")
            tx.append(rows)

    Each verb sees the rows as the verbs before it left them. The block's end commits one snapshot; an exception or an
    interrupt in the block leaves the table as it was, and removes the files. If another commit came first, all verbs
    are run again in the cases in which one of them alone would be: see `delete`.

    Args:
        table: a PyIceberg table of format version 3 or 2. It is refreshed when the block begins, and has the new
            metadata afterwards.
        branch: an existing branch.
        on_conflict: what to do if a concurrent commit deleted rows of the same data files or removed one:
            ``"refuse"`` raises, ``"merge"`` runs all verbs again on top of it.
        job_id: recorded in the snapshot's summary. If it is in the branch's history, the verbs do nothing.
        snapshot_properties: additional entries of the snapshot's summary.
        workers: as for `delete`, for all verbs of the block.
        dry_run: run the verbs, but do not commit. Files are written and removed again at the end, because later verbs
            read them.

    Raises:
        InvalidInputError: an argument; or, from a verb, that it is outside of the block.
        UnsupportedError, NotFoundError, ConflictError, CommitUnknownError: as `delete`, when the block begins or ends.

    Examples:
        >>> with pf.iceberg.transaction(table) as transaction:
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
    )
    return Transaction(table, options)


class Transaction(verbs.Transaction[DeleteResult, UpdateResult, UpsertResult, OverwriteResult]):
    __doc__ = verbs.Transaction.__doc__
    _kinds = DeleteResult, UpdateResult, UpsertResult, OverwriteResult

    def __init__(self, table: Table, options: Options) -> None:
        super().__init__()
        metadata_of(table)
        Request(snapshot_properties=options.snapshot_properties)  # checks the names
        self._table, self._options = table, options

    def _begin(self) -> IcebergAttempt:
        return IcebergAttempt(self._table, self._options)
