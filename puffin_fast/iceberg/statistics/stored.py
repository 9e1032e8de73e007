"""Reads the statistics files in a table's metadata, and their theta sketches.

A snapshot has at most one statistics file. Of several theta blobs for one field, the first is used. Some planners fail
if there are two, so one is written. A blob's properties are ``ndv`` (the Puffin specification's), and two of this
package's: `WRITER` and `UPPER_BOUND`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.errors import PuffinFastError, UnsupportedError
from puffin_fast.puffin import BlobMetadata as PuffinBlob
from puffin_fast.puffin import PuffinReader
from puffin_fast.puffin.writer import CREATED_BY
from puffin_fast.theta import BLOB_TYPE, ThetaSketch

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.statistics import StatisticsFile

NDV = "ndv"
"""Property of a theta blob: the estimate as an integer (Puffin specification)."""

OWN_WRITER = "puffin_fast"
"""The beginning of `created-by` of this package."""

UPPER_BOUND = "puffin-fast.upper-bound"
"""Property of a blob: ``true`` if rows were deleted after their values were counted."""

WRITER = "puffin-fast.writer"
"""Property of a blob that came from another file: that file's ``created-by``."""

_MAX_BLOB_BYTES = 64 << 20
"""A sketch with 4096 hashes has 32 KiB; other writers may keep up to 2^26 bytes of hashes (lgK 23)."""


@dataclass(frozen=True)
class StoredSketch:
    """One theta blob of a statistics file.

    Attributes:
        field_id: the field id of the column.
        sketch: the sketch of its values.
        snapshot_id: the snapshot that it was computed from.
        sequence_number: the sequence number of that snapshot.
        upper_bound: whether rows were deleted after their values were counted.
        writer: the application that computed it.
        properties: the properties of the blob.
    """

    field_id: int
    sketch: ThetaSketch
    snapshot_id: int
    sequence_number: int
    upper_bound: bool
    writer: str
    properties: Mapping[str, str] = field(default_factory=dict)


def hashed_type(metadata: TableMetadata, stored: StoredSketch) -> str | None:
    """Returns the type in which a sketch's values were hashed: that of the column in the snapshot; None if it is
    unknown."""
    types = {
        schema.schema_id: str(schema.find_type(stored.field_id))
        for schema in metadata.schemas
        if schema.find_column_name(stored.field_id) is not None
    }
    snapshot = metadata.snapshot_by_id(stored.snapshot_id)
    if snapshot is not None and snapshot.schema_id is not None:
        return types.get(snapshot.schema_id)
    return next(iter(types.values())) if len(set(types.values())) == 1 else None


def named_fields(statistics: StatisticsFile) -> set[int]:
    """Returns the field ids for which a statistics file has a theta blob, by the table's metadata."""
    return {
        blob.fields[0]
        for blob in statistics.blob_metadata
        if blob.type == BLOB_TYPE and len(blob.fields) == 1
    }


def load_sketches(
    io: FileIO, statistics: StatisticsFile, field_ids: Iterable[int] | None = None
) -> dict[int, StoredSketch]:
    """Reads the sketches of a statistics file, by field id.

    Args:
        statistics: its entry in the table's metadata.
        field_ids: the field ids of the sketches; all by default.

    Raises:
        NotFoundError: the file does not exist.
        CorruptDataError: the file is not a Puffin file, or a sketch is not well-formed.
        UnsupportedError: a sketch has another kind.
        LimitExceededError: a blob or sketch is too large.
        PuffinFastError: the file cannot be read.
    """
    path, wanted = statistics.statistics_path, None if field_ids is None else set(field_ids)
    if statistics.key_metadata is not None:
        raise UnsupportedError(f"{path}: an encrypted statistics file")
    found: dict[int, StoredSketch] = {}
    try:
        with PuffinReader(path, filesystem=io, max_blob_bytes=_MAX_BLOB_BYTES) as reader:
            created_by = reader.metadata.properties.get(CREATED_BY, "unknown")
            chosen: dict[int, PuffinBlob] = {}
            for blob in reader.blobs:
                if (
                    blob.type == BLOB_TYPE
                    and len(blob.fields) == 1
                    and (wanted is None or blob.fields[0] in wanted)
                ):
                    chosen.setdefault(blob.fields[0], blob)
            for blob, data in reader.read_many(chosen.values()):
                sketch = ThetaSketch.from_bytes(data, path=f"{path}: blob of field {blob.fields[0]}")
                found[blob.fields[0]] = StoredSketch(
                    blob.fields[0],
                    sketch,
                    blob.snapshot_id,
                    blob.sequence_number,
                    blob.properties.get(UPPER_BOUND) == "true",
                    blob.properties.get(WRITER, created_by),
                    blob.properties,
                )
    except OSError as error:
        if is_from_outside(error):
            raise
        raise PuffinFastError(f"{path}: could not be read: {error}") from error
    return found
