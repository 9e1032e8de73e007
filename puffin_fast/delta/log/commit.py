"""One commit: the file of the next version, written if it is not there yet.

plan on version N  ->  write vectors  ->  put N+1.json if absent
                                             | written: done
                                             | exists: whose is it?
                                             |    ours (the answer to an earlier try was lost): done
                                             |    another's: read N+1 … M and compare
                                             |        nothing that touches us  ->  put M+1.json
                                             |        rows that we should have looked at  ->  plan again on M
                                             |        our job's id  ->  done before, our vectors are removed
                                             |        our data files, or metadata  ->  ConflictError (or plan again)
                                             | no answer: is N+1.json ours?  yes: done; no: failed;
                                             |            no answer again  ->  CommitUnknownError, nothing is removed
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

from puffin_fast import __version__
from puffin_fast.delta.log.actions import FileActions, read_commits
from puffin_fast.delta.log.protocol import check_writable
from puffin_fast.delta.log.segment import LogListing, commit_path
from puffin_fast.delta.log.snapshot import Snapshot, load_snapshot
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.errors import (
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    PuffinFastError,
)

__all__ = ["Changes", "Committed", "OnConflict", "commit"]

OnConflict: TypeAlias = Literal["refuse", "merge"]

MAX_ATTEMPTS = 100
"""Commits of others that one commit gives way to."""

_OWN_NAMES = frozenset(
    {
        "inCommitTimestamp",
        "timestamp",
        "operation",
        "operationParameters",
        "readVersion",
        "isolationLevel",
        "isBlindAppend",
        "operationMetrics",
        "tags",
        "engineInfo",
        "txnId",
    }
)
JOB_VERSION = 1
"""The version of a job's `txn` action: a job is done once."""


@dataclass
class Changes:
    """What one commit does to a snapshot.

    Attributes:
        actions: `add`, `remove`, `protocol`, `metaData`.
        touched: the data files that they are about, by their decoded paths.
        new_files: files below the table that were written for it.
        operation, parameters, metrics: for `commitInfo`.
        looks_at_rows: whether rows that others add meanwhile might have to be changed too.
        whole_table: whether any other commit is a conflict.
    """

    actions: list[dict[str, Any]]
    operation: str
    touched: frozenset[str] = frozenset()
    new_files: Sequence[str] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    looks_at_rows: bool = False
    whole_table: bool = False


@dataclass(frozen=True)
class Committed:
    """What became of a commit.

    Attributes:
        version: the version that it made; None where there was nothing to change.
        attempts: versions that were tried.
        repeated: the job was done before, and nothing was changed.
    """

    version: int | None
    attempts: int = 0
    repeated: bool = False


class _Again(Exception):
    """The changes must be planned anew."""


def commit(
    storage: TableStorage,
    plan: Callable[[Snapshot], Changes | None],
    *,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    commit_properties: Mapping[str, str] | None = None,
    check: Callable[[Snapshot], None] | None = None,
) -> Committed:
    """Plans changes on the newest version and commits them.

    Args:
        storage: the table's.
        plan: makes the changes for a version; None: there are none.
        on_conflict: what to do when another commit changed the same data files: refuse, or plan again on top of it.
        job_id: recorded as a transaction of this application; a job that the log holds is not done again.
        commit_properties: more entries for `commitInfo`.
        check: refuses tables that must not be written to; those of deletes by default.

    Raises:
        UnsupportedError: the table must not be written to.
        ConflictError: another commit changed the same data files, or the table's metadata; the table is as it was.
        CommitUnknownError: the storage did not say whether the commit happened.
        InvalidInputError: a name in `commit_properties` that the log itself uses.
    """
    if on_conflict not in ("refuse", "merge"):
        raise InvalidInputError(f"on_conflict: expected 'refuse' or 'merge', found {on_conflict!r}")
    properties = dict(commit_properties or {})
    if taken := sorted(_OWN_NAMES & set(properties)):
        raise InvalidInputError(f"commit_properties: {', '.join(taken)} are names of the log's own")
    attempts = 0
    while True:
        listing = LogListing.of(storage)
        base = load_snapshot(storage, listing.segment())
        if check is None:
            check_writable(base.protocol, base.configuration, base.root)
        else:
            check(base)
        if job_id is not None and base.transactions.get(job_id, 0) >= JOB_VERSION:
            return Committed(None, attempts, repeated=True)
        changes = plan(base)
        if changes is None:
            return Committed(None, attempts)
        one = _Attempt(storage, base, changes, job_id, properties, on_conflict)
        try:
            while True:
                attempts += 1
                if one.put():
                    return Committed(one.version, attempts)
                if one.repeated():
                    one.clean()
                    return Committed(None, attempts, repeated=True)
                if attempts >= MAX_ATTEMPTS:
                    raise ConflictError(f"{base.root}: gave way to {attempts} commits of others")
        except _Again:
            one.clean()
            if attempts >= MAX_ATTEMPTS:
                raise ConflictError(f"{base.root}: gave way to {attempts} commits of others") from None
        except CommitUnknownError:
            raise
        except BaseException:
            one.clean()
            raise


class _Attempt:
    """Changes planned on one version, on their way into the log."""

    def __init__(
        self,
        storage: TableStorage,
        base: Snapshot,
        changes: Changes,
        job_id: str | None,
        properties: Mapping[str, str],
        on_conflict: OnConflict,
    ) -> None:
        self._storage, self._base, self._changes = storage, base, changes
        self._job_id, self._properties, self._on_conflict = job_id, properties, on_conflict
        self._id = str(uuid.uuid4())
        self._last_time = int(base.commit_info.get("inCommitTimestamp") or 0)
        self._done_before = False
        self.version = base.version + 1

    def put(self) -> bool:
        """Writes the next version; where others were first, moves on behind them.

        Raises:
            ConflictError: what others did cannot stand beside the changes.
        """
        path = commit_path(self.version)
        try:
            if self._storage.put(path, self._content()):
                return True
        except PuffinFastError:
            raise
        except Exception as error:
            if self._is_ours(path, error):
                return True
            raise
        if self._is_ours(path):
            return True
        self._pass(self._others())
        return False

    def repeated(self) -> bool:
        """Whether a commit that came first is of the same job."""
        return self._done_before

    def clean(self) -> None:
        """Removes the files that were written for nothing."""
        for path in self._changes.new_files:
            self._storage.remove(path)

    def _is_ours(self, path: str, cause: Exception | None = None) -> bool:
        """Whether a version that is there is this commit: an answer may have been lost on its way."""
        try:
            data = self._storage.read(path)
        except NotFoundError:
            return False
        except Exception as error:
            raise CommitUnknownError(
                f"{self._storage.root}/{path}: the storage did not say whether this commit happened: "
                f"{cause or error}; it did if the file holds txnId {self._id}"
            ) from error
        return self._id.encode() in data.split(b"\n", 1)[0]

    def _others(self) -> FileActions:
        """What was committed from our version on; afterwards ours is the next one."""
        latest = LogListing.of(self._storage).latest
        versions = range(self.version, max(latest, self.version) + 1)
        files = [
            (at, f"{self._storage.root}/{commit_path(at)}", self._storage.read(commit_path(at)))
            for at in versions
        ]
        self.version = versions.stop
        return read_commits(files, lambda: self._base.partition_columns)

    def _pass(self, others: FileActions) -> None:
        root = self._storage.root
        infos = {}
        for version, kind, action in others.others:
            if kind in ("protocol", "metaData"):
                what = "protocol" if kind == "protocol" else "metadata"
                raise ConflictError(f"{root}: version {version} changed the table's {what}")
            if kind == "txn" and action.get("appId") == self._job_id is not None:
                self._done_before = True
                return
            if kind == "commitInfo":
                infos[version] = action
                self._last_time = max(self._last_time, int(action.get("inCommitTimestamp") or 0))
        for table in (others.adds, others.removes):
            for path, version in zip(table["path"].to_pylist(), table["version"].to_pylist(), strict=True):
                if self._changes.whole_table or unquote(path) in self._changes.touched:
                    if self._on_conflict == "merge":
                        raise _Again
                    raise ConflictError(f"{root}: version {version} changed the data file {path}")
        if not self._changes.looks_at_rows:
            return
        serializable = self._base.configuration.get("delta.isolationLevel", "").lower() == "serializable"
        for version in set(others.adds["version"].to_pylist()):
            if serializable or not infos.get(version, {}).get("isBlindAppend", False):
                raise _Again

    def _content(self) -> bytes:
        changes, now = self._changes, int(time.time() * 1000)
        info: dict[str, Any] = {}
        if self._base.configuration.get("delta.enableInCommitTimestamps", "false").lower() == "true":
            info["inCommitTimestamp"] = now = max(now, self._last_time + 1)
        info |= {
            "timestamp": now,
            "operation": changes.operation,
            "operationParameters": dict(changes.parameters),
            "readVersion": self._base.version,
            "isolationLevel": self._base.configuration.get("delta.isolationLevel", "WriteSerializable"),
            "isBlindAppend": False,
            "operationMetrics": {name: str(value) for name, value in changes.metrics.items()},
        }
        if "rowTracking" in self._base.protocol.writer_features:
            info["tags"] = {"delta.rowTracking.preserved": "true"}
        info |= {"engineInfo": f"puffin_fast/{__version__}", "txnId": self._id, **self._properties}
        lines: list[dict[str, Any]] = [{"commitInfo": info}]
        if self._job_id is not None:
            lines.append({"txn": {"appId": self._job_id, "version": JOB_VERSION, "lastUpdated": now}})
        lines += changes.actions
        return ("\n".join(json.dumps(line, separators=(",", ":")) for line in lines) + "\n").encode()
