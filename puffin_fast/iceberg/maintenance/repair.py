"""Repairs tables that violate a rule of deletion vectors. No delete is lost, and no live row is deleted.

Several vectors of a data file are united to one: each writer assumed that its vector was the only one.
Positions that a vector supersedes without containing them, because its writer read only some of the
position-delete files, are added to it. A vector that disagrees with its entry or with the footer of its file is
written again if its bytes and checksum are valid. So is one whose entry has another partition than its data file, such
as DuckDB 1.5.5 writes for data files of an older partition spec. Wrong bounds of geometry and geography columns are
removed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast._api.arguments import check_flags
from puffin_fast._concurrency.threads import check_threads, on_threads
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import CorruptDataError, PuffinFastError
from puffin_fast.iceberg.commit.request import Request, head_of
from puffin_fast.iceberg.commit.snapshot_manifests import can_rewrite
from puffin_fast.iceberg.delete_files.deletion_vectors import write_deletion_vectors
from puffin_fast.iceberg.delete_files.writer import ChangeTerms
from puffin_fast.iceberg.maintenance.puffin_checks import check_frame
from puffin_fast.iceberg.maintenance.rewrite import REPLACE, Rewritten, rewrite
from puffin_fast.iceberg.manifest import DATA, Key, key_of, manifests_of, read_manifests
from puffin_fast.iceberg.manifest.geo_bounds import fields_without_order, wrong_bounds
from puffin_fast.iceberg.plan.delete_index import FileTask, same_partition
from puffin_fast.iceberg.plan.inventory import by_puffin_file
from puffin_fast.puffin.vectors import read_vectors
from puffin_fast.rows.deletes.loader import DeleteLoader, ReadAhead, within
from puffin_fast.rows.deletes.outcome import NewDeletes
from puffin_fast.rows.shared_deletes import NO_DELETES
from puffin_fast.verbs.maintenance import RewriteResult

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.manifest import ManifestEntry
    from puffin_fast.iceberg.plan.inventory import DeleteInventory, FileDeletes


def repair(
    table: Table,
    *,
    branch: str = MAIN_BRANCH,
    superseded: bool = True,
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
) -> RewriteResult:
    """Repairs vectors and bounds of a branch for which `verify` has findings, in one commit; reads all vectors.

    Repaired are: several vectors of a data file; superseded position deletes that a vector does not contain;
    a wrong cardinality or range in the manifest, if the blob's checksum or the file's footer shows the right
    one; a vector whose file has no footer, or one with another range, data file or cardinality than the manifest;
    a vector with another partition spec or partition than its data file, which Java refuses to read;
    vectors that reference no data file, or one that is not live. Entries of data files lose the bounds of geometry and
    geography columns that cannot be points, such as earlier releases of this package and PyIceberg write.
    Not repaired, and named in the result, are: files that cannot be read, and vectors with positions outside
    of their data file, because they may belong to another data file.

    Args:
        table: a PyIceberg table of format version 3. It is refreshed first, and has the new metadata
            afterwards.
        branch: an existing branch.
        superseded: whether rows are deleted again that are deleted only by superseded position deletes; readers return
            such rows now.
        job_id, snapshot_properties, threads, dry_run: as `convert_position_deletes`.

    Returns:
        The counts; ``rows_deleted`` is the number of rows that had come back and are deleted again.

    Raises:
        PuffinFastError: as `convert_position_deletes`, except for vectors and delete files that cannot be read.

    Examples:
        >>> pf.iceberg.repair(table).commit.id is None  # nothing was wrong
        True
    """
    check_threads(threads)
    check_flags(superseded=superseded)

    def work(table: Table, inventory: DeleteInventory) -> Rewritten:
        return _repair(table, head_of(table.metadata, branch), inventory, superseded, threads, dry_run)

    request = Request(verb="repair", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties)
    return rewrite(table, work, request, dry_run=dry_run)


def _repair(
    table: Table,
    head: Snapshot | None,
    inventory: DeleteInventory,
    superseded: bool,
    threads: int | None,
    dry_run: bool,
) -> Rewritten:
    current = DeleteLoader(table.io)
    badly_framed = _badly_framed(table.io, inventory, threads)
    not_repaired: list[str] = []
    removed = [entry for entry in (*inventory.dangling, *inventory.incomplete) if entry.is_vector]

    def repair_group(group: list[FileDeletes]) -> list[tuple[FileDeletes, NewDeletes | str | None]]:
        vectors = ReadAhead(table.io, [file.vectors[0] for file in group])
        found: list[tuple[FileDeletes, NewDeletes | str | None]] = []
        for file in group:
            try:
                found.append((file, _repaired(table.io, current, vectors, file, superseded, badly_framed)))
            except PuffinFastError as error:
                found.append((file, f"{file.data.file_path}: not repaired: {error}"))
        return found

    def found() -> Iterator[NewDeletes]:
        groups = by_puffin_file(file for file in inventory.files if file.vectors)
        for file, new in chain.from_iterable(
            on_threads(repair_group, groups, threads, label="repairing vectors")
        ):
            if isinstance(new, str):
                not_repaired.append(new)
            elif new is not None:
                removed.extend(file.vectors[1:])
                yield new

    outcomes = tuple(write_deletion_vectors(table, found(), only_new=False, dry_run=dry_run))
    n_bounds = _wrongly_bounded(table, head, not_repaired)
    operation = None if any(outcome.n_new for outcome in outcomes) else REPLACE
    unbounded = fields_without_order(table.metadata) if n_bounds else frozenset[int]()
    terms = ChangeTerms(also_removed=tuple(removed), operation=operation, unbounded=unbounded)
    return Rewritten.of(table, outcomes, terms, tuple(not_repaired), n_bounds)


def _wrongly_bounded(table: Table, head: Snapshot | None, not_repaired: list[str]) -> int:
    """The number of data files with wrong bounds, in manifests that can be rewritten; says which cannot."""
    fields, n = fields_without_order(table.metadata), 0
    if head is None or not fields:
        return n
    manifests = [manifest for manifest in manifests_of(table.io, head) if manifest.content == DATA]
    for manifest, entries in read_manifests(table.io, manifests, table.specs()):
        found = sum(bool(wrong_bounds(entry, fields)) for entry in entries)
        if found and not can_rewrite(table.metadata, manifest):
            what = "its partition spec has an unknown transform or type, or it is encrypted"
            not_repaired.append(f"{manifest.path}: wrong bounds of {found} data files not removed: {what}")
        else:
            n += found
    return n


def _repaired(
    io: FileIO,
    current: DeleteLoader,
    vectors: ReadAhead,
    file: FileDeletes,
    superseded: bool,
    badly_framed: Set[Key],
) -> NewDeletes | None:
    """Returns the new deletes of a data file; None if nothing has to be repaired."""
    data = file.data
    wrong = len(file.vectors) > 1 or not same_partition(file.vectors[0], data)
    parts = []
    for vector in file.vectors:
        bitmap, as_stated = _read(io, vectors, vector)
        parts.append(within(bitmap, data, vector))
        wrong = wrong or not as_stated or key_of(vector) in badly_framed
    before = PositionBitmap.union_all(parts)
    lost = (
        current.by_files(data.file_path, file.superseded) - before
        if superseded
        else PositionBitmap.union_all([])
    )
    if not (wrong or lost):
        return None
    task = FileTask(
        data, file.vectors[0], file.position_deletes if superseded else NO_DELETES, file.equality_deletes
    )
    return NewDeletes(task, within(before | lost, data, file.superseded), len(lost))


def _badly_framed(io: FileIO, inventory: DeleteInventory, threads: int | None) -> set[Key]:
    """Returns the vectors of files with findings; other readers may read all vectors of a file for one of them."""
    by_file: dict[str, list[ManifestEntry]] = defaultdict(list)
    for vector in chain.from_iterable(file.vectors for file in inventory.files):
        by_file[vector.file_path].append(vector)
    files = list(by_file.values())
    found = on_threads(partial(check_frame, io), files, threads, label="checking Puffin files")
    return {key_of(vector) for some, bad in zip(files, found, strict=True) if bad for vector in some}


def _read(io: FileIO, vectors: ReadAhead, vector: ManifestEntry) -> tuple[PositionBitmap, bool]:
    """Returns a vector, and whether its manifest entry agrees with it."""
    try:
        bitmap = vectors.take(vector)
    except CorruptDataError as error:
        try:
            named = read_vectors(vector.file_path, filesystem=io).get(vector.referenced_data_file or "")
        except PuffinFastError:
            raise error from None
        if named is None:
            raise
        return named, False
    return bitmap, len(bitmap) == vector.record_count
