"""Several verbs in one commit: one version."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

from puffin_fast.delta.dml.attempt import DeltaAttempt
from puffin_fast.delta.dml.delete import DeleteResult
from puffin_fast.delta.dml.overwrite import OverwriteResult
from puffin_fast.delta.dml.update import UpdateResult
from puffin_fast.delta.dml.upsert import UpsertResult
from puffin_fast.delta.log.commit import check_properties
from puffin_fast.delta.log.storage import storage_of
from puffin_fast.delta.log.storage_options import filesystem_of
from puffin_fast.verbs import transaction as verbs
from puffin_fast.verbs.options import OnConflict, Options


def transaction(
    table: Any,
    *,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
    log_predicate: bool = True,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> Transaction:
    """Runs several verbs in one commit: all of them, or none.

        with delta.transaction(table) as tx:
            tx.delete("day = '2026-01-01'")
            tx.append(rows)

    Each verb sees the rows as the verbs before it left them. The block's end commits one version; an exception or an
    interrupt in the block leaves the table as it was, and removes the files. If another commit came first, all verbs
    are run again in the cases in which one of them alone would be: see `delete`. In the change data feed of a
    transaction with several changes, an update is a delete and an insert.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        on_conflict: what to do if a concurrent commit changed the same data files: ``"refuse"`` raises, ``"merge"``
            runs all verbs again on top of it.
        job_id: recorded in the log as a transaction. If it is in the log, the verbs do nothing.
        snapshot_properties: additional entries of the commit's ``commitInfo``.
        workers: as for `delete`, for all verbs of the block.
        dry_run: run the verbs, but do not commit. Files are written and removed again at the end, because later verbs
            read them.
        log_predicate: as `delete`. The ``commitInfo`` of several verbs never has their filters.
        filesystem, storage_options: as `delete`.

    Raises:
        InvalidInputError: an argument; or, from a verb, that it is outside of the block.
        UnsupportedError, NotFoundError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`, when the
            block begins or ends.

    Examples:
        >>> with pf.delta.transaction(path) as transaction:
        ...     first = transaction.delete("id = 1")
        ...     second = transaction.update("id = 2", {"state": "sent"})
        >>> first.rows_deleted, second.rows_updated
        (1, 1)
    """
    filesystem = filesystem_of(table, filesystem, storage_options)
    options = Options(
        verb="transaction",
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        workers=workers,
        dry_run=dry_run,
        log_predicate=log_predicate,
    )
    return Transaction(table, options, filesystem)


class Transaction(verbs.Transaction[DeleteResult, UpdateResult, UpsertResult, OverwriteResult]):
    __doc__ = verbs.Transaction.__doc__
    _kinds = DeleteResult, UpdateResult, UpsertResult, OverwriteResult

    def __init__(self, table: Any, options: Options, filesystem: Any = None) -> None:
        super().__init__()
        check_properties(options.snapshot_properties)
        self._storage, self._options = storage_of(table, filesystem), options

    def _begin(self) -> DeltaAttempt:
        return DeltaAttempt(self._storage, self._options)
