"""Checks a snapshot: each deletion vector against its manifest entry, its Puffin file's footer and its data file; and
each live data file against its manifest entry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from puffin_fast._concurrency.threads import on_threads
from puffin_fast._concurrency.workers import workers_of
from puffin_fast.errors import CorruptDataError, PuffinFastError
from puffin_fast.iceberg.maintenance.data_file_checks import check_data_files, check_rows, has_checked_footer
from puffin_fast.iceberg.maintenance.index_checks import check_key_indexes
from puffin_fast.iceberg.maintenance.metadata_checks import check_metadata
from puffin_fast.iceberg.maintenance.puffin_checks import check_puffin
from puffin_fast.iceberg.manifest import EQUALITY_DELETES, POSITION_DELETES
from puffin_fast.iceberg.plan.delete_index import same_partition
from puffin_fast.iceberg.plan.files import resolve
from puffin_fast.iceberg.plan.inventory import (
    DeleteInventory,
    FileDeletes,
    by_puffin_file,
    take_inventory,
)
from puffin_fast.iceberg.scans.snapshot_state import SnapshotState
from puffin_fast.puffin.finding import (
    CORRUPT,
    DANGLING,
    DUPLICATE,
    MISMATCH,
    MISSING,
    SUPERSEDED,
    UNSUPPORTED,
    Finding,
    kind_of,
)
from puffin_fast.rows.deletes.loader import DeleteLoader, ReadAhead, within
from puffin_fast.rows.deletes.position_files import read_position_deletes
from puffin_fast.rows.findings import Findings, Level, unchecked_at
from puffin_fast.rows.scan.scan import Scan
from puffin_fast.rows.shared_deletes import distinct, single_data_file

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from puffin_fast.bitmap import PositionBitmap
    from puffin_fast.iceberg.manifest import ManifestEntry


def findings_of(
    table: Table,
    level: Level,
    threads: int | None,
    workers: Executor | SparkSession | None,
    **selected: Any,
) -> Findings:
    """`verify` with checked arguments."""
    who = workers_of(workers, threads)
    snapshot, _ = resolve(table, **selected)
    found = take_inventory(table, snapshot)
    by_file: dict[str, list[ManifestEntry]] = defaultdict(list)
    for vector in found.vectors():
        by_file[vector.file_path].append(vector)
    current = DeleteLoader(table.io)
    result = list(check_metadata(table, snapshot, threads))
    for puffin in on_threads(
        partial(check_puffin, table.io), list(by_file.values()), threads, label="checking Puffin files"
    ):
        result += puffin
    known = (CORRUPT, UNSUPPORTED)
    reported = {(one.path, one.offset) for one in result if one.offset is not None or one.kind in known}

    def check(group: list[FileDeletes]) -> list[tuple[int, list[Finding]]]:
        vectors = ReadAhead(table.io, [file.vectors[0] for file in group if file.vectors])
        return [(id(file), _check_file(current, vectors, reported, file)) for file in group]

    with_deletes = [file for file in found.files if file.vectors or file.position_deletes]
    findings = dict(
        chain(*on_threads(check, by_puffin_file(with_deletes), threads, label="checking deletes"))
    )
    paths = {file.data.file_path for file in found.files if level != "metadata"}
    of_data_files = check_data_files(table, snapshot, paths, who)
    for file in found.files:
        result += findings.get(id(file), []) + of_data_files.pop(file.data.file_path, [])
    live = [file.data for file in found.files]
    if level == "rows":
        damaged = {finding.path for finding in result if finding.kind in (CORRUPT, MISSING, UNSUPPORTED)}
        state = SnapshotState(table, snapshot_id=None if snapshot is None else snapshot.snapshot_id)
        whole = Scan(state)
        files = [data for data in live if data.file_path not in damaged]
        result += check_rows(whole, table.metadata, files, who)
    result += check_key_indexes(table, snapshot, live, level)
    numbers = (
        {file.data.file_path: file.data.sequence_number for file in found.files} if found.dangling else {}
    )
    check_dangling = partial(_check_dangling, table.io, numbers)
    result += chain(*on_threads(check_dangling, found.dangling, threads, label="checking dangling deletes"))
    result += map(_check_incomplete, found.incomplete)
    result += _check_partitions(found)
    unchecked = unchecked_at(level)
    without_footer = sum(not has_checked_footer(data) for data in live)
    if level == "files" and without_footer:
        unchecked.append(f"row counts of {without_footer:,} data files that are not Parquet or are encrypted")
    return Findings(result, level=level, data_files=len(live), unchecked=unchecked)


def _check_file(
    current: DeleteLoader,
    vectors: ReadAhead,
    reported: set[tuple[str, int | None]],
    file: FileDeletes,
) -> list[Finding]:
    """Checks the deletes of a data file against it."""
    path, found = file.data.file_path, []
    if len(file.vectors) > 1:
        places = ", ".join(f"{vector.file_path} offset {vector.content_offset}" for vector in file.vectors)
        found.append(
            Finding(
                DUPLICATE,
                path,
                file.vectors[0].file_path,
                file.vectors[0].content_offset,
                f"{path}: {len(file.vectors)} vectors, expected one: {places}",
            )
        )
    bitmaps: list[PositionBitmap] = []
    for vector in file.vectors:
        where = vector.file_path, vector.content_offset
        try:
            bitmap = vectors.take(vector)
        except PuffinFastError as error:
            if where not in reported and (vector.file_path, None) not in reported:
                found.append(Finding(kind_of(error), path, *where, str(error)))
            continue
        bitmaps.append(bitmap)
        if len(bitmap) != vector.record_count and where not in reported:
            message = f"expected {vector.record_count} positions (manifest), found {len(bitmap)}"
            found.append(
                Finding(MISMATCH, path, *where, f"{where[0]}: offset {where[1]}: cardinality: {message}")
            )
        try:
            within(bitmap, file.data, vector)
        except CorruptDataError as error:
            found.append(Finding(MISMATCH, path, *where, str(error)))
    if file.vectors and len(bitmaps) == len(file.vectors):
        found += _check_positions(current, file, partial(_check_superseded, bitmaps))
    elif not file.vectors:
        found += _check_positions(current, file, _check_within)
    return found


def _check_positions(
    current: DeleteLoader,
    file: FileDeletes,
    check: Callable[[FileDeletes, ManifestEntry, PositionBitmap], Iterator[Finding]],
) -> Iterator[Finding]:
    """Checks the positions in each position-delete file of a data file."""
    path, deletes = file.data.file_path, file.position_deletes
    try:
        for entry, positions in [*current.each(path, deletes)]:
            yield from check(file, entry, positions)
    except PuffinFastError:  # one of them cannot be read: each is read alone
        for entry in deletes:
            try:
                positions = current.by_files(path, [entry])
            except PuffinFastError as error:
                yield Finding(kind_of(error), path, entry.file_path, None, str(error))
            else:
                yield from check(file, entry, positions)


def _check_superseded(
    bitmaps: list[PositionBitmap], file: FileDeletes, entry: ManifestEntry, lost: PositionBitmap
) -> Iterator[Finding]:
    path = file.data.file_path
    for bitmap in bitmaps:
        lost = lost - bitmap
    if lost:
        yield Finding(
            SUPERSEDED,
            path,
            entry.file_path,
            None,
            f"{path}: {len(lost)} positions deleted by {entry.file_path} are superseded by a vector that does not "
            "contain them: these rows came back",
        )


def _check_within(file: FileDeletes, entry: ManifestEntry, positions: PositionBitmap) -> Iterator[Finding]:
    try:
        within(positions, file.data, entry)
    except CorruptDataError as error:
        yield Finding(MISMATCH, file.data.file_path, entry.file_path, None, str(error))


def _check_dangling(io: FileIO, numbers: Mapping[str, int | None], entry: ManifestEntry) -> list[Finding]:
    """Checks a delete file that applies to no live data file; `numbers` has the live ones and their sequence numbers.

    A position-delete file of several data files stays when the last of them is removed or gets a vector, because
    readers do not use it, and a job does not plan all of them. Nothing is wrong unless it names a live data file.
    """
    owner = entry.referenced_data_file or single_data_file(entry)
    if entry.content == POSITION_DELETES and not entry.is_vector:
        try:
            paths = set(chain.from_iterable(read_position_deletes(io, entry)))
        except PuffinFastError as error:
            return [Finding(kind_of(error), owner, entry.file_path, None, str(error))]
        owner = next((path for path in sorted(paths) if path in numbers), None)
        if owner is None:
            return []
    if owner is None:
        expected, actual = "a live data file for these deletes", "none"
        if entry.content == EQUALITY_DELETES:
            actual += "; puffin_fast.iceberg.convert_equality_deletes removes it"
    elif owner not in numbers:
        expected, actual = f"{owner} live", "none"
    elif (numbers[owner] or 0) > (entry.sequence_number or 0):
        expected = f"data sequence number of {owner} at most {entry.sequence_number} (its deletes)"
        actual = f"{numbers[owner]}: the deletes do not apply"
    else:
        expected, actual = (
            f"the partition and bounds of {owner} (its rows)",
            "others: the deletes do not apply",
        )
    message = f"{entry.file_path}: expected {expected}, found {actual}"
    return [Finding(DANGLING, owner, entry.file_path, entry.content_offset, message)]


def _check_partitions(found: DeleteInventory) -> Iterator[Finding]:
    """Compares the partition of each delete file of one data file with that of the data file."""
    by_path = {file.data.file_path: file.data for file in found.files}
    shared = distinct(file.position_deletes for file in found.files)
    for entry in chain(found.vectors(), shared):
        owner = entry.referenced_data_file or single_data_file(entry)
        data = None if owner is None else by_path.get(owner)
        if data is None or same_partition(entry, data):
            continue
        expected, actual = (
            f"partition spec {one.spec_id}, partition {one.partition}" for one in (data, entry)
        )
        message = f"{entry.file_path}: expected {expected} (those of {owner}), found {actual}"
        yield Finding(MISMATCH, owner, entry.file_path, entry.content_offset, message)


def _check_incomplete(entry: ManifestEntry) -> Finding:
    what = "referenced_data_file" if entry.is_vector else "equality_ids"
    message = f"{entry.file_path}: expected {what} in the manifest, found none"
    return Finding(MISMATCH, None, entry.file_path, entry.content_offset, message)
