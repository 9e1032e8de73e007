"""The table object of a transaction: each job on it is planned on top of those before it, and none is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from puffin_fast._runtime.interrupt import is_from_outside
from puffin_fast.errors import PuffinFastError
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.compat.working_table import WorkingTable
from puffin_fast.iceberg.plan.staged import StagedSnapshot

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.commit.request import Committed

__all__ = ["Planned", "StagingTable"]


class Planned(Protocol):
    """A plan of a job: the changes to commit, and what the job's result needs."""

    @property
    def changes(self) -> Changes: ...


Plan = TypeVar("Plan", bound=Planned)


class StagingTable(WorkingTable):
    """A copy of a table object for a transaction.

    Args:
        shared: the caller's table.

    Attributes:
        base: the head of the branch that the first job is planned on.
        changes: the net changes of all jobs, on top of `base`.
        repeated: the commit that has the transaction's job id already; no job is planned then.
    """

    def __init__(self, shared: Table) -> None:
        super().__init__(shared)
        self.repeated: Committed | None = None
        self.begin(None)

    def begin(self, base: Snapshot | None) -> None:
        """Forgets all jobs, and plans the next one on a head. Their files stay in `created`."""
        self.base, self.changes = base, Changes()

    def stage(self, plan: Callable[[Snapshot | None], Plan]) -> Plan:
        """Plans a job on top of those before it."""
        planned = plan(self._head())
        self.changes = self.changes.then(planned.changes)
        return planned

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """If the block fails or is interrupted, its jobs are forgotten and their files removed; the others stay.

        Raises:
            PuffinFastError: a file could not be written.
        """
        changes, n_earlier = self.changes, len(self.created)
        try:
            yield
        except BaseException as error:
            self.changes = changes
            self.remove(self.created[n_earlier:])
            if isinstance(error, OSError) and not is_from_outside(error):
                raise PuffinFastError(f"{self.shown}: nothing was committed: {error}") from error
            raise

    def remove_superseded(self) -> None:
        """Removes the files that the net changes do not need: those that a later job removed again."""
        self.remove(set(self.created).difference(self.changes.new_files))

    def _head(self) -> Snapshot | None:
        if not self.changes:
            return self.base
        return StagedSnapshot.on(self.base, self.metadata, self.changes.added, self.changes.removed)
