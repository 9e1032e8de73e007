"""Compares the numbers that Iceberg's metadata stores twice: snapshot summary, manifest list, manifests.

```
metadata.json: references, snapshot summary -> manifest list: length and counts -> manifest: entries
```
`read_manifest` refuses numbers without which rows would be wrong. This module compares the other numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from puffin_fast._concurrency.threads import on_threads
from puffin_fast.iceberg.manifest import (
    DATA,
    EQUALITY_DELETES,
    POSITION_DELETES,
    ManifestEntry,
    ManifestFile,
    counts_of,
    manifests_of,
    read_manifest,
)
from puffin_fast.puffin.finding import MISMATCH, MISSING, STALE, Finding

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

TOTAL_FILES = {
    "total-data-files": (DATA,),
    "total-delete-files": (POSITION_DELETES, EQUALITY_DELETES),
}
TOTAL_RECORDS = {
    "total-records": (DATA,),
    "total-position-deletes": (POSITION_DELETES,),
    "total-equality-deletes": (EQUALITY_DELETES,),
}
"""Names of a snapshot summary and the content of the files that they count."""


def check_metadata(table: Table, snapshot: Snapshot | None, threads: int | None = None) -> Iterator[Finding]:
    """Compares references with snapshots, and the numbers of a snapshot with those of its manifests.

    Args:
        table: a table of format version 1 to 3.
        snapshot: the snapshot; None for an empty branch.
        threads: number of manifests read at a time; the number of processors by default.

    Yields:
        A finding for each number that differs.

    Raises:
        CorruptDataError, NotFoundError: metadata is damaged or missing.
    """
    metadata = table.metadata
    for name, reference in metadata.refs.items():
        if metadata.snapshot_by_id(reference.snapshot_id) is None:
            message = (
                f"{table.metadata_location}: {name!r}: expected snapshot {reference.snapshot_id}, found none"
            )
            yield Finding(MISSING, None, table.metadata_location, None, message)
    if snapshot is None:
        return
    specs = table.specs()

    def read(manifest: ManifestFile) -> tuple[int, list[ManifestEntry]]:
        entries = read_manifest(table.io, manifest, specs, live_only=False, metrics=False)
        return len(table.io.new_input(manifest.path)), entries

    files: Counter[int] = Counter()
    records: Counter[int] = Counter()
    manifests = manifests_of(table.io, snapshot)
    for manifest, (size, entries) in zip(
        manifests, on_threads(read, manifests, threads, label="checking manifests"), strict=True
    ):
        if size != manifest.length:
            message = f"{manifest.path}: expected {manifest.length} bytes (manifest list), found {size}"
            yield Finding(STALE, None, manifest.path, None, message)
        yield from _check_counts(manifest, entries)
        for entry in entries:
            if entry.is_live:
                files[entry.content] += 1
                records[entry.content] += entry.record_count
    summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
    for totals, found in ((TOTAL_FILES, files), (TOTAL_RECORDS, records)):
        for name, contents in totals.items():
            expected, actual = summary.get(name), sum(found[content] for content in contents)
            if expected is not None and expected != str(actual):
                path = snapshot.manifest_list
                message = f"{path}: {name}: expected {expected} (snapshot summary), found {actual}"
                yield Finding(STALE, None, path, None, message)


def _check_counts(manifest: ManifestFile, entries: list[ManifestEntry]) -> Iterator[Finding]:
    for name, found in counts_of(entries).items():
        expected = getattr(manifest, name)
        if expected is not None and expected != found:
            message = f"{manifest.path}: {name}: expected {expected} (manifest list), found {found}"
            yield Finding(MISMATCH, None, manifest.path, None, message)
    numbers = [entry.sequence_number or 0 for entry in entries if entry.is_live]
    if numbers and min(numbers) < manifest.min_sequence_number:
        message = (
            f"{manifest.path}: min_sequence_number: expected {manifest.min_sequence_number} (manifest list), found "
            f"{min(numbers)}"
        )
        yield Finding(MISMATCH, None, manifest.path, None, message)
