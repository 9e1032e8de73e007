"""All maintenance of a table in one call: rewrite, clean."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from puffin_fast._api.arguments import check_flags
from puffin_fast._api.documents import of_document
from puffin_fast._concurrency.workers import workers_of
from puffin_fast._display.html import HtmlFields
from puffin_fast._io.storage_options import filesystem_of
from puffin_fast._text import shown_argument
from puffin_fast.delta.maintenance.orphan_files import remove_orphan_files
from puffin_fast.delta.maintenance.rewrite_data_files import RewriteDataFilesResult, rewrite_data_files
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.rewrite.file_groups import MIN_DELETED, MIN_INPUT_FILES, check_rewrite
from puffin_fast.verbs.remove_orphan_files import IN_FLIGHT, RemoveOrphanFilesResult

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyspark.sql import SparkSession

STEPS = ("rewrite", "clean")


@dataclass(frozen=True)
class MaintenancePolicy:
    """The steps of `maintain`, and the thresholds from which they change something.

    Attributes:
        steps: which of "rewrite", "clean"; they run in this order.
        min_deleted, min_file_size, min_input_files, target_file_size, max_commits: as `rewrite_data_files`.
        clean_older_than: as `older_than` of `remove_orphan_files`.

    Raises:
        InvalidInputError: a value that the step does not take.
    """

    steps: tuple[str, ...] = STEPS
    min_deleted: float = MIN_DELETED
    min_file_size: int | None = None
    min_input_files: int = MIN_INPUT_FILES
    target_file_size: int | None = None
    max_commits: int = 1
    clean_older_than: timedelta = IN_FLIGHT

    def __post_init__(self) -> None:
        steps = self.steps
        if isinstance(steps, str) or not isinstance(steps, tuple | list) or not set(steps) <= set(STEPS):
            raise InvalidInputError(
                f"steps: expected some of {', '.join(STEPS)}, found {shown_argument(steps)}"
            )
        check_rewrite(
            self.min_deleted,
            self.min_file_size,
            self.min_input_files,
            self.target_file_size,
            self.max_commits,
        )
        if not isinstance(self.clean_older_than, timedelta) or self.clean_older_than < timedelta():
            raise InvalidInputError(
                "clean_older_than: expected a timedelta that is not negative, such as timedelta(days=7), found "
                f"{shown_argument(self.clean_older_than)}"
            )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> MaintenancePolicy:
        """Makes a policy from the values of a configuration file; ages are numbers of days.

        Raises:
            InvalidInputError: an unknown name, or a value that the step does not take.
        """
        return of_document(cls, values, days=("clean_older_than",))


@dataclass(frozen=True)
class MaintainResult(HtmlFields):
    """The results of the steps; None for a step that the policy leaves out.

    Attributes:
        data_files: the result of the rewrite.
        orphan_files: the result of the clean-up.
        seconds: wall time.
        dry_run: True if nothing was changed. Each step is then counted for the table as it is, without the effect of
            the step before it.
    """

    data_files: RewriteDataFilesResult | None = None
    orphan_files: RemoveOrphanFilesResult | None = None
    seconds: float = 0.0
    dry_run: bool = False


def maintain(
    table: Any,
    policy: MaintenancePolicy = MaintenancePolicy(),
    *,
    threads: int | None = None,
    workers: Executor | SparkSession | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> MaintainResult:
    """Rewrites data files and removes orphan files.

    If a step fails, the step before it stays committed, and a repetition continues from there. Old versions can still
    be read: their files are removed by a vacuum of other libraries.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        policy: the steps, and the thresholds from which they change something.
        threads, filesystem, storage_options: as `delete`.
        workers: an executor of ``concurrent.futures`` or a SparkSession, which rewrites data files instead of
            threads.
        dry_run: change nothing, and count what would be done.

    Raises:
        PuffinFastError: as the functions of the steps.

    Examples:
        >>> result = pf.delta.delete(path, "id < 50")
        >>> result = pf.delta.maintain(path)
        >>> pf.delta.deletes(path).num_rows
        0
    """
    started = time.perf_counter()
    if not isinstance(policy, MaintenancePolicy):
        raise InvalidInputError(f"policy: expected a MaintenancePolicy, found {shown_argument(policy)}")
    workers_of(workers, threads)
    check_flags(dry_run=dry_run)
    options: dict[str, Any] = {
        "threads": threads,
        "dry_run": dry_run,
        "filesystem": filesystem_of(table, filesystem, storage_options),
    }
    found: dict[str, Any] = {}
    if "rewrite" in policy.steps:
        found["data_files"] = rewrite_data_files(
            table,
            min_deleted=policy.min_deleted,
            min_file_size=policy.min_file_size,
            min_input_files=policy.min_input_files,
            target_file_size=policy.target_file_size,
            max_commits=policy.max_commits,
            workers=workers,
            **options,
        )
    if "clean" in policy.steps:
        found["orphan_files"] = remove_orphan_files(table, older_than=policy.clean_older_than, **options)
    return MaintainResult(**found, seconds=time.perf_counter() - started, dry_run=dry_run)
