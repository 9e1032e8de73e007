"""Plans the data files of a snapshot that a filter does not exclude, with their deletion vectors.

Statistics and partition values of all files are compared with the filter at once, by columns. Tasks are made for the
remaining files when they are requested. Statistics may be missing or wider than the rows (`tightBounds`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import bind, rewrite_not, visit
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField, StructType

from puffin_fast._runtime.gc_pause import paused_gc
from puffin_fast.delta.log.actions import partition_column
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.read.descriptors import VectorLocation, locate_all
from puffin_fast.delta.read.pruning import Pruner
from puffin_fast.delta.read.schema import ROW_TRACKING, TableSchema
from puffin_fast.delta.read.statistics import UNKNOWN, Statistics, typed
from puffin_fast.delta.read.widening import widened
from puffin_fast.dv import delta as codec
from puffin_fast.errors import CorruptDataError
from puffin_fast.iceberg.datafile.metadata_columns import MetadataColumn
from puffin_fast.iceberg.datafile.parquet import open_parquet
from puffin_fast.iceberg.dml.row_search import Finder
from puffin_fast.iceberg.manifest import ADDED, DATA, POSITION_DELETES, ManifestEntry
from puffin_fast.iceberg.plan.files import FileTask
from puffin_fast.iceberg.predicate.bounds import literal_values
from puffin_fast.iceberg.predicate.filters import Matcher, RowFilter
from puffin_fast.iceberg.scan.file_reader import FileReader, ReaderFactory
from puffin_fast.iceberg.scan.located_rows import LocatedRows

__all__ = ["DeltaPlan", "DeltaTable", "DeltaTask", "plan_files", "vector_at"]

_CHUNK = 4096
"""Tasks that are made at a time."""
_NO_BOUNDS: tuple[dict[int, bytes], dict[int, bytes], dict[int, int], dict[int, int]] = {}, {}, {}, {}
"""Of files whose bounds are not requested; never changed."""
_READERS = 8
"""Number of footers that are read at a time, if the log does not have the row counts of the files."""


@dataclass(frozen=True)
class DeltaTable:
    """A snapshot, and the schema for reading its files.

    Attributes:
        snapshot: of the log.
        schema: its schema and names.
        metadata: in the form that the data-file reader needs.
    """

    snapshot: Snapshot
    schema: TableSchema
    metadata: TableMetadata

    @classmethod
    def of(cls, snapshot: Snapshot) -> DeltaTable:
        """Converts the schema of a snapshot.

        Raises:
            UnsupportedError: the type of a column is not supported.
        """
        schema = TableSchema.of(snapshot)
        return cls(snapshot, schema, schema.metadata(snapshot.root))

    def reader(
        self,
        fields: Sequence[NestedField],
        extra: Sequence[MetadataColumn],
        matcher: Matcher,
        arrow: pa.Schema,
        *,
        case_sensitive: bool = True,
    ) -> FileReader:
        """Returns the reader of the data files for columns, metadata columns, a filter and the Arrow schema of the
        result."""
        return FileReader(
            self.snapshot.storage,
            self.metadata,
            self.schema.schema,
            fields,
            extra,
            matcher,
            arrow,
            case_sensitive,
            by_name=self.schema.by_name,
            cast=widened,
            decode=codec.decode,
        )

    def reader_factory(self, matcher: Matcher, *, case_sensitive: bool = True) -> ReaderFactory:
        """Makes readers of the data files for one filter."""
        return lambda fields, extra, arrow: self.reader(
            fields, extra, matcher, arrow, case_sensitive=case_sensitive
        )

    def rows(
        self,
        tasks: Sequence[FileTask],
        matcher: Matcher,
        *,
        case_sensitive: bool = True,
        threads: int | None = None,
    ) -> LocatedRows:
        """Reads the live, matching rows of data files, with their row ids and row commit versions."""
        return LocatedRows.read(
            self.reader_factory(matcher, case_sensitive=case_sensitive),
            self.schema.schema.fields,
            tasks,
            ROW_TRACKING,
            threads=threads,
        )

    def finder(self, matcher: Matcher, *, case_sensitive: bool) -> Finder:
        """Returns the object that finds the matching rows of data files."""
        return Finder(
            self.snapshot.storage,
            self.metadata,
            matcher,
            case_sensitive,
            by_name=self.schema.by_name,
            cast=widened,
            decode=codec.decode,
        )


@dataclass(slots=True)
class DeltaTask(FileTask):
    """A data file with its vector.

    Attributes:
        row: its index in the `files` of the snapshot.
    """

    row: int = -1


@dataclass(frozen=True)
class DeltaPlan:
    """The files that a scan or a delete reads.

    Attributes:
        tasks: the data files, each with its vector.
    """

    tasks: Sequence[DeltaTask]


def plan_files(
    table: DeltaTable, matcher: Matcher | None = None, *, case_sensitive: bool = True, metrics: bool = False
) -> DeltaPlan:
    """Plans a scan of a snapshot.

    Args:
        table: the snapshot.
        matcher: excludes files in which no row can match; with None, all files are planned.
        case_sensitive: as the matcher was bound.
        metrics: whether tasks have the bounds of the matcher's columns (without a matcher: of all columns).

    Raises:
        CorruptDataError: a descriptor or a partition value is invalid, or a data file is live more than once.
        NotFoundError: a data file does not exist whose row count is not in the log.
    """
    table.snapshot.check_files()
    files = table.snapshot.files
    rows = np.arange(files.num_rows)
    if matcher is not None and matcher.always_false:
        return DeltaPlan([])
    fields = _fields(table, matcher, metrics)
    partitions = _partitions(table, files)
    statistics = Statistics.of(files["stats"], _paths(table, fields), table.snapshot.root)
    exact = True
    if matcher is not None and not isinstance(matcher.expression, AlwaysTrue):
        keeps = Pruner(statistics, partitions, files.num_rows)
        bound = bind(table.schema.schema, rewrite_not(matcher.expression), case_sensitive)
        rows, exact = np.flatnonzero(visit(bound, keeps)), keeps.exact
    may_match: Callable[[Any], bool] | None = None
    if matcher is not None and matcher.field_ids and not (exact and isinstance(matcher, RowFilter)):
        may_match = matcher.may_match(table.schema.schema, case_sensitive=case_sensitive)
    tasks: Sequence[DeltaTask] = _Tasks(
        table, rows, statistics, partitions, fields if may_match or metrics else []
    )
    if may_match is not None:
        chosen = [at for at, task in enumerate(tasks) if may_match(task.data)]
        tasks, rows = [tasks[at] for at in chosen], rows[chosen]
    unknown = np.flatnonzero(statistics.n_rows[rows] == UNKNOWN).tolist()
    _count_rows(table, [tasks[at].data for at in unknown])
    return DeltaPlan(tasks)


def _fields(table: DeltaTable, matcher: Matcher | None, metrics: bool) -> list[NestedField]:
    """Returns the columns whose bounds are needed: those of the matcher, or without one all that have bounds."""
    if matcher is None:
        leaves = list(_paths(table, list(_leaves(table.schema.schema.fields)))) if metrics else []
        return [table.schema.schema.find_field(field_id) for field_id in leaves]
    return [table.schema.schema.find_field(field_id) for field_id in matcher.field_ids]


def _leaves(fields: Iterable[NestedField]) -> Iterator[NestedField]:
    """Yields the leaves: columns and fields of structs that are not structs, lists or maps."""
    for field in fields:
        if isinstance(field.field_type, StructType):
            yield from _leaves(field.field_type.fields)
        elif field.field_type.is_primitive:
            yield field


def _paths(table: DeltaTable, fields: Sequence[NestedField]) -> dict[int, tuple[Sequence[str], Any]]:
    """Returns the physical paths of columns in statistics, without partition columns."""
    partition = {field.field_id for field in table.schema.partition_fields}
    found: dict[int, tuple[Sequence[str], Any]] = {}

    def walk(mapped: Any, above: tuple[str, ...]) -> None:
        for one in mapped:
            path = (*above, one.names[0])
            if one.field_id in wanted and one.field_id not in partition:
                found[one.field_id] = path, wanted[one.field_id]
            walk(one.fields, path)

    wanted = {field.field_id: field.field_type for field in fields}
    if wanted:
        walk(table.schema.names, ())
    return found


def _partitions(table: DeltaTable, files: pa.Table) -> dict[int, pa.Array]:
    """Returns the partition values of all files by field id, in the types of the columns."""
    found = {}
    for field, name in zip(table.schema.partition_fields, table.schema.partition_names, strict=True):
        values = files[partition_column(name)].combine_chunks()
        try:
            found[field.field_id] = typed(values, field.field_type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise CorruptDataError(
                f"partition value of {field.name}",
                path=table.snapshot.root,
                expected=field.field_type,
                found=str(error).splitlines()[0],
            ) from error
    return found


class _Tasks(Sequence[DeltaTask]):
    """Tasks of data files, which are made in groups when they are requested; each is made once."""

    def __init__(
        self,
        table: DeltaTable,
        rows: npt.NDArray[np.int64],
        statistics: Statistics,
        partitions: Mapping[int, pa.Array],
        fields: Sequence[NestedField],
    ) -> None:
        self._table, self._rows, self._fields = table, rows, fields
        self._statistics, self._partitions = statistics, partitions
        self._made: dict[int, list[DeltaTask]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[DeltaTask]:
        for number in range(-(-len(self) // _CHUNK)):
            yield from self._chunk(number)

    @overload
    def __getitem__(self, at: int) -> DeltaTask: ...
    @overload
    def __getitem__(self, at: slice) -> list[DeltaTask]: ...
    def __getitem__(self, at: int | slice) -> DeltaTask | list[DeltaTask]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        number, place = divmod(at, _CHUNK)
        return self._chunk(number)[place]

    def _chunk(self, number: int) -> list[DeltaTask]:
        with self._lock:
            if number not in self._made:
                with paused_gc():
                    self._made[number] = self._make(self._rows[number * _CHUNK : (number + 1) * _CHUNK])
            return self._made[number]

    def _make(self, rows: npt.NDArray[np.int64]) -> list[DeltaTask]:
        table, statistics, partitions = self._table, self._statistics, self._partitions
        storage, chosen = table.snapshot.storage, pa.array(rows)
        columns = ["path", "size", "deletionVector", "baseRowId", "defaultRowCommitVersion"]
        files = table.snapshot.files.select(columns).take(chosen)
        root = storage.root
        locations = [
            storage.location(path) if "%" in path or ":" in path or path[:1] == "/" else f"{root}/{path}"
            for path in files["path"].to_pylist()
        ]
        vectors = locate_all(files["deletionVector"].combine_chunks(), storage, locations)
        values = [literal_values(partitions[f.field_id].take(chosen)) for f in table.schema.partition_fields]
        tuples = list(zip(*values, strict=True)) if values else [()] * len(rows)
        n_rows = statistics.n_rows[rows].tolist()
        bounds = _bounds(statistics, partitions, self._fields, chosen, n_rows)
        tasks = []
        for row, location, size, where, partition, row_id, version, count, bound in zip(
            rows.tolist(),
            locations,
            files["size"].to_pylist(),
            vectors,
            tuples,
            files["baseRowId"].to_pylist(),
            files["defaultRowCommitVersion"].to_pylist(),
            n_rows,
            bounds,
            strict=True,
        ):
            data = ManifestEntry(
                ADDED, None, 0, version, DATA, location, "PARQUET", 0, partition, count, size or 0
            )
            data.first_row_id = row_id
            if self._fields:
                data.lower_bounds, data.upper_bounds, data.value_counts, data.null_value_counts = bound
            deletes = None if where is None else vector_at(where, data)
            tasks.append(DeltaTask(data, deletes, row=row))
        return tasks


def vector_at(where: VectorLocation, data: ManifestEntry) -> ManifestEntry:
    """Returns a vector as a manifest entry, as the data-file reader needs it."""
    found = ManifestEntry(
        ADDED, None, 0, 0, POSITION_DELETES, where.path, "PUFFIN", 0, data.partition, where.cardinality, 0
    )
    found.referenced_data_file, found.content_offset = data.file_path, where.offset
    found.content_size_in_bytes = where.length
    return found


def _bounds(
    statistics: Statistics,
    partitions: Mapping[int, pa.Array],
    fields: Sequence[NestedField],
    chosen: pa.Array,
    n_rows: Sequence[int],
) -> list[tuple[dict[int, bytes], dict[int, bytes], dict[int, int], dict[int, int]]]:
    """Returns lower and upper bounds, value and null counts of some files, in the form of manifest entries."""
    if not fields:
        return [_NO_BOUNDS] * len(n_rows)
    found: list[Any] = [({}, {}, {}, {}) for _ in n_rows]
    for field in fields:
        key, kind = field.field_id, field.field_type
        if key in partitions:
            values = literal_values(partitions[key].take(chosen))
            for at, value in enumerate(values):
                lower, upper, counts, nulls = found[at]
                if value is not None:
                    lower[key] = upper[key] = to_bytes(kind, value)  # type: ignore[arg-type]
                if n_rows[at] != UNKNOWN:
                    counts[key], nulls[key] = n_rows[at], n_rows[at] if value is None else 0
        elif key in statistics.lower:
            for side, arrays in ((0, statistics.lower), (1, statistics.upper)):
                for at, value in enumerate(literal_values(arrays[key].take(chosen))):
                    if value is not None:
                        found[at][side][key] = to_bytes(kind, value)  # type: ignore[arg-type]
            for at, value in enumerate(statistics.nulls[key].take(chosen).to_pylist()):
                if value is not None and n_rows[at] != UNKNOWN:
                    found[at][2][key], found[at][3][key] = n_rows[at], value
    return found


def _count_rows(table: DeltaTable, unknown: Sequence[ManifestEntry]) -> None:
    """Reads the row counts of files for which the log does not have them."""
    if not unknown:
        return

    def count(data: ManifestEntry) -> None:
        data.record_count = open_parquet(table.snapshot.storage, data.file_path).metadata.num_rows

    with ThreadPoolExecutor(min(_READERS, len(unknown)), thread_name_prefix="puffin_fast-plan") as pool:
        list(pool.map(count, unknown))
