"""Vectors that a commit carries along to new Puffin files, because it removes another vector of their file.

Java's ``Table.expireSnapshots()`` deletes the file of each entry that an expired snapshot removed, also if another
vector of that file is live. So all vectors of a file are removed together: those that stay live are copied, byte for
byte, with their data sequence numbers.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from puffin_fast._concurrency.groups import split_by_size
from puffin_fast._concurrency.threads import on_threads
from puffin_fast._io import open_source
from puffin_fast.dv.iceberg import BLOB_TYPE
from puffin_fast.errors import CorruptDataError, LimitExceededError, NotFoundError, UnsupportedError
from puffin_fast.iceberg.commit.changes import vector_entry
from puffin_fast.iceberg.compat.table_properties import delete_file_size, vectors_per_file
from puffin_fast.iceberg.manifest import Key, ManifestEntry, key_of
from puffin_fast.puffin import PuffinReader
from puffin_fast.puffin.vectors import write_blobs

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from puffin_fast.iceberg.catalogs.working_table import WorkingTable

UNREADABLE = (CorruptDataError, LimitExceededError, NotFoundError, UnsupportedError)


def can_carry(entry: ManifestEntry) -> bool:
    """Whether an entry is that of a vector whose bytes can be copied: its range is known, and it is not encrypted."""
    return (
        entry.is_vector
        and entry.key_metadata is None
        and None not in (entry.content_offset, entry.content_size_in_bytes, entry.referenced_data_file)
    )


def has_others(io: FileIO, paths: Collection[str], known: Iterable[Key]) -> bool:
    """Whether Puffin files may have more vectors than those that are known, by their footers.

    Args:
        io: PyIceberg's file access.
        paths: Puffin files.
        known: the keys of live vectors.
    """
    counts = Counter(path for path, _ in known)

    def may_have_others(path: str) -> bool:
        try:
            with PuffinReader(path, filesystem=io) as reader:
                return sum(blob.type == BLOB_TYPE for blob in reader.blobs) > counts[path]
        except NotFoundError:
            return False  # nothing can be copied
        except UNREADABLE:
            return True  # a file of another format may have vectors, too

    return any(on_threads(may_have_others, sorted(paths), None))


def carry(table: WorkingTable, vectors: Iterable[ManifestEntry]) -> Iterator[tuple[Key, ManifestEntry]]:
    """Copies vectors to new Puffin files, each for data files of one partition spec.

    Vectors that cannot be read stay where they are: they are not needed to remove another one.

    Args:
        table: its location provider names the files.
        vectors: live entries for which `can_carry` holds.

    Yields:
        the key of each vector and its new entry, in the order of the new files.
    """
    files: dict[tuple[int, str], list[ManifestEntry]] = defaultdict(list)
    for entry in vectors:
        files[entry.spec_id, entry.file_path].append(entry)
    stored = (
        item
        for some in on_threads(partial(_read, table.io), [files[key] for key in sorted(files)], None)
        for item in some
    )
    properties, name = table.metadata.properties, uuid.uuid4()
    groups = split_by_size(
        stored,
        delete_file_size(properties),
        lambda item: len(item[1]),
        kind=lambda item: item[0].spec_id,
        most=vectors_per_file(properties),
    )
    for number, group in enumerate(groups):
        path = table.location_provider().new_data_location(f"{name}-{number:05d}-deletes.puffin")
        ordered = sorted(group, key=lambda item: len(item[1]))  # see `write_deletion_vectors`
        blobs = ((entry.referenced_data_file or "", blob, entry.record_count) for entry, blob in ordered)
        for (entry, _), location in zip(ordered, write_blobs(path, blobs, filesystem=table.io), strict=True):
            moved = vector_entry(location, entry, location.file_size)
            moved.sequence_number = entry.sequence_number
            yield key_of(entry), moved


def _read(io: FileIO, entries: Sequence[ManifestEntry]) -> list[tuple[ManifestEntry, bytes]]:
    """Reads the bytes of vectors of one Puffin file, in the order of the file; nothing if it cannot be read."""
    ordered = sorted(entries, key=attrgetter("content_offset"))
    ranges = [(entry.content_offset or 0, entry.content_size_in_bytes or 0) for entry in ordered]
    try:
        with open_source(ordered[0].file_path, filesystem=io) as source:
            return [(ordered[at], blob) for at, blob in source.read_ranges(ranges)]
    except UNREADABLE:
        return []
