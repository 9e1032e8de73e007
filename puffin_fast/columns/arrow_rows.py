"""Converts the rows that a caller passes to Arrow, and renames columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from puffin_fast.errors import InvalidInputError

__all__ = ["arrow_reader", "arrow_rows", "renamed"]


def arrow_reader(rows: Any, what: str) -> pa.RecordBatchReader:
    """Returns the rows of an argument as a stream of record batches.

    Args:
        rows: an Arrow table, record batch or reader, or an object with the Arrow C stream or array interface,
            such as a DataFrame of pandas or Polars.
        what: the argument's name, for errors.

    Raises:
        InvalidInputError: the argument is none of these, or a single column.
    """
    if isinstance(rows, pa.RecordBatchReader):
        return rows
    if isinstance(rows, pa.Table):
        return rows.to_reader()
    if type(rows).__module__.startswith("polars.") and "Object" in map(str, getattr(rows, "dtypes", ())):
        raise InvalidInputError(f"{what}: a Polars column of type Object; expected one of an Arrow type")
    try:
        if hasattr(rows, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(rows)
        if hasattr(rows, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(rows)]).to_reader()
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{what}: expected Arrow rows (a table, a reader, a DataFrame), found {type(rows).__name__}: {error}"
        ) from error
    raise InvalidInputError(
        f"{what}: expected Arrow rows (a table, a reader, a DataFrame), found {type(rows).__name__}"
    )


def arrow_rows(rows: Any, what: str, *, streamed: bool) -> pa.Table | pa.RecordBatchReader:
    """Returns the rows of an argument as a table, or as a reader if they are a stream.

    Args:
        rows, what: as for `arrow_reader`.
        streamed: whether a stream is returned as a reader; otherwise it is read into memory.

    Raises:
        InvalidInputError: as `arrow_reader`.
    """
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return rows
    reader = arrow_reader(rows, what)
    return reader if streamed else reader.read_all()


def renamed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns a batch with a schema of equal types and other names, at all depths.

    Arrow's cast matches fields by name, and drops those that are called otherwise.
    """
    return pa.record_batch(_Renamed(batch, schema))


class _Renamed:
    """A batch exported with another schema."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch, self._schema = batch, schema

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[Any, Any]:
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]
