"""The functions that `accelerate` installs in PyIceberg's scans; uses private parts of PyIceberg.

PyIceberg 0.12 plans and reads deletion vectors slowly, and not always correctly:

- it reads delete manifests without the fields of version 3. It cannot identify the referenced blob of a
  Puffin file, decodes all blobs, and applies superseded vectors too;
- it applies vectors without bounds to a whole partition, and applies position deletes that a vector
  supersedes;
- it builds Python lists of positions, and hashes all of them again for every batch.

Each function here accepts what PyIceberg's original functions return, and the original functions accept its
results: a scan that runs while another thread calls `accelerate` is correct, or raises. Pruning, projection,
residuals, filters and limits stay PyIceberg's, but for scans of structs that have a field with an initial default:
PyIceberg's filters take the default where the struct is null, too.

No release of PyIceberg ends this: 0.12.0 and its main branch of August 2026 plan and read so. Issue 1551 of iceberg-
python collects what version 3 lacks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyiceberg.io.pyarrow as _reading
import pyiceberg.table as _planning
import pyiceberg.table.deletion_vector as _vectors
from pyiceberg.avro.file import AvroFile
from pyiceberg.expressions.visitors import extract_field_ids, translate_column_names
from pyiceberg.io.pyarrow import _combine_positional_deletes, _read_all_delete_files, _read_deletes
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    _inherit_from_manifest,
)
from pyiceberg.schema import index_by_id
from pyiceberg.table import _open_manifest, _rest_file_to_data_file
from pyiceberg.table.delete_file_index import DeleteFileIndex
from pyiceberg.typedef import Record

from puffin_fast.acceleration import Patch
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.columns.row_selection import LiveRows, select_rows
from puffin_fast.dv import iceberg as codec
from puffin_fast.errors import CorruptDataError, UnsupportedError
from puffin_fast.iceberg import manifest
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.puffin import PuffinReader
from puffin_fast.puffin.vectors import REFERENCED_DATA_FILE, read_ranges
from puffin_fast.rows.deletes.loader import DeleteLoader, read_entry, within
from puffin_fast.rows.files.conversion import arrow_schema
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.scan.file_reader import FileReader
from puffin_fast.rows.scan.splits import Split

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.io.pyarrow import ArrowScan
    from pyiceberg.table import FileScanTask

_V3_SCHEMA = MANIFEST_ENTRY_SCHEMAS[3]
_V3_FIELDS = {field.name: at for at, field in enumerate(DATA_FILE_TYPE[3].fields)}
_NAN = float("nan")


# --- planning -----------------------------------------------------------------------------------------------


class _DeleteFile(DataFile):
    """A delete file with the fields of version 3, under the names that Polars uses too."""

    @property
    def referenced_data_file(self) -> str | None:
        value: str | None = self._data[_V3_FIELDS["referenced_data_file"]]
        return value

    @property
    def content_offset(self) -> int | None:
        value: int | None = self._data[_V3_FIELDS["content_offset"]]
        return value

    @property
    def content_size_in_bytes(self) -> int | None:
        value: int | None = self._data[_V3_FIELDS["content_size_in_bytes"]]
        return value

    # PyIceberg puts delete files into sets, and compares them by path only
    def __eq__(self, other: Any) -> bool:
        return (
            isinstance(other, _DeleteFile)
            and self.file_path == other.file_path
            and self.content_offset == other.content_offset
        )

    def __hash__(self) -> int:
        return hash((self.file_path, self.content_offset))


def _open_manifest_v3(
    io: FileIO,
    manifest: ManifestFile,
    partition_filter: Callable[[DataFile], bool],
    metrics_evaluator: Callable[[DataFile], bool],
) -> list[ManifestEntry]:
    """Replaces `_open_manifest`: entries of delete manifests have the blob's range and the referenced data file."""
    if manifest.content != ManifestContent.DELETES:
        return _open_manifest(io, manifest, partition_filter, metrics_evaluator)
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        _V3_SCHEMA,
        read_types={-1: ManifestEntry, 2: _DeleteFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        live = [
            _inherit_from_manifest(entry, manifest)
            for entry in reader
            if entry.status != ManifestEntryStatus.DELETED
        ]
    # a deletion vector has no metrics of the filter's columns
    return [
        entry
        for entry in live
        if partition_filter(entry.data_file)
        and (entry.data_file.file_format == FileFormat.PUFFIN or metrics_evaluator(entry.data_file))
    ]


def _rest_file_v3(rest_file: Any) -> DataFile:
    """Replaces `_rest_file_to_data_file`: adds the same fields to delete files of a plan made by a REST catalog."""
    file = _rest_file_to_data_file(rest_file)
    from pyiceberg.catalog.rest.scan_planning import RESTPositionDeleteFile  # it imports the client of REST

    if not isinstance(rest_file, RESTPositionDeleteFile):
        return file
    values = [*file._data, *[None] * (len(_V3_FIELDS) - len(file))]
    for name in ("referenced_data_file", "content_offset", "content_size_in_bytes"):
        values[_V3_FIELDS[name]] = getattr(rest_file, name)
    result = _DeleteFile(*values)
    result.spec_id = file.spec_id
    return result


class _VectorIndex(DeleteFileIndex):
    """Replaces `DeleteFileIndex`: a vector applies to its referenced data file, and supersedes position deletes."""

    def __init__(self) -> None:
        super().__init__()
        self._by_data_file: dict[str, tuple[_DeleteFile, int]] = {}

    def is_empty(self) -> bool:
        return not self._by_data_file and super().is_empty()

    def add_delete_file(self, manifest_entry: ManifestEntry, partition_key: Record | None = None) -> None:
        file = manifest_entry.data_file
        if isinstance(file, _DeleteFile) and file.file_format == FileFormat.PUFFIN:
            path = file.referenced_data_file
            if path is None:
                raise CorruptDataError("deletion vector without referenced-data-file", path=file.file_path)
            if path in self._by_data_file:
                raise _two_vectors(path, (self._by_data_file[path][0], file))
            self._by_data_file[path] = file, manifest_entry.sequence_number or 0
        else:
            super().add_delete_file(manifest_entry, _same_nan(partition_key))

    def for_data_file(
        self, seq_num: int, data_file: DataFile, partition_key: Record | None = None
    ) -> set[DataFile]:
        vector, sequence_number = self._by_data_file.get(data_file.file_path, (None, 0))
        if vector is not None and sequence_number >= seq_num:
            return {vector}
        return super().for_data_file(seq_num, data_file, _same_nan(partition_key))

    def referenced_delete_files(self) -> list[DataFile]:
        return [*super().referenced_delete_files(), *(file for file, _ in self._by_data_file.values())]


def _same_nan(partition: Record | None) -> Record | None:
    """The partition with NaN values replaced by one NaN object: a dict key with NaN equals only the same object."""
    if partition is None or all(value == value for value in partition._data):
        return partition
    return Record(*[value if value == value else _NAN for value in partition._data])


def _two_vectors(path: str, files: Iterable[DataFile]) -> CorruptDataError:
    where = " and ".join(f"{f.file_path} offset {getattr(f, 'content_offset', None)}" for f in files)
    return CorruptDataError(f"two deletion vectors for one data file: {where}", path=path)


# --- reading ------------------------------------------------------------------------------------------------


class _Positions(Sequence[pa.ChunkedArray]):
    """The deleted positions of one data file. PyIceberg's original function sees a list of one array of positions."""

    def __init__(self, deleted: PositionBitmap, task: FileScanTask) -> None:
        self.bitmap, self._path = deleted, task.file.file_path

        self._live = LiveRows(deleted, task.file.record_count)

    def live_rows(self, start: int, stop: int) -> pa.Int32Array:
        """Returns the indexes of the live rows among rows start … stop - 1, relative to `start`."""
        if stop > len(self._live):
            raise CorruptDataError(
                "rows of a data file",
                path=self._path,
                expected=f"{len(self._live)} (manifest)",
                found=f"at least {stop}",
            )
        return pa.array(select_rows(self._live.slice(start, stop - start)))

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: Any) -> Any:
        return [pa.chunked_array([self.bitmap.to_arrow()])][index]


class _Deletes(Mapping[str, _Positions]):
    """Deleted positions by data file, loaded on access: in PyIceberg's threads, and not after a limit is reached."""

    def __init__(self, io: FileIO, tasks: Iterable[FileScanTask]) -> None:
        self._io = io
        self._current = DeleteLoader(io)
        self._tasks = {task.file.file_path: task for task in tasks if task.delete_files}
        self._lock = threading.Lock()
        self._others: dict[str, Mapping[str, PositionBitmap]] = {}

    def __getitem__(self, path: str) -> _Positions:
        task = self._tasks[path]
        deleted = self._load(path, task)
        if not deleted:
            raise KeyError(path)
        return _Positions(within(deleted, _entry(task.file), map(_entry, task.delete_files)), task)

    def __iter__(self) -> Any:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def _load(self, path: str, task: FileScanTask) -> PositionBitmap:
        puffins = [file for file in task.delete_files if file.file_format == FileFormat.PUFFIN]
        vector = self._vector(path, puffins)
        if vector is not None:
            return vector
        rest = [file for file in task.delete_files if file.file_format != FileFormat.PUFFIN]
        entries = [_entry(file) for file in rest if file.file_format == FileFormat.PARQUET]
        others = [self._other(file).get(path) for file in rest if file.file_format != FileFormat.PARQUET]
        found = [self._current.by_files(path, entries), *(part for part in others if part is not None)]
        return PositionBitmap.union_all(found)

    def _vector(self, path: str, puffins: Sequence[DataFile]) -> PositionBitmap | None:
        """Returns the deletion vector of a data file among the Puffin files of its plan; None if there is none.

        Raises:
            CorruptDataError: there are two vectors for the data file.
            UnsupportedError: the plan does not identify one of several vectors.
        """
        # PyIceberg's original index also returns the vectors of other data files
        located = [
            file
            for file in puffins
            if isinstance(file, _DeleteFile) and file.referenced_data_file in (path, None)
        ]
        if len(located) > 1:
            raise _two_vectors(path, located)
        if located:
            return read_entry(self._io, _entry(located[0]))
        # planned by the original functions: only the footers name the data file, and not whether a vector is superseded
        found = []
        for file in (file for file in puffins if not isinstance(file, _DeleteFile)):
            with PuffinReader(file.file_path, filesystem=self._io) as reader:
                found += [
                    (file.file_path, blob.offset, blob.length)
                    for blob in reader.blobs
                    if blob.type == codec.BLOB_TYPE and blob.properties.get(REFERENCED_DATA_FILE) == path
                ]
        if len(found) > 1:
            raise UnsupportedError(
                f"{path}: planned before accelerate(): expected one deletion vector, found {len(found)}; plan again"
            )
        for puffin, offset, length in found:
            ((_, vector),) = read_ranges(puffin, [(offset, length, None)], filesystem=self._io)
            return vector
        return None

    def _other(self, file: DataFile) -> Mapping[str, PositionBitmap]:
        """Position deletes of another format than Parquet, read by PyIceberg."""
        with self._lock:
            if file.file_path not in self._others:
                self._others[file.file_path] = {
                    path: PositionBitmap.from_positions(positions)
                    for path, positions in _read_deletes(self._io, file).items()
                }
            return self._others[file.file_path]


def _entry(file: DataFile) -> manifest.ManifestEntry:
    """The facts of a file that reading needs, as a manifest entry of this package."""
    v3 = {
        name: getattr(file, name, None)
        for name in ("referenced_data_file", "content_offset", "content_size_in_bytes")
    }
    return manifest.ManifestEntry(
        status=manifest.EXISTING,
        snapshot_id=None,
        sequence_number=None,
        file_sequence_number=None,
        content=int(file.content),
        file_path=file.file_path,
        file_format=file.file_format.value,
        spec_id=0,
        partition=(),
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        lower_bounds=file.lower_bounds,
        upper_bounds=file.upper_bounds,
        **v3,
    )


def _read_all_deletes(io: FileIO, tasks: Iterable[FileScanTask]) -> Mapping[str, Sequence[pa.ChunkedArray]]:
    """Replaces `_read_all_delete_files`. Tasks made by hand, without row counts, are passed to the original."""
    tasks = list(tasks)
    files = [file for task in tasks if task.delete_files for file in (task.file, *task.delete_files)]
    if any(file.record_count is None for file in files):
        return _read_all_delete_files(io, tasks)
    return _Deletes(io, tasks)


def _live_positions(
    positional_deletes: Sequence[pa.ChunkedArray], start_index: int, end_index: int
) -> pa.Array:
    """Replaces `_combine_positional_deletes`, which hashes all positions for each batch."""
    if isinstance(positional_deletes, _Positions):
        return positional_deletes.live_rows(start_index, end_index)
    return _combine_positional_deletes(list(positional_deletes), start_index, end_index)


_read_rows = _reading.ArrowScan._record_batches_from_scan_tasks_and_deletes


def _rows_of_scan(
    self: ArrowScan, tasks: Iterable[FileScanTask], deletes_per_file: Any
) -> Iterator[pa.RecordBatch]:
    """Replaces `ArrowScan._record_batches_from_scan_tasks_and_deletes`: see the head of the module."""
    ours = isinstance(deletes_per_file, _Deletes) and not self._dictionary_columns
    if not (ours and _has_default_in_struct(self)):
        yield from _read_rows(self, tasks, deletes_per_file)
        return
    metadata, fields = self._table_metadata, self._projected_schema.fields
    schema, arrow = metadata.schema(), arrow_schema(self._projected_schema)
    row_filter = RowFilter.bind(translate_column_names(self._bound_row_filter, schema, True), schema)
    reader = FileReader(self._io, metadata, schema, fields, (), row_filter, arrow, file_types=True)
    left = self._limit
    for task in tasks:
        partition = tuple(task.file.partition._data)
        data, live = replace(_entry(task.file), spec_id=task.file.spec_id, partition=partition), None
        if (deleted := deletes_per_file.get(data.file_path)) is not None:
            live = PositionBitmap.from_range(0, data.record_count) - deleted.bitmap
        for batch in reader.read(Split.of(FileTask(data, chosen=live), 0, 1)):
            if left is not None:
                batch = batch.slice(0, left)
                left -= len(batch)
            yield batch
            if left == 0:
                return


def _has_default_in_struct(scan: ArrowScan) -> bool:
    """Whether a scan reads a field of a struct that has an initial default."""
    projected, table = scan._projected_schema, scan._table_metadata.schema()
    fields = [
        *index_by_id(projected).values(),
        *map(table.find_field, extract_field_ids(scan._bound_row_filter)),
    ]
    tops = {field.field_id for field in (*projected.fields, *table.fields)}
    return any(field.initial_default is not None and field.field_id not in tops for field in fields)


# --- Polars -------------------------------------------------------------------------------------------------

_deserialize_bitmap = _vectors.DeletionVector._deserialize_bitmap
_bitmaps_to_chunked_array = _vectors.DeletionVector._bitmaps_to_chunked_array


class _CheckedPayload(bytes):
    """The bytes of a bitmap that was decoded."""

    bitmap: PositionBitmap


def _checked_payload(blob_payload: bytes) -> bytes:
    """Replaces `_extract_vector_payload`: checks magic, length and checksum."""
    bitmap = codec.decode(blob_payload)
    payload = _CheckedPayload(bitmap.to_bytes())
    payload.bitmap = bitmap
    return payload


def _one_bitmap(pl: bytes) -> list[Any]:
    """Replaces `DeletionVector._deserialize_bitmap`: returns all 64-bit positions as the bitmap of key 0."""
    return [pl.bitmap] if isinstance(pl, _CheckedPayload) else _deserialize_bitmap(pl)


def _to_chunked_array(bitmaps: Any) -> pa.ChunkedArray:
    """Replaces `DeletionVector._bitmaps_to_chunked_array`."""
    if len(bitmaps) == 1 and isinstance(bitmaps[0], PositionBitmap):
        return pa.chunked_array([bitmaps[0].to_arrow()])
    return _bitmaps_to_chunked_array(bitmaps)


# --- replaced functions -------------------------------------------------------------------------------------


PATCHES = (
    Patch(
        _planning,
        "_open_manifest",
        _open_manifest_v3,
        ("io", "manifest", "partition_filter", "metrics_evaluator"),
    ),
    Patch(_planning, "DeleteFileIndex", _VectorIndex, ()),
    Patch(_planning, "_rest_file_to_data_file", _rest_file_v3, ("rest_file",)),
    Patch(_reading, "_read_all_delete_files", _read_all_deletes, ("io", "tasks")),
    Patch(
        _reading,
        "_combine_positional_deletes",
        _live_positions,
        ("positional_deletes", "start_index", "end_index"),
    ),
    Patch(
        _reading.ArrowScan,
        "_record_batches_from_scan_tasks_and_deletes",
        _rows_of_scan,
        ("self", "tasks", "deletes_per_file"),
    ),
    Patch(_vectors, "_extract_vector_payload", _checked_payload, ("blob_payload",)),
    Patch(_vectors.DeletionVector, "_deserialize_bitmap", staticmethod(_one_bitmap), ("pl",)),
    Patch(
        _vectors.DeletionVector, "_bitmaps_to_chunked_array", staticmethod(_to_chunked_array), ("bitmaps",)
    ),
)
