"""The policy of maintenance, and its results: one class for each job, for all formats and workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pyiceberg.expressions import AlwaysTrue

from puffin_fast._api.arguments import check_integer
from puffin_fast._api.documents import of_document
from puffin_fast._display.html import HtmlFields
from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.rewrite.file_groups import MIN_DELETED, MIN_INPUT_FILES, RewriteTerms
from puffin_fast.verbs.remove_orphan_files import IN_FLIGHT, RemoveOrphanFilesResult
from puffin_fast.verbs.results import Commit


@dataclass(frozen=True)
class KeyIndexResult(HtmlFields):
    """The result of `index_keys`.

    Attributes:
        commit: the commit, without an id if the index was complete already, and in a dry run.
        snapshot_id: the snapshot whose statistics file has the index.
        statistics_path: its statistics file; None in a dry run that would write one.
        columns: the key columns.
        segments: number of segments.
        data_files: number of data files of the snapshot that they cover.
        rows: number of rows of these data files.
        data_files_left: number of data files that no segment covers; they are searched as without an index.
        data_files_read: number of data files that were read.
        n_bytes: size of the segments in bytes.
        notes: parts of an earlier index that could not be used, and data files that cannot be covered, with the
            reasons.
        dry_run: True if nothing was written.
    """

    commit: Commit
    snapshot_id: int
    statistics_path: str | None
    columns: tuple[str, ...]
    segments: int
    data_files: int
    rows: int
    data_files_left: int
    data_files_read: int
    n_bytes: int
    notes: tuple[str, ...]
    dry_run: bool = False


@dataclass(frozen=True)
class NdvResult(HtmlFields):
    """The result of `collect_ndv`.

    Attributes:
        commit: the commit, without an id if the snapshot's statistics file already had all columns, and in a dry run.
        snapshot_id: the snapshot that the statistics belong to.
        statistics_path: its statistics file; None in a dry run that would write one.
        ndv: numbers of distinct values by column name, of the requested columns.
        upper_bounds: columns whose count includes deleted values.
        data_files_read: number of data files that were read.
        notes: statistics that could not be used, with the reasons.
        dry_run: True if nothing was written; the columns were counted.
    """

    commit: Commit
    snapshot_id: int
    statistics_path: str | None
    ndv: Mapping[str, int]
    upper_bounds: tuple[str, ...]
    data_files_read: int
    notes: tuple[str, ...]
    dry_run: bool = False


@dataclass(frozen=True)
class RewriteDataFilesResult(HtmlFields):
    """The result of a rewrite of data files.

    Attributes:
        commit: the last commit, and the attempts, files and bytes of all.
        commits: number of commits, at most `max_commits`.
        data_files: number of data files rewritten.
        data_files_written: number of new data files.
        rows: number of rows in the new files.
        rows_purged: number of deleted rows that were removed from the data files.
        deletes_removed: number of deletion vectors and delete files removed from the table.
        deletes_moved: number of rows of the new files that other commits deleted meanwhile.
        data_files_left_out: number of data files that were to be rewritten, but other commits changed or removed
            meanwhile.
        n_bytes_before: size of the rewritten data files in bytes.
        key_indexes: results of `iceberg.index_keys` for the new data files: one for each index that exists and that the
            property ``puffin-fast.key-indexes`` of an Iceberg table names.
        notes: why an index does not have the new data files; they are searched as without an index.
        dry_run: True if nothing was written. The counts are then those of the metadata: rows that equality deletes
            delete count as rows, and the counts of new and removed files are 0.
    """

    commit: Commit = field(default_factory=Commit)
    commits: int = 0
    data_files: int = 0
    data_files_written: int = 0
    rows: int = 0
    rows_purged: int = 0
    deletes_removed: int = 0
    deletes_moved: int = 0
    data_files_left_out: int = 0
    n_bytes_before: int = 0
    key_indexes: tuple[KeyIndexResult, ...] = ()
    notes: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True)
class RewriteResult(HtmlFields):
    """The result of a conversion, compaction or repair.

    Attributes:
        commit: the commit.
        vectors_written: number of deletion vectors written.
        vectors_removed: number of vectors that they replace, dangling ones included.
        position_delete_files_removed: number of position-delete files removed from the table.
        equality_delete_files_removed: number of equality-delete files removed from the table.
        data_files_dropped: number of data files removed because all their rows are deleted.
        puffin_files_written: number of files with new vectors.
        puffin_files_removed: number of files without a vector that the new snapshot references.
        positions: number of positions in the new vectors.
        rows_deleted: number of these that readers did not treat as deleted before.
        bounds_removed: number of data files whose entries lose wrong bounds of geometry or geography columns.
        not_rewritten: deletes that were not rewritten, and why: one sentence each.
        dry_run: True if nothing was committed; the counts are those that a commit would have had.
    """

    commit: Commit = field(default_factory=Commit)
    vectors_written: int = 0
    vectors_removed: int = 0
    position_delete_files_removed: int = 0
    equality_delete_files_removed: int = 0
    data_files_dropped: int = 0
    puffin_files_written: int = 0
    puffin_files_removed: int = 0
    positions: int = 0
    rows_deleted: int = 0
    bounds_removed: int = 0
    not_rewritten: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True)
class ExpireSnapshotsResult(HtmlFields):
    """The result of an expiry of snapshots.

    Attributes:
        snapshot_ids: ids of the snapshots that expired, in the order of the metadata.
        references: names of the branches and tags that expired.
        data_files, delete_files, manifests, manifest_lists, statistics_files: number of files removed.
        n_bytes: size in bytes of the files removed, without manifest lists, whose size the metadata does not hold.
        not_removed: a sentence for each file that no snapshot needs and that was not removed.
        seconds: wall time.
        dry_run: True if nothing was changed. The counts are then those of the files that would be removed.
    """

    snapshot_ids: tuple[int, ...] = ()
    references: tuple[str, ...] = ()
    data_files: int = 0
    delete_files: int = 0
    manifests: int = 0
    manifest_lists: int = 0
    statistics_files: int = 0
    n_bytes: int = 0
    not_removed: tuple[str, ...] = ()
    seconds: float = 0.0
    dry_run: bool = False


@dataclass(frozen=True)
class RewriteManifestsResult(HtmlFields):
    """The result of `rewrite_manifests`.

    Attributes:
        commit: the commit.
        manifests_removed: number of manifests that were replaced.
        manifests_written: number of manifests that replace them, as counted when they were planned.
        manifests_kept: number of manifests that stay as they are.
        entries: number of files in the new manifests.
        dry_run: True if nothing was committed; the counts are those that a commit would have had.
    """

    commit: Commit = field(default_factory=Commit)
    manifests_removed: int = 0
    manifests_written: int = 0
    manifests_kept: int = 0
    entries: int = 0
    dry_run: bool = False


STEPS = {
    "convert": "convert_position_deletes",
    "rewrite": "rewrite_data_files",
    "compact": "compact",
    "index": "index_keys",
    "expire": "expire_snapshots",
    "clean": "remove_orphan_files",
}
"""The steps of `maintain` in their order, and the function of each."""
DAYS = ("expire_older_than", "clean_older_than")


@dataclass(frozen=True)
class MaintenancePolicy:
    """The steps of `maintain`, and the thresholds from which each does something.

    Attributes:
        steps: which of "convert", "rewrite", "compact", "index", "expire", "clean"; they run in this order. None: all
            that the table's format has. "index" builds the key indexes that the table property
            ``puffin-fast.key-indexes`` names; without it, "rewrite" adds the new data files to those of them that
            exist.
        min_deleted, min_file_size, min_input_files, target_file_size, max_commits: as `rewrite_data_files`.
        expire_older_than, retain_last: as `older_than` and `retain_last` of `iceberg.expire_snapshots`.
        clean_older_than: as `older_than` of `remove_orphan_files`.

    Raises:
        InvalidInputError: a value that its step does not accept.
    """

    steps: tuple[str, ...] | None = None
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
        if steps is not None and (not isinstance(steps, tuple | list) or not set(steps) <= STEPS.keys()):
            raise InvalidInputError(
                f"steps: expected some of {', '.join(STEPS)}, found {shown_argument(steps)}"
            )
        self.terms()
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

    def terms(self) -> RewriteTerms:
        """The terms of the step "rewrite"."""
        return RewriteTerms(
            AlwaysTrue(),
            min_deleted=self.min_deleted,
            min_file_size=self.min_file_size,
            min_input_files=self.min_input_files,
            target_file_size=self.target_file_size,
            max_commits=self.max_commits,
        )


@dataclass(frozen=True)
class MaintainResult(HtmlFields):
    """The results of the steps; None for a step that the policy, or the table's format or its version, leaves out.

    Attributes:
        position_deletes, equality_deletes: results of the conversions.
        data_files: result of the rewrite.
        vectors: result of the compaction.
        key_indexes: results of `iceberg.index_keys`, one for each index that the table's property names.
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
