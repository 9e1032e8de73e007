"""Statistics files in place of earlier ones: other blobs are copied, and the table's metadata names what it named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.table.statistics import StatisticsFile

from puffin_fast._run.interrupt import is_from_outside
from puffin_fast.errors import PuffinFastError
from puffin_fast.puffin import BlobMetadata, PuffinReader, PuffinWriter

if TYPE_CHECKING:
    from pyiceberg.io import FileIO


def copy_blobs(
    writer: PuffinWriter,
    io: FileIO,
    earlier: StatisticsFile,
    wanted: Callable[[BlobMetadata], bool],
    notes: list[str],
) -> list[BlobMetadata]:
    """Copies blobs of an earlier statistics file as they are stored.

    Args:
        writer: the writer of the new file.
        io: PyIceberg's file access.
        earlier: the entry of the file in the table's metadata.
        wanted: whether a blob is copied.
        notes: the reason is added to these if the file cannot be read; nothing is then copied.

    Returns:
        The metadata of the copied blobs, in the earlier file.
    """
    path = earlier.statistics_path
    try:
        with PuffinReader(path, filesystem=io, file_size=earlier.file_size_in_bytes) as reader:
            blobs = [(blob, reader.stored(blob)) for blob in reader.blobs if wanted(blob)]
    except (PuffinFastError, OSError) as error:
        if is_from_outside(error):
            raise
        notes.append(f"{path}: its other blobs are not kept: {error}")
        return []
    for blob, data in blobs:
        writer.add_stored(data, blob)
    return [blob for blob, _ in blobs]


def statistics_file(
    path: str, snapshot_id: int, writer: PuffinWriter, blobs: Sequence[Any]
) -> StatisticsFile:
    """Returns the entry of a statistics file in a table's metadata.

    Args:
        path: the path of the file.
        snapshot_id: the id of its snapshot.
        writer: that wrote it.
        blobs: what the metadata says of its blobs.
    """
    return StatisticsFile.model_validate(
        {
            "snapshot-id": snapshot_id,
            "statistics-path": path,
            "file-size-in-bytes": writer.file_size,
            "file-footer-size-in-bytes": writer.footer_size,
            "blob-metadata": blobs,
        }
    )
