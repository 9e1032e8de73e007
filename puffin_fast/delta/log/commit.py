"""One commit: the file of the next version, written if it is not there yet.

plan on version N  ->  write vectors  ->  put N+1.json if absent
                                             | written: done; on a local disk, if it still is ours once no other
                                             |          writer is about to rename its own over it
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
from typing import Any, Literal, Protocol, TypeAlias, TypeVar
from urllib.parse import unquote

from puffin_fast import __version__
from puffin_fast._runtime.arguments import check_mapping, check_name
from puffin_fast.delta.log.actions import FileActions, read_commits
from puffin_fast.delta.log.protocol import check_writable
from puffin_fast.delta.log.row_ids import DOMAIN, highest_row_id, with_row_ids
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

__all__ = ["Changes", "Committed", "Job", "OnConflict", "commit"]

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
"""The version of a job's `txn` actions: a job is done once."""

_VERBS = ("delete", "delete_keys", "delete_positions", "purge", "update", "upsert")
"""The public functions that take a job id."""


@dataclass(frozen=True)
class Job:
    """A job that is done once.

    The log records it in two `txn` actions, which checkpoints keep: one names the job id as its application, and one
    the verb too, so that the id cannot stand for jobs of two verbs.

    Attributes:
        verb: the public function that commits.
        id: the caller's name for the job; None: the job may be repeated.

    Raises:
        InvalidInputError: an id that is no string, or blank.
    """

    verb: str
    id: str | None

    def __post_init__(self) -> None:
        check_name("job_id", self.id)

    def _of(self, verb: str) -> str:
        return f"{self.id} (puffin_fast.delta.{verb})"

    def is_done(self, transactions: Mapping[str, int], where: str) -> bool:
        """Whether the job is among transactions: versions by application.

        Raises:
            InvalidInputError: the id is there, by another verb. An id without a verb is taken for the job's.
        """
        if self.id is None or transactions.get(self.id, 0) < JOB_VERSION:
            return False
        found = [verb for verb in _VERBS if self._of(verb) in transactions]
        if found and self.verb not in found:
            raise InvalidInputError(
                f"job_id {self.id!r}: expected a job of {self.verb}, found that {found[0]} committed it to {where}; "
                "give each job an id of its own"
            )
        return True

    def actions(self, now: int) -> list[dict[str, Any]]:
        """The actions that record the job."""
        names = [] if self.id is None else [self.id, self._of(self.verb)]
        return [{"txn": {"appId": name, "version": JOB_VERSION, "lastUpdated": now}} for name in names]


@dataclass(frozen=True)
class Changes:
    """What one commit does to a snapshot.

    Attributes:
        actions: `add`, `remove`, `protocol`, `metaData`.
        touched: the data files that they are about, by their decoded paths.
        new_files: files below the table that were written for it.
        operation, parameters, metrics: for `commitInfo`.
        looks_at_rows: whether rows that others add meanwhile might have to be changed too.
        looks_at_appends: whether those of blind appends might, too.
        whole_table: whether any other commit is a conflict.
        keeps_row_ids: whether rows that were rewritten have the row ids that they had.
    """

    actions: list[dict[str, Any]]
    operation: str
    touched: frozenset[str] = frozenset()
    new_files: Sequence[str] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    looks_at_rows: bool = False
    looks_at_appends: bool = False
    whole_table: bool = False
    keeps_row_ids: bool = True


class _Planned(Protocol):
    @property
    def changes(self) -> Changes | None: ...


Plan = TypeVar("Plan", bound=_Planned)
"""What a job planned on a version: the changes to commit, None if there are none, and what its result needs."""


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
    plan: Callable[[Snapshot], Plan],
    *,
    on_conflict: OnConflict = "refuse",
    job: Job | None = None,
    commit_properties: Mapping[str, str] | None = None,
    check: Callable[[Snapshot], None] | None = None,
) -> tuple[Plan | None, Committed]:
    """Plans changes on the newest version and commits them.

    Args:
        storage: the table's.
        plan: plans the changes of a version, and writes their files; called again after some conflicts.
        on_conflict: what to do when another commit changed the same data files: refuse, or plan again on top of it.
        job: recorded as transactions; a job that the log holds is not done again.
        commit_properties: more entries for `commitInfo`.
        check: refuses tables that must not be written to; those of deletes by default.

    Returns:
        The last plan, None if the job was repeated; and what became of the commit.

    Raises:
        UnsupportedError: the table must not be written to.
        ConflictError: another commit changed the same data files, or the table's metadata; the table is as it was.
        CommitUnknownError: the storage did not say whether the commit happened.
        InvalidInputError: a name in `commit_properties` that the log itself uses, or the job's id is that of a job
            of another verb.
    """
    if on_conflict not in ("refuse", "merge"):
        raise InvalidInputError(f"on_conflict: expected 'refuse' or 'merge', found {on_conflict!r}")
    check_mapping("commit_properties", commit_properties)
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
        if job is not None and job.is_done(base.transactions, base.root):
            return None, Committed(None, attempts, repeated=True)
        planned = plan(base)
        if planned.changes is None:
            return planned, Committed(None, attempts)
        one = _Attempt(storage, base, planned.changes, job, properties, on_conflict)
        try:
            while True:
                attempts += 1
                if one.put():
                    return planned, Committed(one.version, attempts)
                if one.repeated():
                    one.clean()
                    return None, Committed(None, attempts, repeated=True)
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
        job: Job | None,
        properties: Mapping[str, str],
        on_conflict: OnConflict,
    ) -> None:
        self._storage, self._base, self._changes = storage, base, changes
        self._job, self._properties, self._on_conflict = job, properties, on_conflict
        self._id = str(uuid.uuid4())
        self._last_time = int(base.commit_info.get("inCommitTimestamp") or 0)
        self._done_before = False
        self._highest = highest_row_id(base.domain_metadata.get(DOMAIN), base.root)
        self.version = base.version + 1

    def put(self) -> bool:
        """Writes the next version; where others were first, moves on behind them.

        Raises:
            ConflictError: what others did cannot stand beside the changes.
        """
        path = commit_path(self.version)
        try:
            if self._storage.put(path, self._content()) and not self._storage.wait_for_renames(path):
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
        transactions = {
            str(action.get("appId")): int(action.get("version") or 0)
            for _, kind, action in others.others
            if kind == "txn"
        }
        if self._job is not None and self._job.is_done(transactions, root):
            self._done_before = True
            return
        infos = {}
        for version, kind, action in others.others:
            if kind in ("protocol", "metaData"):
                what = "protocol" if kind == "protocol" else "metadata"
                raise ConflictError(f"{root}: version {version} changed the table's {what}")
            if kind == "domainMetadata" and action.get("domain") == DOMAIN:
                self._highest = max(self._highest, highest_row_id(action, root))
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
        isolation = self._base.configuration.get("delta.isolationLevel", "").lower()
        all_adds = self._changes.looks_at_appends or isolation == "serializable"
        for version in set(others.adds["version"].to_pylist()):
            if all_adds or not infos.get(version, {}).get("isBlindAppend", False):
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
        actions = changes.actions
        if "rowTracking" in self._base.protocol.writer_features:
            info["tags"] = {"delta.rowTracking.preserved": json.dumps(changes.keeps_row_ids)}
            actions = with_row_ids(actions, self._highest, self.version)
        info |= {"engineInfo": f"puffin_fast/{__version__}", "txnId": self._id, **self._properties}
        lines: list[dict[str, Any]] = [{"commitInfo": info}]
        if self._job is not None:
            lines += self._job.actions(now)
        lines += actions
        return ("\n".join(json.dumps(line, separators=(",", ":")) for line in lines) + "\n").encode()
