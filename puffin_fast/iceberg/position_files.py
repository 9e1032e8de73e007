"""Position-delete files, for tables of format version 2: merge-on-read where nobody can read vectors yet.

A Parquet file with two required columns, ``file_path`` and ``pos``, sorted by both (table specification,
"Position Delete Files"). Property ``write.delete.granularity``:

- ``file``, the default as Spark has it: one file per data file. It takes over what earlier files about this
  data file alone hold, and replaces them.
- ``partition``: as few files as there are partitions; earlier ones stay.
"""

from __future__ import annotations

import struct
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg._changes import Changes, key_of
from puffin_fast.iceberg._current import POS_FIELD
from puffin_fast.iceberg.commit import remove_files
from puffin_fast.iceberg.manifests import ADDED, POSITION_DELETES, ManifestEntry
from puffin_fast.iceberg.plan import FILE_PATH_ID
from puffin_fast.iceberg.project import FIELD_ID
from puffin_fast.iceberg.vectors import (
    NewDeletes,
    VectorChanges,
    replaced,
    target_file_size,
    write_changes,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["count_deletes", "write_deletes"]

GRANULARITY = "write.delete.granularity"

CODECS = ("write.delete.parquet.compression-codec", "write.parquet.compression-codec")
DEFAULT_CODEC = "zstd"

ROW_GROUP_ROWS = 1 << 20

SCHEMA = pa.schema(
    [
        pa.field(
            "file_path",
            pa.dictionary(pa.int32(), pa.string()),
            nullable=False,
            metadata={FIELD_ID: str(FILE_PATH_ID)},
        ),
        pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: str(POS_FIELD)}),
    ]
)

Positions = tuple[str, PositionBitmap]


def count_deletes(deletes: Iterable[NewDeletes]) -> VectorChanges:
    """What `write_deletes` would do, without changes to commit."""
    result = VectorChanges()
    for new in deletes:
        result.rows += new.n_new
        if new.n_new:
            result.dropped += new.drops
            result.by_files += not new.drops
    return result


def write_deletes(table: Table, deletes: Iterable[NewDeletes], **changes: Any) -> VectorChanges:
    """Writes the deletes of one commit: vectors, or position-delete files in a table of format version 2.

    Args:
        table: its location provider names the files.
        deletes: at most one per data file; those without a new position are passed over.
        changes: `matters` and `operation` of `Changes`.

    Returns:
        The changes, empty when no position was new.

    Raises:
        InvalidInputError: property ``write.delete.granularity`` is neither ``file`` nor ``partition``.
    """
    if table.metadata.format_version > 2:
        return write_changes(table, deletes, **changes)
    granularity = table.properties.get(GRANULARITY, "file")
    if granularity not in ("file", "partition"):
        raise InvalidInputError(f"{GRANULARITY}: expected file or partition, found {granularity}")
    result, files = VectorChanges(), _Files(table)
    removed: dict[tuple[str, int | None], ManifestEntry] = {}
    partitions: dict[tuple[int, tuple[Any, ...]], list[Positions]] = defaultdict(list)
    touched = set()
    try:
        for new in deletes:
            if new.n_new == 0:
                continue
            data = new.task.data
            result.rows += new.n_new
            if new.drops:
                result.dropped += 1
                removed[key_of(data)] = data
                removed |= {key_of(entry): entry for entry in replaced(new.task)}
                continue
            assert new.positions is not None
            touched.add(data.file_path)
            result.by_files += 1
            result.merged += bool(new.task.position_deletes)
            if granularity == "file":
                removed |= {key_of(entry): entry for entry in replaced(new.task)}
                files.write([(data.file_path, new.positions)], data.spec_id, data.partition)
            else:
                new_ones = new.positions if new.before is None else new.positions - new.before
                partitions[data.spec_id, data.partition].append((data.file_path, new_ones))
        for (spec_id, partition), positions in partitions.items():
            files.write(sorted(positions, key=_path), spec_id, partition)
        result.position_files = len(files.entries)
        result.n_bytes = sum(entry.file_size_in_bytes for entry in files.entries)
        result.changes = Changes(
            added=tuple(files.entries),
            removed=tuple(removed.values()),
            relied_on=frozenset(touched),
            new_files=tuple(files.written),
            **changes,
        )
    except BaseException:
        remove_files(table.io, files.written)
        raise
    return result


def _path(positions: Positions) -> bytes:
    return positions[0].encode()


@dataclass
class _Files:
    """Position-delete files being written.

    Attributes:
        written: the path of each, before it is written.
        entries: of those that are.
    """

    table: Table
    written: list[str] = field(default_factory=list)
    entries: list[ManifestEntry] = field(default_factory=list)
    _name: uuid.UUID = field(default_factory=uuid.uuid4)

    def write(self, positions: Iterable[Positions], spec_id: int, partition: tuple[Any, ...]) -> None:
        """Writes the positions of data files of one partition, sorted by path, as one file or several."""
        batches, limit = _batches(positions), target_file_size(self.table)
        properties = self.table.properties
        codec = next((properties[name] for name in CODECS if name in properties), DEFAULT_CODEC)
        ahead = next(batches, None)
        while ahead is not None:
            path = self.table.location_provider().new_data_location(
                f"{self._name}-{len(self.written):05d}-deletes.parquet"
            )
            self.written.append(path)
            footers: list[pq.FileMetaData] = []
            with self.table.io.new_output(path).create() as stream:
                with pq.ParquetWriter(
                    stream,
                    SCHEMA,
                    compression="none" if codec == "uncompressed" else codec,
                    use_dictionary=["file_path"],
                    store_schema=False,
                    metadata_collector=footers,
                ) as writer:
                    bounds = _Bounds()
                    while ahead is not None and (not bounds.n_rows or stream.tell() < limit):
                        writer.write_batch(ahead, row_group_size=ROW_GROUP_ROWS)
                        bounds.add(ahead)
                        ahead = next(batches, None)
                size = stream.tell()
            self.entries.append(_entry(path, size, footers[0], bounds, spec_id, partition))


class _Bounds:
    """The lowest and highest path and position of a file."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.paths: list[str] = []
        self.positions: list[int] = []

    def add(self, batch: pa.RecordBatch) -> None:
        paths, positions = batch.columns
        self.n_rows += batch.num_rows
        self.paths += [paths[0].as_py(), paths[-1].as_py()]
        numbers = positions.to_numpy()
        self.positions += [int(numbers.min()), int(numbers.max())]


def _batches(positions: Iterable[Positions]) -> Iterator[pa.RecordBatch]:
    """Batches of one row group each, sorted as the positions come."""
    paths: list[str] = []
    parts: list[pa.Array] = []
    n_rows = 0

    def batch() -> pa.RecordBatch:
        lengths = [len(part) for part in parts]
        indices = pa.concat_arrays([pa.repeat(pa.scalar(at, pa.int32()), n) for at, n in enumerate(lengths)])
        column = pa.DictionaryArray.from_arrays(indices, pa.array(paths, pa.string()))
        return pa.RecordBatch.from_arrays([column, pa.concat_arrays(parts)], schema=SCHEMA)

    for path, bitmap in positions:
        rest = bitmap.to_arrow()
        while len(rest):
            part = rest[: ROW_GROUP_ROWS - n_rows]
            paths.append(path)
            parts.append(part)
            n_rows += len(part)
            rest = rest[len(part) :]
            if n_rows == ROW_GROUP_ROWS:
                yield batch()
                paths, parts, n_rows = [], [], 0
    if n_rows:
        yield batch()


def _entry(
    path: str, size: int, footer: pq.FileMetaData, bounds: _Bounds, spec_id: int, partition: tuple[Any, ...]
) -> ManifestEntry:
    """The entry of a new file; bounds of paths are never cut short: equal ones name the only data file."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    sizes = [sum(group.column(at).total_compressed_size for group in groups) for at in range(2)]
    lowest, highest = min(bounds.paths), max(bounds.paths)
    low, high = (struct.pack("<q", pick(bounds.positions)) for pick in (min, max))
    ids = (FILE_PATH_ID, POS_FIELD)
    return ManifestEntry(
        status=ADDED,
        snapshot_id=None,
        sequence_number=None,
        file_sequence_number=None,
        content=POSITION_DELETES,
        file_path=path,
        file_format="PARQUET",
        spec_id=spec_id,
        partition=partition,
        record_count=bounds.n_rows,
        file_size_in_bytes=size,
        column_sizes=dict(zip(ids, sizes, strict=True)),
        value_counts=dict.fromkeys(ids, bounds.n_rows),
        null_value_counts=dict.fromkeys(ids, 0),
        lower_bounds={FILE_PATH_ID: lowest.encode(), POS_FIELD: low},
        upper_bounds={FILE_PATH_ID: highest.encode(), POS_FIELD: high},
        split_offsets=[_offset(group.column(0)) for group in groups],
        referenced_data_file=lowest if lowest == highest else None,
    )


def _offset(column: Any) -> int:
    pages = (column.data_page_offset, column.dictionary_page_offset)
    return min(int(page) for page in pages if page is not None)
