"""Tables of Iceberg."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table as PyIcebergTable

from puffin_fast._concurrency.workers import Workers
from puffin_fast._io import split_location
from puffin_fast.errors import InvalidInputError, UnsupportedError
from puffin_fast.iceberg.catalogs.hadoop import HINT, HadoopCatalog
from puffin_fast.iceberg.catalogs.path_table import as_table
from puffin_fast.iceberg.catalogs.working_table import load_table
from puffin_fast.iceberg.changelog.changes import SnapshotChanges
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.dml.attempt import IcebergAttempt
from puffin_fast.iceberg.dml.tables import create_table
from puffin_fast.iceberg.index.build import encode_by
from puffin_fast.iceberg.maintenance.list_deletes import listed_deletes
from puffin_fast.iceberg.maintenance.maintain import maintained
from puffin_fast.iceberg.maintenance.orphan_files import orphans, remove_orphans
from puffin_fast.iceberg.maintenance.report import costs
from puffin_fast.iceberg.maintenance.rewrite_data_files import rewritten
from puffin_fast.iceberg.maintenance.verify import findings_of
from puffin_fast.iceberg.plan.files import metadata_of
from puffin_fast.iceberg.scans.snapshot_state import SnapshotState
from puffin_fast.rows.changes.ends import Ends
from puffin_fast.rows.findings import Findings, Level
from puffin_fast.rows.rewrite.file_groups import RewriteTerms
from puffin_fast.tables.opening import check_no_other
from puffin_fast.tables.table import Table
from puffin_fast.verbs.maintenance import MaintenancePolicy, RewriteDataFilesResult
from puffin_fast.verbs.options import Options
from puffin_fast.verbs.remove_orphan_files import RemoveOrphanFilesResult
from puffin_fast.verbs.table_report import Report

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pyarrow as pa
    from pyspark.sql import SparkSession


class IcebergTable(Table):
    """A table of Iceberg, of format version 2 or 3; its heads are branches.

    Attributes:
        table: PyIceberg's table. Each function refreshes it first, and it has the new metadata afterwards.
    """

    format = "Iceberg"
    lacks: ClassVar[Mapping[str, str]] = {
        "rewrite_data_files(on_conflict=)": "deletes of other commits are always moved to the new files",
    }

    def __init__(self, table: PyIcebergTable) -> None:
        metadata_of(table)
        self.table = table
        self.name = ".".join(table.name())

    @classmethod
    def of(cls, table: Any, name: str | tuple[str, ...] | None, filesystem: Any) -> Self:
        if isinstance(table, Catalog):
            if name is None:
                raise InvalidInputError(
                    "name: expected the name of a table in the catalog, found None; open_table(catalog, name) opens one"
                )
            return cls(load_table(table, name))
        return cls(table)

    @classmethod
    def at(cls, path: str, filesystem: Any) -> Self:
        scheme, _, key = split_location(path)
        if scheme in ("", "file") and os.path.exists(f"{key}/metadata/{HINT}"):
            catalog, name = _of_folder(path)
            return cls(catalog.load_table(name))
        return cls(as_table(path if "/" in path else f"./{path}"))

    @classmethod
    def create(cls, path: str, schema: Any, filesystem: Any, **options: Any) -> Self:
        if filesystem is not None:
            raise UnsupportedError(f"{path}: a table of Iceberg in a folder is one of a local file system")
        catalog, name = _of_folder(path)
        check_no_other(path, cls.format, None)
        try:
            os.makedirs(f"{catalog.warehouse}/{name[0]}", exist_ok=True)
        except OSError as error:
            raise InvalidInputError(f"{path}: expected a folder that can be created: {error}") from error
        return cls(create_table(catalog, name, schema, **options))

    def state(self, **selected: Any) -> SnapshotState:
        return SnapshotState(self.table, **selected)

    def changed_rows(self, ends: Ends, **options: Any) -> SnapshotChanges:
        return SnapshotChanges(self.table, ends, **options)

    def listed_deletes(self, only: set[str] | None, **selected: Any) -> pa.Table:
        return listed_deletes(self.table, only, **selected)

    def findings(
        self,
        level: Level,
        threads: int | None,
        workers: Executor | SparkSession | None,
        **selected: Any,
    ) -> Findings:
        return findings_of(self.table, level, threads, workers, **selected)

    def costs(self, share: float, **selected: Any) -> Report:
        return costs(self.table, share, **selected)

    def check(self, options: Options) -> None:
        super().check(options)
        Request.of(options)  # checks the names

    def rewrite_files(
        self, terms: RewriteTerms, options: Options, workers: Workers
    ) -> RewriteDataFilesResult:
        encode = encode_by(workers, self.table)
        return rewritten(self.table, terms, Request.of(options), workers, encode, dry_run=options.dry_run)

    def orphans(self, older_than: timedelta, keep: Collection[int] | None, threads: int | None) -> pa.Table:
        return orphans(self.table, older_than, keep, threads)

    def remove_orphans(
        self, older_than: timedelta, threads: int | None, dry_run: bool
    ) -> RemoveOrphanFilesResult:
        return remove_orphans(self.table, older_than, threads, dry_run)

    def maintained(
        self,
        policy: MaintenancePolicy,
        steps: Collection[str],
        options: Options,
        workers: Executor | SparkSession | None,
    ) -> Iterator[tuple[str, Any]]:
        return maintained(
            self.table,
            policy,
            steps,
            branch=options.branch,
            threads=options.threads,
            workers=workers,
            dry_run=options.dry_run,
        )

    def attempt(self, options: Options) -> IcebergAttempt:
        return IcebergAttempt(self.table, options)


def _of_folder(path: str) -> tuple[HadoopCatalog, tuple[str, str]]:
    """The catalog of a table in a local folder, and the table's name there: its folder and the one above.

    Raises:
        UnsupportedError: the folder is elsewhere.
        InvalidInputError: there are no two folders.
    """
    scheme, _, key = split_location(path)
    if scheme not in ("", "file"):
        raise UnsupportedError(f"{path}: a table of Iceberg in a folder is one of a local file system")
    *above, namespace, name = os.path.abspath(key).split("/")
    if not namespace:
        raise InvalidInputError(f"{path}: expected a folder below another one")
    return HadoopCatalog("folder", warehouse="/".join(above) or "/"), (namespace, name)
