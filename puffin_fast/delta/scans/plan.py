"""Plans the data files of a snapshot that a filter does not exclude, with their deletion vectors.

Statistics and partition values of all files are compared with the filter at once, by columns. Statistics may be missing
or wider than the rows (`tightBounds`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import bind, rewrite_not, visit
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField, StructType

from puffin_fast.delta.log.actions import partition_column
from puffin_fast.delta.log.protocol import is_set
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.scans.pruning import Pruner
from puffin_fast.delta.scans.schema import TableSchema
from puffin_fast.delta.scans.statistics import Statistics, typed
from puffin_fast.delta.scans.tasks import DeltaTasks
from puffin_fast.delta.scans.widening import widened
from puffin_fast.dv import delta as codec
from puffin_fast.errors import CorruptDataError
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.files.metadata_columns import MetadataColumn
from puffin_fast.rows.filters.filters import Matcher, RowFilter
from puffin_fast.rows.scan.explain import Reads
from puffin_fast.rows.scan.file_reader import FileReader, ReaderFactory
from puffin_fast.rows.scan.finder import Finder


@dataclass(frozen=True)
class DeltaTable:
    """A snapshot, and the schema for reading its files.

    Attributes:
        snapshot: the snapshot of the log.
        schema: its schema and names.
        metadata: in the form that the data-file reader needs.
    """

    snapshot: Snapshot
    schema: TableSchema
    metadata: TableMetadata

    @classmethod
    def of(cls, snapshot: Snapshot, columns: Container[str] | None = None) -> DeltaTable:
        """Converts the schema of a snapshot, or some columns of it, as `TableSchema.of`.

        Raises:
            UnsupportedError: the type of a column is not supported.
        """
        schema = TableSchema.of(snapshot, columns)
        return cls(snapshot, schema, schema.metadata(snapshot.root))

    def without_files(self) -> DeltaTable:
        """The version as executors need it: without files and history."""
        snapshot = self.snapshot
        bare = Snapshot(
            snapshot.storage, snapshot.version, snapshot.protocol, snapshot.metadata, pa.table({})
        )
        return replace(self, snapshot=bare)

    @property
    def tracks_rows(self) -> bool:
        """Whether rows have row ids."""
        return is_set(self.snapshot.configuration, "delta.enableRowTracking")

    def loader(self) -> DeleteLoader:
        """Loads the positions that are deleted already."""
        return DeleteLoader(self.snapshot.storage, codec.decode)

    @property
    def reading(self) -> Mapping[str, Any]:
        """Arguments of `FileReader` and `Finder`, by name."""
        return {"by_name": self.schema.by_name, "cast": widened, "decode": codec.decode}

    def reader(
        self,
        fields: Sequence[NestedField],
        extra: Sequence[MetadataColumn],
        matcher: Matcher,
        arrow: pa.Schema,
        reads: Reads | None = None,
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
            **self.reading,
            reads=reads,
        )

    def reader_factory(self, matcher: Matcher, reads: Reads | None = None) -> ReaderFactory:
        """Makes readers of the data files for one filter."""
        return lambda fields, extra, arrow: self.reader(fields, extra, matcher, arrow, reads)

    def finder(self, matcher: Matcher, reads: Reads | None = None) -> Finder:
        """Returns the object that finds the matching rows of data files."""
        return Finder(
            self.snapshot.storage,
            self.metadata,
            matcher,
            **self.reading,
            reads=reads,
        )


def plan_files(table: DeltaTable, matcher: Matcher | None = None, *, metrics: bool = False) -> DeltaTasks:
    """Returns the data files that a scan or a delete of a snapshot reads, each with its vector.

    Args:
        table: the snapshot.
        matcher: excludes files in which no row can match; with None, all files are planned.
        metrics: whether tasks have the bounds of the matcher's columns (without a matcher: of all columns).

    Raises:
        CorruptDataError: a descriptor or a partition value is invalid, or a data file is live more than once.
        NotFoundError: a data file does not exist whose row count is not in the log.
    """
    table.snapshot.check_files()
    files = table.snapshot.files
    rows = np.arange(files.num_rows)
    if matcher is not None and matcher.always_false:
        return DeltaTasks(table.snapshot, rows[:0], Statistics(rows[:0]), {}, [])
    fields = _fields(table, matcher, metrics)
    partitions = partition_values(table, files)
    statistics = Statistics.of(files["stats"], _paths(table, fields), table.snapshot.root)
    exact = True
    if matcher is not None and not isinstance(matcher.expression, AlwaysTrue):
        keeps = Pruner(statistics, partitions, files.num_rows)
        bound = bind(table.schema.schema, rewrite_not(matcher.expression), matcher.case_sensitive)
        rows, exact = np.flatnonzero(visit(bound, keeps)), keeps.exact
    may_match: Callable[[Any], bool] | None = None
    if matcher is not None and matcher.field_ids and not (exact and isinstance(matcher, RowFilter)):
        may_match = matcher.may_match(table.schema.schema)
    tasks = DeltaTasks(table.snapshot, rows, statistics, partitions, fields if may_match or metrics else [])
    if may_match is not None:
        tasks = tasks.take([at for at, task in enumerate(tasks) if may_match(task.data)])
    tasks.count_rows()
    return tasks


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


def partition_values(table: DeltaTable, files: pa.Table) -> dict[int, pa.Array]:
    """Returns the partition values of all files by field id, in the types of the columns.

    Raises:
        CorruptDataError: a value does not fit the type of its column.
    """
    pairs = zip(table.schema.partition_fields, table.schema.partition_names, strict=True)
    return {
        field.field_id: typed_partition(
            field, files[partition_column(name)].combine_chunks(), table.snapshot.root
        )
        for field, name in pairs
    }


def typed_partition(field: NestedField, values: pa.Array, root: str) -> pa.Array:
    """Converts partition values from the form of the log to the type of their column.

    Args:
        field: the column.
        values: strings.

    Raises:
        CorruptDataError: a value does not fit the type of its column.
    """
    try:
        return typed(values, field.field_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise CorruptDataError(
            f"partition value of {field.name}",
            path=root,
            expected=field.field_type,
            found=str(error).splitlines()[0],
        ) from error
