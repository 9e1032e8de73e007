"""One commit: writes the file of the next version, unless this file exists.

`TRANSITIONS` has what happens in each state, and which files are removed then.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from puffin_fast import __version__
from puffin_fast._api.arguments import check_mapping, check_name
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast._process.outcome import note_outcome, nothing_committed
from puffin_fast._text import shown_argument
from puffin_fast.delta.log.action_types import as_json, as_lines
from puffin_fast.delta.log.actions import FileActions, read_commits
from puffin_fast.delta.log.checkpoint_writer import write_checkpoint_if_due
from puffin_fast.delta.log.protocol import ISOLATION, check_committable
from puffin_fast.delta.log.row_ids import DOMAIN, highest_row_id, with_row_ids
from puffin_fast.delta.log.segment import LogListing, commit_path, read_commit
from puffin_fast.delta.log.snapshot import Snapshot, load_snapshot
from puffin_fast.delta.log.storage import TableStorage, canonical_path
from puffin_fast.delta.log.times import ENABLED, in_commit_timestamp
from puffin_fast.delta.log.version_file import may_have_happened, put_version
from puffin_fast.errors import ConflictError, InvalidInputError

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
    "disable",
    "dynamic_partition_overwrite",
    "overwrite",
    "rewrite_data_files",
    "transaction",
    "update",
    "upsert",
)
"""The public functions that take a job id."""


@dataclass(frozen=True)
class JobId:
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
        is_empty: whether a version without actions is committed.
    """

    actions: list[dict[str, Any]]
    operation: str
    touched: frozenset[str] = frozenset()
    new_files: Sequence[str] = ()
    parameters: Mapping[str, str | bool] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    looks_at_rows: bool = False
    looks_at_appends: bool = False
    whole_table: bool = False
    keeps_row_ids: bool = True
    is_blind_append: bool = False
    is_empty: bool = False

    def __bool__(self) -> bool:
        return bool(self.actions) or self.is_empty


class ChangePlan(Protocol):
    """The plan of a commit on a version: its changes, and what the result needs."""

    @property
    def changes(self) -> Changes | None: ...


@dataclass(frozen=True)
class OnlyChanges:
    """A plan whose result needs nothing else."""

    changes: Changes | None = None


Plan = TypeVar("Plan", bound=ChangePlan)
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


class State(Enum):
    """The states of a commit."""

    LOADED = "a version is loaded"
    PLANNED = "the changes are planned on it, and their files are written"
    SENT = "the storage was asked to write the file of the next version"
    LOST = "another commit has that version"
    COMMITTED = "the version is in the log"
    REPEATED = "the log has the id of the job"
    UNCHANGED = "there is nothing to change"
    UNKNOWN = "the file of the version is written, or may be, but nothing said so"
    FAILED = "nothing was committed"


class Event(Enum):
    """The events of a commit."""

    DONE_BEFORE = "the log has the id of the job"
    NO_CHANGES = "the plan changes nothing"
    CHANGES = "the plan has changes"
    READY = "the content of the file is made"
    WRITTEN = (
        "the file is there with this content; on a local disk no other writer can rename over it any more"
    )
    EXISTS = "the file has other content"
    NO_CONFLICT = "the changes also apply to the newest version"
    PLAN_AGAIN = (
        "another commit added rows that must be searched, or with on_conflict='merge' changed the data files"
    )
    NO_ANSWER = "an error or an interrupt, and the file exists or an object store may still write it"
    ERROR = "a conflict, an empty version, as many attempts as are allowed, another error or an interrupt"


class Transition(NamedTuple):
    """What follows an event: the next state, and whether the files of the changes are removed before."""

    to: State
    removes: bool = False


TRANSITIONS: Mapping[tuple[State, Event], Transition] = {
    (State.LOADED, Event.DONE_BEFORE): Transition(State.REPEATED),
    (State.LOADED, Event.NO_CHANGES): Transition(State.UNCHANGED),
    (State.LOADED, Event.CHANGES): Transition(State.PLANNED),
    (State.LOADED, Event.ERROR): Transition(State.FAILED),  # the plan removes what it has written
    (State.PLANNED, Event.READY): Transition(State.SENT),
    (State.PLANNED, Event.ERROR): Transition(State.FAILED, removes=True),
    (State.SENT, Event.WRITTEN): Transition(State.COMMITTED),
    (State.SENT, Event.EXISTS): Transition(State.LOST),
    (State.SENT, Event.NO_ANSWER): Transition(State.UNKNOWN),
    (State.SENT, Event.ERROR): Transition(State.FAILED, removes=True),
    (State.LOST, Event.NO_CONFLICT): Transition(State.PLANNED),
    (State.LOST, Event.PLAN_AGAIN): Transition(State.LOADED, removes=True),
    (State.LOST, Event.DONE_BEFORE): Transition(State.REPEATED, removes=True),
    (State.LOST, Event.ERROR): Transition(State.FAILED, removes=True),
}


def commit(
    storage: TableStorage,
    plan: Callable[[Snapshot], Plan],
    *,
    on_conflict: OnConflict = "refuse",
    job: JobId | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    base: Snapshot | None = None,
) -> tuple[Plan | None, Committed]:
    """Plans changes on the newest version and commits them.

    Args:
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
    work = _Commit(storage, plan, job, dict(snapshot_properties or {}), on_conflict, base)
    planned, committed, base = work.run()
    if committed.version is not None:
        try:
            write_checkpoint_if_due(storage, committed.version, base.configuration)
        except BaseException as error:
            note_outcome(error, f"version {committed.version} of {base.root} was committed")
            raise
    return planned, committed


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


class _Commit(Generic[Plan]):
    """One commit. Each state but the last ones has a method, which returns what happened."""

    def __init__(
        self,
        storage: TableStorage,
        plan: Callable[[Snapshot], Plan],
        job: JobId | None,
        properties: Mapping[str, str],
        on_conflict: OnConflict,
        base: Snapshot | None,
    ) -> None:
        self._storage, self._plan, self._job = storage, plan, job
        self._properties, self._on_conflict = properties, on_conflict
        self._id = str(uuid.uuid4())
        self._loaded, self._attempts, self._state = base, 0, State.LOADED
        self._changes = Changes([], "")

    def run(self) -> tuple[Plan | None, Committed, Snapshot]:
        """Returns the last plan, the result, and the version that the plan was made on."""
        try:
            while (event := self._step()) is not None:
                self._follow(event)
            is_repeated = self._state is State.REPEATED
            version = self._version if self._state is State.COMMITTED else None
            if version is not None:
                _LOG.info("%s: version %d committed, attempt %d", self._base.root, version, self._attempts)
            return (
                None if is_repeated else self._planned,
                Committed(version, self._attempts, is_repeated),
                self._base,
            )
        except BaseException as error:
            note_outcome(error, self._end(error))
            raise

    def _step(self) -> Event | None:
        """Does what is to do in the state; returns what happened, None if the commit has ended."""
        if self._state is State.LOADED:
            return self._make_plan()
        if self._state is State.PLANNED:
            return self._prepare()
        if self._state is State.SENT:
            return self._send()
        if self._state is State.LOST:
            return self._compare()
        return None

    def _follow(self, event: Event) -> int:
        """Takes the state that follows; returns the number of removed files."""
        to, removes = TRANSITIONS[self._state, event]
        n_removed = self._clean() if removes else 0
        _LOG.debug("%s: %s, %s: %s", self._storage.root, self._state.name, event.name, to.name)
        self._state = to
        return n_removed

    def _end(self, error: BaseException) -> str:
        """Ends the commit after an exception; returns what is known of it."""
        is_sent = self._state in (State.SENT, State.COMMITTED)
        if is_sent and may_have_happened(self._storage, self._version, error):
            if self._state is State.SENT:
                self._follow(Event.NO_ANSWER)
            return (
                f"it is unknown whether the commit to {self._base.root} happened: it did if "
                f"{commit_path(self._version)} has, or gets, txnId {self._id}; no file was removed"
            )
        return nothing_committed(
            self._follow(Event.ERROR) if (self._state, Event.ERROR) in TRANSITIONS else 0
        )

    def _make_plan(self) -> Event:
        """Plans the changes on the version that is loaded, by default the newest."""
        base = self._base = self._loaded or newest(self._storage)
        self._loaded = None
        if self._job is not None and self._job.is_done(base.transactions, base.root):
            return Event.DONE_BEFORE
        self._version = base.version + 1
        self._last_time = in_commit_timestamp(base.commit_info, base.root) or 0
        self._highest = highest_row_id(base.domain_metadata.get(DOMAIN), base.root)
        self._planned = self._plan(base)
        if not self._planned.changes:
            return Event.NO_CHANGES
        self._changes = self._planned.changes
        return Event.CHANGES

    def _prepare(self) -> Event:
        self._attempts += 1
        self._file = self._content()
        return Event.READY

    def _send(self) -> Event:
        """Writes the file of the version."""
        if put_version(self._storage, self._version, self._file, f"txnId {self._id}"):
            return Event.WRITTEN
        _LOG.info("%s: another commit came first in attempt %d", self._base.root, self._attempts)
        return Event.EXISTS

    def _compare(self) -> Event:
        """Compares the changes with those of the commits that came first, and takes the version after them.

        Raises:
            ConflictError: a conflict, or all attempts are used.
        """
        event = self._conflicts(self._concurrent_actions())
        if event is not Event.DONE_BEFORE and self._attempts >= MAX_ATTEMPTS:
            raise ConflictError(
                f"{self._base.root}: other commits came first in all {self._attempts} attempts"
            )
        return event

    def _clean(self) -> int:
        """Removes the files that were written for the changes, as far as the storage lets it; returns their number."""
        n_removed = 0
        for path in self._changes.new_files:
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
        versions = range(self._version, max(latest, self._version) + 1)
        files = [
            (at, f"{self._storage.root}/{commit_path(at)}", read_commit(self._storage, at)) for at in versions
        ]
        self._version = versions.stop
        return read_commits(files, lambda: self._base.partition_columns)

    def _conflicts(self, others: FileActions) -> Event:
        root = self._storage.root
        transactions = {
            action["appId"]: action["version"] for _, kind, action in others.others if kind == "txn"
        }
        if self._job is not None and self._job.is_done(transactions, root):
            return Event.DONE_BEFORE
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
                if self._changes.whole_table or canonical_path(path) in self._changes.touched:
                    if self._on_conflict == "merge":
                        return Event.PLAN_AGAIN
                    raise ConflictError(f"{root}: version {version} changed the data file {path}")
        if not self._changes.looks_at_rows:
            return Event.NO_CONFLICT
        isolation = self._base.configuration.get(ISOLATION, "").lower()
        all_adds = self._changes.looks_at_appends or isolation == "serializable"
        for version in set(others.adds["version"].to_pylist()):
            if all_adds or infos.get(version, {}).get("isBlindAppend") is not True:
                return Event.PLAN_AGAIN
        return Event.NO_CONFLICT

    def _isolation(self) -> str:
        """The isolation level of the commit: Spark's for one that only moves rows, else the table's."""
        files = [action.get("add") or action.get("remove") or {} for action in self._changes.actions]
        if files and all(file.get("dataChange") is False for file in files):
            return "SnapshotIsolation"
        return self._base.configuration.get(ISOLATION, "WriteSerializable")

    def _content(self) -> bytes:
        changes, now = self._changes, int(time.time() * 1000)
        info: dict[str, Any] = {}
        if self._base.configuration.get(ENABLED, "false").lower() == "true":
            info["inCommitTimestamp"] = now = max(now, self._last_time + 1)
        info |= {
            "timestamp": now,
            "operation": changes.operation,
            "operationParameters": dict(changes.parameters),
            "readVersion": self._base.version,
            "isolationLevel": self._isolation(),
            "isBlindAppend": changes.is_blind_append,
            "operationMetrics": {name: str(value) for name, value in changes.metrics.items()},
        }
        actions = changes.actions
        if "rowTracking" in self._base.protocol.writer_features:
            info["tags"] = {"delta.rowTracking.preserved": as_json(changes.keeps_row_ids)}
            actions = with_row_ids(actions, self._highest, self._version)
        info |= {"engineInfo": f"puffin_fast/{__version__}", "txnId": self._id, **self._properties}
        job = [] if self._job is None else self._job.actions(now)
        return as_lines([{"commitInfo": info}, *job, *actions])
