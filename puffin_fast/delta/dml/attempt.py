"""Attempts on Delta tables: what the verbs of `puffin_fast.verbs` need of a table of this format.

The change data feed of several actions in one commit is left to readers, which find it in the added and removed files:
the rows of `cdc` actions would be those of single actions, and readers that find such actions read nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue

from puffin_fast._concurrency.groups import split_by_size
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast._process.outcome import note_outcome, nothing_committed, until_commit
from puffin_fast.delta.dml.changes import Written, actions_of, allowed, file_metrics, write_vectors
from puffin_fast.delta.dml.data_files import (
    TARGET_FILE_SIZE,
    DataFileWriter,
    keeps_changes,
    row_tracking_columns,
)
from puffin_fast.delta.log.action_types import as_json
from puffin_fast.delta.log.commit import Changes, Committed, JobId, commit, newest
from puffin_fast.delta.log.protocol import check_rows_writable
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.log.storage import TableStorage, canonical_path
from puffin_fast.delta.scans.descriptors import path_of
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.delta.scans.tasks import DeltaTask
from puffin_fast.errors import UnsupportedError
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.outcome import NewDeletes
from puffin_fast.rows.filters.filters import Matcher
from puffin_fast.rows.match.given_rows import RowWriterSchema
from puffin_fast.rows.scan.file_reader import ReaderFactory
from puffin_fast.rows.scan.finder import Finder
from puffin_fast.verbs.attempt import Attempt, Purpose
from puffin_fast.verbs.counts import Counts
from puffin_fast.verbs.options import Options
from puffin_fast.verbs.results import Commit

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

SEVERAL = "TRANSACTION"
"""The operation of a commit of several actions, in `commitInfo`."""


class DeltaAttempt(Attempt):
    """An attempt to commit the next version of a table.

    Args:
        storage: the files of the table.
        options: the options of the commit.

    Raises:
        PuffinFastError: as `snapshot`; the table must not be written to; the job id was used by another verb.
    """

    repeated: Committed | None
    committed: Committed | None = None

    def __init__(
        self,
        storage: TableStorage,
        options: Options,
    ) -> None:
        super().__init__(options)
        self._job = JobId(options.verb, options.job_id)
        self._n_removed = 0
        with until_commit():
            self.storage = storage
            self._begin(newest(storage))
        is_done = self._job.is_done(self._base.transactions, self._base.root)
        self.repeated = Committed(None, repeated=True) if is_done else None

    def _begin(self, base: Snapshot) -> None:
        """Forgets the changes, and plans the next action on a version."""
        self._base, self.created = base, []
        self._parts: list[Changes] = []
        self._net, self._staged = Changes([], ""), DeltaTable.of(base)
        self._n_net = self._n_staged = 0

    @property
    def table(self) -> DeltaTable:
        """The version, with the files of the earlier actions."""
        for part in self._parts[self._n_staged :]:
            self._staged = replace(self._staged, snapshot=self._staged.snapshot.then(part.actions))
        self._n_staged = len(self._parts)
        return self._staged

    @property
    def changes(self) -> Changes:
        """The net changes of the actions so far."""
        if self._n_net != len(self._parts):
            self._net, self._n_net = _net(self._parts, self), len(self._parts)
        return self._net

    def mark(self) -> int:
        return len(self._parts)

    def return_to(self, mark: int) -> None:
        del self._parts[mark:]
        if self._n_net > mark:
            self._net, self._n_net = Changes([], ""), 0
        if self._n_staged > mark:
            self._staged, self._n_staged = replace(self._staged, snapshot=self._base), 0

    def add(self, changes: Changes) -> None:
        """Adds the changes of an action, which was planned on `table`."""
        self._parts.append(changes)

    @property
    def name(self) -> str:
        return self.storage.root

    @property
    def head(self) -> str:
        return f"version {self._base.version}"

    @property
    def io(self) -> FileIO:
        return self.storage

    @property
    def metadata(self) -> TableMetadata:
        return self.table.metadata

    @property
    def schema(self) -> Schema:
        return self.table.schema.schema

    @property
    def lineage(self) -> Sequence[str]:
        return ["_row_id"] if self._staged.tracks_rows else []

    def plan(self, matcher: Matcher) -> Sequence[DeltaTask]:
        tasks = plan_files(self.table, matcher, metrics=True)
        self.reads.plan(tasks.whole, tasks, tasks)
        return tasks

    def find(self, paths: Collection[str]) -> Callable[[str], DeltaTask | None]:
        storage, tasks = self.storage, plan_files(self.table)
        locations = map(storage.location, self.table.snapshot.files["path"].to_pylist())
        numbers = {path: number for number, path in enumerate(locations)}

        def task_of(path: str) -> DeltaTask | None:
            names = (path, storage.location(path))
            number = next((numbers[name] for name in names if name in numbers), None)
            return None if number is None else tasks[number]

        return task_of

    def finder(self, matcher: Matcher) -> Finder:
        return self.table.finder(matcher, self.reads)

    def reader(self, matcher: Matcher) -> ReaderFactory:
        return self.table.reader_factory(matcher, self.reads)

    def loader(self) -> DeleteLoader:
        return self._staged.loader()

    def writer(self, purpose: Purpose) -> DeltaWriter:
        if not self.options.log_predicate:
            purpose = replace(purpose, predicate=None)
        return DeltaWriter(self, purpose)

    def remove(self, paths: Iterable[str]) -> None:
        gone = set(paths)
        self.created[:] = [path for path in self.created if path not in gone]
        for path in gone:
            try:
                self.storage.remove(path)
                self._n_removed += 1
            except Exception as error:  # an orphan file, which no version needs
                if is_from_outside(error):
                    raise

    def note_outcome(self, error: BaseException) -> None:
        if self.committed is None:  # else the commit happened: `commit` notes its own interrupts
            note_outcome(error, nothing_committed(self._n_removed))
        else:
            note_outcome(error, f"version {self.committed.version} of {self.name} was committed")

    def publish(self) -> None:
        """Nothing: the table is a path."""

    def commit_of(self, committed: Committed | None) -> Commit:
        return commit_of(committed)

    def commit(self) -> None:
        self.committed = self.repeated
        if self.repeated is not None:
            return
        if self.options.dry_run or not self.changes:
            self.remove(list(self.created))
            return
        _, self.committed = commit(
            self.storage,
            self._planned,
            base=self._base,
            on_conflict=self.options.on_conflict,
            job=self._job,
            snapshot_properties=self.options.snapshot_properties,
        )

    def _planned(self, base: Snapshot) -> DeltaAttempt:
        """The changes on a version; `commit` removes their files if it does not happen."""
        if base is not self._base:
            self._begin(base)
            self.repeat()
        self.remove(set(self.created).difference(self.changes.new_files))
        self.created = []
        return self


class DeltaWriter:
    """Writes vectors, data files and files of the change data feed; see `puffin_fast.verbs.attempt.Writer`."""

    def __init__(self, attempt: DeltaAttempt, purpose: Purpose) -> None:
        self._attempt, self._table, self._purpose = attempt, attempt.table, purpose
        base = self._table.snapshot
        if purpose.inserts:
            check_rows_writable(base.configuration, base.delta_schema["fields"], base.root)
        self.keeps_changes = keeps_changes(base) and not attempt.dry_run
        self._files = DataFileWriter(self._table, attempt.created)
        self._written = Written()
        self._adds: list[dict[str, Any]] = []
        self._feed: list[dict[str, Any]] = []
        self._keeps_row_ids = True

    def check(self, rows: pa.Schema) -> None:
        fitting(self._table, rows)

    def delete(self, deletes: Iterable[NewDeletes]) -> None:
        snapshot, dry_run = self._table.snapshot, self._attempt.dry_run
        self._written = write_vectors(snapshot.storage, allowed(snapshot, deletes), dry_run=dry_run)
        self._attempt.created += self._written.files

    def insert(
        self,
        rows: pa.Table | pa.RecordBatchReader,
        row_ids: pa.Array | pa.ChunkedArray | None = None,
        sources: frozenset[str] = frozenset(),
    ) -> None:
        if self._attempt.dry_run:
            return
        if row_ids is None:
            fits = fitting(self._table, rows.schema)
            batches = fits.batches(rows)
            groups: Iterable[Iterable[pa.RecordBatch]] = [batches]
            if not isinstance(rows, pa.Table):
                groups = split_by_size(batches, TARGET_FILE_SIZE, lambda batch: batch.nbytes)
            for group in groups:
                self._adds += self._files.write(pa.Table.from_batches(group, fits.arrow_schema))
            return
        extra = row_tracking_columns(self._table.snapshot, row_ids)
        self._keeps_row_ids &= extra is not None
        self._adds += self._files.write(rows, extra)

    def record(self, kind: str, rows: pa.Table) -> None:
        self._feed += self._files.write_changes({kind: rows})

    def stage(self, **metrics: int) -> Counts:
        changes, counts = changed(
            self._table.snapshot,
            self._purpose,
            self._written,
            self._adds,
            metrics,
            feed=self._feed,
            new_files=self._files.written,
            keeps_row_ids=self._keeps_row_ids,
            dry_run=self._attempt.dry_run,
        )
        self._attempt.add(changes)
        return counts


def fitting(table: DeltaTable, rows: pa.Schema) -> RowWriterSchema:
    """Checks that rows of some columns can be appended to a version; returns what converts them.

    Raises:
        InvalidInputError: the rows do not fit the schema.
        UnsupportedError: a column that they do not have has a default value in SQL.
    """
    given = set(rows.names)
    for field in table.snapshot.delta_schema["fields"]:
        if field["name"] not in given and "CURRENT_DEFAULT" in (field.get("metadata") or {}):
            raise UnsupportedError(
                f"data: no column {field['name']}, which has a default value in SQL; expected its values"
            )
    return RowWriterSchema(table.schema.schema, rows)


def changed(
    base: Snapshot,
    purpose: Purpose,
    written: Written,
    adds: Sequence[dict[str, Any]],
    metrics: Mapping[str, int],
    *,
    feed: Sequence[dict[str, Any]] = (),
    new_files: Iterable[str] = (),
    keeps_row_ids: bool,
    dry_run: bool,
) -> tuple[Changes, Counts]:
    """The changes of an action with their entries in ``commitInfo``, and their counts.

    Args:
        base: the version that the files were written for.
        written: the vectors.
        adds: the actions of the new data files.
        metrics: entries for the table's history, of an action that is no delete or write.
        feed: the actions of the files of the change data feed.
        new_files: the new files except those of vectors.
        keeps_row_ids: as in `Changes`.
        dry_run: whether nothing was written: there are only counts.
    """
    actions, touched = list[dict[str, Any]](), frozenset[str]()
    if written.changes and not dry_run:
        actions, touched = actions_of(base, written)
    changes = Changes(
        [*actions, *adds, *feed],
        purpose.operation,
        touched,
        (*written.files, *new_files),
        _parameters(base, purpose),
        _metrics(purpose, written.rows, adds, file_metrics([*actions, *adds, *feed]), metrics),
        looks_at_rows=purpose.matcher is not None,
        looks_at_appends=purpose.isolation == "always",
        keeps_row_ids=keeps_row_ids,
        is_blind_append=purpose.operation == "WRITE" and purpose.matcher is None,
    )
    return changes, Counts(
        rows_appended=sum(map(n_rows, adds)),
        rows_deleted=written.rows,
        data_files=len(written.changes),
        data_files_dropped=written.dropped,
        data_files_written=len(adds),
        vectors_written=written.vectors,
        vectors_merged=written.merged,
        files=len(changes.new_files),
        n_bytes=written.n_bytes + sum(file["size"] for line in (*adds, *feed) for file in line.values()),
    )


def commit_of(committed: Committed | None) -> Commit:
    """What results say of a commit. None: nothing was committed, or not yet."""
    if committed is None:
        return Commit()
    return Commit(committed.version, committed.attempts, committed.repeated)


def _parameters(base: Snapshot, purpose: Purpose) -> dict[str, str]:
    if purpose.operation != "WRITE":
        return {} if purpose.predicate is None else {"predicate": as_json(list(purpose.predicate))}
    columns = as_json(base.metadata.get("partitionColumns") or [])
    if purpose.matcher is None:
        return {"mode": "Append", "partitionBy": columns}
    found = {"mode": "Overwrite", "partitionBy": columns}
    text = " and ".join(purpose.predicate or ())
    return found if text in ("", str(AlwaysTrue())) else {**found, "predicate": text}


_OF_A_ROW = ("Updated", "Deleted")
_AMOUNT = re.compile(r"num(Added|Removed|)(.*)")
"""A metric of files; Spark has another order of the words in those of a merge."""


def _metrics(
    purpose: Purpose,
    n_deleted: int,
    adds: Sequence[Mapping[str, Any]],
    files: Mapping[str, int],
    rows: Mapping[str, int],
) -> Mapping[str, int]:
    """The entries for the table's history, as Spark names them. No verb copies rows: vectors replace them.

    Args:
        n_deleted: number of newly deleted rows.
        files: those of `file_metrics`.
        rows: those of an action that is no delete or write.
    """
    if purpose.operation == "DELETE":
        return {"numDeletedRows": n_deleted, "numCopiedRows": 0, **files}
    if purpose.operation == "UPDATE":
        return {**rows, "numCopiedRows": 0, **files}
    if purpose.operation == "MERGE":
        target = {_AMOUNT.sub(r"numTarget\2\1", name): n for name, n in files.items()}
        changed = {"numTargetRowsUpdated": 0, "numTargetRowsDeleted": 0, **rows}
        matched = {f"numTargetRowsMatched{what}": changed[f"numTargetRows{what}"] for what in _OF_A_ROW}
        others = {f"numTargetRowsNotMatchedBySource{what}": 0 for what in _OF_A_ROW}
        written = {"numTargetRowsCopied": 0, "numOutputRows": sum(map(n_rows, adds))}
        return {**changed, **matched, **others, **written, **target}
    found = {
        "numFiles": len(adds),
        "numOutputRows": sum(map(n_rows, adds)),
        "numOutputBytes": files["numAddedBytes"],
    }
    if purpose.matcher is not None:
        found |= {"numDeletedRows": n_deleted, "numCopiedRows": 0}
        found |= {name: files[name] for name in ("numRemovedFiles", "numRemovedBytes", "numAddedChangeFiles")}
    return found


def n_rows(add: Mapping[str, Any]) -> int:
    """The number of rows of a new data file, by its action."""
    return int(json.loads(add["add"]["stats"])["numRecords"])


@dataclass(frozen=True)
class _Key:
    """The key of a file action: the path and the vector (protocol, "Action Reconciliation")."""

    path: str
    vector: str

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> _Key:
        vector = action.get("deletionVector") or {}
        names = ("storageType", "pathOrInlineDv", "offset")
        return cls(canonical_path(action["path"]), "-".join(str(vector.get(name)) for name in names))


def _net(parts: Sequence[Changes], attempt: DeltaAttempt) -> Changes:
    """Returns the net changes of plans; each was made on top of those before it.

    Files that one adds and a later one removes are in none.
    """
    if len(parts) < 2:
        return parts[0] if parts else Changes([], "")
    found: list[dict[str, Any] | None] = []
    places: dict[_Key, int] = {}
    for part in parts:
        adds: dict[_Key, int] = {}
        for action in part.actions:
            place = places.pop(_Key.of(action["remove"]), None) if "remove" in action else None
            if place is not None:
                found[place] = None
                continue
            if "add" in action:
                adds[_Key.of(action["add"])] = len(found)
            found.append(action)
        places |= adds
    actions = [action for action in found if action is not None]
    if sum(map(bool, parts)) > 1:
        actions = [action for action in actions if "cdc" not in action]
    names = dict.fromkeys(name for part in parts for name in part.metrics)
    return Changes(
        actions,
        SEVERAL,
        frozenset[str]().union(*(part.touched for part in parts)),
        tuple(_needed((file for part in parts for file in part.new_files), actions, attempt)),
        {"operations": as_json([part.operation for part in parts])},
        {name: sum(part.metrics.get(name, 0) for part in parts) for name in names},
        looks_at_rows=any(part.looks_at_rows for part in parts),
        looks_at_appends=any(part.looks_at_appends for part in parts),
        keeps_row_ids=all(part.keeps_row_ids for part in parts),
        is_blind_append=all(part.is_blind_append for part in parts),
    )


def _needed(
    files: Iterable[str], actions: Iterable[Mapping[str, Any]], attempt: DeltaAttempt
) -> Iterable[str]:
    """Yields the new files that actions refer to."""
    root, used = attempt.storage.root, set[str]()
    for action in actions:
        one = action.get("add") or action.get("cdc")
        if one is not None:
            used.add(canonical_path(one["path"]))
            if one.get("deletionVector") is not None:
                used.add(path_of(one["deletionVector"], attempt.storage).removeprefix(f"{root}/"))
    return [path for path in files if path in used]
