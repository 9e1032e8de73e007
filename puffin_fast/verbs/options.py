"""The options of a commit that all verbs have, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Literal, TypeAlias

from puffin_fast._api.arguments import check_flags, check_mapping, check_name
from puffin_fast._concurrency.threads import check_threads
from puffin_fast._concurrency.workers import check_workers
from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError

OnConflict: TypeAlias = Literal["refuse", "merge"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """A caller's options for a commit.

    Attributes:
        verb: the public function that commits; recorded beside the job id.
        branch: the branch of an Iceberg table.
        on_conflict: whether a conflict with another commit is an error, or the verb runs again on the new head.
        job_id: the caller's name for the job; a job that was committed is not repeated.
        snapshot_properties: additional entries in the record of the commit.
        threads: number of files read at a time; the number of processors by default.
        workers: reads the data files instead of threads of this process.
        dry_run: whether the verb only counts, and writes nothing.
        log_predicate: whether the record of the commit has the row filter, in formats whose records have it.

    Raises:
        InvalidInputError: an option has a value that is not allowed.
    """

    verb: str
    branch: str = "main"
    on_conflict: OnConflict = "refuse"
    job_id: str | None = None
    snapshot_properties: Mapping[str, str] | None = None
    threads: int | None = None
    workers: Executor | None = None
    dry_run: bool = False
    log_predicate: bool = True

    def __post_init__(self) -> None:
        check_threads(self.threads)
        check_workers(self.workers)
        check_flags(dry_run=self.dry_run, log_predicate=self.log_predicate)
        check_name("branch", self.branch, optional=False)
        check_name("job_id", self.job_id)
        check_mapping("snapshot_properties", self.snapshot_properties)
        if not isinstance(self.on_conflict, str) or self.on_conflict not in ("refuse", "merge"):
            raise InvalidInputError(
                f"on_conflict: expected 'refuse' or 'merge', found {shown_argument(self.on_conflict)}"
            )

    @property
    def merges(self) -> bool:
        """Whether the verb runs again if another commit changed the same files."""
        return self.on_conflict == "merge"
