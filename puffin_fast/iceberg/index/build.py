"""Builds the key index of a table, and commits it as blobs of the statistics file of a snapshot.

data file   a segment covers it            -> taken as it is
            no segment does                -> its key columns are read, a new segment covers it
segment     no live data file              -> left out
            many of them, or mostly rows of dead files -> merged
            damaged, found by its merge or before the commit -> left out; its data files are read
file        written beside the metadata: the segments, and all other blobs of the snapshot's statistics file
commit      lost to another commit         -> file removed, table loaded again, written and tried again
            the snapshot no longer exists  -> file removed, NotFoundError
            outcome unknown                -> nothing removed, CommitUnknownError
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import IO, TYPE_CHECKING, Literal

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast._api.arguments import check_flags
from puffin_fast._concurrency.groups import bins_of
from puffin_fast._concurrency.workers import OPEN_BYTES, Threads, Workers, workers_of
from puffin_fast._io import open_sink, open_source
from puffin_fast._io.run_folder import RunFolder, run_name
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast._pyiceberg.versions import check_version
from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError, JobInterruptedError, NotFoundError, PuffinFastError
from puffin_fast.iceberg.catalogs.run_table import run_table
from puffin_fast.iceberg.catalogs.working_table import WorkingTable, with_history
from puffin_fast.iceberg.index.blobs import commit_blobs, parts_of, write_statistics
from puffin_fast.iceberg.index.properties import KEY_INDEXES, indexed_columns, may_be_keys, named_indexes
from puffin_fast.iceberg.index.segment_maker import Encode, SegmentMaker, covered
from puffin_fast.iceberg.index.stored import NAME_END, indexed, is_segment, opened
from puffin_fast.iceberg.plan.files import metadata_of, plan_snapshot, resolve
from puffin_fast.iceberg.plan.statistics_files import statistics_of
from puffin_fast.key_index import (
    BLOB_TYPE,
    CoveredFile,
    Read,
    Segment,
    kind_of,
    merge_into,
)
from puffin_fast.limits import KEY_INDEX_BYTES
from puffin_fast.puffin import BlobMetadata, PuffinWriter
from puffin_fast.rows.files.conversion import storage_type
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.keys.key_columns import key_fields
from puffin_fast.verbs.maintenance import KeyIndexResult
from puffin_fast.verbs.results import Commit

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.statistics import StatisticsFile
    from pyiceberg.types import NestedField
    from pyspark.sql import SparkSession

    from puffin_fast.iceberg.manifest import ManifestEntry

ROW_BYTES = 24
"""Bytes of memory for a row while a segment is built."""

WORKER_MEMORY = 512 << 20
"""Bytes of memory of a worker that builds a segment."""

MOST_ROWS = 1 << 28
"""Rows of a segment; its blob has less than 2^31 bytes."""

MOST_SEGMENTS = 8
"""If there are more segments, they are merged, because each segment is searched for each key."""

FEW_SEGMENTS = 4
"""Merging stops at this number of segments."""


def index_keys(
    table: Table,
    join_cols: str | Sequence[str] | None = None,
    *,
    branch: str = MAIN_BRANCH,
    incremental: Literal["auto", False] = "auto",
    threads: int | None = None,
    workers: Executor | SparkSession | None = None,
    dry_run: bool = False,
) -> KeyIndexResult:
    """Builds an index of keys, so that deletes, upserts and scans by key read only rows that may have a key.

    The index is kept in the statistics file of the branch's snapshot. Commits do not change it: data files that they
    add are searched as without an index, until `index_keys` is called again, which reads only these files.

    Args:
        table: a PyIceberg table of format version 1 to 3; it has the new metadata afterwards.
        join_cols: the key column or columns; by default the identifier fields of the table's schema. A table may have
            indexes of several keys.
        branch: an existing branch.
        incremental: ``"auto"`` keeps the segments of the nearest earlier index. False reads all data files.
        threads: number of data files read at a time; `pyarrow.cpu_count()` by default.
        workers: an executor of ``concurrent.futures`` or a SparkSession, which makes segments of at most 22
            million rows instead of threads (a larger data file has one of its own). They wait in files.
        dry_run: count the data files, read no row and write nothing.

    Returns:
        What the index covers.

    Raises:
        NotFoundError: the table has no such column or branch, or no snapshot.
        InvalidInputError: there are no key columns, a column cannot be a key, or an argument is invalid.
        CorruptDataError, UnsupportedError: as a scan.
        ConflictError: other commits came first in all attempts; the table is unchanged.
        CommitUnknownError: it is unknown whether the commit happened; no file was removed.
        PuffinFastError: a file could not be written.

    Examples:
        >>> index = pf.iceberg.index_keys(table, "id")
        >>> index.data_files, index.rows
        (1, 100)
        >>> pf.iceberg.delete_keys(table, [5, 7], "id").rows_deleted
        2
    """
    encode = encode_by(workers_of(workers, threads), table)
    return build_index(table, join_cols, encode, branch=branch, incremental=incremental, dry_run=dry_run)


def encode_by(workers: Workers, table: Table) -> Encode:
    """Returns what makes segments.

    Args:
        workers: read the key columns; unless they are threads, they write the segments to files of a run.
        table: names these files.
    """

    def encode(maker: SegmentMaker, new: Sequence[ManifestEntry], most_rows: int) -> Iterator[bytes]:
        if isinstance(workers, Threads):
            yield from maker.segments(new, most_rows, workers.n or pa.cpu_count())
            return
        most, run = max(1, min(most_rows, WORKER_MEMORY // ROW_BYTES)), run_name(None, "index")
        bins = bins_of(new, most, lambda data: data.record_count)
        with run_table(WorkingTable.of(table), run) as (there, _):
            write = partial(_write_segments, maker.without_history(), there.folder, most)
            written = workers.each(write, bins, _key_bytes, "reading keys", run=run)
            for path, size in chain.from_iterable(written):
                with open_source(path, filesystem=maker.io, size=size) as source:
                    yield source.read_at(0, size)

    return encode


def _write_segments(
    maker: SegmentMaker, folder: RunFolder, most_rows: int, new: Sequence[ManifestEntry]
) -> list[tuple[str, int]]:
    """Writes segments for data files, each to a file of its own; returns the locations and sizes."""
    name, written = folder.names(), list[tuple[str, int]]()
    for segment in maker.segments(new, most_rows, 1):
        path = name(".segment")
        open_sink(path, filesystem=maker.io).write_file(segment)
        written.append((path, len(segment)))
    return written


def _key_bytes(new: Sequence[ManifestEntry]) -> int:
    return sum(data.record_count * ROW_BYTES + OPEN_BYTES for data in new)


def build_index(
    table: Table,
    join_cols: str | Sequence[str] | None,
    encode: Encode,
    *,
    branch: str,
    incremental: Literal["auto", False],
    dry_run: bool,
) -> KeyIndexResult:
    """`index_keys` with segments that `encode` makes."""
    check_flags(dry_run=dry_run)
    if incremental not in ("auto", False):
        raise InvalidInputError(f"incremental: expected 'auto' or False, found {shown_argument(incremental)}")
    check_version()
    metadata_of(table)
    working = WorkingTable.of(table)
    snapshot, schema = resolve(working, branch=branch)
    fields = key_fields(schema, join_cols)
    if snapshot is None:
        raise NotFoundError(f"{working.shown}: the table has no snapshots: there are no keys to index")
    with ExitStack() as held:
        build = _Build(working, snapshot, fields, held)
        if incremental:
            build.keep_segments()
        return build.run(encode, dry_run=dry_run)


def extend_indexes(
    table: Table, paths: Collection[str], encode: Encode, *, branch: str, notes: list[str]
) -> tuple[KeyIndexResult, ...]:
    """Adds new data files to the indexes that the property `KEY_INDEXES` of a table names and that exist.

    An index is advice: one that cannot be extended is left as it is.

    Args:
        table: has the data files.
        paths: the paths of the new data files; others that no segment covers are not read.
        encode: makes segments.
        branch: whose snapshot has the data files.
        notes: why an index was not extended is added to these.

    Raises:
        JobInterruptedError: Spark's job was cancelled.
    """
    results = []
    for names in named_indexes(table.properties):
        try:
            found = _extended(table, names, paths, encode, branch, notes)
        except Exception as error:  # the data files are committed: errors of Spark, too, must not hide that
            if isinstance(error, JobInterruptedError) or is_from_outside(error):
                raise
            notes.append(f"the key index of {', '.join(names)} does not have the new data files: {error}")
            continue
        results += [] if found is None else [found]
    return tuple(results)


def _extended(
    table: Table,
    names: Sequence[str],
    paths: Collection[str],
    encode: Encode,
    branch: str,
    notes: list[str],
) -> KeyIndexResult | None:
    """Adds data files to one index; None if there is none, or if one of its columns was dropped or is no key."""
    working = WorkingTable.of(table)
    snapshot, schema = resolve(working, branch=branch)
    if snapshot is None:
        return None
    columns = indexed_columns({KEY_INDEXES: ",".join(names)}, schema, table.metadata.schemas, notes)
    if not columns:
        return None
    with ExitStack() as held:
        build = _Build(working, snapshot, key_fields(schema, columns[0]), held)
        return build.run(encode, dry_run=False, only=paths) if build.keep_segments() else None


@dataclass(frozen=True)
class _NewSegment:
    """A segment of the new index, which is stored in an earlier file or is in a temporary one."""

    segment: Segment
    read: Read
    is_stored: bool


class _SpoolError(PuffinFastError):
    """A temporary file could not be written or read."""


@contextmanager
def _spooling() -> Iterator[None]:
    """Tells errors of temporary files from those of the storage, which `StoredSegment.read` raises by its path."""
    try:
        yield
    except OSError as error:
        if is_from_outside(error):
            raise
        raise _SpoolError(f"a temporary file could not be written or read: {error}") from error


def _written(blob: bytes, out: IO[bytes]) -> int:
    return out.write(blob)


class _Build:
    """One call of `index_keys`."""

    def __init__(
        self,
        table: WorkingTable,
        snapshot: Snapshot,
        fields: Sequence[tuple[str, NestedField]],
        held: ExitStack,
    ) -> None:
        self._started = time.perf_counter()
        self._table, self._snapshot, self._held = table, snapshot, held
        self._names = tuple(name for name, _ in fields)
        self._fields = tuple(field for _, field in fields)
        self._ids = tuple(field.field_id for field in self._fields)
        self._kinds = tuple(kind_of(storage_type(field.field_type)) for field in self._fields)
        self._metadata = with_history(table, snapshot)
        every = RowFilter.bind(AlwaysTrue(), table.schema())
        tasks = plan_snapshot(table, snapshot, table.schema(), every).tasks
        self._files: dict[str, ManifestEntry] = {task.data.file_path: task.data for task in tasks}
        self._parts: list[_NewSegment] = []
        self._unchecked: list[_NewSegment] = []
        self._own = False
        self.notes: list[str] = []

    @property
    def _most_rows(self) -> int:
        """Rows of a segment that is made of keys."""
        return max(1, min(MOST_ROWS, KEY_INDEX_BYTES.of(self._table.io) // ROW_BYTES))

    # segments that exist ------------------------------------------------------------------------------------

    def keep_segments(self) -> bool:
        """Takes the segments of the nearest index that cover live data files; returns whether there is one."""
        for snapshot, statistics in indexed(self._metadata, self._snapshot):
            found = self._held.enter_context(opened(self._table.io, statistics, self.notes))
            if self._ids not in found:
                continue
            taken: set[str] = set()
            for stored in found[self._ids]:
                live = {file.location for file in stored.segment.files if self._is_live(file)}
                if not live or live & taken or not stored.segment.may_hold(self._kinds):
                    continue
                taken |= live
                self._parts.append(_NewSegment(stored.segment, stored.read, True))
            self._unchecked = [*self._parts]
            self._own = snapshot.snapshot_id == self._snapshot.snapshot_id
            self._own = self._own and len(self._parts) == len(found[self._ids])
            return True
        return False

    def _is_live(self, file: CoveredFile) -> bool:
        data = self._files.get(file.location)
        return data is not None and file == covered(data)

    def _leave_damaged(self, parts: Sequence[_NewSegment]) -> bool:
        """Leaves out those of some stored parts that are damaged; returns whether there are any."""
        damaged = []
        for part in parts:
            try:
                part.segment.check(part.read)
            except PuffinFastError as error:
                self.notes.append(str(error))
                damaged.append(part)
        self._unchecked = [part for part in self._unchecked if part not in parts]
        self._leave(damaged)
        return bool(damaged)

    def _leave(self, parts: Sequence[_NewSegment]) -> None:
        self._parts = [part for part in self._parts if part not in parts]
        self._unchecked = [part for part in self._unchecked if part not in parts]
        self._own = self._own and not parts

    # segments that are made ---------------------------------------------------------------------------------

    def run(self, encode: Encode, *, dry_run: bool, only: Collection[str] | None = None) -> KeyIndexResult:
        """Reads the data files that no segment covers, or `only` those of these, and commits."""
        if dry_run:
            self._leave_damaged(self._unchecked)
            return self._result(None, len(self._left(only)), dry_run=True)
        read: set[str] = set()
        merged = False
        while True:
            new = [data for path, data in self._left(only).items() if path not in read]
            read |= {data.file_path for data in new}
            for blob in self._encoded(new, encode):
                self._add(partial(_written, blob))
            merged |= self._merge()
            self._leave_damaged(self._unchecked)
            if self._left(only).keys() <= read:
                break
        if self._own and not read and not merged:
            return self._result(self._own_path(), 0)
        path, commit = self._commit()
        return self._result(path, len(read), commit)

    def _left(self, only: Collection[str] | None) -> dict[str, ManifestEntry]:
        """The data files that no segment covers, by their path; or `only` those of these."""
        known = {file.location for part in self._parts for file in part.segment.files if self._is_live(file)}
        return {
            path: data
            for path, data in self._files.items()
            if path not in known and (only is None or path in only)
        }

    def _own_path(self) -> str | None:
        known = statistics_of(self._metadata, self._snapshot.snapshot_id)
        return None if known is None else known.statistics_path

    def _result(
        self, path: str | None, n_read: int, commit: Commit | None = None, *, dry_run: bool = False
    ) -> KeyIndexResult:
        live = [file for part in self._parts for file in part.segment.files if self._is_live(file)]
        return KeyIndexResult(
            commit=replace(commit or Commit(), seconds=time.perf_counter() - self._started),
            snapshot_id=self._snapshot.snapshot_id,
            statistics_path=path,
            columns=self._names,
            segments=len(self._parts),
            data_files=len(live),
            rows=sum(file.n_rows for file in live),
            data_files_left=len(self._files) - len(live),
            data_files_read=n_read,
            n_bytes=sum(part.segment.n_bytes for part in self._parts),
            notes=tuple(self.notes),
            dry_run=dry_run,
        )

    def _add(self, write: Callable[[IO[bytes]], int]) -> None:
        """Adds a segment, whose bytes wait in a temporary file until the commit.

        Args:
            write: writes the segment, and returns the number of its bytes.
        """
        with _spooling():
            spool = self._held.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            n_bytes = write(spool)

        def read(ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
            for index, (offset, length) in enumerate(ranges):
                with _spooling():
                    spool.seek(offset)
                    data = spool.read(length)
                yield index, data

        self._parts.append(_NewSegment(Segment(read, n_bytes), read, False))

    def _encoded(self, new: Sequence[ManifestEntry], encode: Encode) -> Iterator[bytes]:
        """The segments of data files, each of at most about as many rows as memory may have."""
        small = [data for data in new if data.record_count <= MOST_ROWS]
        self.notes += [
            f"{data.file_path}: {data.record_count} rows; at most {MOST_ROWS} are indexed"
            for data in new
            if data.record_count > MOST_ROWS
        ]
        if small:
            maker = SegmentMaker(self._table.io, self._table.metadata, self._ids)
            yield from encode(maker, small, self._most_rows)
        known = {file.location for part in self._parts for file in part.segment.files}
        self.notes += [
            f"{data.file_path}: columns are found by the name mapping, or are values of its partition"
            for data in small
            if data.file_path not in known
        ]

    def _merge(self) -> bool:
        """Merges segments that are many, or mostly of dead data files. Returns whether it did."""

        def live_rows(part: _NewSegment) -> int:
            return sum(file.n_rows for file in part.segment.files if self._is_live(file))

        chosen = [part for part in self._parts if 2 * live_rows(part) < part.segment.n_rows]
        if len(self._parts) > MOST_SEGMENTS:
            rest = sorted((part for part in self._parts if part not in chosen), key=live_rows)
            chosen += rest[: max(0, len(self._parts) - FEW_SEGMENTS + 1 - len(chosen))]
        merged = False
        for group in self._groups(chosen):
            if len(group) == 1 and 2 * live_rows(group[0]) >= group[0].segment.n_rows:
                continue
            # entries of the first segment stay in their order, others are inserted
            largest_first = sorted(group, key=lambda part: part.segment.n_entries, reverse=True)
            segments = [(part.segment, part.read) for part in largest_first]
            try:
                self._add(partial(merge_into, segments=segments, keep=self._is_live))
            except _SpoolError:
                raise
            except PuffinFastError as error:
                stored = [part for part in group if part.is_stored]
                if not stored:
                    raise
                if not self._leave_damaged(stored):  # checksums are right, or it can be read now
                    self.notes.append(str(error))
                    self._leave(stored)
                continue
            self._leave(group)
            merged = True
        return merged

    def _groups(self, parts: Iterable[_NewSegment]) -> Iterator[list[_NewSegment]]:
        """Parts that can be merged: keys of one kind, and no more bytes than memory may have."""
        kinds: dict[tuple[str, ...], list[_NewSegment]] = {}
        for part in parts:
            kinds.setdefault(part.segment.kinds, []).append(part)
        for same in kinds.values():
            group: list[_NewSegment] = []
            for part in same:
                if group and not self._may_merge([*group, part]):
                    yield group
                    group = []
                group.append(part)
            if group:
                yield group

    def _may_merge(self, group: Sequence[_NewSegment]) -> bool:
        """Whether a merged segment can be written from memory, and the exact ones of fewer bits can be made anew."""
        segments = [part.segment for part in group]
        bits = max(segment.hash_bits for segment in segments)
        anew = sum(segment.n_rows for segment in segments if segment.exact and segment.hash_bits < bits)
        n_bytes = sum(segment.n_bytes for segment in segments)
        n_rows = sum(segment.n_rows for segment in segments)
        most = KEY_INDEX_BYTES.of(self._table.io)
        return n_bytes <= most and n_rows <= MOST_ROWS and anew <= self._most_rows

    # the commit ---------------------------------------------------------------------------------------------

    def _commit(self) -> tuple[str, Commit]:
        """Writes and commits the statistics file; returns its path."""
        return commit_blobs(
            self._table, self._snapshot.snapshot_id, lambda earlier: NAME_END, self._write, "index was"
        )

    def _write(self, path: str, earlier: StatisticsFile | None) -> StatisticsFile:
        return write_statistics(
            self._table.io,
            path,
            self._snapshot.snapshot_id,
            self._add_segments,
            earlier=earlier,
            wanted=lambda blob: not is_segment(blob) or self._is_kept(blob.fields),
            notes=self.notes,
        )

    def _is_kept(self, fields: Collection[int]) -> bool:
        """Whether the segments of an index stay: of another key, whose columns were not dropped and may be keys."""
        return tuple(fields) != self._ids and may_be_keys(self._table.schema(), fields)

    def _add_segments(self, writer: PuffinWriter) -> tuple[()]:
        """Adds the segments; the metadata does not name them."""
        snapshot = self._snapshot
        about = BLOB_TYPE, self._ids, snapshot.snapshot_id, snapshot.sequence_number or 0
        for part in self._parts:
            n_bytes = part.segment.n_bytes
            writer.add_stored(parts_of(part.read, n_bytes), BlobMetadata(*about, 0, n_bytes))
        return ()
