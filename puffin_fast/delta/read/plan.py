"""Which files of a snapshot a filter leaves, each with its deletion vector: tasks for the data-file reader.

Statistics and partition values of all files are compared with the filter at once, by columns; what is left is turned
into tasks one by one. Statistics may be missing, and may be wider than the rows are (`tightBounds`): they prune, and
where the bounds allow it they prove; they never stand for rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor, bind, rewrite_not, visit
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField

from puffin_fast._runtime.gc_pause import paused_gc
from puffin_fast.delta.log.actions import partition_column
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.read.descriptors import VectorLocation, locate
from puffin_fast.delta.read.schema import TableSchema
from puffin_fast.delta.read.statistics import UNKNOWN, Statistics, typed
from puffin_fast.errors import CorruptDataError
from puffin_fast.iceberg.datafile.parquet import open_parquet
from puffin_fast.iceberg.manifest import ADDED, DATA, POSITION_DELETES, ManifestEntry
from puffin_fast.iceberg.plan.files import FileTask
from puffin_fast.iceberg.predicate.bounds import literal_values
from puffin_fast.iceberg.predicate.filters import Matcher

__all__ = ["DeltaPlan", "DeltaTable", "plan_files", "vector_at"]

_READERS = 8
"""Footers that are read at a time where the log does not say how many rows a file has."""


@dataclass(frozen=True)
class DeltaTable:
    """A snapshot with the schema that its files are read by.

    Attributes:
        snapshot: of the log.
        schema: its schema and names.
        metadata: what the data-file reader asks for.
    """

    snapshot: Snapshot
    schema: TableSchema
    metadata: TableMetadata

    @classmethod
    def of(cls, snapshot: Snapshot) -> DeltaTable:
        """The schema of a snapshot.

        Raises:
            UnsupportedError: a type that is not read.
        """
        schema = TableSchema.of(snapshot)
        return cls(snapshot, schema, schema.metadata(snapshot.root))


@dataclass(frozen=True)
class DeltaPlan:
    """The files that a scan or a delete reads.

    Attributes:
        tasks: the data files, each with its vector.
        rows: their rows in the snapshot's `files`.
    """

    tasks: list[FileTask]
    rows: list[int]


def plan_files(
    table: DeltaTable, matcher: Matcher | None = None, *, case_sensitive: bool = True, metrics: bool = False
) -> DeltaPlan:
    """Plans a scan of a snapshot.

    Args:
        table: the snapshot.
        matcher: leaves out files in which no row can match; None: all files.
        case_sensitive: as the matcher was bound.
        metrics: give the tasks the bounds of the matcher's columns, for those who prove with them.

    Raises:
        CorruptDataError: a descriptor or a partition value that is not what it should be.
        NotFoundError: a data file is gone whose number of rows the log does not say.
    """
    files = table.snapshot.files
    rows = np.arange(files.num_rows)
    if matcher is not None and matcher.always_false:
        return DeltaPlan([], [])
    fields = _fields(table, matcher)
    partitions = _partitions(table, files)
    statistics = Statistics.of(files["stats"], _paths(table, fields), table.snapshot.root)
    if matcher is not None and not isinstance(matcher.expression, AlwaysTrue):
        keeps = _Keeps(statistics, partitions, files.num_rows)
        bound = bind(table.schema.schema, rewrite_not(matcher.expression), case_sensitive)
        rows = np.flatnonzero(visit(bound, keeps))
    may_match: Callable[[Any], bool] | None = None
    if matcher is not None and matcher.field_ids:
        may_match = matcher.may_match(table.schema.schema, case_sensitive=case_sensitive)
    with paused_gc():
        tasks = _tasks(table, rows, statistics, partitions, fields if may_match or metrics else [])
    if may_match is not None:
        chosen = [at for at, task in enumerate(tasks) if may_match(task.data)]
        tasks, rows = [tasks[at] for at in chosen], rows[chosen]
    _count_rows(table, tasks)
    return DeltaPlan(tasks, rows.tolist())


def _fields(table: DeltaTable, matcher: Matcher | None) -> list[NestedField]:
    if matcher is None:
        return []
    return [table.schema.schema.find_field(field_id) for field_id in matcher.field_ids]


def _paths(table: DeltaTable, fields: Sequence[NestedField]) -> dict[int, tuple[Sequence[str], Any]]:
    """The physical paths of columns in statistics; partition columns are not in them."""
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
    """The partition values of all files by field id, in the columns' types."""
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


def _tasks(
    table: DeltaTable,
    rows: npt.NDArray[np.int64],
    statistics: Statistics,
    partitions: Mapping[int, pa.Array],
    fields: Sequence[NestedField],
) -> list[FileTask]:
    """Tasks of some files; those whose number of rows is not known have `UNKNOWN`."""
    storage, chosen = table.snapshot.storage, pa.array(rows)
    files = table.snapshot.files.select(["path", "size", "deletionVector"]).take(chosen)
    vectors = _records(files["deletionVector"].combine_chunks())
    values = [literal_values(partitions[f.field_id].take(chosen)) for f in table.schema.partition_fields]
    tuples = list(zip(*values, strict=True)) if values else [()] * len(rows)
    n_rows = statistics.n_rows[rows].tolist()
    bounds = _bounds(statistics, partitions, fields, chosen, n_rows)
    tasks = []
    for at, (path, size, vector, partition) in enumerate(
        zip(
            files["path"].to_pylist(),
            files["size"].to_pylist(),
            vectors,
            tuples,
            strict=True,
        )
    ):
        location = storage.location(path)
        data = ManifestEntry(
            ADDED, None, 0, 0, DATA, location, "PARQUET", 0, partition, n_rows[at], size or 0
        )
        if fields:
            (
                data.lower_bounds,
                data.upper_bounds,
                data.value_counts,
                data.null_value_counts,
            ) = bounds[at]
        deletes = None if vector is None else vector_at(locate(vector, storage, location), data)
        tasks.append(FileTask(data, deletes))
    return tasks


def _records(structs: pa.StructArray) -> Iterator[dict[str, Any] | None]:
    """The items of a struct array as dictionaries, field by field: several times as fast as `to_pylist`."""
    names = structs.type.names
    for valid, *values in zip(
        structs.is_valid().to_pylist(),
        *(structs.field(at).to_pylist() for at in range(len(names))),
        strict=True,
    ):
        yield dict(zip(names, values, strict=True)) if valid else None


def vector_at(where: VectorLocation, data: ManifestEntry) -> ManifestEntry:
    """A vector as the data-file reader knows it."""
    return ManifestEntry(
        ADDED,
        None,
        0,
        0,
        POSITION_DELETES,
        where.path,
        "PUFFIN",
        0,
        data.partition,
        where.cardinality,
        0,
        referenced_data_file=data.file_path,
        content_offset=where.offset,
        content_size_in_bytes=where.length,
    )


def _bounds(
    statistics: Statistics,
    partitions: Mapping[int, pa.Array],
    fields: Sequence[NestedField],
    chosen: pa.Array,
    n_rows: Sequence[int],
) -> list[tuple[dict[int, bytes], dict[int, bytes], dict[int, int], dict[int, int]]]:
    """Lower and upper bounds, value and null counts of some files, as manifests have them."""
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


def _count_rows(table: DeltaTable, tasks: Sequence[FileTask]) -> None:
    """Reads how many rows those files have of which the log does not say it."""
    unknown = [task.data for task in tasks if task.data.record_count == UNKNOWN]
    if not unknown:
        return

    def count(data: ManifestEntry) -> None:
        data.record_count = open_parquet(table.snapshot.storage, data.file_path).metadata.num_rows

    with ThreadPoolExecutor(min(_READERS, len(unknown)), thread_name_prefix="puffin_fast-plan") as pool:
        list(pool.map(count, unknown))


class _Keeps(BoundBooleanExpressionVisitor[npt.NDArray[np.bool_]]):
    """One flag per file, false only where no row can match, by bounds and partition values."""

    def __init__(self, statistics: Statistics, partitions: Mapping[int, pa.Array], n: int) -> None:
        self._lower = {**statistics.lower, **partitions}
        self._upper = {**statistics.upper, **partitions}
        self._partitions, self._n = partitions, n

    def _all(self) -> npt.NDArray[np.bool_]:
        return np.ones(self._n, np.bool_)

    def _holds(
        self, arrays: Mapping[int, pa.Array], term: Any, compare: Callable[..., Any], value: Any
    ) -> npt.NDArray[np.bool_]:
        """Where a bound compares with a value as it should, or says nothing; a null partition matches no value."""
        array = arrays.get(term.ref().field.field_id)
        if array is None:
            return self._all()
        known = term.ref().field.field_id in self._partitions
        try:
            scalar = pa.scalar(value, array.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return self._all()
        found: npt.NDArray[np.bool_] = pc.fill_null(compare(array, scalar), not known).to_numpy(
            zero_copy_only=False
        )
        return found

    def visit_true(self) -> npt.NDArray[np.bool_]:
        return self._all()

    def visit_false(self) -> npt.NDArray[np.bool_]:
        return ~self._all()

    def visit_not(self, child_result: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        raise TypeError("NOT is rewritten before")

    def visit_and(
        self, left_result: npt.NDArray[np.bool_], right_result: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        return left_result & right_result

    def visit_or(
        self, left_result: npt.NDArray[np.bool_], right_result: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        return left_result | right_result

    def visit_less_than(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self._holds(self._lower, term, pc.less, literal.value)

    def visit_less_than_or_equal(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self._holds(self._lower, term, pc.less_equal, literal.value)

    def visit_greater_than(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self._holds(self._upper, term, pc.greater, literal.value)

    def visit_greater_than_or_equal(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self._holds(self._upper, term, pc.greater_equal, literal.value)

    def visit_equal(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self.visit_less_than_or_equal(term, literal) & self.visit_greater_than_or_equal(term, literal)

    def visit_in(self, term: Any, literals: set[Any]) -> npt.NDArray[np.bool_]:
        low = self._holds(self._lower, term, pc.less_equal, max(literals))
        return low & self._holds(self._upper, term, pc.greater_equal, min(literals))

    def visit_not_in(self, term: Any, literals: Any) -> npt.NDArray[np.bool_]:
        return self._all()

    def visit_not_equal(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self._all()

    def visit_is_null(self, term: Any) -> npt.NDArray[np.bool_]:
        return self._all()

    def visit_not_null(self, term: Any) -> npt.NDArray[np.bool_]:
        return self._all()

    def visit_is_nan(self, term: Any) -> npt.NDArray[np.bool_]:
        return self._all()

    def visit_not_nan(self, term: Any) -> npt.NDArray[np.bool_]:
        return self._all()

    def visit_starts_with(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self._all()

    def visit_not_starts_with(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self._all()
