"""Several verbs in one commit.

The verbs of a transaction make one snapshot. Each is planned on the branch's head with the net changes of the verbs
before it: the data files that they added are live, the vectors that they wrote apply. A file that a later verb removes
again is in no manifest. So a data file gets at most one vector, however many verbs delete rows of it.

One snapshot, because the specification allows a snapshot to add data files together with the deletion vectors of their
rows ("Scan Planning": a vector applies if the data file's sequence number is not larger than its own). With several
snapshots in one commit, readers could travel to states between the verbs, and rows that a later verb deletes would get
row ids.

Row lineage: rows that were in the table before keep their row ids through any number of updates. A row that the
transaction appended gets its id from the commit, also if the transaction updated it.

```
state    event                                                to
open     a verb succeeds                                      open; its files are staged
open     a verb fails, and the caller catches the error       open, as before the verb; its files are removed
open     the block ends                                       ended; committed, conflicts may run all verbs again
open     an exception or interrupt leaves the block           ended; all files are removed
open     an interrupt while the catalog makes the commit      ended; unknown, as in `protocol`: no file is removed
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast._runtime.arguments import check_flags
from puffin_fast.columns.arrow_rows import arrow_rows, key_rows, position_rows
from puffin_fast.errors import CommitUnknownError, InvalidInputError
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.job import open_table
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.commit.request import Committed, Request, committed_before, head_of
from puffin_fast.iceberg.commit.staging import StagingTable
from puffin_fast.iceberg.dml.delete import delete, delete_positions
from puffin_fast.iceberg.dml.delete_job import DeleteResult, OnConflict, check_on_conflict
from puffin_fast.iceberg.dml.delete_keys import delete_keys
from puffin_fast.iceberg.dml.overwrite import OverwriteResult, dynamic_partition_overwrite, overwrite
from puffin_fast.iceberg.dml.tables import append
from puffin_fast.iceberg.dml.update import UpdateResult, update
from puffin_fast.iceberg.dml.upsert import UpsertResult, upsert
from puffin_fast.iceberg.plan.files import metadata_of
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.rows.match.duplicate_keys import OnDuplicateKeys

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["Transaction", "transaction"]

Result = TypeVar("Result")

ENDED = "transaction: expected a verb inside of its with block, found one outside of it"


def transaction(
    table: Table,
    *,
    branch: str = MAIN_BRANCH,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
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
        dry_run: run the verbs, but do not commit. Files are written and removed again at the end, because later verbs
            read them.

    Raises:
        InvalidInputError: an argument; or, from a verb, that it is outside of the block.
        UnsupportedError, NotFoundError, ConflictError, CommitUnknownError: as `delete`, when the block begins or ends.
    """
    return Transaction(
        table,
        Request(verb="transaction", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties),
        on_conflict,
        dry_run=dry_run,
    )


class Transaction:
    """A context manager whose methods are the verbs; made by `transaction`.

    The verbs take the arguments of the functions of the same names, without those that `transaction` has. Their results
    have no snapshot id. One verb runs at a time. Arguments must not be changed before the block has ended.

    Attributes:
        committed: the commit, after the block; None if there was nothing to change.
        results: what the verbs returned, in their order. If they were run again, these are the final counts.
    """

    def __init__(self, table: Table, request: Request, on_conflict: OnConflict, *, dry_run: bool) -> None:
        metadata_of(table)
        check_on_conflict(on_conflict)
        check_flags(dry_run=dry_run)
        self._shared, self._request = table, request
        self._merge, self._dry_run = on_conflict == "merge", dry_run
        self._table: StagingTable | None = None
        self._verbs: list[Callable[[StagingTable], Any]] = []
        self._lock = Lock()
        self.committed: Committed | None = None
        self.results: list[Any] = []

    def __enter__(self) -> Transaction:
        if self._table is not None or self._verbs:
            raise InvalidInputError("transaction: expected a new one, found one whose block has begun before")
        table = open_table(self._shared, oldest=2, kind=StagingTable)
        table.repeated = committed_before(table, self._request)
        table.begin(head_of(table.metadata, self._request.branch))
        self._table = table
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        table = self._table
        if table is None:  # ended by `commit_transaction`
            return
        if kind is None:
            self.commit_transaction()
            return
        self._table = None
        table.remove_created()
        table.publish()

    def commit_transaction(self) -> None:
        """Commits and ends the transaction before its block ends; the block's end does it otherwise.

        Raises:
            ConflictError, CommitUnknownError: as `transaction`.
        """
        with self._lock:
            table, self._table = self._table, None
            if table is None:
                raise InvalidInputError(ENDED)
            try:
                if table.repeated is not None:
                    self.committed = table.repeated
                elif self._dry_run or not table.changes:
                    table.remove_created()
                else:
                    self.committed = self._commit(table)
            except CommitUnknownError:
                raise
            except BaseException:
                table.remove_created()
                raise
            finally:
                table.publish()

    def _commit(self, table: StagingTable) -> Committed | None:
        def run_again(head: Snapshot | None) -> Changes | None:
            table.begin(head)
            self.results = [verb(table) for verb in self._verbs]
            table.remove_superseded()
            return table.changes or None

        table.remove_superseded()
        return commit(
            table,
            table.changes,
            base=table.base,
            request=self._request,
            rebuild=run_again,
            merge=self._merge,
        )

    def _run(self, verb: Callable[[StagingTable], Result]) -> Result:
        with self._lock:
            if self._table is None:
                raise InvalidInputError(ENDED)
            n_earlier = len(self._verbs)
            try:
                with self._table.savepoint():
                    result = verb(self._table)
                    self._verbs.append(verb)
                    self.results.append(result)
            except BaseException:
                del self._verbs[n_earlier:], self.results[n_earlier:]
                raise
            return result

    def append(self, data: Any) -> None:
        """Appends rows, which are held in memory until the block ends. See `append`.

        Args:
            data: as `append`.

        Raises:
            InvalidInputError: as `append`, or the transaction has ended.
        """
        rows = arrow_rows(data, "data", streamed=False)

        def verb(table: StagingTable) -> None:
            append(table, rows)

        self._run(verb)

    def delete(
        self, row_filter: Filter, *, case_sensitive: bool = True, threads: int | None = None
    ) -> DeleteResult:
        """Deletes the rows for which a filter is true. See `delete`.

        Args:
            row_filter, case_sensitive, threads: as `delete`.

        Returns:
            The counts.

        Raises:
            InvalidInputError: as `delete`, or the transaction has ended.
        """
        return self._run(
            lambda table: delete(table, row_filter, case_sensitive=case_sensitive, threads=threads)
        )

    def delete_positions(self, deletes: Any, *, threads: int | None = None) -> DeleteResult:
        """Deletes rows given by data file and position, of data files that were in the table before.

        Args:
            deletes, threads: as `delete_positions`.

        Returns:
            The counts.

        Raises:
            InvalidInputError: as `delete_positions`, or the transaction has ended.
        """
        rows, branch = arrow_rows(position_rows(deletes), "deletes", streamed=False), self._request.branch
        return self._run(lambda table: delete_positions(table, rows, branch=branch, threads=threads))

    def delete_keys(
        self,
        keys: Any,
        join_cols: str | Sequence[str] | None = None,
        *,
        null_safe: bool = False,
        threads: int | None = None,
    ) -> DeleteResult:
        """Deletes the rows whose key is in a table of keys. See `delete_keys`.

        Args:
            keys, join_cols, null_safe, threads: as `delete_keys`.

        Returns:
            The counts.

        Raises:
            InvalidInputError: as `delete_keys`, or the transaction has ended.
        """
        rows = arrow_rows(key_rows(keys, join_cols), "keys", streamed=False)
        return self._run(
            lambda table: delete_keys(table, rows, join_cols, null_safe=null_safe, threads=threads)
        )

    def update(
        self,
        row_filter: Filter,
        values: Mapping[str, Any],
        *,
        case_sensitive: bool = True,
        threads: int | None = None,
    ) -> UpdateResult:
        """Sets columns of the rows for which a filter is true. See `update`.

        Args:
            row_filter, values, case_sensitive, threads: as `update`.

        Returns:
            The counts.

        Raises:
            InvalidInputError: as `update`, or the transaction has ended.
        """
        return self._run(
            lambda table: update(table, row_filter, values, case_sensitive=case_sensitive, threads=threads)
        )

    def upsert(
        self,
        data: Any,
        join_cols: str | Sequence[str] | None = None,
        *,
        when_matched_update_all: bool = True,
        when_not_matched_insert_all: bool = True,
        skip_unchanged: bool = True,
        update_columns: Sequence[str] | None = None,
        delete_column: str | None = None,
        order_column: str | None = None,
        duplicate_keys: OnDuplicateKeys = "refuse",
        threads: int | None = None,
    ) -> UpsertResult:
        """Replaces the rows whose key is given, and inserts the given rows whose key is new. See `upsert`.

        Args:
            data, join_cols, when_matched_update_all, when_not_matched_insert_all, skip_unchanged, update_columns,
                delete_column, order_column, duplicate_keys, threads: as `upsert`.

        Returns:
            The counts.

        Raises:
            InvalidInputError: as `upsert`, or the transaction has ended.
        """
        rows = arrow_rows(data, "data", streamed=False)
        return self._run(
            lambda table: upsert(
                table,
                rows,
                join_cols,
                when_matched_update_all=when_matched_update_all,
                when_not_matched_insert_all=when_not_matched_insert_all,
                skip_unchanged=skip_unchanged,
                update_columns=update_columns,
                delete_column=delete_column,
                order_column=order_column,
                duplicate_keys=duplicate_keys,
                threads=threads,
            )
        )

    def overwrite(
        self,
        data: Any,
        row_filter: Filter = AlwaysTrue(),  # noqa: B008
        *,
        case_sensitive: bool = True,
        threads: int | None = None,
    ) -> OverwriteResult:
        """Deletes the rows for which a filter is true, and appends rows. See `overwrite`.

        Args:
            data, row_filter, case_sensitive, threads: as `overwrite`.

        Returns:
            The counts.

        Raises:
            InvalidInputError: as `overwrite`, or the transaction has ended.
        """
        rows = arrow_rows(data, "data", streamed=False)
        return self._run(
            lambda table: overwrite(table, rows, row_filter, case_sensitive=case_sensitive, threads=threads)
        )

    def dynamic_partition_overwrite(self, data: Any, *, threads: int | None = None) -> OverwriteResult:
        """Replaces the partitions that the given rows belong to.

        Args:
            data, threads: as `dynamic_partition_overwrite`.

        Returns:
            The counts.

        Raises:
            InvalidInputError: as `dynamic_partition_overwrite`, or the transaction has ended.
        """
        rows = arrow_rows(data, "data", streamed=False)
        return self._run(lambda table: dynamic_partition_overwrite(table, rows, threads=threads))
