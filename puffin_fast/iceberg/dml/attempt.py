"""Attempts on Iceberg tables: what the verbs of `puffin_fast.verbs` need of a table of this format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.types import LongType, NestedField

from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.errors import PuffinFastError
from puffin_fast.iceberg.commit.carried_vectors import carry
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.job import open_table
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.commit.request import Committed, Request, committed_before, head_of
from puffin_fast.iceberg.compat.table_properties import choice_property, vectors_per_file
from puffin_fast.iceberg.delete_files.writer import ChangeTerms, DeleteFiles, WrittenDeletes, write_deletes
from puffin_fast.iceberg.dml.data_files import DataFileWriter, write_data_files
from puffin_fast.iceberg.index.lookup import planned
from puffin_fast.iceberg.manifest import ManifestEntry, check_transforms, key_of
from puffin_fast.iceberg.manifest.columns import Paths, Select
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.iceberg.plan.files import Plan, plan_snapshot
from puffin_fast.iceberg.plan.staged import StagedSnapshot
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.outcome import NewDeletes
from puffin_fast.rows.files.metadata_columns import METADATA_COLUMNS
from puffin_fast.rows.filters.filters import Matcher, RowFilter
from puffin_fast.rows.keys.keys import Keys
from puffin_fast.rows.match.given_rows import RowWriterSchema
from puffin_fast.rows.scan.file_reader import ReaderFactory, reader_factory
from puffin_fast.rows.scan.finder import Finder
from puffin_fast.rows.tasks import Task
from puffin_fast.verbs.attempt import Attempt, Purpose
from puffin_fast.verbs.counts import Counts
from puffin_fast.verbs.options import Options
from puffin_fast.verbs.results import Commit

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.rows.scan.explain import Reads

ROW_ID = METADATA_COLUMNS["_row_id"]


class IcebergAttempt(Attempt):
    """An attempt to commit to a branch of a table.

    Args:
        table: the caller's table, which has the new metadata afterwards.
        options: the options of the commit.

    Raises:
        PuffinFastError: as `open_table` and `head_of`; the job id was used by another verb.
    """

    changes: Changes
    repeated: Committed | None
    committed: Committed | None = None

    def __init__(self, table: Table, options: Options) -> None:
        super().__init__(options)
        self._request = Request.of(options)
        self.table = open_table(table, oldest=2)
        self.created = self.table.created
        self.repeated = committed_before(self.table, self._request)
        self._begin(None if self.repeated else head_of(self.table.metadata, options.branch))

    def _begin(self, base: Snapshot | None) -> None:
        """Forgets the changes, and plans the next action on a head. The files stay in `created`."""
        self._base, self.changes, self._manifests = base, Changes(), frozenset[str]()
        self._stale: set[str] = set()

    @property
    def name(self) -> str:
        return self.table.shown

    @property
    def head(self) -> str:
        return f"branch {self.options.branch!r}"

    @property
    def io(self) -> FileIO:
        return self.table.io

    @property
    def metadata(self) -> TableMetadata:
        return self.table.metadata

    @property
    def lineage(self) -> Sequence[str]:
        return [ROW_ID.name] if self.metadata.format_version > 2 else []

    def plan(self, matcher: Matcher) -> Sequence[FileTask]:
        return planned_tasks(
            self.table, self._base, matcher, partial(self._plan, matcher, metrics=True), self.reads
        )

    def find(self, paths: Collection[str]) -> Callable[[str], Task | None]:
        every = RowFilter.bind(AlwaysTrue(), self.schema)
        plan = self._plan(every, metrics=False, select=Paths(paths).select, most=len({*paths}))
        return {task.data.file_path: task for task in plan.tasks}.get

    def _plan(
        self, matcher: Matcher, select: Select | None = None, *, metrics: bool, most: int | None = None
    ) -> Plan:
        head = self._base
        if self.changes:
            head = StagedSnapshot.on(self._base, self.metadata, self.changes.added, self.changes.removed)
        plan = plan_snapshot(
            self.table, head, self.schema, matcher, metrics=metrics, select=select, most=most
        )
        self._manifests |= plan.manifests
        return plan

    def finder(self, matcher: Matcher) -> Finder:
        return Finder(self.io, self.metadata, matcher, reads=self.reads)

    def reader(self, matcher: Matcher) -> ReaderFactory:
        return reader_factory(self.table, matcher, self.reads)

    def loader(self) -> DeleteLoader:
        return DeleteLoader(self.io)

    def writer(self, purpose: Purpose) -> IcebergWriter:
        return IcebergWriter(self, purpose)

    def remove(self, paths: Iterable[str]) -> None:
        self.table.remove(paths)

    def note_outcome(self, error: BaseException) -> None:
        self.table.note_outcome(error)

    def publish(self) -> None:
        self.table.publish()

    def commit_of(self, committed: Committed | None) -> Commit:
        return commit_of(committed)

    def commit(self) -> None:
        self.committed = self.repeated
        if self.repeated is not None:
            return
        if self.options.dry_run or not self.changes:
            self.table.remove_created()
            return
        try:
            self._remove_superseded()
            self.committed = commit(
                self.table,
                replace(self.changes, manifests=self._manifests),
                base=self._base,
                request=self._request,
                rebuild=self._again,
                merge=self.options.merges,
            )
        except OSError as error:
            if is_from_outside(error):
                raise
            raise PuffinFastError(f"{self.name}: nothing was committed: {error}") from error

    def _again(self, head: Snapshot | None) -> Changes | None:
        self._begin(head)
        self.repeat()
        self._remove_superseded()
        return replace(self.changes, manifests=self._manifests) if self.changes else None

    def add(self, changes: Changes) -> None:
        """Adds the changes of an action to those of the actions before it."""
        if not self.counts:
            self.changes = changes
            return
        own = {key_of(entry) for entry in self.changes.added if entry.is_vector}
        self._stale |= {path for path, _ in own.intersection(map(key_of, changes.removed))}
        self.changes = self.changes.then(changes)

    def _remove_superseded(self) -> None:
        """Removes the files that the net changes do not need: those that a later action removed again.

        The vectors of a Puffin file of which a later action superseded others move to another one, as in a commit.
        """
        if len(self.counts) < 2:
            return
        if self._stale and vectors_per_file(self.metadata.properties) is not None:
            changes = self.changes
            shared = [entry for entry in changes.added if entry.is_vector and entry.file_path in self._stale]
            carried = dict(carry(self.table, shared))
            added = [entry for entry in changes.added if key_of(entry) not in carried]
            added += carried.values()
            files, named = {*changes.new_files, *self.created}, {entry.file_path: None for entry in added}
            self.changes = replace(
                changes, added=tuple(added), new_files=tuple(path for path in named if path in files)
            )
        self.remove(set(self.created).difference(self.changes.new_files))


class IcebergWriter:
    """Writes deletion vectors or position-delete files, and data files; see `puffin_fast.verbs.attempt.Writer`."""

    keeps_changes = False

    def __init__(self, attempt: IcebergAttempt, purpose: Purpose) -> None:
        self._attempt, self._table = attempt, attempt.table
        self._conflict_filter = None
        if purpose.matcher is not None:
            self._conflict_filter = conflict_filter_of(attempt.table, purpose.matcher, purpose.isolation)
        self._counted: WrittenDeletes | None = None
        self._deletes = DeleteFiles()
        self._entries: list[ManifestEntry] = []
        self._sources: frozenset[str] = frozenset()

    def check(self, rows: pa.Schema) -> None:
        schema, spec = self._attempt.schema, self._attempt.metadata.spec()
        check_transforms(spec, schema)
        RowWriterSchema(schema, rows)
        DataFileWriter(self._table, schema, spec)  # checks the table's properties

    def delete(self, deletes: Iterable[NewDeletes]) -> None:
        if self._attempt.dry_run:
            self._counted = WrittenDeletes.counted(deletes)
        else:
            self._deletes = write_deletes(self._table, deletes)

    def insert(
        self,
        rows: pa.Table | pa.RecordBatchReader,
        row_ids: pa.Array | pa.ChunkedArray | None = None,
        sources: frozenset[str] = frozenset(),
    ) -> None:
        if not self._attempt.dry_run:
            self._entries += write_new_rows(self._table, rows, row_ids)
            self._sources |= sources

    def record(self, kind: str, rows: pa.Table) -> None:
        raise NotImplementedError("Iceberg has no change data feed")

    def stage(self, **metrics: int) -> Counts:
        terms = ChangeTerms(conflict_filter=self._conflict_filter)
        written = self._counted or WrittenDeletes.of(self._table, self._deletes, terms)
        changes, counts = changed(written, self._entries, self._sources)
        self._attempt.add(changes)
        return counts


def changed(
    written: WrittenDeletes, entries: Sequence[ManifestEntry], sources: frozenset[str]
) -> tuple[Changes, Counts]:
    """The changes of an action, and their counts.

    Args:
        written: the deletes of rows.
        entries: the new data files.
        sources: the data files that the new rows were computed from.
    """
    changes = written.changes
    if entries:
        changes = replace(
            changes,
            added=(*changes.added, *entries),
            required_data_files=changes.required_data_files | sources,
            new_files=(*changes.new_files, *(entry.file_path for entry in entries)),
        )
    return changes, Counts(
        rows_deleted=written.rows,
        data_files=written.vectors + written.by_files + written.dropped,
        data_files_dropped=written.dropped,
        data_files_written=len(entries),
        rows_appended=sum(entry.record_count for entry in entries),
        vectors_written=written.vectors,
        vectors_merged=written.merged,
        position_delete_files_written=written.position_files,
        files=len(changes.new_files),
        n_bytes=written.n_bytes + sum(entry.file_size_in_bytes for entry in entries),
    )


def commit_of(committed: Committed | None) -> Commit:
    """What results say of a commit. None: nothing was committed, or not yet."""
    if committed is None:
        return Commit()
    return Commit(committed.snapshot_id, committed.attempts, committed.repeated)


def planned_tasks(
    table: Table,
    base: Snapshot | None,
    matcher: Matcher,
    plan: Callable[[Select | None], Plan],
    reads: Reads | None,
) -> Sequence[FileTask]:
    """Plans the data files that may have rows that a matcher selects, by a key index if the table has one.

    Args:
        table: the table.
        base: the head; its indexes are used.
        matcher: the matcher, bound to the table's schema.
        plan: makes the plan; with a function, of the data files that it selects only.
        reads: counts what the plan leaves out.
    """
    made: list[tuple[Plan, Select | None]] = []

    def of(select: Select | None) -> Sequence[FileTask]:
        made.append((plan(select), select))
        return made[-1][0].tasks

    exact = isinstance(matcher, Keys)
    tasks = planned(table.io, table.metadata, base, matcher.equalities(), of, exact=exact)
    if reads is not None:
        found, select = made[-1]
        reads.plan(found.whole, tasks, found.tasks if select is None else None)
    return tasks


def conflict_filter_of(
    table: Table, matcher: Matcher, isolation: str
) -> Callable[[ManifestEntry], bool] | None:
    """Returns which data files that a concurrent commit added conflict with a job; None: no data file does.

    The table property ``write.delete.isolation-level`` or ``write.update.isolation-level`` decides: with
    ``serializable`` those that may have rows which the matcher selects; with ``snapshot`` none.

    Args:
        table: the table of the job.
        matcher: bound to its schema.
        isolation: as in `Purpose`.

    Raises:
        InvalidInputError: the property has another value.
    """
    if isolation != "always":
        name = f"write.{isolation}.isolation-level"
        if choice_property(table.properties, name, ("serializable", "snapshot")) == "snapshot":
            return None
    return matcher.may_match(table.schema())


def write_new_rows(
    table: Table, rows: pa.Table | pa.RecordBatchReader, row_ids: pa.Array | pa.ChunkedArray | None = None
) -> list[ManifestEntry]:
    """Writes the data files of new rows.

    Args:
        table: the table of the job.
        rows: all columns of the table.
        row_ids: for each new row the id of the row that it replaces, else null (specification, "Row Lineage").
    """
    if isinstance(rows, pa.Table) and not rows.num_rows:
        return []
    reserved = []
    if row_ids is not None and row_ids.null_count < len(row_ids) and ROW_ID.name not in rows.schema.names:
        rows = rows.append_column(ROW_ID.name, row_ids)
        reserved = [NestedField(ROW_ID.field_id, ROW_ID.name, LongType(), required=False)]
    return write_data_files(table, rows, reserved=reserved)
