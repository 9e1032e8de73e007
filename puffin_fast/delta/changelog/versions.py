"""The range of versions whose changes are read."""

from __future__ import annotations

from dataclasses import dataclass

from puffin_fast._api.arguments import check_integer
from puffin_fast._api.times import milliseconds_of
from puffin_fast.delta.log.segment import LogListing
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.delta.log.times import CommitTimes
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.rows.changes.ends import Ends


@dataclass(frozen=True)
class Versions:
    """A range of versions.

    Attributes:
        first: whose changes are the first ones; the state before it is that of the version before.
        last: whose changes are the last ones.
    """

    first: int
    last: int

    @classmethod
    def of(cls, storage: TableStorage, listing: LogListing, ends: Ends, newest: int) -> Versions:
        """Finds the ends of a range.

        Args:
            newest: the last version by default.

        Raises:
            NotFoundError: there is no such version, or the log does not reach back to a time.
            InvalidInputError: a time has no time zone.
        """
        before, last, time = ends.from_snapshot_id_exclusive, newest, ends.from_timestamp_exclusive
        check_integer("from_snapshot_id_exclusive", before, least=0)
        check_integer("to_snapshot_id_inclusive", ends.to_snapshot_id_inclusive, least=0)
        times = CommitTimes(storage, listing)
        if ends.to_timestamp_inclusive is not None:
            until = milliseconds_of(ends.to_timestamp_inclusive, "to_timestamp_inclusive")
            found = times.newest_at(until)
            if found is None:
                raise NotFoundError(f"{storage.root}: no version at or before {until} ms")
            last = found
        elif ends.to_snapshot_id_inclusive is not None:
            last = ends.to_snapshot_id_inclusive
        first = 0 if before is None else before + 1
        if time is not None:
            first = _newer(times, listing, milliseconds_of(time, "from_timestamp_exclusive"))
        if last > listing.latest or first > listing.latest + 1:
            wrong = last if last > listing.latest else first - 1
            raise NotFoundError(f"{storage.root}: no version {wrong}, the newest is {listing.latest}")
        return cls(first, last)

    def between(self, listing: LogListing) -> range:
        """Returns the versions.

        Raises:
            InvalidInputError: the first is after the last.
            NotFoundError: the log no longer has one of them.
        """
        if self.first > self.last + 1:
            raise InvalidInputError(
                f"from_snapshot_id_exclusive={self.first - 1}: expected at most {self.last}, the state after; with "
                "net=True any two versions are compared"
            )
        wanted = range(self.first, self.last + 1)
        if missing := sorted(set(wanted).difference(listing.commits)):
            after = [at for at in listing.commits if at > missing[-1]]
            raise NotFoundError(
                f"{listing.root}: the log no longer has the commit of version {missing[0]}; "
                f"{f'changes can begin with version {after[0]}' if after else 'it has no later one'}, and net=True "
                "needs only the two ends"
            )
        return wanted


def earliest(listing: LogListing) -> int:
    """The first version from which on the log has each commit; the one after the newest if it has not even that."""
    commits = set(listing.commits)
    first = listing.latest + 1
    while first - 1 in commits:
        first -= 1
    return first


def _newer(times: CommitTimes, listing: LogListing, time: int) -> int:
    """The first version that is newer than a time; the one after the newest if none is."""
    found = times.newest_at(time)
    if found is not None:
        return found + 1
    if listing.commits[:1] == (0,):
        return 0
    first = next(iter(listing.commits), None)
    raise NotFoundError(
        f"{listing.root}: from_timestamp_exclusive={time}: the log begins at version {first}, which is newer"
    )
