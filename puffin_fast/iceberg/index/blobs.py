"""Statistics files in place of earlier ones: other blobs are copied, and the table's metadata names what it named."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from pyiceberg.table.statistics import StatisticsFile

from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.errors import NotFoundError, PuffinFastError
from puffin_fast.iceberg.catalogs.catalog_commit import commit_statistics
from puffin_fast.iceberg.catalogs.working_table import WorkingTable
from puffin_fast.iceberg.commit.protocol import retried
from puffin_fast.iceberg.plan.statistics_files import statistics_of
from puffin_fast.key_index import Read
from puffin_fast.puffin import BlobMetadata, PuffinReader, PuffinWriter
from puffin_fast.verbs.results import Commit

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

PART_BYTES = 1 << 20
"""Bytes of a blob that are copied at a time."""


class _UnreadError(Exception):
    """The earlier file cannot be read."""


def parts_of(read: Read, n_bytes: int) -> Iterator[bytes]:
    """Yields the bytes of a blob, some at a time.

    Args:
        read: reads ranges of the blob.
        n_bytes: its size.
    """
    ranges = [(at, min(PART_BYTES, n_bytes - at)) for at in range(0, n_bytes, PART_BYTES)]
    return (part for _, part in read(ranges))


def write_statistics(
    io: FileIO,
    path: str,
    snapshot_id: int,
    add: Callable[[PuffinWriter], Sequence[Any]],
    *,
    earlier: StatisticsFile | None,
    wanted: Callable[[BlobMetadata], bool],
    notes: list[str],
) -> StatisticsFile:
    """Writes a statistics file, with blobs of an earlier one as they are stored there.

    Args:
        add: adds the new blobs; returns what the metadata says of them.
        earlier: the entry of the earlier file in the table's metadata.
        wanted: whether a blob of the earlier file is copied.
        notes: the reason is added to these if the earlier file cannot be read; nothing of it is then copied.

    Returns:
        The entry of the file in the table's metadata.

    Raises:
        PuffinFastError: the file cannot be written.
    """
    try:
        with PuffinWriter(path, filesystem=io) as writer:
            copied = [] if earlier is None else _copied(writer, io, earlier, wanted)
            blobs = [*add(writer), *copied]
            writer.finish()
    except _UnreadError as error:
        notes.append(str(error))
        return write_statistics(io, path, snapshot_id, add, earlier=None, wanted=wanted, notes=notes)
    except OSError as error:
        if is_from_outside(error):
            raise
        raise PuffinFastError(f"{path}: the statistics file could not be written: {error}") from error
    return StatisticsFile.model_validate(
        {
            "snapshot-id": snapshot_id,
            "statistics-path": path,
            "file-size-in-bytes": writer.file_size,
            "file-footer-size-in-bytes": writer.footer_size,
            "blob-metadata": blobs,
        }
    )


def commit_blobs(
    table: WorkingTable,
    snapshot_id: int,
    end: Callable[[StatisticsFile | None], str],
    write: Callable[[str, StatisticsFile | None], StatisticsFile],
    what: str,
) -> tuple[str, Commit]:
    """Writes a statistics file and commits it; returns its path. After a conflict, both are done again.

    Args:
        table: the table of the job.
        snapshot_id: the snapshot.
        end: returns the end of the file's name; given the entry of the snapshot's statistics file, as is `write`.
        write: writes a file to a path, as `write_statistics`.
        what: what was not committed if the snapshot expired meanwhile.

    Raises:
        NotFoundError: the snapshot expired.
        PuffinFastError: as `retried`.
    """
    attempts = count(1)

    def send() -> tuple[str, Commit]:
        attempt = next(attempts)
        table.complete()
        if table.metadata.snapshot_by_id(snapshot_id) is None:
            raise NotFoundError(f"snapshot {snapshot_id} expired; its {what} not committed")
        earlier = statistics_of(table.metadata, snapshot_id)
        path = table.location_provider().new_metadata_location(f"{snapshot_id}-{uuid.uuid4()}{end(earlier)}")
        statistics = write(path, earlier)
        with table.handing_over() as sent:
            commit_statistics(table, statistics, begun=table.created.append, sent=sent)
        return path, Commit(snapshot_id, attempt, files=1, n_bytes=statistics.file_size_in_bytes)

    return retried(table, send)


def _copied(
    writer: PuffinWriter, io: FileIO, earlier: StatisticsFile, wanted: Callable[[BlobMetadata], bool]
) -> list[Any]:
    """Copies blobs of an earlier file; returns what the metadata says of them."""
    path, copied = earlier.statistics_path, set()
    with _reading(path):
        reader = PuffinReader(path, filesystem=io, file_size=earlier.file_size_in_bytes)
    with reader:
        for blob in filter(wanted, reader.blobs):
            writer.add_stored(_stored(reader, blob, path), blob)
            copied.add((blob.type, blob.fields))
    return [blob for blob in earlier.blob_metadata if (blob.type, tuple(blob.fields)) in copied]


def _stored(reader: PuffinReader, blob: BlobMetadata, path: str) -> Iterator[bytes]:
    with _reading(path):
        yield from parts_of(reader.ranges_of(blob), blob.length)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Tells errors of the earlier file from those of the new one."""
    try:
        yield
    except (PuffinFastError, OSError) as error:
        if is_from_outside(error):
            raise
        raise _UnreadError(f"{path}: its other blobs are not kept: {error}") from error
