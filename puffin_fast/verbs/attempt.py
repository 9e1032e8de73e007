"""An attempt: one try to commit on one head of a table. Each table format implements it; the verbs use only this
interface.

```
action.on(attempt)   plan     -> the data files that may have matching rows, with the changes of earlier actions
                     finder, reader, loader, located, matches  -> rows, and the deletes that already apply
                     writer   -> writes deletes and new rows
                     stage    -> adds their files to the attempt; returns the counts
attempt.commit       commits the attempt as the new head, or runs all actions again on a newer head
```
A single verb (`run`) is a transaction with one action.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

from puffin_fast._concurrency.threads import check_threads
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.errors import PuffinFastError
from puffin_fast.rows.match.matching import Matches, Source, find_matches
from puffin_fast.rows.scan.explain import Reads
from puffin_fast.rows.scan.located_rows import LocatedRows
from puffin_fast.verbs.counts import Counts
from puffin_fast.verbs.options import Options
from puffin_fast.verbs.results import Commit, result_of

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
    """A verb with its arguments. Several attempts may run it one after another."""

    def on(self, attempt: Attempt) -> Counts:
        """Makes the changes and stages them on an attempt."""


@dataclass(frozen=True)
class Purpose:
    """The purpose for which an action writes files.

    Attributes:
        operation: the name of the action in the table's history, if the format has such a name.
        predicate: the conditions that select the rows, as text for the history. None: the history gets none.
        matcher: selects the rows. If another commit adds data files that may have such rows, the action must search
            them, too. None: it need not.
        isolation: the operation whose isolation property decides whether such files are searched: ``"delete"`` or
            ``"update"``. ``"always"``: they are always searched.
        inserts: whether the action may write rows.
    """

    operation: str
    predicate: Sequence[str] | None = ()
    matcher: Matcher | None = None
    isolation: Literal["delete", "update", "always"] = "delete"
    inserts: bool = False


class Writer(Protocol):
    """Writes the files of one action. In a dry run it only counts."""

    @property
    def keeps_changes(self) -> bool:
        """Whether the action must pass the changed rows to `record`."""

    def check(self, rows: pa.Schema) -> None:
        """Checks that rows of these columns can be inserted; writes nothing."""

    def delete(self, deletes: Iterable[NewDeletes]) -> None:
        """Writes deletes, at most one for each data file. Called at most once."""

    def insert(
        self,
        rows: pa.Table | pa.RecordBatchReader,
        row_ids: pa.Array | pa.ChunkedArray | None = None,
        sources: frozenset[str] = frozenset(),
    ) -> None:
        """Writes new rows.

        Args:
            rows: all columns of the table.
            row_ids: for each row the id of the row that it replaces, or null. None if no row replaces another.
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
            metrics: entries for the table's history.
        """


class Attempt(ABC):
    """One try to commit on one head, with the actions that ran on it.

    Attributes:
        options: the options of the commit.
        threads: the number of threads of the current action.
        workers: reads the data files instead of threads.
        reads: counts what the current action reads.
        created: the files that were created; they are removed if nothing is committed.
        changes: what the actions add and remove; None or false if they change nothing.
        counts: the counts of the actions, in their order.
        dry_run: whether actions only count. Those of a transaction write files, because later actions read them.
        repeated: the commit that already has the job id; no action runs then.
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
        self.workers = options.workers
        self.reads = Reads()
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
        """The FileIO that reads the table's files."""

    @property
    @abstractmethod
    def metadata(self) -> TableMetadata:
        """The table's metadata, with its current schema and partition spec."""

    @property
    @abstractmethod
    def lineage(self) -> Sequence[str]:
        """``_row_id`` if rows of the table have row ids, else nothing."""

    @abstractmethod
    def plan(self, matcher: Matcher) -> Sequence[Task]:
        """Returns the data files that may have rows that a matcher selects."""

    @abstractmethod
    def find(self, paths: Collection[str]) -> Callable[[str], Task | None]:
        """Returns a function that finds a live data file by one of the given paths, in the spelling of the caller."""

    @abstractmethod
    def finder(self, matcher: Matcher) -> Finder:
        """Returns a finder of the rows that match."""

    @abstractmethod
    def reader(self, matcher: Matcher) -> ReaderFactory:
        """Returns a factory of readers of the rows that match."""

    @abstractmethod
    def loader(self) -> DeleteLoader:
        """Returns a loader of the positions that are already deleted."""

    @abstractmethod
    def writer(self, purpose: Purpose) -> Writer:
        """Returns a writer for the files of an action.

        Raises:
            UnsupportedError: the table does not allow the action.
        """

    @abstractmethod
    def remove(self, paths: Iterable[str]) -> None:
        """Removes files of the attempt; files that cannot be removed are left."""

    @abstractmethod
    def note_outcome(self, error: BaseException) -> None:
        """Adds a note on the state of the commit to an exception from outside, after the files were removed."""

    @abstractmethod
    def commit(self) -> None:
        """Commits the changes, if there are any, and sets `committed`.

        Raises:
            ConflictError: another commit conflicts with the changes.
            CommitUnknownError: it is unknown whether the commit happened. No file was removed.
        """

    @abstractmethod
    def commit_of(self, committed: Any | None) -> Commit:
        """Returns what results say of a commit. None: nothing was committed, or not yet."""

    @abstractmethod
    def publish(self) -> None:
        """Updates the caller's table object, if there is one, to the state after the attempt."""

    # what all formats share --------------------------------------------------------------------------------

    @property
    def schema(self) -> Schema:
        """The table's current schema."""
        return self.metadata.schema()

    def located(self, matcher: Matcher, tasks: Sequence[Task]) -> LocatedRows:
        """Reads the rows of data files that match, with all their columns."""
        fields, threads = self.schema.fields, self.threads
        return LocatedRows.read(
            self.reader(matcher), fields, tasks, self.lineage, threads=threads, workers=self.workers
        )

    def matches(self, source: Source, tasks: Sequence[Task], *, compared: bool) -> Matches:
        """Finds the rows of data files that have a given key; as `find_matches`."""
        return find_matches(
            tasks,
            source,
            self.schema.fields,
            self.reader(source.keys),
            compared=compared,
            row_ids=bool(self.lineage),
            threads=self.threads,
            workers=self.workers,
            current=self.loader(),
        )

    def once(self, action: Action, make: Callable[[], AbstractContextManager[Made]]) -> Made:
        """Returns an object that is made once for an action and used by all attempts: a stream is read only once."""
        if action not in self._made:
            try:
                self._made[action] = self._held.enter_context(make())
            except OSError as error:  # an error of the caller's stream
                self._given_error = error
                raise
        made: Made = self._made[action]
        return made

    def mark(self) -> Any:
        """Returns a mark of the changes so far, for `return_to`."""
        return self.changes

    def return_to(self, mark: Any) -> None:
        """Discards the changes since a mark."""
        self.changes = mark

    def perform(self, action: Action, threads: int | None = None) -> Counts:
        """Runs an action after the earlier ones. If it fails, its files are removed, and the earlier changes stay.

        Raises:
            PuffinFastError: an error of the action, or a file could not be written.
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
        self.reads = Reads()
        counts = action.on(self)
        explanation = self.reads.explanation(f"{self.name}, {self.head}")
        return replace(counts, seconds=time.perf_counter() - started, explanation=explanation)

    def run(self, action: Action, kind: type[Result]) -> Result:
        """Runs one action and commits; returns a result of the given class."""
        with self:
            if self.repeated is None:
                self.perform(action, self.options.threads)
            self.commit()
        commit = replace(self.commit_of(self.committed), seconds=time.perf_counter() - self.started)
        counts = self.counts[-1] if self.counts and not commit.repeated else Counts()
        return result_of(kind, counts, commit)

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
