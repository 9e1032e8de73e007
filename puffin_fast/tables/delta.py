"""Tables of Delta."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from puffin_fast._concurrency.workers import Workers
from puffin_fast.delta.changelog.changes import VersionChanges
from puffin_fast.delta.dml.attempt import DeltaAttempt
from puffin_fast.delta.dml.tables import create_table
from puffin_fast.delta.log.commit import check_properties
from puffin_fast.delta.log.snapshot import Snapshot, snapshot_of
from puffin_fast.delta.log.storage import TableStorage, storage_of
from puffin_fast.delta.maintenance.orphan_files import orphans, remove_orphans
from puffin_fast.delta.maintenance.report import costs
from puffin_fast.delta.maintenance.rewrite_data_files import rewrite_files
from puffin_fast.delta.maintenance.verify import findings_of
from puffin_fast.delta.scans.vectors import listed_deletes
from puffin_fast.delta.scans.version_state import VersionState
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.changes.ends import Ends
from puffin_fast.rows.findings import Findings, Level
from puffin_fast.rows.rewrite.file_groups import RewriteTerms
from puffin_fast.tables.opening import check_no_other
from puffin_fast.tables.table import Table
from puffin_fast.verbs.maintenance import RewriteDataFilesResult
from puffin_fast.verbs.options import Options
from puffin_fast.verbs.remove_orphan_files import RemoveOrphanFilesResult
from puffin_fast.verbs.table_report import Report

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyspark.sql import SparkSession


class DeltaTable(Table):
    """A table of Delta; its head is its newest version.

    Attributes:
        storage: the files of the table.
    """

    format = "Delta"
    lacks: ClassVar[Mapping[str, str]] = {
        "branch": "a table has one line of versions",
        "compact": "rewrite_data_files removes deletion vectors",
        "convert_position_deletes": "all deletes are deletion vectors",
        "expire_snapshots": "VACUUM of Spark, or vacuum of deltalake, removes files of old versions",
        "index_keys": "statistics of data files are in the log only",
        "keep": "VACUUM of Spark, or vacuum of deltalake, removes files of old versions",
        "file_paths": "the log lists all data files",
        "tag": "as_of= or snapshot_id= selects a version",
    }

    def __init__(self, storage: TableStorage, version: Snapshot | None = None) -> None:
        self.storage, self.name = storage, storage.root
        self._version = version

    @classmethod
    def of(cls, table: Any, name: str | tuple[str, ...] | None, filesystem: Any) -> Self:
        if isinstance(table, Snapshot):
            return cls(table.storage, table)
        return cls(storage_of(table, filesystem))

    @classmethod
    def at(cls, path: str, filesystem: Any) -> Self:
        return cls(storage_of(path, filesystem))

    @classmethod
    def create(cls, path: str, schema: Any, filesystem: Any, **options: Any) -> Self:
        check_no_other(path, cls.format, filesystem)
        columns = options.pop("partition_spec")
        create_table(path, schema, partition_columns=columns, filesystem=filesystem, **options)
        return cls.at(path, filesystem)

    def version(self, snapshot_id: int | None = None, as_of: int | str | datetime | None = None) -> Snapshot:
        """Returns a version: the newest by default, or the one that the table was opened by.

        Raises:
            InvalidInputError: the table was opened by a version, and another one is named.
            NotFoundError, CorruptDataError, UnsupportedError: as `pf.delta.snapshot`.
        """
        if self._version is None:
            return snapshot_of(self.storage, snapshot_id, as_of)
        if snapshot_id is not None or as_of is not None:
            raise InvalidInputError(
                "snapshot_id and as_of: expected neither with a Snapshot, which has a version"
            )
        return self._version

    def state(self, **selected: Any) -> VersionState:
        return VersionState(self.version(selected["snapshot_id"], selected["as_of"]))

    def changed_rows(self, ends: Ends, **options: Any) -> VersionChanges:
        newest = None if self._version is None else self._version.version
        return VersionChanges(self.storage, ends, newest, **options)

    def listed_deletes(self, only: set[str] | None, **selected: Any) -> pa.Table:
        return listed_deletes(self.version(selected["snapshot_id"], selected["as_of"]))

    def findings(
        self,
        level: Level,
        threads: int | None,
        workers: Executor | SparkSession | None,
        **selected: Any,
    ) -> Findings:
        base = self.version(selected["snapshot_id"], selected["as_of"])
        return findings_of(base, level, threads, workers)

    def costs(self, share: float, **selected: Any) -> Report:
        return costs(self.version(selected["snapshot_id"], selected["as_of"]), share)

    def check(self, options: Options) -> None:
        super().check(options)
        check_properties(options.snapshot_properties)

    def rewrite_files(
        self, terms: RewriteTerms, options: Options, workers: Workers
    ) -> RewriteDataFilesResult:
        return rewrite_files(self.storage, terms, options, workers)

    def orphans(self, older_than: timedelta, keep: Collection[int] | None, threads: int | None) -> pa.Table:
        return orphans(self.storage, older_than)

    def remove_orphans(
        self, older_than: timedelta, threads: int | None, dry_run: bool
    ) -> RemoveOrphanFilesResult:
        return remove_orphans(self.storage, older_than, threads, dry_run)

    def attempt(self, options: Options) -> DeltaAttempt:
        return DeltaAttempt(self.storage, options)
