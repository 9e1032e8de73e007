"""All maintenance of a table in one call: convert, rewrite, compact, index, expire, clean."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast._api.arguments import check_flags, check_integer, check_name
from puffin_fast._api.documents import of_document
from puffin_fast._concurrency.workers import workers_of
from puffin_fast._display.html import HtmlFields
from puffin_fast._process.outcome import note_earlier
from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.commit.job import open_table
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.index.build import KeyIndexResult, encode_by, index_keys
from puffin_fast.iceberg.index.properties import indexed_columns
from puffin_fast.iceberg.maintenance.compact import compact
from puffin_fast.iceberg.maintenance.convert import convert_equality_deletes, convert_position_deletes
from puffin_fast.iceberg.maintenance.expire_snapshots import ExpireSnapshotsResult, expire_snapshots
from puffin_fast.iceberg.maintenance.orphan_files import remove_orphan_files
from puffin_fast.iceberg.maintenance.removal import check_may_remove
from puffin_fast.iceberg.maintenance.retention import Retention
from puffin_fast.iceberg.maintenance.rewrite import RewriteResult
from puffin_fast.iceberg.maintenance.rewrite_data_files import rewritten
from puffin_fast.iceberg.maintenance.rewrite_job import RewriteDataFilesResult
from puffin_fast.iceberg.maintenance.unknown_metadata import check_newest
from puffin_fast.rows.rewrite.file_groups import MIN_DELETED, MIN_INPUT_FILES, RewriteTerms, check_rewrite
from puffin_fast.verbs.remove_orphan_files import IN_FLIGHT, RemoveOrphanFilesResult

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyspark.sql import SparkSession

STEPS = ("convert", "rewrite", "compact", "index", "expire", "clean")
VECTOR_STEPS = ("convert", "compact")
"""Steps for deletion vectors: tables of format version 2 do not have them."""
DAYS = ("expire_older_than", "clean_older_than")


@dataclass(frozen=True)
class MaintenancePolicy:
    """The steps of `maintain`, and the thresholds from which each does something.

    Attributes:
        steps: which of "convert", "rewrite", "compact", "index", "expire", "clean"; they run in this order. "index"
            builds the key indexes that the table property ``puffin-fast.key-indexes`` names; without it, "rewrite" adds
            the new data files to those of them that exist.
        min_deleted, min_file_size, min_input_files, target_file_size, max_commits: as `rewrite_data_files`.
        expire_older_than, retain_last: as `older_than` and `retain_last` of `expire_snapshots`.
        clean_older_than: as `older_than` of `remove_orphan_files`.

    Raises:
        InvalidInputError: a value that its step does not accept.
    """

    steps: tuple[str, ...] = STEPS
    min_deleted: float = MIN_DELETED
    min_file_size: int | None = None
    min_input_files: int = MIN_INPUT_FILES
    target_file_size: int | None = None
    max_commits: int = 1
    expire_older_than: timedelta | None = None
    retain_last: int | None = None
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
        check_integer("retain_last", self.retain_last, least=1)
        for name in DAYS:
            value = getattr(self, name)
            if value is None and name == "expire_older_than":
                continue
            if not isinstance(value, timedelta) or value < timedelta():
                raise InvalidInputError(
                    f"{name}: expected a timedelta that is not negative, such as timedelta(days=7), found "
                    f"{shown_argument(value)}"
                )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> MaintenancePolicy:
        """Makes a policy from the values of a configuration file; ages are numbers of days.

        Raises:
            InvalidInputError: an unknown name, or a value that the step does not take.
        """
        return of_document(cls, values, days=DAYS)


@dataclass(frozen=True)
class MaintainResult(HtmlFields):
    """The results of the steps; None for a step that the policy or the table's format version leaves out.

    Attributes:
        position_deletes, equality_deletes: results of the conversions.
        data_files: result of the rewrite.
        vectors: result of the compaction.
        key_indexes: results of `index_keys`, one for each index that the table's property names.
        snapshots: result of the expiry.
        orphan_files: result of the clean-up.
        n_bytes_freed: size in bytes of the files that expiry and clean-up removed, or would remove.
        seconds: wall time.
        dry_run: True if nothing was changed. Each step is then counted for the table as it is, without the effect of
            the steps before it.
        notes: indexes that the property names and that were left out, because a column was dropped.
    """

    position_deletes: RewriteResult | None = None
    equality_deletes: RewriteResult | None = None
    data_files: RewriteDataFilesResult | None = None
    vectors: RewriteResult | None = None
    key_indexes: tuple[KeyIndexResult, ...] = ()
    snapshots: ExpireSnapshotsResult | None = None
    orphan_files: RemoveOrphanFilesResult | None = None
    n_bytes_freed: int = 0
    seconds: float = 0.0
    dry_run: bool = False
    notes: tuple[str, ...] = ()


def maintain(
    table: Table,
    policy: MaintenancePolicy = MaintenancePolicy(),
    *,
    branch: str = MAIN_BRANCH,
    threads: int | None = None,
    workers: Executor | SparkSession | None = None,
    dry_run: bool = False,
) -> MaintainResult:
    """Does all maintenance of a table.

    Converts delete files to vectors, rewrites data files, compacts vectors, keeps key indexes, expires snapshots and
    removes orphan files.

    Each step is a commit of its own, or several; it does nothing if there is nothing to do. A step that fails leaves
    the steps before it committed, and a repetition goes on from there. For what expiry and clean-up refuse a table
    (properties, newer metadata that the catalog does not have), it is refused before the first step.

    Args:
        table: a PyIceberg table of format version 3, or 2. It is refreshed first, and has the new metadata afterwards.
        policy: the steps, and the thresholds from which they change something.
        branch: the branch whose files are rewritten. Snapshots of all branches expire.
        threads: as `delete`.
        workers: an executor of ``concurrent.futures`` or a SparkSession, which does the steps that read data
            files and delete files instead of threads.
        dry_run: change nothing, and count what would be done.

    Raises:
        PuffinFastError: as the functions of the steps.

    Examples:
        >>> pf.iceberg.maintain(table, dry_run=True).dry_run
        True
    """
    started = time.perf_counter()
    who = workers_of(workers, threads)
    if not isinstance(policy, MaintenancePolicy):
        raise InvalidInputError(f"policy: expected a MaintenancePolicy, found {shown_argument(policy)}")
    check_flags(dry_run=dry_run)
    check_name("branch", branch, optional=False)
    working = open_table(table, oldest=2)
    version = working.metadata.format_version
    steps = [step for step in policy.steps if version > 2 or step not in VECTOR_STEPS]
    if not {"expire", "clean"}.isdisjoint(steps):
        check_may_remove(working)
    if "expire" in steps:
        Retention.of(working.properties, older_than=policy.expire_older_than, retain_last=policy.retain_last)
    if "clean" in steps:
        check_newest(working, threads)
    notes: list[str] = []
    schemas = working.metadata.schemas
    indexes = (
        indexed_columns(working.properties, working.schema(), schemas, notes) if "index" in steps else ()
    )
    here: dict[str, Any] = {"threads": threads, "dry_run": dry_run}
    job = here | {"branch": branch, "workers": workers}
    found: dict[str, Any] = {}
    try:
        if "convert" in steps:
            found["position_deletes"] = convert_position_deletes(table, **job)
            found["equality_deletes"] = convert_equality_deletes(table, **job)
        if "rewrite" in steps:
            terms = RewriteTerms(
                AlwaysTrue(),
                min_deleted=policy.min_deleted,
                min_file_size=policy.min_file_size,
                min_input_files=policy.min_input_files,
                target_file_size=policy.target_file_size,
                max_commits=policy.max_commits,
            )
            request = Request(verb="rewrite_data_files", branch=branch)
            # one commit for each index, of the last snapshot
            encode = None if "index" in steps else encode_by(who, table)
            found["data_files"] = rewritten(table, terms, request, who, encode, dry_run=dry_run)
        if "compact" in steps:
            found["vectors"] = compact(table, **job)
        if indexes and branch in table.metadata.refs:
            found["key_indexes"] = tuple(index_keys(table, names, **job) for names in indexes)
        if "expire" in steps:
            found["snapshots"] = expire_snapshots(
                table, older_than=policy.expire_older_than, retain_last=policy.retain_last, **here
            )
        if "clean" in steps:
            found["orphan_files"] = remove_orphan_files(table, older_than=policy.clean_older_than, **here)
    except BaseException as error:
        if found and not dry_run:
            note_earlier(
                error, f"steps that were done before: {', '.join(name.replace('_', ' ') for name in found)}"
            )
        raise
    freed = sum(found[name].n_bytes for name in ("snapshots", "orphan_files") if name in found)
    return MaintainResult(
        **found,
        n_bytes_freed=freed,
        seconds=time.perf_counter() - started,
        dry_run=dry_run,
        notes=tuple(notes),
    )
