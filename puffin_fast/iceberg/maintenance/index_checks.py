"""Checks the key indexes of a snapshot: their bytes, and at level "rows" their keys against the data files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.errors import PuffinFastError
from puffin_fast.iceberg.index.segment_maker import covered, key_words
from puffin_fast.iceberg.index.stored import StoredSegment, indexed, is_segment, new_segment
from puffin_fast.key_index import KeyWords
from puffin_fast.key_index import kind_of as form_of
from puffin_fast.puffin import PuffinReader
from puffin_fast.puffin.finding import CORRUPT, MISMATCH, Finding, kind_of
from puffin_fast.rows.files.conversion import storage_type
from puffin_fast.rows.files.reader import DataFiles

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.statistics import StatisticsFile

    from puffin_fast.iceberg.manifest import ManifestEntry
    from puffin_fast.rows.findings import Level


def check_key_indexes(
    table: Table, snapshot: Snapshot | None, live: Sequence[ManifestEntry], level: Level
) -> Iterator[Finding]:
    """Checks the segments that plans of a snapshot may use.

    Args:
        live: its data files.
        level: "rows" compares the keys of the covered data files with their rows; "metadata" reads no block.
    """
    if snapshot is None:
        return
    files = {data.file_path: data for data in live}
    for _, statistics in indexed(table.metadata, snapshot):
        found = _check_file(table.io, statistics, blocks=level != "metadata")
        for item in found:
            if isinstance(item, Finding):
                yield item
            elif level == "rows":
                yield from _check_keys(table, item, files, statistics.statistics_path)


def _check_file(io: FileIO, statistics: StatisticsFile, *, blocks: bool) -> Iterator[Finding | StoredSegment]:
    """Yields what is wrong with a statistics file, and its sound segments while it is open."""
    path, size = statistics.statistics_path, statistics.file_size_in_bytes
    try:
        reader = PuffinReader(path, filesystem=io, file_size=size)
    except (PuffinFastError, OSError) as error:
        yield _unreadable(error, path, None)
        return
    with reader:
        for blob in filter(is_segment, reader.blobs):
            try:
                read = reader.ranges_of(blob)
                segment = new_segment(read, path, blob)
                if blocks:
                    segment.check(read)
            except (PuffinFastError, OSError) as error:
                yield _unreadable(error, path, blob.offset)
                continue
            yield StoredSegment(blob, segment, read)


def _unreadable(error: PuffinFastError | OSError, path: str, offset: int | None) -> Finding:
    if isinstance(error, PuffinFastError):
        return Finding(kind_of(error), None, path, offset, str(error))
    if is_from_outside(error):
        raise error
    return Finding(CORRUPT, None, path, offset, f"{path}: {error}")


def _check_keys(
    table: Table, stored: StoredSegment, files: dict[str, ManifestEntry], path: str
) -> Iterator[Finding]:
    schema, segment = table.schema(), stored.segment
    if any(schema.find_column_name(field_id) is None for field_id in stored.blob.fields):
        return
    fields = [schema.find_field(field_id) for field_id in stored.blob.fields]
    if not segment.may_hold(tuple(form_of(storage_type(field.field_type)) for field in fields)):
        return  # no plan uses it
    reader = DataFiles(table.io, table.metadata, schema, stored.blob.fields)
    try:
        for file, keys in segment.keys_by_file(stored.read):
            data = files.get(file.location)
            if data is None or covered(data) != file:
                continue
            try:
                found = key_words(reader, data, stored.blob.fields, segment.kinds)
            except PuffinFastError:
                continue  # reported by a finding of its own
            if found is None:
                continue
            number = segment.numbers[file.location]
            same = (number in segment.stored_row_ids) == found.has_row_ids
            same = same and [*segment.pages[number]] in ([], [*found.pages])
            if not (same and _same(keys, found.words, segment.cut_bits)):
                message = (
                    f"{path}: offset {stored.blob.offset}: expected the keys of {file.location}, found others"
                )
                yield Finding(MISMATCH, file.location, path, stored.blob.offset, message)
    except PuffinFastError as error:
        yield _unreadable(error, path, stored.blob.offset)


def _same(keys: KeyWords, parts: Sequence[KeyWords], cut_bits: int) -> bool:
    """Whether the keys of a segment are those of a data file, whose hashes have more bits."""
    whole = KeyWords.joined(parts)
    words = whole.words >> np.uint64(cut_bits) if cut_bits else whole.words
    rows, known = (np.arange(part.n_rows) if part.rows is None else part.rows for part in (whole, keys))
    return bool(np.array_equal(words, keys.words) and np.array_equal(rows, known))
