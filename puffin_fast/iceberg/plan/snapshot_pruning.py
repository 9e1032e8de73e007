"""Which manifests and files of a snapshot a filter excludes (table specification, "Scan Planning")."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo, Or, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.expressions.visitors import expression_evaluator, inclusive_projection, manifest_evaluator
from pyiceberg.schema import Schema
from pyiceberg.transforms import TruncateTransform
from pyiceberg.types import IntegerType, LongType

from puffin_fast._process.cached import cached_property
from puffin_fast.avro.integers import Mask
from puffin_fast.columns.decimals import exact_decimals
from puffin_fast.errors import CorruptDataError, PuffinFastError
from puffin_fast.iceberg.manifest import ManifestEntry, ManifestFile, partition_type
from puffin_fast.iceberg.manifest.columns import FileColumns, Select
from puffin_fast.iceberg.manifest.reader import BOUNDS
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.filters.pruning import BoundsPruner

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.metadata import TableMetadata

    from puffin_fast.rows.filters.filters import Matcher

_FEW = 64
"""Maximum number of entries of a manifest that are kept if they were made for their metrics: they take memory."""


@dataclass(frozen=True)
class _SpecPruning:
    """The evaluators of a filter for one partition spec, made when they are needed."""

    spec: PartitionSpec
    metadata: TableMetadata
    schema: Schema
    expression: BooleanExpression
    case_sensitive: bool

    @cached_property
    @exact_decimals()
    def projection(self) -> BooleanExpression:
        if not self.spec.fields:
            return AlwaysTrue()
        project = inclusive_projection(self.schema, self.spec, self.case_sensitive)
        try:
            return _or_wrapped(project(self.expression), self.spec, self.schema)
        except ArithmeticError:  # a date before the first or after the last date of Python
            return AlwaysTrue()

    @cached_property
    def manifest(self) -> Callable[[Any], bool]:
        return manifest_evaluator(self.spec, self.schema, self.projection, self.case_sensitive)

    @cached_property
    def partition(self) -> Callable[[Any], bool] | None:
        if isinstance(self.projection, AlwaysTrue):
            return None
        values = Schema(*partition_type(self.metadata, self.spec).fields)
        return cache(expression_evaluator(values, self.projection, self.case_sensitive))


def _or_wrapped(projection: BooleanExpression, spec: PartitionSpec, schema: Schema) -> BooleanExpression:
    """Adds the partitions whose value wrapped around: Java and Rust truncate in 32 or 64 bits, so that the least
    integers, rounded down, are in one of the last partitions, where no projection looks for them."""
    for field in spec.fields:
        source = schema.find_type(field.source_id) if schema.find_column_name(field.source_id) else None
        if isinstance(field.transform, TruncateTransform) and source in (IntegerType(), LongType()):
            for bits in (32, 64) if source == LongType() else (32,):  # perhaps an integer that was widened
                if over := -(1 << bits - 1) % field.transform.width:
                    wrapped = EqualTo(term=Reference(field.name), value=literal((1 << bits - 1) - over))
                    projection = Or(projection, wrapped)
    return projection


class SnapshotPruning:
    """The evaluators of a filter on manifests and files, made once for each partition spec."""

    def __init__(self, metadata: TableMetadata, schema: Schema, row_filter: Matcher) -> None:
        expression = row_filter.expression
        self.filters = not isinstance(expression, AlwaysTrue)
        self._location = metadata.location
        self._specs = {
            spec_id: _SpecPruning(spec, metadata, schema, expression, row_filter.case_sensitive)
            for spec_id, spec in metadata.specs().items()
        }
        self._pruner = BoundsPruner(schema, expression, row_filter.case_sensitive) if self.filters else None
        self._is_exact = isinstance(row_filter, RowFilter)  # of keys, the expression has the range only
        self._metrics = row_filter.may_match(schema) if self.filters else None

    def _spec(self, spec_id: int) -> _SpecPruning:
        try:
            return self._specs[spec_id]
        except KeyError:
            raise CorruptDataError(
                "partition spec of a manifest",
                path=self._location,
                expected=sorted(self._specs),
                found=spec_id,
            ) from None

    def may_match_manifest(self, manifest: ManifestFile) -> bool:
        spec = self._spec(manifest.spec_id)
        if not self.filters or isinstance(spec.projection, AlwaysTrue):
            return True
        return _checked(spec.manifest, manifest.path)(manifest)

    def delete_files(self, files: FileColumns) -> FileColumns:
        """Excludes delete files by partition only: their metrics describe deleted rows, not live rows."""
        by_partition = self._spec(files.manifest.spec_id).partition if self.filters else None
        return files if by_partition is None else files.take(_of_partitions(files, by_partition))

    def selecting(self, select: Select | None) -> Select | None:
        """Returns which data files remain by partition and bounds; `select` is asked first, if it is given."""
        pruner = self._pruner
        if pruner is None:
            return select

        def remaining(files: FileColumns) -> Mask:
            mask = np.ones(len(files), np.bool_) if select is None else select.chosen(files)
            some = files.take(mask)
            wanted = pruner.may_match(some)
            spec = self._spec(files.manifest.spec_id)
            if spec.partition is not None:
                wanted[wanted] = _of_partitions(some.take(wanted), spec.partition)
            mask[mask] = wanted
            return mask

        return Select(remaining, BOUNDS if select is None else (*BOUNDS, *select.fields))

    def data_files(self, files: FileColumns) -> tuple[FileColumns, list[ManifestEntry] | None]:
        """Excludes data files that remain by `selecting` by all metrics.

        Returns:
            the others; and their entries, if they were made.
        """
        if self._pruner is None or self._metrics is None or not len(files):
            return files, None
        is_decided = self._pruner.decide(files)[1]
        is_decided &= self._is_exact & (files.integers("record_count").values > 0)
        if is_decided.all():
            return files, None
        rows = np.flatnonzero(~is_decided)
        may_match, mask = _checked(self._metrics), np.ones(len(files), np.bool_)
        entries = files.take(rows).entries()
        mask[rows] = [may_match(entry) for entry in entries]
        if len(entries) == len(files) <= _FEW and mask.all():
            return files, entries
        return files.take(mask), None


def _of_partitions(files: FileColumns, test: Callable[[Any], bool]) -> npt.NDArray[np.bool_]:
    """Tests each partition once; returns which files are of those that pass."""
    numbers, partitions = files.partitions()
    passed = np.empty(len(partitions), np.bool_)
    for number, partition in enumerate(partitions):
        try:
            passed[number] = test(partition)
        except PuffinFastError:
            raise
        except _UNREADABLE as error:
            (entry,) = files.take(np.flatnonzero(numbers == number)[:1]).entries()
            raise CorruptDataError(f"partition values or bounds: {error!r}", path=entry.file_path) from error
    return passed[numbers]


_UNREADABLE = (ArithmeticError, IndexError, TypeError, ValueError, struct.error)
"""What the evaluators raise for values of another type."""


def _checked(test: Callable[[Any], bool], path: str | None = None) -> Callable[[Any], bool]:
    """Makes a test name the file whose partition values or bounds cannot be decoded; `path` is that of a manifest."""

    def check(tested: Any) -> bool:
        try:
            return test(tested)
        except PuffinFastError:
            raise
        except _UNREADABLE as error:
            where = path or tested.file_path
            raise CorruptDataError(f"partition values or bounds: {error!r}", path=where) from error

    return check
