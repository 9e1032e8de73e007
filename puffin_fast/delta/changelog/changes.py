"""Row-level changes of a Delta table: which rows were inserted, deleted and updated between two versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast._concurrency.threads import on_threads
from puffin_fast._process.cached import cached_property
from puffin_fast.delta.changelog.plan import ChangePlanner
from puffin_fast.delta.changelog.versions import Versions
from puffin_fast.delta.log.actions import read_file_changes
from puffin_fast.delta.log.segment import LOG_READERS, LogListing, commit_path, read_commit
from puffin_fast.delta.log.snapshot import load_head, load_snapshot
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.delta.log.times import CommitTimes
from puffin_fast.delta.scans.plan import DeltaTable
from puffin_fast.delta.scans.schema import TableSchema
from puffin_fast.delta.scans.widening import widened
from puffin_fast.dv import delta as codec
from puffin_fast.errors import UnsupportedError
from puffin_fast.rows.changes.change_scan import Changes
from puffin_fast.rows.changes.ends import Ends
from puffin_fast.rows.changes.lines import FEED_COLUMN
from puffin_fast.rows.changes.states import Commit, CommitChanges
from puffin_fast.rows.files.conversion import ProjectionError, arrow_type
from puffin_fast.rows.scan.file_reader import FileReader

if TYPE_CHECKING:
    pass


class VersionChanges(Changes):
    """The changes between two versions."""

    def __init__(self, storage: TableStorage, ends: Ends, newest: int | None, **options: Any) -> None:
        self._storage, self._listing = storage, LogListing.of(storage)
        newest = self._listing.latest if newest is None else newest
        self._versions = Versions.of(storage, self._listing, ends, newest)
        self._head = load_head(storage, self._listing.segment(self._versions.last))
        self._table = DeltaTable.of(self._head)
        super().__init__(
            storage,
            self._table.metadata,
            self._table.schema.schema,
            number="_commit_version",
            ordinal=False,
            options={"by_name": self._table.schema.by_name, "cast": widened, "decode": codec.decode},
            **options,
        )
        if not self._net:
            self._versions.between(self._listing)  # raises if the range is invalid

    def _range(self) -> tuple[int | None, int | None]:
        return self._versions.first - 1 if self._versions.first else None, self._versions.last

    @property
    def _uses_feed(self) -> bool:
        """Whether files of the change data feed are read: they have neither row ids nor the places of rows, and a
        filter needs to know which images belong together."""
        return self._row_filter.always_true and not self._extra

    def _feed_reader(self) -> Callable[[], FileReader]:
        schema = self._table.schema.with_column(FEED_COLUMN.field_id, FEED_COLUMN.name)
        metadata = schema.metadata(self._storage.root)
        return self._reader_of(self._keys, [FEED_COLUMN], metadata, by_name=True)

    @cached_property
    def plan(self) -> list[CommitChanges]:
        """The changed data files of each version, the oldest first; planned on first access."""
        planner = ChangePlanner(self._table, feed=self._uses_feed)
        first, last = self._versions.first, self._versions.last
        if self._net:
            if first == last + 1:
                return []
            before, after = (
                load_snapshot(self._storage, self._listing.segment(at)) if at >= 0 else None
                for at in (first - 1, last)
            )
            if before is not None:
                self._check_types(first - 1, before.metadata)
            return [CommitChanges(Commit(last, self._times.time(last), 0), planner.between(before, after))]
        wanted = self._versions.between(self._listing)
        threads = None if self._storage.is_local else LOG_READERS
        contents = on_threads(lambda at: read_commit(self._storage, at), wanted, threads)
        commits = [
            (data, read_file_changes(at, f"{self._storage.root}/{commit_path(at)}", data))
            for at, data in zip(wanted, contents, strict=True)
        ]
        tables = [
            (at, action)
            for at, (_, actions) in zip(wanted, commits, strict=True)
            for kind, action in actions
            if kind == "metaData"
        ]
        for at, action in tables:
            self._check_types(at, action)
        partitioning = any(at for at, _ in tables)
        found = []
        for ordinal, (version, (data, actions)) in enumerate(zip(wanted, commits, strict=True)):
            files, feed = planner.of_version(version, actions, partitioning=partitioning)
            found.append(
                CommitChanges(Commit(version, self._times.time(version, data), ordinal), files, feed)
            )
        return found

    def _check_types(self, version: int, metadata: Mapping[str, Any]) -> None:
        """Refuses an older version in which a column that is read had a type that does not become the present one."""
        older = TableSchema.of(replace(self._head, metadata=metadata))
        known = {
            names.names[0]: field for names, field in zip(older.names, older.schema.fields, strict=False)
        }
        now = self._table.schema
        wanted = {field.field_id for field in (*self._fields, *self._keys)}
        for names, field in zip(now.names, now.schema.fields, strict=False):
            before = known.get(names.names[0])
            if field.field_id not in wanted or before is None or before.field_type == field.field_type:
                continue
            kinds = [arrow_type(one.field_type) for one in (before, field)]
            if all(pa.types.is_nested(kind) for kind in kinds):
                continue
            try:
                widened(*kinds)
            except ProjectionError as error:
                raise UnsupportedError(
                    f"{self._storage.root}: column {field.name} had type {before.field_type} in version {version}, and "
                    f"has type {field.field_type} in version {self._versions.last}, which the older values do not fit"
                ) from error

    @cached_property
    def _times(self) -> CommitTimes:
        return CommitTimes(self._storage, self._listing, self._head.metadata)
