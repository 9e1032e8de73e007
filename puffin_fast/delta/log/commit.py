"""One commit: writes the file of the next version, unless this file exists.

plan on version N  ->  write vectors  ->  write N+1.json if absent
  written    committed. On a local disk, another writer may still rename a temporary file to this name: the commit
             waits until there is none, and then checks that the file is its own
  exists     the file is of this commit (the answer to an earlier request was lost)  ->  committed
             else the versions N+1 to M are read; one that remains empty  ->  ConflictError
               no conflict                                     ->  write M+1.json
               they added rows that the job must search        ->  plan again on M
               they have the id of this job                    ->  repeated; the files of this commit are removed
               they changed its data files                     ->  ConflictError, or plan again on M
               they changed the metadata or the protocol       ->  ConflictError
  an error   N+1.json is read: of this commit  ->  committed; of another one  ->  as if it had existed
             it does not exist on a local disk  ->  the error
             an object store may still write it ->  written again; after another error CommitUnknownError, and no file
             is removed
  interrupted  N+1.json exists, or the table is on an object store, which may still write it  ->  no file is removed
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, TypeVar
from urllib.parse import unquote

from puffin_fast import __version__
from puffin_fast._run.arguments import check_mapping, check_name
from puffin_fast._run.interrupt import is_from_outside
from puffin_fast._run.outcome import note_outcome, nothing_committed
from puffin_fast._text import shown_argument
from puffin_fast.delta.log.actions import FileActions, read_commits
from puffin_fast.delta.log.checkpoint_writer import write_checkpoint_if_due
from puffin_fast.delta.log.protocol import ISOLATION, check_committable
from puffin_fast.delta.log.row_ids import DOMAIN, highest_row_id, with_row_ids
from puffin_fast.delta.log.segment import LogListing, commit_path, read_commit
from puffin_fast.delta.log.snapshot import Snapshot, in_commit_timestamp, load_snapshot
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.delta.log.version_file import may_have_happened, put_version
from puffin_fast.errors import CommitUnknownError, ConflictError, InvalidInputError

_LOG = logging.getLogger(__name__)

OnConflict: TypeAlias = Literal["refuse", "merge"]

MAX_ATTEMPTS = 100
"""Maximum number of attempts of one commit."""

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
"""The version in a job's `txn` actions: each job has only one."""

_VERBS = (
    "append",
    "delete",
    "delete_keys",
    "delete_positions",
    "dynamic_partition_overwrite",
    "overwrite",
    "purge",
    "rewrite_data_files",
    "transaction",
    "update",
    "upsert",
)
"""The public functions that take a job id."""


@dataclass(frozen=True)
class Job:
    """A job that is not repeated.

    The log records a job in two `txn` actions, which checkpoints preserve. The application id of the first is the job
    id, that of the second also has the verb, so that one id is not used for jobs of two verbs.

    Attributes:
        verb: the public function that commits.
        id: the caller's name for the job; with None, the job may be repeated.

    Raises:
        InvalidInputError: the id is not a string, or blank.
    """

    verb: str
    id: str | None

    def __post_init__(self) -> None:
        check_name("job_id", self.id)

    def _of(self, verb: str) -> str:
        return f"{self.id} (puffin_fast.delta.{verb})"

    def is_done(self, transactions: Mapping[str, int], where: str) -> bool:
        """Returns whether transactions (versions by application id) contain the job.

        Raises:
            InvalidInputError: the id was used by another verb. An id without a verb is accepted as this job.
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
        """Returns the actions that record the job."""
        names = [] if self.id is None else [self.id, self._of(self.verb)]
        return [{"txn": {"appId": name, "version": JOB_VERSION, "lastUpdated": now}} for name in names]


@dataclass(frozen=True)
class Changes:
    """The changes of one commit.

    Attributes:
        actions: `add`, `remove`, `protocol`, `metaData`.
        touched: the decoded paths of the data files in the actions. Changes of another commit to them are conflicts.
        new_files: new files, relative to the table, which are removed if the commit does not happen.
        operation, parameters, metrics: for `commitInfo`.
        looks_at_rows: whether the job must also search rows that concurrent commits add.
        looks_at_appends: whether it must also search rows of concurrent blind appends.
        whole_table: whether any other commit is a conflict.
        keeps_row_ids: whether rewritten rows have the same row ids as before.
        is_blind_append: whether rows are added without a look at the table.
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
    is_blind_append: bool = False

    def __bool__(self) -> bool:
        return bool(self.actions)


class _Planned(Protocol):
    @property
    def changes(self) -> Changes | None: ...


Plan = TypeVar("Plan", bound=_Planned)
"""The plan of a job on a version: the changes to commit, None if there are none, and data for the result."""


@dataclass(frozen=True)
class Committed:
    """The result of a commit.

    Attributes:
        version: the new version; None if there was nothing to change.
        attempts: number of attempts.
        repeated: True if the job was done before, and nothing was changed.
    """

    version: int | None
    attempts: int = 0
    repeated: bool = False


class _Replan(Exception):
    """The changes must be planned again on a newer version."""


def commit(
    storage: TableStorage,
    plan: Callable[[Snapshot], Plan],
    *,
    on_conflict: OnConflict = "refuse",
    job: Job | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    base: Snapshot | None = None,
) -> tuple[Plan | None, Committed]:
    """Plans changes on the newest version and commits them.

    Args:
        storage: the storage of the table.
        plan: plans the changes on a version, and writes their files. It is called again after some conflicts.
        on_conflict: what to do if another commit changed the same data files: ``"refuse"`` raises, ``"merge"`` plans
        again.
        job: recorded as transactions; a job whose id is in the log is not repeated.
        snapshot_properties: additional entries of `commitInfo`.
        base: the version of the first plan; by default the newest.

    Returns:
        The last plan, None if the job was repeated; and the result of the commit.

    Raises:
        UnsupportedError: the table must not be written to.
        ConflictError: another commit changed the same data files, or the table's metadata; the table is unchanged.
        CommitUnknownError: the storage did not answer whether the commit happened.
        InvalidInputError: a name in `snapshot_properties` is reserved, or the job id was used by another verb.
    """
    if not isinstance(on_conflict, str) or on_conflict not in ("refuse", "merge"):
        raise InvalidInputError(
            f"on_conflict: expected 'refuse' or 'merge', found {shown_argument(on_conflict)}"
        )
    check_properties(snapshot_properties)
    planned, committed, base = _commit(storage, plan, on_conflict, job, dict(snapshot_properties or {}), base)
    if committed.version is not None:
        try:
            write_checkpoint_if_due(storage, committed.version, base.configuration)
        except BaseException as error:
            note_outcome(error, f"version {committed.version} of {base.root} was committed")
            raise
    return planned, committed


def _commit(
    storage: TableStorage,
    plan: Callable[[Snapshot], Plan],
    on_conflict: OnConflict,
    job: Job | None,
    properties: Mapping[str, str],
    base: Snapshot | None,
) -> tuple[Plan | None, Committed, Snapshot]:
    """`commit`, which returns also the version that the last plan was made on."""
    attempts = 0
    while True:
        base = base or newest(storage)
        if job is not None and job.is_done(base.transactions, base.root):
            return None, Committed(None, attempts, repeated=True), base
        one = _Attempt(storage, base, job, properties, on_conflict)
        planned = plan(base)
        if not planned.changes:
            return planned, Committed(None, attempts), base
        one.changes = planned.changes
        try:
            while True:
                attempts += 1
                if one.put():
                    _LOG.info("%s: version %d committed, attempt %d", base.root, one.version, attempts)
                    return planned, Committed(one.version, attempts), base
                _LOG.info("%s: another commit came first in attempt %d", base.root, attempts)
                if one.repeated():
                    one.clean()
                    return None, Committed(None, attempts, repeated=True), base
                if attempts >= MAX_ATTEMPTS:
                    raise ConflictError(f"{base.root}: other commits came first in all {attempts} attempts")
        except _Replan:
            one.clean()
            if attempts >= MAX_ATTEMPTS:
                raise ConflictError(
                    f"{base.root}: other commits came first in all {attempts} attempts"
                ) from None
            base = None
        except BaseException as error:
            outcome = one.unknown() if one.may_have_happened(error) else nothing_committed(one.clean())
            note_outcome(error, outcome)
            raise


def newest(storage: TableStorage) -> Snapshot:
    """Returns the newest version of a table to write to.

    Raises:
        PuffinFastError: as `snapshot`; or UnsupportedError: the table must not be written to.
    """
    listing = LogListing.of(storage)
    base = load_snapshot(storage, listing.segment())
    if base.is_empty:
        read_commit(storage, base.version)
        base = load_snapshot(storage, listing.segment())
    check_committable(base.protocol, base.configuration, base.root)
    return base


def check_properties(snapshot_properties: Mapping[str, str] | None) -> None:
    """Checks entries of a caller for `commitInfo`.

    Raises:
        InvalidInputError: they are not strings, or a name is reserved.
    """
    check_mapping("snapshot_properties", snapshot_properties)
    if taken := sorted(_OWN_NAMES & set(snapshot_properties or {})):
        raise InvalidInputError(
            f"snapshot_properties: expected names that are not reserved in commitInfo, found {', '.join(taken)}"
        )


class _Attempt:
    """The attempts to commit changes to one version, which it checks before they are planned."""

    def __init__(
        self,
        storage: TableStorage,
        base: Snapshot,
        job: Job | None,
        properties: Mapping[str, str],
        on_conflict: OnConflict,
    ) -> None:
        self._storage, self._base, self.changes = storage, base, Changes([], "")
        self._job, self._properties, self._on_conflict = job, properties, on_conflict
        self._id = str(uuid.uuid4())
        self._last_time = in_commit_timestamp(base.commit_info, base.root) or 0
        self._done_before = False
        self.is_sent = False
        self._highest = highest_row_id(base.domain_metadata.get(DOMAIN), base.root)
        self.version = base.version + 1

    def put(self) -> bool:
        """Writes the file of the next version. If it exists, checks for conflicts and takes the version after the
        newest one.

        Raises:
            ConflictError: a concurrent commit conflicts with the changes.
        """
        content = self._content()
        self.is_sent = True
        if put_version(self._storage, self.version, content, f"txnId {self._id}"):
            return True
        self.is_sent = False
        self._check_conflicts(self._concurrent_actions())
        return False

    def repeated(self) -> bool:
        """Whether a concurrent commit has the id of this job."""
        return self._done_before

    def may_have_happened(self, error: BaseException) -> bool:
        """Whether the commit may have happened although an exception has ended it."""
        if not self.is_sent:
            return isinstance(error, CommitUnknownError)
        return may_have_happened(self._storage, self.version, error)

    def unknown(self) -> str:
        """What is known about a commit that may have happened."""
        return (
            f"it is unknown whether the commit to {self._base.root} happened: it did if {commit_path(self.version)} "
            f"has, or gets, txnId {self._id}; no file was removed"
        )

    def clean(self) -> int:
        """Removes the files that were written for the changes, as far as the storage lets it; returns their number."""
        n_removed = 0
        for path in self.changes.new_files:
            try:
                self._storage.remove(path)
                n_removed += 1
            except Exception as error:
                if is_from_outside(error):
                    raise
                _LOG.warning("%s/%s: not removed, and no version needs it: %s", self._base.root, path, error)
        return n_removed

    def _concurrent_actions(self) -> FileActions:
        """Reads the actions of all versions from this one on, and sets this version to the next one."""
        latest = LogListing.of(self._storage).latest
        versions = range(self.version, max(latest, self.version) + 1)
        files = [
            (at, f"{self._storage.root}/{commit_path(at)}", read_commit(self._storage, at)) for at in versions
        ]
        self.version = versions.stop
        return read_commits(files, lambda: self._base.partition_columns)

    def _check_conflicts(self, others: FileActions) -> None:
        root = self._storage.root
        transactions = {
            action["appId"]: action["version"] for _, kind, action in others.others if kind == "txn"
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
                self._last_time = max(self._last_time, in_commit_timestamp(action, root) or 0)
        for table in (others.adds, others.removes):
            for path, version in zip(table["path"].to_pylist(), table["version"].to_pylist(), strict=True):
                if self.changes.whole_table or unquote(path) in self.changes.touched:
                    if self._on_conflict == "merge":
                        raise _Replan
                    raise ConflictError(f"{root}: version {version} changed the data file {path}")
        if not self.changes.looks_at_rows:
            return
        isolation = self._base.configuration.get(ISOLATION, "").lower()
        all_adds = self.changes.looks_at_appends or isolation == "serializable"
        for version in set(others.adds["version"].to_pylist()):
            if all_adds or infos.get(version, {}).get("isBlindAppend") is not True:
                raise _Replan

    def _content(self) -> bytes:
        changes, now = self.changes, int(time.time() * 1000)
        info: dict[str, Any] = {}
        if self._base.configuration.get("delta.enableInCommitTimestamps", "false").lower() == "true":
            info["inCommitTimestamp"] = now = max(now, self._last_time + 1)
        info |= {
            "timestamp": now,
            "operation": changes.operation,
            "operationParameters": dict(changes.parameters),
            "readVersion": self._base.version,
            "isolationLevel": self._base.configuration.get(ISOLATION, "WriteSerializable"),
            "isBlindAppend": changes.is_blind_append,
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
