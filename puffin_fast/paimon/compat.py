"""The private parts of pypaimon that this package uses: planning, index files, commits, and deletion vectors in scans.

pypaimon (`KNOWN_VERSIONS`) has no public API for deletion vectors. Other modules use `WorkingTable` and `patches`. More
than 400 lines, so that a new version of pypaimon requires changes in this file only.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import pyarrow as pa

from puffin_fast._io import Source, open_source
from puffin_fast._io.location import errors_of, folder_of
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast._process.outcome import note_outcome, nothing_committed
from puffin_fast.acceleration import Patch, Patches
from puffin_fast.avro.file import AVRO_ERRORS
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import paimon as codec
from puffin_fast.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptDataError,
    InvalidInputError,
    MissingExtraError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)
from puffin_fast.limits import check_metadata_size
from puffin_fast.paimon.index_manifest import VectorsFile, index_manifest_of, live_files, read_record
from puffin_fast.paimon.snapshot_files import SnapshotFiles, SnapshotRefusedError

KNOWN_VERSIONS = ("2.1",)

Group = tuple[bytes, int]
"""Partition, in the bytes by which Java compares it, and bucket: what an index file belongs to."""

_ADD, _DELETE = 0, 1
_OF_A_SNAPSHOT = (
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.timestamp",
    "scan.timestamp-millis",
    "scan.version",
    "scan.watermark",
)
"""The options that open a table at one of its snapshots."""
_OF_A_RANGE = ("incremental-between-timestamp", "scan.creation-time-millis", "scan.file-creation-time-millis")
"""The options that select data files by the time at which they were added."""
_NOT_THERE = re.compile(r"doesn't exist|^No snapshot found|^Cannot find")


def _part(module: str, name: str) -> Any:
    """Imports a class or function of pypaimon.

    Raises:
        MissingExtraError: pypaimon is not installed.
    """
    try:
        return getattr(importlib.import_module(f"pypaimon.{module}" if module else "pypaimon"), name)
    except ModuleNotFoundError as error:
        raise MissingExtraError((error.name or "pypaimon").partition(".")[0], extra="pypaimon") from error


def check_version() -> str:
    """Returns the version of pypaimon.

    Raises:
        MissingExtraError: it is not installed.
        UnsupportedError: this version is not supported.
    """
    _part("", "CatalogFactory")
    version = metadata.version("pypaimon")
    if ".".join(version.split(".")[:2]) not in KNOWN_VERSIONS:
        raise UnsupportedError(
            f"pypaimon {version}: expected {' or '.join(f'{known}.x' for known in KNOWN_VERSIONS)}, "
            "whose private parts are known"
        )
    return version


# Partitions --------------------------------------------------------------------------------------------------

# For a null of DECIMAL above 18 or TIMESTAMP above 3 digits, Java writes other bytes than pypaimon, and Java compares
# bytes: it would not find the vectors of a partition that pypaimon has read and written again.


def _row_patches() -> Sequence[Patch]:
    """Returns the patches by which rows that were read are written in the same bytes."""
    parser, writer = (
        _part("table.row.generic_row", f"GenericRow{name}") for name in ("Deserializer", "Serializer")
    )
    parse, write = parser.from_bytes, writer.to_bytes

    def from_bytes(bytes_data: bytes, data_fields: Any) -> Any:
        row = parse(bytes_data, data_fields)
        row.stored = bytes(bytes_data)
        return row

    def to_bytes(row: Any) -> bytes:
        kept: bytes = getattr(row, "stored", b"") or write(row)
        return kept

    return (
        Patch(parser, "from_bytes", staticmethod(from_bytes), ("bytes_data", "data_fields")),
        Patch(writer, "to_bytes", staticmethod(to_bytes), ("row",)),
    )


_SAME_BYTES = Patches("pypaimon", _row_patches)


# Tables ------------------------------------------------------------------------------------------------------


class _InGroup:
    """What has a partition, a row of pypaimon that keeps its bytes, and a bucket."""

    partition: Any
    bucket: int

    @property
    def group(self) -> Group:
        """Partition and bucket, as Java compares them."""
        return self.partition.stored, self.bucket

    @property
    def values(self) -> tuple[Any, ...]:
        """The partition's values."""
        return tuple(self.partition.values)


@dataclass(frozen=True, eq=False)
class DataFile(_InGroup):
    """A data file of a plan.

    Attributes:
        partition, bucket: the partition and bucket of its entry in a manifest.
        name: the name of the file.
        n_rows: its number of rows, deleted ones included.
        path: its location.
        split: reads all its rows, without deletion vectors.
    """

    partition: Any
    bucket: int
    name: str
    n_rows: int
    path: str
    split: Any


@dataclass(frozen=True, eq=False)
class IndexFile(_InGroup):
    """An index file of deletion vectors.

    Attributes:
        partition, bucket: the partition and bucket of its data files.
        meta: pypaimon's object for it.
        path: its location.
    """

    partition: Any
    bucket: int
    meta: Any
    path: str

    @property
    def ranges(self) -> dict[str, Any]:
        """The range of each data file's vector."""
        return dict(self.meta.dv_ranges)

    def entry(self, kind: int) -> Any:
        """Returns an entry of an index manifest."""
        make = _part("manifest.index_manifest_entry", "IndexManifestEntry")
        return make(kind=kind, partition=self.partition, bucket=self.bucket, index_file=self.meta)


@dataclass(frozen=True)
class StoredVector:
    """A vector as it is stored.

    Attributes:
        record: its bytes.
        positions: the deleted positions.
    """

    record: bytes
    positions: PositionBitmap


def _given(table: Any, options: Sequence[str]) -> str:
    given = table.options.options.to_map()
    return ", ".join(f"{name} = {given[name]}" for name in options if given.get(name) is not None)


def opened_with(table: Any) -> str:
    """The scan options with which pypaimon opened a table at an older state; an empty text if it is at the newest."""
    is_empty = getattr(table, "_read_snapshot", table) is None  # pinned while it had no snapshot
    return _given(table, _OF_A_SNAPSHOT + _OF_A_RANGE) or "no snapshot" * is_empty


def opened_snapshot(table: Any) -> tuple[dict[str, Any], str] | None:
    """The document of the snapshot at which pypaimon opened a table, and where it is from; None at the newest.

    A tag has its own document: its snapshot may be expired.

    Raises:
        NotFoundError: there is no such tag or snapshot.
        InvalidInputError: a value of a scan option is invalid, or there are several.
        UnsupportedError: a scan option selects no single snapshot.
        CorruptDataError: the document is damaged.
    """
    path = str(table.table_path)
    if ranges := _given(table, _OF_A_RANGE):
        raise UnsupportedError(
            f"{path}: opened with {ranges}, which selects no single snapshot: give snapshot_id, or open it without"
        )
    if not (state := opened_with(table)):
        return None
    travel, to_json = (
        _part("snapshot.time_travel_util", "TimeTravelUtil"),
        _part("common.json_util", "JSON").to_json,
    )
    where = f"{path}, opened with {state}"
    with _parsing("snapshot of a Paimon table", where), errors_of(path):
        try:
            snapshot = travel.resolve_snapshot(table)
        except json.JSONDecodeError:
            raise
        except ValueError as error:
            kind = NotFoundError if _NOT_THERE.search(str(error)) else InvalidInputError
            raise kind(f"{where}: {error}") from error
        if snapshot is None:
            raise NotFoundError(f"{where}: no snapshot of a Paimon table")
        return json.loads(to_json(snapshot)), where


class WorkingTable:
    """A table to which vectors may be written.

    Args:
        table: a table of pypaimon, or the path of a table in a warehouse: ``<warehouse>/<database>.db/<table>``.

    Attributes:
        version: the version of the vectors that the table's options ask for.
        snapshot: the newest one; None if there is none.
        index_files: those of its deletion vectors. Their manifest is checked, which pypaimon does not do.

    Raises:
        UnsupportedError: deletion vectors must not be written to the table; the message names the reason.
        NotFoundError: there is no table at the path, or no index manifest.
        CorruptDataError: the newest snapshot or the index manifest is damaged.
        InvalidInputError: the argument is neither a table nor a path.
    """

    def __init__(self, table: Any) -> None:
        check_version()
        if isinstance(table, str | os.PathLike):
            table = _open(folder_of(table))
        if not hasattr(table, "new_read_builder") or not hasattr(table, "table_schema"):
            raise InvalidInputError(
                f"table: expected a table of pypaimon or its path, found {type(table).__name__}"
            )
        self._table = table
        self.path = str(table.table_path)
        options, names = table.options.options.to_map(), [field.name for field in table.fields]
        if not isinstance(options, dict) or not all(isinstance(name, str) for name in names):
            what, expected = "schema of a Paimon table", "texts as names, and options by name"
            raise CorruptDataError(what, path=self.path, expected=expected, found=(names, options))
        self._check()
        self.version = 2 if self._option("deletion-vectors.bitmap64") == "true" else 1
        with _parsing("newest snapshot", self.path):
            self.snapshot = table.snapshot_manager().get_latest_snapshot()
        self.index_files = self._index_files()

    def _option(self, name: str) -> str:
        return str(self._table.options.options.to_map().get(name, "")).lower()

    def _check(self) -> None:
        state = opened_with(self._table)
        reasons = {
            "a primary-key table: compaction owns its deletion vectors": self._table.is_primary_key_table,
            "deletion vectors are not enabled: set 'deletion-vectors.enabled' = 'true'": self._option(
                "deletion-vectors.enabled"
            )
            != "true",
            "'data-evolution.enabled': its vectors are about row ids; pypaimon deletes from it": self._option(
                "data-evolution.enabled"
            )
            == "true",
            f"it is opened at an older state ({state}): open it without scan options": state,
        }
        for reason, holds in reasons.items():
            if holds:
                raise UnsupportedError(f"{self.path}: {reason}")

    @property
    def schema(self) -> pa.Schema:
        """The columns in Arrow types."""
        found: pa.Schema = _part("schema.data_types", "PyarrowFieldParser").from_paimon_schema(
            self._table.fields
        )
        return found

    def parse(self, text: str) -> Any:
        """Parses a condition in SQL to a predicate.

        Raises:
            InvalidInputError: the condition cannot be parsed.
        """
        try:
            predicate = _part("common.where_parser", "parse_where_clause")(text, self._table.fields)
        except ValueError as error:
            raise InvalidInputError(f"filter {text}: {error}") from error
        if predicate is None:
            raise InvalidInputError("filter: expected a condition, found an empty text")
        return predicate

    def files(self, predicate: Any = None) -> list[DataFile]:
        """Returns the data files of the newest snapshot that may have matching rows."""
        if self.snapshot is None:
            return []
        snapshot, builder = self.snapshot, self._table.new_read_builder()
        if predicate is not None:
            builder = builder.with_filter(predicate)
        scan, make, entries = builder.new_scan(), _part("read.split", "DataSplit"), []
        scanner = scan.file_scanner
        plan = scanner.plan_files

        def planned() -> Any:
            entries.extend(plan())
            return entries

        # A table that pypaimon opens at a snapshot has the columns of that time.
        scanner.manifest_scanner = lambda: (scanner.manifest_list_manager.read_all(snapshot), snapshot)
        # A split has one partition, whose bytes may differ from those of its files.
        scanner.plan_files = planned
        where = f"{self.path}, a manifest of snapshot {snapshot.id}"
        with _parsing("data files of a snapshot", where), _SAME_BYTES.begin(), errors_of(where):
            splits = scan.plan_for_write().splits()
            partitions = {
                (*entry.partition.values, entry.bucket, entry.file.file_name): entry.partition
                for entry in entries
            }
            found = []
            for split in splits:
                for file in split.files:
                    partition = partitions[(*split.partition.values, split.bucket, file.file_name)]
                    alone = make([file], split.partition, split.bucket, raw_convertible=True)
                    path = file.physical_path()
                    found.append(
                        DataFile(partition, split.bucket, file.file_name, file.row_count, path, alone)
                    )
        return found

    def rows(self, file: DataFile, columns: Sequence[str]) -> pa.Table:
        """Reads all rows of a data file, deleted ones included, in order.

        Raises:
            NotFoundError: the file does not exist.
            CorruptDataError: the file is damaged, or the number of rows is not that of the manifest.
        """
        projected = self._table.new_read_builder().with_projection(list(columns))
        with _parsing("rows of a data file", file.path), errors_of(file.path):
            rows: pa.Table = projected.new_read().to_arrow([file.split])
            if (
                rows.num_rows == 0 < file.n_rows
            ):  # pypaimon drops the rows of an Avro file that has none of the columns
                rows = self._table.new_read_builder().new_read().to_arrow([file.split]).select(columns)
        if rows.num_rows != file.n_rows:
            raise CorruptDataError(
                "rows of a data file",
                path=file.path,
                expected=f"{file.n_rows} (manifest)",
                found=rows.num_rows,
            )
        return rows

    # Index files ---------------------------------------------------------------------------------------------

    def _index_files(self) -> list[IndexFile]:
        if self.snapshot is None:
            return []
        name = index_manifest_of(self.snapshot.index_manifest, f"{self.path}, snapshot {self.snapshot.id}")
        if name is None:
            return []
        file_io, paths = self._table.file_io, self._table.path_factory()
        path = f"{paths.manifest_path()}/{name}"
        with _reading(file_io, path) as source:
            check_metadata_size(path, source.size, file_io)
            live = live_files(source.read_at(0, source.size), path)
        return [self._index_file(file, path) for file in live]

    def _index_file(self, file: VectorsFile, manifest: str) -> IndexFile:
        try:
            with _SAME_BYTES.begin():
                parser = _part("table.row.generic_row", "GenericRowDeserializer")
                partition = parser.from_bytes(file.partition, self._table.partition_keys_fields)
        except Exception as error:  # pypaimon raises any exception for bytes that are not a row
            if is_from_outside(error):
                raise
            raise CorruptDataError(
                f"partition of index file {file.name}", path=manifest, found=error
            ) from error
        ranges = {one.file_name: (one.offset, one.length, one.cardinality) for one in file.ranges}
        meta = _meta(file.name, file.n_bytes, ranges, file.external_path)
        path = self._table.path_factory().bucket_index_path(
            tuple(partition.values), file.bucket, meta, self._table.file_io
        )
        return IndexFile(partition, file.bucket, meta, path)

    def vectors(self, index: IndexFile, names: Iterable[str]) -> dict[str, StoredVector]:
        """Reads and checks vectors of an index file."""
        found = {}
        with _reading(self._table.file_io, index.path) as source:
            for name in names:
                where = index.ranges[name]
                record = read_record(source, where.offset, where.length, index.path)
                positions = codec.decode(
                    record, cardinality=where.cardinality, path=index.path, offset=where.offset
                )
                found[name] = StoredVector(record, positions)
        return found

    def write_index(self, partition: Any, bucket: int, records: Mapping[str, tuple[bytes, int]]) -> IndexFile:
        """Writes an index file.

        Args:
            partition, bucket: the partition and bucket of the data files.
            records: record and cardinality by data file.

        Raises:
            InvalidInputError: the storage must not be written.
        """
        name = f"index-{uuid.uuid4()}-0"
        path, is_external = self._table.path_factory().new_bucket_index_path(
            tuple(partition.values), bucket, name
        )
        data, ranges = bytearray([codec.FILE_VERSION]), {}
        for data_file, (record, cardinality) in records.items():
            length = len(record) if codec.version_of(record) == 2 else len(record) - codec.FRAME_BYTES
            ranges[data_file] = len(data), length, cardinality
            data += record
        try:
            with errors_of(path), self._table.file_io.new_output_stream(path) as stream:
                stream.write(bytes(data))
        except BaseException:
            self._table.file_io.delete_quietly(path)
            raise
        meta = _meta(name, len(data), ranges, path if is_external else None)
        return IndexFile(partition, bucket, meta, path)

    # Commit --------------------------------------------------------------------------------------------------

    def commit(self, added: Sequence[IndexFile], removed: Sequence[IndexFile]) -> int:
        """Commits index files in one snapshot; if it is certain that the commit failed, the added files are removed.

        Returns:
            The new snapshot.

        Raises:
            ConflictError: another commit changed the same vectors or data files; the table is unchanged.
            CommitUnknownError: it is unknown whether the commit happened; no file was removed.
            InvalidInputError: the storage must not be written; the table is as it was.
        """
        make = _part("write.commit_message", "CommitMessage")
        messages: dict[Group, Any] = {}
        for kind, indexes in ((_ADD, added), (_DELETE, removed)):
            for index in indexes:
                message = messages.get(index.group) or make(
                    partition=index.values,
                    bucket=index.bucket,
                    new_files=[],
                    check_from_snapshot=self.snapshot.id,
                )
                messages[index.group] = message
                (message.index_adds if kind == _ADD else message.index_deletes).append(index.entry(kind))
        commit = self._table.new_batch_write_builder().new_commit()
        files = SnapshotFiles(self._table.file_io)
        publish = commit.file_store_commit.snapshot_commit
        is_ours = isinstance(publish, _part("snapshot.renaming_snapshot_commit", "RenamingSnapshotCommit"))
        if is_ours:
            publish.file_io = files
        try:
            with _SAME_BYTES.begin():
                commit.commit(list(messages.values()))
        except SnapshotRefusedError as refused:
            self.discard(added)
            raise refused.error from None
        except BaseException as error:
            if not isinstance(error, Exception) or is_from_outside(error):
                if is_ours and not files.is_tried:
                    self.discard(added)
                    note_outcome(error, nothing_committed(len(added)))
                elif files.written:
                    note_outcome(error, f"snapshot {files.written} of {self.path} was committed")
                else:  # the files stay
                    names = ", ".join(index.path for index in added)
                    note_outcome(
                        error,
                        f"it is unknown whether the commit to {self.path} happened; it did if the newest snapshot "
                        f"names {names}",
                    )
                raise
            if is_ours and not files.is_tried and (cause := _cause(error)) is not None:
                self.discard(added)
                with errors_of(cause.filename or self.path):
                    raise cause from None
            self._failed(added, error)
        finally:
            commit.close()
        return files.written or int(self._table.snapshot_manager().get_latest_snapshot().id)

    def _failed(self, added: Sequence[IndexFile], error: Exception) -> None:
        """Raises the error for a failed commit; returns if the commit happened."""
        if error.__cause__ is None and "conflict" in str(error).lower():
            self.discard(added)
            raise ConflictError(f"{self.path}: snapshot {self.snapshot.id} is outdated: {error}") from error
        names = {index.meta.file_name for index in added}
        try:
            newest = WorkingTable(self._table).index_files
        except Exception as trouble:
            if is_from_outside(trouble):
                raise
            newest = []
        if names & {index.meta.file_name for index in newest}:
            return
        files = ", ".join(index.path for index in added)
        raise CommitUnknownError(
            f"{self.path}: pypaimon did not say whether this commit happened: {error}; it did if the newest "
            f"snapshot names {files}"
        ) from error

    def discard(self, added: Iterable[IndexFile]) -> None:
        """Removes index files that no snapshot refers to."""
        for index in added:
            self._table.file_io.delete_quietly(index.path)


def _cause(error: BaseException) -> OSError | None:
    """Returns the error of the storage, for which pypaimon raises its own exception."""
    inner = error.__cause__ or error.__context__
    if isinstance(error, OSError) or inner is None:
        return error if isinstance(error, OSError) else None
    return _cause(inner)


def _meta(
    name: str, n_bytes: int, ranges: Mapping[str, tuple[int, int, int | None]], external_path: str | None
) -> Any:
    """Pypaimon's entry of an index file; a range is offset, length and cardinality."""
    one = _part("index.deletion_vector_meta", "DeletionVectorMeta")
    return _part("index.index_file_meta", "IndexFileMeta")(
        _part("manifest.index_manifest_file", "IndexManifestFile").DELETION_VECTORS_INDEX,
        name,
        n_bytes,
        len(ranges),
        dv_ranges={data_file: one(data_file, *range) for data_file, range in ranges.items()},
        external_path=external_path,
    )


def _open(path: str) -> Any:
    folder, _, name = path.rpartition("/")
    warehouse, _, database = folder.rpartition("/")
    if not database.endswith(".db"):
        raise NotFoundError(f"{path}: expected <warehouse>/<database>.db/<table>")
    catalog = _part("", "CatalogFactory").create({"warehouse": warehouse or "/"})
    try:
        return catalog.get_table(f"{database.removesuffix('.db')}.{name}")
    except Exception as error:  # of the catalog's own kinds
        if is_from_outside(error):
            raise
        raise NotFoundError(f"{path}: {error}") from error


@contextmanager
def _parsing(what: str, path: str) -> Iterator[None]:
    """Converts what pypaimon raises for values of other types; errors of the storage are raised unchanged."""
    try:
        yield
    except AVRO_ERRORS as error:
        if isinstance(error, PuffinFastError) or is_from_outside(error) or _cause(error) is not None:
            raise
        raise CorruptDataError(what, path=path, found=repr(error)) from error


@contextmanager
def _reading(file_io: Any, path: str) -> Iterator[Source]:
    with errors_of(path):
        stream = file_io.new_input_stream(path)
    with stream, open_source(stream) as source:
        yield source


# Scans -------------------------------------------------------------------------------------------------------


def patches() -> Sequence[Patch]:
    """Returns the patches of `accelerate`."""
    vector = _part("deletionvectors.deletion_vector", "DeletionVector")
    base = _part("deletionvectors.bitmap_deletion_vector", "BitmapDeletionVector")
    reader = _part("deletionvectors.apply_deletion_vector_reader", "ApplyDeletionVectorReader")
    mapped = _part("deletionvectors.apply_deletion_vector_reader", "PositionMappedDeletionVector")
    before = reader.read_arrow_batch

    class Vector(base):  # type: ignore[misc,valid-type]
        """A deletion vector of either version; pypaimon's own bitmap is made only if it is changed."""

        def __init__(self, positions: PositionBitmap, version: int, path: str) -> None:
            self.positions, self._version, self._path, self._made = positions, version, path, None

        @property
        def _bitmap(self) -> Any:
            if self._version != 1:
                raise UnsupportedError(
                    f"{self._path}: pypaimon cannot change vectors of version {self._version}"
                )
            if self._made is None:
                record = codec.encode(self.positions, version=1)
                self._made = base.deserialize_from_bytes(record[8:-4]).bit_map()
            return self._made

        def is_deleted(self, position: int) -> bool:
            return position in (self.positions if self._made is None else self._made)

        def is_empty(self) -> bool:
            return not self.get_cardinality()

        def get_cardinality(self) -> int:
            return len(self.positions if self._made is None else self._made)

        def live(self, start: int, n_rows: int) -> Any:
            """Returns a mask of the live rows; None if pypaimon's own bitmap must be used."""
            return None if self._made is not None else self.positions.mask(n_rows, start=start, invert=True)

        __eq__, __hash__ = object.__eq__, object.__hash__

    def read(file_io: Any, deletion_file: Any) -> Vector:
        path, offset = deletion_file.dv_index_path, deletion_file.offset
        with _reading(file_io, path) as source:
            record = read_record(source, offset, deletion_file.length, path)
        positions = codec.decode(record, cardinality=deletion_file.cardinality, path=path, offset=offset)
        return Vector(positions, codec.version_of(record), path)

    def live_rows(found: Any, start: int, n_rows: int) -> Any:
        if isinstance(found, Vector):
            return found.live(start, n_rows)
        if not isinstance(found, mapped) or not isinstance(found._deletion_vector, Vector):
            return None
        inner, offset, positions = found._deletion_vector, found._file_offset, found._row_positions
        if positions is None:
            return inner.live(offset + start, n_rows)
        if inner._made is not None or start + n_rows > len(positions):
            return None
        return ~inner.positions.contains(offset + np.asarray(positions[start : start + n_rows], np.int64))

    def read_arrow_batch(self: Any) -> Any:
        while True:
            if live_rows(self._deletion_vector, self._returned_position, 0) is None:
                return before(self)
            batch = self._reader.read_arrow_batch()
            if batch is None:
                return None
            start = self._returned_position
            self._returned_position = start + batch.num_rows
            live = live_rows(self._deletion_vector, start, batch.num_rows)
            if live is None:
                raise ValueError("Deletion vector row positions are fewer than returned rows.")
            if live.all():
                if batch.num_rows:
                    return batch
            elif live.any():
                return batch.filter(pa.array(live))

    return (
        Patch(vector, "read", staticmethod(read), ("file_io", "deletion_file")),
        Patch(reader, "read_arrow_batch", read_arrow_batch, ("self",)),
    )
