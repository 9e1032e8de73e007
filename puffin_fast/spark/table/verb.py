"""A verb on executors: the driver plans it on a head, executors write files, the driver commits. Each table format
implements what differs.

```
verb.tasks, pruned, matching              -> the data files that may have matching rows
verb.part                                 -> one run of executors, which write deletes and new rows
part.planned                              -> the changes to commit, and their counts
verb.run                                  -> plans, commits, plans again on a newer head; the result
```
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue

from puffin_fast.rows.filters.filters import Filter, Matcher
from puffin_fast.spark.table.job import Job
from puffin_fast.verbs.attempt import Purpose
from puffin_fast.verbs.counts import Counts
from puffin_fast.verbs.options import OnConflict
from puffin_fast.verbs.results import Commit, DeleteResult, result_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField
    from pyspark.sql import DataFrame, SparkSession

    from puffin_fast.iceberg.commit.request import Request
    from puffin_fast.iceberg.index.lookup import KeyLookup
    from puffin_fast.rows.deletes.outcome import Outcome
    from puffin_fast.rows.keys.keys import KeyBounds, Keys
    from puffin_fast.rows.scan.explain import Reads
    from puffin_fast.rows.scan.finder import Finder
    from puffin_fast.rows.tasks import Task


@dataclass(frozen=True)
class Planned:
    """A verb planned on one head.

    Attributes:
        changes: the changes to commit, in the form of the table's format; None or false if there are none.
        counts: what the executors did.
    """

    changes: Any = None
    counts: Counts = field(default_factory=Counts)

    def counting(self, **counts: int) -> Planned:
        """The same changes with other counts."""
        return replace(self, counts=replace(self.counts, **counts))


class Part(Job, ABC):
    """One run of the executors of a verb."""

    @abstractmethod
    def planned(
        self,
        outcomes: Iterable[Outcome],
        entries: Sequence[Any] = (),
        sources: frozenset[str] = frozenset(),
        metrics: Mapping[str, int] = {},
    ) -> Planned:
        """Returns the changes to commit; in a dry run only their counts.

        Args:
            outcomes: the deletes that executors wrote.
            entries: what a commit says of the data files that they wrote.
            sources: the data files that the new rows were computed from.
            metrics: entries for the table's history.
        """


class Verb(ABC):
    """A verb on executors, in progress.

    Attributes:
        request: branch, job id and properties.
        started: the start time, by `time.perf_counter`.
        reads: counts what the current attempt reads of the data files that it searches; None if Spark searches them.
    """

    request: Request
    started: float
    reads: Reads | None = None

    # what a format implements ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def metadata(self) -> TableMetadata:
        """The metadata of the table in the form that the data-file reader needs."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the table in messages."""

    @property
    @abstractmethod
    def head(self) -> str:
        """The head that the current attempt is planned on, such as ``branch 'main'``."""

    @abstractmethod
    def scan(
        self,
        session: SparkSession,
        fields: Sequence[str],
        row_filter: Filter = AlwaysTrue(),  # noqa: B008
        *,
        case_sensitive: bool = True,
    ) -> DataFrame:
        """The live rows of the head that match a filter of Iceberg."""

    @abstractmethod
    def is_done(self) -> bool:
        """Whether the job id was committed before."""

    @abstractmethod
    def part(self, purpose: Purpose | None = None, *, dry_run: bool, kind: str = "delete") -> Part:
        """Returns one run.

        Args:
            purpose: the purpose of its files; None if the run commits nothing itself.
            dry_run: whether executors write to memory only, and discard it.
            kind: one word for what the run does.
        """

    @abstractmethod
    def tasks(self, base: Any) -> Sequence[Task]:
        """The data files of a head."""

    @abstractmethod
    def pruned(self, base: Any, matcher: Matcher) -> Sequence[Task]:
        """The data files of a head that a matcher and a key index of the table do not exclude; makes new `reads`."""

    @abstractmethod
    def is_indexed(self, base: Any) -> bool:
        """Whether the table has a key index of any columns."""

    @abstractmethod
    def finder(self, matcher: Matcher) -> Finder:
        """Returns the finder of the rows that match."""

    @abstractmethod
    def key_lookup(
        self, fields: Sequence[tuple[str, NestedField]], tasks: Sequence[Task]
    ) -> KeyLookup | None:
        """An index of keys that executors look keys up in; None if none covers a data file.

        Args:
            fields: names and fields of the key's columns.
            tasks: the data files of the head.
        """

    @abstractmethod
    def check_rows(self) -> None:
        """Refuses tables to which rows cannot be written.

        Raises:
            UnsupportedError: the table has constraints, or columns whose values other engines compute.
        """

    @abstractmethod
    def check_compared(self, row_filter: Any) -> None:
        """Refuses what Spark compares in another way; raises as `check_text_compared`."""

    @abstractmethod
    def check_rows_fit(self, rows: pa.Schema) -> None:
        """Checks that rows of some columns can be appended.

        Raises:
            InvalidInputError: a column is not in the table, is missing and required, or its type does not fit; or a
                property of the table has a value that is not allowed.
            UnsupportedError: a column that they do not have has a default value in SQL.
        """

    @abstractmethod
    def check_schema(self, schema: Schema) -> None:
        """Checks that a head has the columns for which the job was prepared.

        Raises:
            UnsupportedError: the columns differ.
        """

    @abstractmethod
    def keep(self, part: Part) -> bool:
        """Keeps the data files of a run for all attempts, if the format can; returns whether they are kept."""

    @abstractmethod
    def commit(self, plan: Callable[[Any], Planned], on_conflict: OnConflict) -> tuple[Planned | None, Any]:
        """Plans and commits; returns the last plan, None if the job was done before, and the commit."""

    @abstractmethod
    def commit_of(self, committed: Any) -> Commit:
        """Returns what results say of a commit."""

    # what all formats share --------------------------------------------------------------------------------

    def schema(self) -> Schema:
        """The table's columns."""
        return self.metadata.schema()

    def matching(self, base: Any, bounds: KeyBounds, keys: Callable[[], Keys | None]) -> Sequence[Task]:
        """The data files of a head that may have some keys.

        Args:
            base: the head.
            keys: returns the keys, if they are few enough to look them up in an index.
        """
        few = keys() if self.is_indexed(base) else None
        return self.pruned(base, few or bounds)

    def run(self, plan: Callable[[Any], Planned], on_conflict: OnConflict, kind: type[Any]) -> Any:
        """Plans and commits; returns a result of a class."""
        planned, committed = self.commit(plan, on_conflict)
        return self.finished(kind, planned, committed)

    def run_delete(
        self, matcher: Matcher, work: Callable[[Sequence[Task]], Planned], on_conflict: OnConflict
    ) -> Any:
        """Runs a delete of rows of the data files that a matcher does not exclude.

        Args:
            matcher: bound to the table's schema.
            work: searches data files for the rows to delete, and writes the deletes.
            on_conflict: as for `commit`.
        """
        schema = self.schema()

        def plan(base: Any) -> Planned:
            self.check_schema(schema)
            return work(self.pruned(base, matcher))

        return self.run(plan, on_conflict, DeleteResult)

    def finished(self, kind: type[Any], planned: Planned | None, committed: Any) -> Any:
        """Returns the result of a plan and its commit."""
        counts = Counts() if planned is None else planned.counts
        if self.reads is not None:
            counts = replace(counts, explanation=self.reads.explanation(f"{self.name}, {self.head}"))
        seconds = time.perf_counter() - self.started
        return result_of(kind, counts, replace(self.commit_of(committed), seconds=seconds))
