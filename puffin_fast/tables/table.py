"""A table of any format: the handle that all functions of tables use."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from puffin_fast._api.keywords import named_attributes
from puffin_fast._concurrency.workers import Workers, workers_of
from puffin_fast.errors import UnsupportedError
from puffin_fast.rows.changes.change_scan import Changes
from puffin_fast.rows.changes.ends import Ends
from puffin_fast.rows.findings import Findings, Level
from puffin_fast.rows.rewrite.file_groups import RewriteTerms
from puffin_fast.rows.scan.scan import State
from puffin_fast.tables.changes import changes
from puffin_fast.tables.delete import delete, delete_keys, delete_positions
from puffin_fast.tables.deletes import deletes
from puffin_fast.tables.maintain import maintain
from puffin_fast.tables.orphan_files import orphan_files, remove_orphan_files
from puffin_fast.tables.overwrite import append, dynamic_partition_overwrite, overwrite
from puffin_fast.tables.report import report
from puffin_fast.tables.rewrite_data_files import rewrite_data_files
from puffin_fast.tables.scan import scan
from puffin_fast.tables.transaction import transaction
from puffin_fast.tables.update import update
from puffin_fast.tables.upsert import upsert
from puffin_fast.tables.verify import verify
from puffin_fast.verbs.attempt import Action, Attempt
from puffin_fast.verbs.maintenance import MaintenancePolicy, RewriteDataFilesResult
from puffin_fast.verbs.options import Options
from puffin_fast.verbs.remove_orphan_files import RemoveOrphanFilesResult
from puffin_fast.verbs.table_report import Report

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pyarrow as pa
    from pyspark.sql import SparkSession

Result = TypeVar("Result")


@named_attributes(
    {
        "merge": "write upsert(rows, join_cols)",
        "count": "write scan().count()",
        **{name: f"write scan().{name}()" for name in ("to_arrow", "to_pandas", "to_polars", "to_duckdb")},
        "optimize": "write rewrite_data_files()",
        "vacuum": "write remove_orphan_files()",
    }
)
class Table(ABC):
    """A table. `open_table` returns one; its methods are the functions of `puffin_fast` with the same names.

    Attributes:
        format: the name of its format.
        name: its name in a catalog, or its location.
    """

    format: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]] = {}
    """By function, option of all functions or of one (``function(option=)``): why this format does not have it, and
    what to use instead."""

    name: str

    # what a format implements ------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def of(cls, table: Any, name: str | tuple[str, ...] | None, filesystem: Any) -> Self:
        """Makes a table of an object of another library; arguments as those of `open_table`."""

    @classmethod
    @abstractmethod
    def at(cls, path: str, filesystem: Any) -> Self:
        """Opens the table in a folder that has the format's folder of metadata."""

    @classmethod
    def create(cls, path: str, schema: Any, filesystem: Any, **options: Any) -> Self:
        """Creates a table in a folder; `create_table` has the options.

        Raises:
            UnsupportedError: tables of this format are not created here.
        """
        raise UnsupportedError(f"{path}: tables of {cls.format} are not created")

    def attempt(self, options: Options) -> Attempt:
        """Begins an attempt on the newest head.

        Raises:
            PuffinFastError: the table cannot be changed; the job id was used by another verb.
        """
        raise self.refusal(options.verb)

    def rewrite_files(
        self, terms: RewriteTerms, options: Options, workers: Workers
    ) -> RewriteDataFilesResult:
        """`rewrite_data_files` with checked arguments.

        Args:
            terms: what is rewritten.
            options: the options of the commits.
            workers: who writes the new files.
        """
        raise self.refusal(options.verb)

    def orphans(self, older_than: timedelta, keep: Collection[int] | None, threads: int | None) -> pa.Table:
        """`orphan_files` with checked arguments."""
        raise self.refusal("orphan_files")

    def remove_orphans(
        self, older_than: timedelta, threads: int | None, dry_run: bool
    ) -> RemoveOrphanFilesResult:
        """`remove_orphan_files` with checked arguments."""
        raise self.refusal("remove_orphan_files")

    def maintained(
        self,
        policy: MaintenancePolicy,
        steps: Collection[str],
        options: Options,
        workers: Executor | SparkSession | None,
    ) -> Iterator[tuple[str, Any]]:
        """Does steps of `maintain`; yields their results, each with its name in `MaintainResult`.

        Args:
            policy: the thresholds.
            steps: those that the format has.
            options: the options of the commits.
            workers: as `maintain`.
        """
        if "rewrite" in steps:
            rewrite = dataclasses.replace(options, verb="rewrite_data_files")
            who = workers_of(workers, options.threads)
            yield "data_files", self.rewrite_files(policy.terms(), rewrite, who)
        if "clean" in steps:
            age = policy.clean_older_than
            yield "orphan_files", self.remove_orphans(age, options.threads, options.dry_run)

    def state(
        self,
        *,
        snapshot_id: int | None = None,
        branch: str | None = None,
        tag: str | None = None,
        as_of: int | str | datetime | None = None,
    ) -> State:
        """Returns the state that functions read; arguments as those of `scan`, and it raises as this does."""
        raise self.refusal("scan")

    def changed_rows(self, ends: Ends, **options: Any) -> Changes:
        """`changes` of a range; `options` are its other arguments."""
        raise self.refusal("changes")

    def listed_deletes(self, only: set[str] | None, **selected: Any) -> pa.Table:
        """`deletes` with checked arguments: of the data files of some paths, or of all."""
        raise self.refusal("deletes")

    def findings(
        self,
        level: Level,
        threads: int | None,
        workers: Executor | SparkSession | None,
        **selected: Any,
    ) -> Findings:
        """`verify` with checked arguments."""
        raise self.refusal("verify")

    def costs(self, share: float, **selected: Any) -> Report:
        """`report` with checked arguments."""
        raise self.refusal("report")

    # what all formats share --------------------------------------------------------------------------------

    def check(self, options: Options) -> None:
        """Checks that the format has the verb and the options.

        Raises:
            UnsupportedError: it has not; the message says why, and what to use instead.
        """
        self.need(options.verb)
        for field in dataclasses.fields(Options):
            if field.name != "verb" and getattr(options, field.name) != field.default:
                self.need(field.name)
                self.need(f"{options.verb}({field.name}=)")

    def need(self, name: str, **options: object) -> None:
        """Raises UnsupportedError if the format does not have a function, or an option of it that is given."""
        for one in (name, *(option for option, value in options.items() if value is not None)):
            if one in self.lacks:
                raise self.refusal(one)

    def refusal(self, name: str) -> UnsupportedError:
        """The error for a function or an option that the format does not have."""
        reason = f": {self.lacks[name]}" if name in self.lacks else ""
        return UnsupportedError(f"{self.name}: tables of {self.format} have no {name}{reason}")

    def run(self, action: Action, options: Options, kind: type[Result]) -> Result:
        """Runs an action and commits; returns a result of the given class."""
        self.check(options)
        return self.attempt(options).run(action, kind)

    append = append
    changes = changes
    delete = delete
    delete_keys = delete_keys
    delete_positions = delete_positions
    deletes = deletes
    dynamic_partition_overwrite = dynamic_partition_overwrite
    maintain = maintain
    orphan_files = orphan_files
    overwrite = overwrite
    remove_orphan_files = remove_orphan_files
    report = report
    rewrite_data_files = rewrite_data_files
    scan = scan
    transaction = transaction
    update = update
    upsert = upsert
    verify = verify

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"
