"""Several verbs in one commit.

The verbs of a transaction make one snapshot or version. Each is planned on the head with the net changes of the verbs
before it: the data files that they added are live, the vectors that they wrote apply. A file that a later verb removes
again is not in the commit. So a data file gets at most one vector, even if several verbs delete rows of it.

Row lineage: rows that were in the table before keep their row ids through any number of updates. A row that the
transaction appended gets its id from the commit, also if the transaction updated it.

`TRANSITIONS` has what may happen in each state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeVar

from pyiceberg.expressions import AlwaysTrue

from puffin_fast._api.keywords import named_attributes, named_methods
from puffin_fast.columns.arrow_rows import arrow_reader, arrow_rows
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.rows.match.duplicate_keys import OnDuplicateKeys
from puffin_fast.verbs.attempt import Action, Attempt
from puffin_fast.verbs.counts import Counts
from puffin_fast.verbs.delete import Delete, DeleteKeys, DeletePositions, group_positions
from puffin_fast.verbs.overwrite import Append, DynamicPartitionOverwrite, Overwrite
from puffin_fast.verbs.results import (
    AppendResult,
    Commit,
    DeleteResult,
    OverwriteResult,
    UpdateResult,
    UpsertResult,
    result_of,
)
from puffin_fast.verbs.update import Update
from puffin_fast.verbs.upsert import Upsert


class State(Enum):
    """The states of a transaction."""

    NEW = "not begun"
    OPEN = "open"
    ENDED = "ended"


class Event(Enum):
    """The events of a transaction."""

    BEGUN = "the with block begins"
    VERB = "a verb is called; if it fails, its files are removed, and the changes of earlier verbs stay"
    COMMIT = "the block ends; a conflict may run all verbs again"
    LEFT = "an exception or interrupt leaves the block; all files are removed"


TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (State.NEW, Event.BEGUN): State.OPEN,
    (State.OPEN, Event.VERB): State.OPEN,
    (State.OPEN, Event.COMMIT): State.ENDED,
    (State.OPEN, Event.LEFT): State.ENDED,
}
"""The next state. An interrupt while the commit is being made ends it, too: if its outcome is unknown, no file is
removed. Other events are refused."""

Result = TypeVar("Result")

_ENDS = "the commit is made where the with block ends, and an exception in the block discards it"


@named_attributes(dict.fromkeys(("commit", "commit_transaction", "rollback", "abort"), _ENDS))
@named_methods(
    "append",
    "delete",
    "delete_keys",
    "delete_positions",
    "dynamic_partition_overwrite",
    "overwrite",
    "update",
    "upsert",
)
class Transaction:
    """A context manager whose methods are the verbs. `transaction` returns one.

    The verbs take the arguments of the functions with the same names, except those that `transaction` takes. Their
    results have no snapshot id or version. One verb runs at a time. The caller must not change the arguments before the
    block has ended.

    Attributes:
        committed: the commit, after the block; None if there was nothing to change.
        results: the results of the verbs, in their order. If the verbs were run again, these are the final counts.
    """

    _attempt: Attempt
    """While the transaction is open."""

    def __init__(self, begin: Callable[[], Attempt]) -> None:
        self._begin, self._state = begin, State.NEW
        self._verbs: list[type[Any]] = []
        self._counts: list[Counts] = []
        self._commit = Commit()
        self._lock = Lock()
        self.committed: Any | None = None

    def __repr__(self) -> str:
        verbs = "".join(f"\n- {result}" for result in self.results)
        return f"{type(self).__name__}({self._state.value}, {len(self._counts)} verbs){verbs}"

    @property
    def results(self) -> list[Any]:
        pairs = zip(self._verbs, self._counts, strict=True)
        return [result_of(kind, counts, self._commit) for kind, counts in pairs]

    def __enter__(self) -> Self:
        following = self._after(Event.BEGUN)
        self._attempt = self._begin()
        self._attempt.dry_run = False
        self._commit = self._attempt.commit_of(self._attempt.repeated)
        self._state = following
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._state is State.ENDED:  # by `commit_transaction`
            return
        if kind is None:
            self.commit_transaction()
            return
        with self._lock:  # a verb of another thread ends first
            attempt = self._end(Event.LEFT)
        attempt.__exit__(kind, error, trace)

    def commit_transaction(self) -> None:
        """Commits and ends the transaction. Without this call, the end of the block does so.

        Raises:
            ConflictError, CommitUnknownError: as `transaction`.
        """
        with self._lock:
            attempt = self._end(Event.COMMIT)
            with attempt:
                attempt.commit()
            self.committed = attempt.committed
            if attempt.repeated is None:
                self._counts = attempt.counts

    def _after(self, event: Event) -> State:
        found = TRANSITIONS.get((self._state, event))
        if found is None:
            expected = "a verb inside of its with block, found one outside of it"
            if event is Event.BEGUN:
                expected = "a new one, found one whose block has begun before"
            raise InvalidInputError(f"transaction: expected {expected}")
        return found

    def _end(self, event: Event) -> Attempt:
        self._state = self._after(event)
        attempt = self._attempt
        del self._attempt
        return attempt

    def _run(self, action: Action, kind: type[Result], threads: int | None = None) -> Result:
        with self._lock:
            self._state = self._after(Event.VERB)
            counts = Counts()
            if self._attempt.repeated is None:
                counts = self._attempt.perform(action, threads)
            self._verbs.append(kind)
            self._counts = [*self._counts, counts]
            return result_of(kind, counts, self._commit)

    def append(self, data: Any) -> AppendResult:
        """Appends rows, which are held in memory until the block ends. See `append`.

        Args:
            data: as `append`.

        Returns:
            The counts.

        Raises:
            InvalidInputError: as `append`, or the transaction has ended.
        """
        return self._run(Append(arrow_rows(data, "data", streamed=False)), AppendResult)

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
        return self._run(Delete(row_filter, case_sensitive), DeleteResult, threads)

    def delete_positions(self, deletes: Any, *, threads: int | None = None) -> DeleteResult:
        """Deletes rows given by data file and position, of data files that were in the table before.

        Args:
            deletes, threads: as `delete_positions`.

        Returns:
            The counts.

        Raises:
            InvalidInputError: as `delete_positions`, or the transaction has ended.
        """
        return self._run(DeletePositions(group_positions(deletes)), DeleteResult, threads)

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
        return self._run(DeleteKeys(keys, join_cols, null_safe), DeleteResult, threads)

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
        return self._run(Update(row_filter, values, case_sensitive), UpdateResult, threads)

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
        changes: bool | str = False,
        duplicate_keys: OnDuplicateKeys = "refuse",
        threads: int | None = None,
    ) -> UpsertResult:
        """Replaces the rows whose key is given, and inserts the given rows whose key is new. See `upsert`.

        Args:
            data, join_cols, when_matched_update_all, when_not_matched_insert_all, skip_unchanged: as `upsert`.
            update_columns, delete_column, order_column, changes, duplicate_keys, threads: as `upsert`.

        Returns:
            The counts.

        Raises:
            InvalidInputError: as `upsert`, or the transaction has ended.
        """
        action = Upsert(
            rows=arrow_reader(data, "data"),
            join_cols=join_cols,
            update=when_matched_update_all,
            insert=when_not_matched_insert_all,
            skip_unchanged=skip_unchanged,
            update_columns=update_columns,
            delete_column=delete_column,
            order_column=order_column,
            changes=changes,
            duplicate_keys=duplicate_keys,
        )
        return self._run(action, UpsertResult, threads)

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
        return self._run(Overwrite(rows, row_filter, case_sensitive), OverwriteResult, threads)

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
        return self._run(DynamicPartitionOverwrite(rows), OverwriteResult, threads)
