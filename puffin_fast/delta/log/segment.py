"""Finds the files of `_delta_log` that a version consists of.

    N.json                                     the commit that made version N (20 digits)
    N.checkpoint.parquet                       all of version N in one file
    N.checkpoint.PART.PARTS.parquet            the same in several files, all of which must exist
    N.checkpoint.UUID.{json,parquet}           a v2 checkpoint, which may refer to files in `_sidecars`
    N.M.compacted.json, *.crc, _last_checkpoint   ignored: not needed

A version consists of the newest checkpoint at or before it, and of all commits after this checkpoint.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from puffin_fast._io.table_formats import other_format
from puffin_fast.delta.log.storage import LOG_FOLDER, TableStorage
from puffin_fast.errors import ConflictError, CorruptDataError, NotFoundError

LOG_READERS = 16
"""Number of commits that are read at a time from an object store."""
EMPTY_S = 5.0
"""Maximum seconds that a commit waits for another one whose file is still empty."""

_COMMIT = re.compile(r"(\d{20})\.json", re.ASCII)
_CHECKPOINT = re.compile(
    r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?(\.[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})?"
    r"\.(?:parquet|json)",
    re.ASCII,
)


def commit_path(version: int) -> str:
    """Returns the path of a version's commit, relative to the table."""
    return f"{LOG_FOLDER}/{version:020d}.json"


def has_versions(storage: TableStorage) -> bool:
    """Whether the log of a table has a commit or a checkpoint."""
    return any(_COMMIT.fullmatch(name) or _CHECKPOINT.fullmatch(name) for name in storage.names(LOG_FOLDER))


def read_commit(storage: TableStorage, version: int) -> bytes:
    """Reads the file of a commit that must not be empty.

    A local filesystem without hard links, and without renames that replace no file, shows an empty file before the
    commit. What the commit changes is not known then.

    Raises:
        ConflictError: the file remains empty.
    """
    path, until = commit_path(version), time.monotonic() + EMPTY_S
    while not (data := storage.read(path)):
        if time.monotonic() > until:
            raise ConflictError(
                f"{storage.root}/{path}: expected the actions of a commit, found an empty file, which a killed "
                "writer may have left; remove it if no writer is at work"
            )
        time.sleep(0.01)
    return data


@dataclass(frozen=True)
class LogSegment:
    """The files of one version.

    Attributes:
        version: its number.
        checkpoint: the version of the checkpoint, -1 for none.
        checkpoint_files: its files, relative to the table.
        commits: the versions of the commits after it, ascending.
    """

    version: int
    checkpoint: int
    checkpoint_files: tuple[str, ...]
    commits: tuple[int, ...]


Loaded = TypeVar("Loaded")


def load_segment(
    load: Callable[[TableStorage, LogSegment], Loaded], storage: TableStorage, segment: LogSegment
) -> Loaded:
    """Loads a version from its files; from those of a new listing if one of them is missing.

    Another writer may have replaced a checkpoint since the listing: a v2 checkpoint has another name then.

    Raises:
        NotFoundError: a file is missing, or the log no longer has the version.
    """
    try:
        return load(storage, segment)
    except NotFoundError:
        again = LogListing.of(storage).segment(segment.version)
        if again == segment:
            raise
        return load(storage, again)


@dataclass(frozen=True)
class LogListing:
    """The commits and checkpoints in a table's log.

    Attributes:
        commits: versions whose commits exist, ascending.
        checkpoints: version and files of each complete checkpoint, ascending.
        v2_files: the files of all v2 checkpoints, also of those that no version is loaded from.
    """

    root: str
    commits: tuple[int, ...]
    checkpoints: tuple[tuple[int, tuple[str, ...]], ...]
    v2_files: tuple[str, ...] = ()

    @classmethod
    def of(cls, storage: TableStorage) -> LogListing:
        """Lists a table's log.

        Raises:
            NotFoundError: there is no log.
        """
        listing = cls._list(storage)
        if listing.commits and len(listing.commits) <= listing.commits[-1] - listing.commits[0]:
            # a listing that is made during other commits may have a commit but not the one before it
            again = cls._list(storage)
            listing = replace(again, commits=tuple(at for at in again.commits if at <= listing.latest))
        return listing

    @classmethod
    def _list(cls, storage: TableStorage) -> LogListing:
        commits: list[int] = []
        v2_files: list[str] = []
        found: dict[tuple[int, int], list[str]] = {}
        for name in storage.names(LOG_FOLDER):
            if (match := _COMMIT.fullmatch(name)) is not None:
                commits.append(int(match[1]))
            elif (match := _CHECKPOINT.fullmatch(name)) is not None:
                found.setdefault((int(match[1]), int(match[3] or 1)), []).append(f"{LOG_FOLDER}/{name}")
                if match[4] is not None:
                    v2_files.append(f"{LOG_FOLDER}/{name}")
        if not commits and not found:
            hint = other_format(storage.root, filesystem=storage.filesystem)
            raise NotFoundError(f"{storage.root}: no Delta table, {LOG_FOLDER} holds no commit{hint}")
        checkpoints: dict[int, tuple[str, ...]] = {}
        for (version, parts), names in sorted(found.items()):
            if parts == 1:
                checkpoints[version] = (
                    names[-1],
                )  # several v2 checkpoints of one version have the same content
            elif len(names) == parts:
                checkpoints[version] = tuple(names)
        return cls(storage.root, tuple(commits), tuple(checkpoints.items()), tuple(v2_files))

    @property
    def latest(self) -> int:
        """The number of the newest version."""
        return max([*self.commits[-1:], *(version for version, _ in self.checkpoints[-1:])], default=-1)

    def segment(self, version: int | None = None) -> LogSegment:
        """Returns the files of a version; the newest by default.

        Raises:
            NotFoundError: the log does not have that version, or no longer has it.
            CorruptDataError: a commit is missing.
        """
        wanted = self.latest if version is None else version
        if not 0 <= wanted <= self.latest:
            raise NotFoundError(f"{self.root}: no version {wanted}, the newest is {self.latest}")
        checkpoint, files = max(
            ((at, files) for at, files in self.checkpoints if at <= wanted), default=(-1, ())
        )
        commits = [at for at in self.commits if checkpoint < at <= wanted]
        self._check(commits, checkpoint, wanted)
        return LogSegment(wanted, checkpoint, files, tuple(commits))

    def _check(self, commits: Sequence[int], checkpoint: int, wanted: int) -> None:
        if len(commits) == wanted - checkpoint:
            return
        missing = next(at for at in range(checkpoint + 1, wanted + 1) if at not in set(commits))
        is_cleaned = checkpoint < 0 or any(at > missing for at, _ in self.checkpoints)
        if is_cleaned and not any(at < missing for at in commits):
            first = next(iter(commits), None)
            start = min([at for at, _ in self.checkpoints if at > missing], default=first)
            raise NotFoundError(
                f"{self.root}: version {wanted} cannot be built: the log begins at version {start}"
            )
        raise CorruptDataError(
            "commits of a Delta log",
            path=f"{self.root}/{LOG_FOLDER}",
            expected=f"all of {checkpoint + 1} to {wanted}",
            found=f"no {missing:020d}.json",
        )
