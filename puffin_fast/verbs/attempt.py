"""An attempt: one try of a commit on one head of a table. A format implements it; the verbs use nothing else.

```
action.on(attempt)   plan     -> the data files that may hold the rows, as the earlier actions left them
                     finder, reader, loader  -> rows, and deletes that apply already
                     writer   -> writes deletes and new rows
                     stage    -> their files are a part of the attempt; counts
attempt.commit       the attempt becomes the head, or all actions run again on a newer one
```
A single verb (`run`) is a transaction of one.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

from puffin_fast._run.interrupt import is_from_outside
from puffin_fast._run.threads import check_threads
from puffin_fast.errors import PuffinFastError
from puffin_fast.verbs.counts import Counts, result_of
from puffin_fast.verbs.options import Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

    from puffin_fast.rows.deletes.loader import DeleteLoader
    from puffin_fast.rows.deletes.outcome import NewDeletes
    from puffin_fast.rows.filters.filters import Matcher
    from puffin_fast.rows.scan.file_reader import ReaderFactory
    from puffin_fast.rows.scan.finder import Finder
    from puffin_fast.rows.tasks import Task

Made = TypeVar("Made")
Result = TypeVar("Result")


class Action(Protocol):
    """A verb with its arguments. Several attempts may run it, one after another."""

    def on(self, attempt: Attempt) -> Counts:
        """Stages its changes on an attempt."""


@dataclass(frozen=True)
class Purpose:
    """What an action writes for.

    Attributes:
        operation: its name in the table's history, where the format has one.
        predicate: texts of what selects the rows, for the history.
        matcher: selects the rows; the action must also search data files that another commit adds meanwhile and that
            may have such rows. None: it need not.
        isolation: whose property of the table decides that: ``"delete"`` or ``"update"``; ``"always"``: none does.
        inserts: whether the action may write rows.
    """

    operation: str
    predicate: Sequence[str] = ()
    matcher: Matcher | None = None
    isolation: Literal["delete", "update", "always"] = "delete"
    inserts: bool = False


class Writer(Protocol):
    """Writes the files of one action. In a dry run it only counts."""

    @property
    def keeps_changes(self) -> bool:
        """Whether the rows that change are to be given to `record`."""

    def check(self, rows: pa.Schema) -> None:
        """Checks that rows of these columns can be inserted; writes nothing."""

    def delete(self, deletes: Iterable[NewDeletes]) -> None:
        """Writes deletes, at most one for each data file. It is called once at most."""

    def insert(
        self,
        rows: pa.Table | pa.RecordBatchReader,
        row_ids: pa.Array | pa.ChunkedArray | None = None,
        sources: frozenset[str] = frozenset(),
    ) -> None:
        """Writes new rows.

        Args:
            rows: all columns of the table.
            row_ids: for each row the id of the row that it replaces, else null; None: no row replaces another.
            sources: the data files that the rows were computed from.
        """

    def record(self, kind: str, rows: pa.Table) -> None:
        """Writes rows of the table's change data feed.

        Args:
            kind: ``insert``, ``delete``, ``update_preimage`` or ``update_postimage``.
            rows: all columns of the table.
        """

    def stage(self, **metrics: int) -> Counts:
        """Adds what was written to the attempt; returns the counts of files and deleted rows.

        Args:
            metrics: for the table's history.
        """


class Attempt(ABC):
    """One try of a commit on one head, with the actions that ran on it.

    Attributes:
        options: of the commit.
        threads: of the action that runs.
        created: the files that were begun and are removed if nothing is committed.
        changes: what the actions add and remove; None or false if nothing.
        counts: of the actions, in their order.
        dry_run: whether actions only count. Those of a transaction write, because later ones read their files.
        repeated: the commit that has the job id already; no action runs then.
        committed: the commit, if it happened.
    """

    created: list[str]
    changes: Any
    repeated: Any | None
    committed: Any | None = None

    def __init__(self, options: Options) -> None:
        self.started = time.perf_counter()
        self.options = options
        self.dry_run = options.dry_run
        self.threads = options.threads
        self.counts: list[Counts] = []
        self._actions: list[tuple[Action, int | None]] = []
        self._held = ExitStack()
        self._made: dict[Action, Any] = {}
        self._given_error: OSError | None = None

    # what a format implements ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the table in messages."""

    @property
    @abstractmethod
    def head(self) -> str:
        """The head in messages, such as ``branch 'main'``."""

    @property
    @abstractmethod
    def io(self) -> FileIO:
        """Reads the table's files."""

    @property
    @abstractmethod
    def metadata(self) -> TableMetadata:
        """The table's, with its current schema and partition spec."""

    @property
    @abstractmethod
    def lineage(self) -> Sequence[str]:
        """``_row_id`` if rows of the table have row ids, else nothing."""

    @abstractmethod
    def plan(self, matcher: Matcher) -> Sequence[Task]:
        """The data files that may have rows which a matcher selects."""

    @abstractmethod
    def find(self, paths: Collection[str]) -> Callable[[str], Task | None]:
        """Returns what finds a live data file by one of these paths, as users write them."""

    @abstractmethod
    def finder(self, matcher: Matcher) -> Finder:
        """The finder of the rows that match."""

    @abstractmethod
    def reader(self, matcher: Matcher) -> ReaderFactory:
        """Makes readers of the rows that match."""

    @abstractmethod
    def loader(self) -> DeleteLoader:
        """Loads the positions that are deleted already."""

    @abstractmethod
    def writer(self, purpose: Purpose) -> Writer:
        """Writes the files of an action.

        Raises:
            UnsupportedError: the table does not allow it.
        """

    @abstractmethod
    def remove(self, paths: Iterable[str]) -> None:
        """Removes files of the attempt, as far as the storage lets it."""

    @abstractmethod
    def note_outcome(self, error: BaseException) -> None:
        """Adds to an exception from outside, after the files were removed, what became of the commit."""

    @abstractmethod
    def commit(self) -> None:
        """Commits the changes, if there are some, and sets `committed`.

        Raises:
            ConflictError: another commit conflicts with the changes.
            CommitUnknownError: it is unknown whether the commit happened. No file was removed.
        """

    @abstractmethod
    def facts(self, committed: Any | None) -> dict[str, Any]:
        """The fields of results that are about the commit; None: there is none, or not yet."""

    @abstractmethod
    def publish(self) -> None:
        """Gives the caller's table the state after the attempt, where it is an object."""

    # what all formats share --------------------------------------------------------------------------------

    @property
    def schema(self) -> Schema:
        """The table's current schema."""
        return self.metadata.schema()

    def once(self, action: Action, make: Callable[[], AbstractContextManager[Made]]) -> Made:
        """Returns what an action makes on its first attempt, and uses on all: a stream can be read only once."""
        if action not in self._made:
            try:
                self._made[action] = self._held.enter_context(make())
            except OSError as error:  # of the caller's stream
                self._given_error = error
                raise
        made: Made = self._made[action]
        return made

    def mark(self) -> Any:
        """Returns a mark of the changes so far, for `return_to`."""
        return self.changes

    def return_to(self, mark: Any) -> None:
        """Forgets the changes since a mark."""
        self.changes = mark

    def perform(self, action: Action, threads: int | None = None) -> Counts:
        """Runs an action on top of those before it. If it fails, they stay, and its files are removed.

        Raises:
            PuffinFastError: as the action; or a file could not be written.
        """
        earlier, n_earlier = self.mark(), len(self.created)
        try:
            counts = self._run(action, threads)
        except BaseException as error:
            self.return_to(earlier)
            self.remove(self.created[n_earlier:])
            if isinstance(error, OSError) and error is not self._given_error and not is_from_outside(error):
                raise PuffinFastError(f"{self.name}: nothing was committed: {error}") from error
            raise
        self._actions.append((action, threads))
        self.counts.append(counts)
        return counts

    def repeat(self) -> None:
        """Runs all actions again, after the attempt began on a newer head."""
        self.counts = []
        try:
            for action, threads in self._actions:
                self.counts.append(self._run(action, threads))
        except BaseException:
            self.remove(list(self.created))
            raise

    def _run(self, action: Action, threads: int | None) -> Counts:
        check_threads(threads)
        started, self.threads = time.perf_counter(), threads
        return replace(action.on(self), seconds=time.perf_counter() - started)

    def run(self, action: Action, kind: type[Result]) -> Result:
        """Performs one action and commits; returns a result of this kind."""
        with self:
            if self.repeated is None:
                self.perform(action, self.options.threads)
            self.commit()
        facts = self.facts(self.committed)
        counts = self.counts[-1] if self.counts and not facts["repeated"] else Counts()
        return result_of(kind, counts, seconds=time.perf_counter() - self.started, **facts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        try:
            if error is not None:
                self.remove(list(self.created))
                self.note_outcome(error)
        finally:
            self._held.close()
            self.publish()
