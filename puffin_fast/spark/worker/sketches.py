"""On executors: theta sketches of a table's columns, and of the columns of a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from puffin_fast.errors import InvalidInputError
from puffin_fast.theta import ThetaSketch, ThetaSketchBuilder

if TYPE_CHECKING:
    pass

SKETCHES = pa.schema([("column", pa.int32()), ("sketch", pa.binary())])
"""A column's field id, or its index in a DataFrame, and a sketch of some of its values."""


def _rows(sketches: Mapping[int, ThetaSketch]) -> pa.RecordBatch:
    columns = [list(sketches), [sketch.to_bytes() for sketch in sketches.values()]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SKETCHES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SKETCHES)


def of_columns(batches: Iterable[pa.RecordBatch], *, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Sketches the columns of one partition of a DataFrame: one row for each column.

    Args:
        batches: the rows of the DataFrame.
        names: the names of its columns, for errors.
    """
    builders = [ThetaSketchBuilder() for _ in names]
    for batch in batches:
        for name, builder, values in zip(names, builders, batch.columns, strict=True):
            try:
                builder.update(values)
            except InvalidInputError as error:
                raise InvalidInputError(f"column {name!r}: {error}") from error
    yield _rows({at: builder.sketch() for at, builder in enumerate(builders)})


def unite(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Unites the sketches of each column; all rows of a column are in this partition."""
    builders: dict[int, ThetaSketchBuilder] = {}
    for batch in batches:
        for column, sketch in zip(batch["column"].to_pylist(), batch["sketch"].to_pylist(), strict=True):
            builder = builders.setdefault(column, ThetaSketchBuilder())
            builder.merge(ThetaSketch.from_bytes(sketch, path=f"sketch of column {column}"))
    if builders:
        yield _rows({column: builder.sketch() for column, builder in builders.items()})
