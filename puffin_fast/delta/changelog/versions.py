"""The range of versions whose changes are read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from puffin_fast._api.arguments import check_integer
from puffin_fast._api.times import milliseconds_of
from puffin_fast.delta.log.segment import LogListing
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.delta.log.times import CommitTimes
from puffin_fast.errors import InvalidInputError, NotFoundError


@dataclass(frozen=True)
class Ends:
    """The ends of a range of versions, as a caller gives them. Each is named by at most one argument.

    Attributes:
        starting_version, ending_version: the first and the last version.
        starting_timestamp: the first version that is not older.
        ending_timestamp: the last version that is not newer.
    """

    starting_version: int | None = None
    ending_version: int | None = None
    starting_timestamp: int | str | datetime | None = None
    ending_timestamp: int | str | datetime | None = None

    def __post_init__(self) -> None:
        for end in ("starting", "ending"):
            version, time = f"{end}_version", f"{end}_timestamp"
            check_integer(version, getattr(self, version), least=0)
            if getattr(self, version) is not None and getattr(self, time) is not None:
                raise InvalidInputError(f"{version} and {time}: expected at most one of them, found both")


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
        first, last = ends.starting_version or 0, newest
        times = CommitTimes(storage, listing)
        if ends.ending_timestamp is not None:
            time = milliseconds_of(ends.ending_timestamp, "ending_timestamp")
            found = times.newest_at(time)
            if found is None:
                raise NotFoundError(f"{storage.root}: no version at or before {time} ms")
            last = found
        elif ends.ending_version is not None:
            last = ends.ending_version
        if ends.starting_timestamp is not None:
            time = milliseconds_of(ends.starting_timestamp, "starting_timestamp")
            first = _not_older(times, listing, time)
        if last > listing.latest or first > listing.latest + 1:
            wrong = last if last > listing.latest else first
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
                f"starting_version={self.first}: expected at most {self.last}, the ending version; with net=True any "
                "two versions are compared"
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


def _not_older(times: CommitTimes, listing: LogListing, time: int) -> int:
    """The first version that is not older than a time; the one after the newest if all are older."""
    found = times.newest_at(time)
    if found is not None:
        return found if times.time(found) == time else found + 1
    if listing.commits[:1] == (0,):
        return 0
    first = next(iter(listing.commits), None)
    raise NotFoundError(
        f"{listing.root}: starting_timestamp={time}: the log begins at version {first}, which is not older"
    )
