"""The segments of key indexes that statistics files of a table have.

PyIceberg loads no table whose metadata names a blob of an unknown type. The metadata therefore does not list the
segments: only the footer of the Puffin file does, and the file's name says that it has some.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from puffin_fast._process.fork import lock_across_fork
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.errors import CorruptDataError, PuffinFastError
from puffin_fast.iceberg.plan.statistics_files import files_of_history
from puffin_fast.key_index import BLOB_TYPE, Read, Segment
from puffin_fast.puffin import BlobMetadata, PuffinReader

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.statistics import StatisticsFile

NAME_END = "-keys.stats"
"""The end of the name of a statistics file that has segments."""

_MOST_KNOWN = 64
_MOST_BLOCKS = 1 << 21
"""Blocks of the segments whose directories stay in memory, of 12 bytes each."""

_known: OrderedDict[tuple[str, int, int, int], Segment] = OrderedDict()
_KNOWING = lock_across_fork()


@dataclass(frozen=True)
class StoredSegment:
    """A segment in an open file.

    Attributes:
        blob: its metadata in the footer; the fields are the key columns.
        segment: the same, checked but for its blocks.
        read: reads ranges of it; errors name the file.
    """

    blob: BlobMetadata
    segment: Segment
    read: Read


def has_segments(statistics: StatisticsFile) -> bool:
    """Whether a statistics file has segments, by its name."""
    return statistics.statistics_path.endswith(NAME_END) and statistics.key_metadata is None


def is_segment(blob: BlobMetadata) -> bool:
    """Whether a blob is a segment, by its type."""
    return blob.type == BLOB_TYPE and bool(blob.fields) and blob.compression_codec is None


def indexed(metadata: TableMetadata, snapshot: Snapshot) -> Iterator[tuple[Snapshot, StatisticsFile]]:
    """Yields the statistics files with segments, of a snapshot and its ancestors, newest first."""
    return (found for found in files_of_history(metadata, snapshot) if has_segments(found[1]))


@contextmanager
def opened(
    io: FileIO, statistics: StatisticsFile, notes: list[str]
) -> Iterator[Mapping[tuple[int, ...], Sequence[StoredSegment]]]:
    """Opens a statistics file; yields its sound segments by the field ids of their key columns.

    Args:
        statistics: its entry in the table's metadata.
        notes: what is damaged, unknown or missing is added to these.
    """
    path, size = statistics.statistics_path, statistics.file_size_in_bytes
    found: dict[tuple[int, ...], list[StoredSegment]] = {}
    try:
        reader = PuffinReader(path, filesystem=io, file_size=size)
    except (PuffinFastError, OSError) as error:
        if is_from_outside(error):
            raise
        notes.append(f"{path}: {error}" if path not in str(error) else str(error))
        yield found
        return
    with reader:
        for blob in reader.blobs:
            if not is_segment(blob):
                continue
            read = _naming(reader.ranges_of(blob), path)
            try:
                segment = _segment(read, path, size, blob)
            except (PuffinFastError, OSError) as error:
                if is_from_outside(error):
                    raise
                notes.append(str(error))
                continue
            found.setdefault(blob.fields, []).append(StoredSegment(blob, segment, read))
        yield found


def _naming(read: Read, path: str) -> Read:
    """Reads ranges of a file; an error of its storage names it."""

    def named(ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
        try:
            yield from read(ranges)
        except OSError as error:
            if is_from_outside(error):
                raise
            raise PuffinFastError(f"{path}: the key index could not be read: {error}") from error

    return named


def new_segment(read: Read, path: str, blob: BlobMetadata) -> Segment:
    """Reads and checks a segment without its blocks."""
    made = Segment(read, blob.length, f"{path}: blob at offset {blob.offset}")
    if made.fields != tuple(blob.fields):
        raise CorruptDataError(
            "key columns of a key index",
            path=path,
            offset=blob.offset,
            expected=f"{list(blob.fields)} (footer)",
            found=list(made.fields),
        )
    return made


def _segment(read: Read, path: str, size: int, blob: BlobMetadata) -> Segment:
    """Reads a segment without its blocks; those read last stay in memory, because a statistics file never changes."""
    key = path, size, blob.offset, blob.length
    with _KNOWING:
        if (known := _known.get(key)) is not None:
            _known.move_to_end(key)
            return known
    made = new_segment(read, path, blob)
    with _KNOWING:
        _known[key] = made
        while len(_known) > _MOST_KNOWN or (
            len(_known) > 1 and sum(known.n_blocks for known in _known.values()) > _MOST_BLOCKS
        ):
            _known.popitem(last=False)
    return made
