"""Removes old snapshots from a table's metadata, and then the files that only they need."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from pyiceberg.table import Table

from puffin_fast._api.arguments import check_flags, check_ids, check_integer
from puffin_fast._concurrency.threads import check_threads
from puffin_fast._io import FileSet
from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError, PuffinFastError, UnsupportedError
from puffin_fast.iceberg.catalogs.catalog_commit import commit_expiry
from puffin_fast.iceberg.catalogs.working_table import WorkingTable
from puffin_fast.iceberg.commit.job import open_table
from puffin_fast.iceberg.commit.protocol import retried
from puffin_fast.iceberg.maintenance.orphan_files import files_of_others, files_of_unknown
from puffin_fast.iceberg.maintenance.removal import check_may_remove, inside, remove_all
from puffin_fast.iceberg.maintenance.retention import Expiry, Retention, chosen
from puffin_fast.iceberg.maintenance.snapshot_files import SnapshotFile, snapshot_files
from puffin_fast.verbs.maintenance import ExpireSnapshotsResult


def expire_snapshots(
    table: Table,
    *,
    older_than: timedelta | None = None,
    retain_last: int | None = None,
    snapshot_ids: Iterable[int] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
) -> ExpireSnapshotsResult:
    """Removes old snapshots from a table's metadata, and then the files that only they need.

    What expires follows the retention policy of the table specification: a branch keeps its newest snapshots and all
    younger than an age, a tag keeps its snapshot, and branches and tags with an age of their own expire themselves,
    except main. The values of a branch or tag come first, then the arguments, then the table's properties
    ``history.expire.*``, then five days and one snapshot.

    The files are listed before the commit, so that metadata that cannot be read changes nothing, and removed after it.
    A file is removed only if no remaining snapshot needs it, in any spelling of its location, and if it is below the
    table's location, ``write.data.path`` or ``write.metadata.path``: data files of other places may be another table's.
    Files in the folder of another table, also of Delta, Hudi, Lance or Paimon, below or at the table's location are not
    removed either: they were registered by ``add_files``, or the other table shares them. Metadata files of the table
    that its catalog does not have protect the files that they need (see `orphan_files`): the location is listed for
    them, if the table's FileIO can do that.
    If the process is killed between commit and removal, `orphan_files` lists what is left.

    A time travel to an expired snapshot, and the repetition of a job by the job id that only an expired snapshot holds,
    are not possible any more.

    Args:
        table: a PyIceberg table. It is refreshed first, and has the new metadata afterwards.
        older_than: snapshots that are at least this old expire.
        retain_last: number of snapshots that a branch keeps, whatever their age.
        snapshot_ids: these snapshots expire, and no others.
        threads: number of files read or removed at a time; the number of processors by default.
        dry_run: change nothing, and count what would be removed.

    Raises:
        InvalidInputError: an argument or a property; a branch or tag points to one of `snapshot_ids`.
        NotFoundError: one of `snapshot_ids` or a manifest does not exist.
        CorruptDataError: a manifest cannot be read.
        UnsupportedError: the property ``gc.enabled`` is false, or the catalog's answer may lack snapshots.
        ConflictError: other commits came first in all attempts. Nothing was changed or removed.
        CommitUnknownError: it is unknown whether the commit happened. No file was removed.

    Examples:
        >>> result = pf.iceberg.delete(table, "id < 10")
        >>> result = pf.iceberg.expire_snapshots(table, older_than=timedelta(), retain_last=1)
        >>> len(result.snapshot_ids), len(table.snapshots())
        (1, 1)
    """
    started = time.perf_counter()
    check_threads(threads)
    check_flags(dry_run=dry_run)
    check_integer("retain_last", retain_last, least=1)
    if older_than is not None and (not isinstance(older_than, timedelta) or older_than < timedelta()):
        raise InvalidInputError(
            "older_than: expected a timedelta that is not negative, such as timedelta(days=7), found "
            f"{shown_argument(older_than)}"
        )
    ids = check_ids("snapshot_ids", snapshot_ids)
    if ids is not None and (older_than is not None or retain_last is not None):
        raise InvalidInputError("snapshot_ids: expected neither older_than nor retain_last beside it")
    working = open_table(table)
    check_may_remove(working)

    def plan() -> _Plan:
        working.complete()
        retention = Retention.of(working.properties, older_than=older_than, retain_last=retain_last)
        if ids is None:
            expiry = retention.expired(working.metadata, time.time_ns() // 1_000_000)
        else:
            expiry = chosen(working.metadata, ids)
        return _Plan.of(working, expiry, threads)

    def send() -> _Plan:
        planned = plan()
        if planned.expiry:
            with working.handing_over() as sent:
                expiry = planned.expiry
                commit_expiry(
                    working, expiry.snapshot_ids, expiry.references, begun=working.created.append, sent=sent
                )
        return planned

    planned = plan() if dry_run else retried(working, send)
    removed, not_removed = planned.removable(working, threads)
    if not dry_run:
        done = remove_all(working.io, removed, threads)
        removed, not_removed = list(done.paths), [*not_removed, *done.not_removed]
    files = [planned.candidates[path] for path in removed]

    def count(kind: str) -> int:
        return sum(file.kind == kind for file in files)

    return ExpireSnapshotsResult(
        snapshot_ids=planned.expiry.snapshot_ids,
        references=planned.expiry.references,
        data_files=count("data file"),
        delete_files=count("delete file"),
        manifests=count("manifest"),
        manifest_lists=count("manifest list"),
        statistics_files=count("statistics file"),
        n_bytes=sum(file.n_bytes for file in files),
        not_removed=tuple(not_removed),
        seconds=time.perf_counter() - started,
        dry_run=dry_run,
    )


@dataclass(frozen=True)
class _Plan:
    """An expiry, and the files of both sides.

    Attributes:
        expiry: what expires.
        candidates: files of expired snapshots that no snapshot needs that stays, by location.
        known_ids: ids of all snapshots before the expiry.
        not_listed: a sentence for each manifest list and manifest of expired snapshots that does not exist.
        of_others: files in the folders of other tables.
        of_unknown: files that metadata of the table needs which the catalog does not have.
    """

    expiry: Expiry
    candidates: dict[str, SnapshotFile]
    known_ids: frozenset[int]
    not_listed: tuple[str, ...] = ()
    of_others: FileSet = field(default_factory=lambda: FileSet(()))
    of_unknown: FileSet = field(default_factory=lambda: FileSet(()))

    @classmethod
    def of(cls, table: WorkingTable, expiry: Expiry, threads: int | None) -> _Plan:
        gone = set(expiry.snapshot_ids)
        metadata = table.metadata
        kept = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in gone]
        expired = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in gone]
        known_ids = frozenset(snapshot.snapshot_id for snapshot in metadata.snapshots)
        if not expired:
            return cls(expiry, {}, known_ids)
        needed, missing = snapshot_files(table, kept, threads), list[str]()
        candidates = snapshot_files(table, expired, threads, without=needed, missing=missing)
        in_any_spelling = FileSet(needed)
        candidates = {path: file for path, file in candidates.items() if path not in in_any_spelling}
        not_listed = tuple(f"files not listed: {error}" for error in missing)
        plan = cls(expiry, candidates, known_ids, not_listed)
        try:
            of_others = files_of_others(table)
        except UnsupportedError:  # the FileIO cannot list files
            return plan
        return replace(plan, of_others=of_others, of_unknown=FileSet(files_of_unknown(table, threads)))

    def removable(self, table: WorkingTable, threads: int | None) -> tuple[list[str], Sequence[str]]:
        """Returns the files to remove, and a sentence for each that is not removed.

        Files that snapshots need which were committed since the plan (a REST catalog allows that) are left out.
        """
        try:
            table.complete()
        except PuffinFastError as error:
            return [], [*self.not_listed, *(f"{path}: {error}" for path in self.candidates)]
        new = [s for s in table.metadata.snapshots if s.snapshot_id not in self.known_ids]
        paths = list(self.candidates)
        if new and paths:
            needed = FileSet(snapshot_files(table, new, threads))
            paths = [path for path in paths if path not in needed]
        within, outside = inside(table, paths)
        not_removed = [f"{path}: outside of the table's locations" for path in outside]
        removable = []
        for path in within:
            if path in self.of_others:
                not_removed.append(f"{path}: in the folder of another table")
            elif path in self.of_unknown:
                not_removed.append(f"{path}: metadata of this table needs it that the catalog does not have")
            else:
                removable.append(path)
        return removable, [*self.not_listed, *not_removed]
