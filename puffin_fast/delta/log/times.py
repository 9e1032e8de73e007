"""The times of versions, and the version that was the newest at a time.

    before `delta.inCommitTimestampEnablementVersion`   the modification time of the commit's file
    from it on                                          the in-commit timestamp

Without the two properties, all commits have in-commit timestamps if the table has them. A time from
`delta.inCommitTimestampEnablementTimestamp` on is looked for only among the commits of the second kind, an earlier one
only among the first (protocol, "Recommendations for Readers of Tables with In-Commit Timestamps"). Files of a log that
was copied have later modification times than their commits, and not in the order of the versions: a time that is not
after the one of the commit before becomes one millisecond more than that, as in Spark.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from puffin_fast._process.cached import cached_property
from puffin_fast.delta.log.action_types import Actions, CommitTime, check, parse
from puffin_fast.delta.log.actions import configuration_of, read_commits
from puffin_fast.delta.log.head import head_of
from puffin_fast.delta.log.segment import LogListing, commit_path
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.errors import CorruptDataError, NotFoundError

ENABLED = "delta.enableInCommitTimestamps"
_VERSION = "delta.inCommitTimestampEnablementVersion"
_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"
_NOT_YET = 1 << 63


class CommitTimes:
    """The times of the versions in a log, in milliseconds since 1970.

    Args:
        metadata: the `metaData` action of the version up to which times are wanted; by default of the newest one, which
            is read when it is needed.
    """

    def __init__(
        self, storage: TableStorage, listing: LogListing, metadata: Mapping[str, Any] | None = None
    ) -> None:
        self._storage, self._listing, self._given = storage, listing, metadata

    @cached_property
    def _declared(self) -> tuple[int, int | None] | None:
        """The version and the time from which on commits have in-commit timestamps, by the properties; the time is None
        without the properties of the enablement. None: commits have none.

        Raises:
            CorruptDataError: a property is not a number, or one of the two is missing.
        """
        metadata = self._given
        if metadata is None:
            metadata = head_of(self._storage, self._listing.segment())["metaData"]
        found = configuration_of(metadata)
        if found.get(ENABLED, "false").lower() != "true":
            return None
        given = [found[name] for name in (_VERSION, _TIMESTAMP) if name in found]
        if not given:
            return 0, None
        try:
            version, time = map(int, given)
        except ValueError as error:
            raise CorruptDataError(
                f"{_VERSION} and {_TIMESTAMP}", path=self._storage.root, expected="two integers", found=given
            ) from error
        return version, time

    @cached_property
    def _enablement(self) -> tuple[int, int] | None:
        """The version and the time from which on commits have in-commit timestamps; None if they have none.

        Without the properties, all commits should have one. In a log that was put together from others, the first that
        has one is searched for.
        """
        commits = self._listing.commits
        if self._declared is None or not commits:
            return None
        version, time = self._declared
        if time is not None:
            return version, time
        if self._in_commit(commits[0]) is not None:
            return 0, 0
        first = bisect_left(commits, 1, key=lambda at: self._in_commit(at) is not None)
        return (commits[first], self._required(commits[first])) if first < len(commits) else None

    @cached_property
    def _modified(self) -> dict[str, int]:
        """The modification times of the files in the log, by path."""
        files = [name for _, names in self._listing.checkpoints for name in names]
        return self._storage.modified([*map(commit_path, self._listing.commits), *files])

    def _adjusted(self, commits: Sequence[int]) -> dict[int, int]:
        """The times of commits by their files, ascending."""
        known = [at for at in commits if commit_path(at) in self._modified]  # the others were just removed
        times = np.array([self._modified[commit_path(at)] for at in known], np.int64)
        steps = np.arange(len(known))
        return dict(zip(known, (np.maximum.accumulate(times - steps) + steps).tolist(), strict=True))

    @cached_property
    def _by_files(self) -> dict[int, int]:
        return self._adjusted(self._listing.commits)

    def _in_commit(self, version: int, data: bytes | None = None) -> int | None:
        """The in-commit timestamp of a commit; None without one."""
        path = commit_path(version)
        where = f"{self._storage.root}/{path}"
        data = self._storage.read(path) if data is None else data
        if not data:  # its writer may be about to replace it: there is no such version yet
            return _NOT_YET
        return in_commit_timestamp(commit_info_of(version, where, data), where)

    def _required(self, version: int) -> int:
        """The in-commit timestamp of a commit.

        Raises:
            CorruptDataError: it has none.
        """
        time = self._in_commit(version)
        if time is None:
            where = f"{self._storage.root}/{commit_path(version)}"
            raise CorruptDataError(
                "inCommitTimestamp of commitInfo", path=where, expected="a time", found="none"
            )
        return time

    def time(self, version: int, data: bytes | None = None) -> int:
        """Returns the time of a version; of its checkpoint's file if the log no longer has its commit.

        Args:
            data: the content of the commit, if it was read.

        Raises:
            NotFoundError: there is no modification time.
        """
        if version not in self._listing.commits:
            return self._modified[self._listing.segment(version).checkpoint_files[0]]
        found = None
        if self._declared is not None and version >= self._declared[0]:
            found = self._in_commit(version, data)
        if found is not None and found != _NOT_YET:
            return found
        if version not in self._by_files:
            raise NotFoundError(
                f"{self._storage.root}/{commit_path(version)}: no modification time; the file was removed, or its "
                "filesystem has none"
            )
        return self._by_files[version]

    def newest_at(self, time: int, first: int = 0) -> int | None:
        """Returns the newest version that was committed at or before a time; None if there is none.

        Args:
            first: the first version that is considered.
        """
        commits = [at for at in self._listing.commits if at >= first]
        if self._enablement is not None and self._enablement[1] <= time:
            stamped = [at for at in commits if at >= self._enablement[0]]
            n_older = bisect_right(stamped, time, key=self._required)
            return stamped[n_older - 1] if n_older else None
        if self._enablement is not None:
            commits = [at for at in commits if at < self._enablement[0]]
        times = self._adjusted(commits)
        n_older = bisect_right([*times.values()], time)
        return [*times][n_older - 1] if n_older else None

    def version_as_of(self, time: int) -> int:
        """Returns the newest version that was committed at or before a time, and that can be loaded.

        Raises:
            NotFoundError: there is none.
        """
        found = self.newest_at(time, _first_loadable(self._listing))
        if found is None:
            raise NotFoundError(f"{self._storage.root}: no version at or before {time} ms")
        return found


def _first_loadable(listing: LogListing) -> int:
    """The first version that can be loaded: 0, or that of a checkpoint which the commits follow."""
    if listing.commits[:1] == (0,) or not listing.commits:
        return 0
    return next((at for at, _ in listing.checkpoints if at >= listing.commits[0] - 1), listing.latest + 1)


def in_commit_timestamp(commit_info: Mapping[str, Any], path: str) -> int | None:
    """Returns the in-commit timestamp of a `commitInfo` action; None without one.

    Raises:
        CorruptDataError: it is not an integer.
    """
    return check(commit_info, CommitTime, "commitInfo", path).in_commit_timestamp


def commit_info_of(version: int, path: str, data: bytes) -> Mapping[str, Any]:
    """Returns the `commitInfo` of a commit, which is its first action; empty if there is none, or the commit is
    damaged: the version that is read says what is wrong."""
    with suppress(CorruptDataError):
        return parse(data.split(b"\n", 1)[0], "line 1", path, Actions).get("commitInfo") or {}
    with suppress(CorruptDataError):
        others = read_commits([(version, path, data)], list).others
        return next((action for _, kind, action in reversed(others) if kind == "commitInfo"), {})
    return {}
