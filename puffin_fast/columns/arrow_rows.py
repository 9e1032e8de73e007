"""Converts the rows that a caller passes to Arrow, and renames columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from puffin_fast._text import counted, shown_argument, without_values
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import InvalidInputError

EXPECTED = "Arrow rows (a table, batches, a reader, a DataFrame of pandas or Polars, a list of dicts)"

_INSTEAD = {
    "pyspark": "pass .toArrow() of a small one; Spark itself appends large ones: df.writeTo(table).append()",
    "pyiceberg": "pass .scan().to_arrow_batch_reader() of a table, .to_arrow_batch_reader() of a scan",
    "deltalake": "pass puffin_fast.delta.scan(table)",
    "str": "pass pyarrow.dataset.dataset(path) to read a file",
    "ndarray": "pass a dict of columns: {'id': array}",
    **dict.fromkeys(("list", "tuple"), "pass a dict for each row: [{'id': 1}]"),
    "keys": "pass a list of the values of one column and its name: [1, 2], 'id'",
    "schema": "pass types by column: {'id': 'long', 'name': 'string'}",
    "deletes": "pass positions by path: {path: [0, 7]}; paths are in _file of a scan",
    "pathlib": "pass pyarrow.dataset.dataset(path) to read a file",
}
"""What to pass instead, by the package or name of a type that is not accepted, or by the name of the argument."""


def arrow_reader(rows: Any, what: str, expected: str = EXPECTED) -> pa.RecordBatchReader:
    """Returns the rows of an argument as a stream of record batches.

    Args:
        rows: an Arrow table, record batch, reader or dataset, batches, an object with the Arrow C stream or array
            interface, such as a DataFrame of pandas or Polars, a LazyFrame, a list of dicts, or a dict of columns. A
            named index of pandas is a column, unless there is a column of this name.
        what: the argument's name, for errors.
        expected: what the argument may be, for errors.

    Raises:
        InvalidInputError: the argument is none of these, or a single column.
    """
    if isinstance(rows, pa.RecordBatchReader):
        return rows
    if isinstance(rows, pa.Table):
        return rows.to_reader()
    package = type(rows).__module__.partition(".")[0]
    if package == "polars" and type(rows).__name__ == "LazyFrame":
        rows = rows.collect()
    if _is_column(rows):
        raise InvalidInputError(
            f"{what}: expected {expected}, found one column, {shown_argument(rows)}; pass {{'id': values}}"
        )
    if package == "polars" and "Object" in map(str, getattr(rows, "dtypes", ())):
        raise InvalidInputError(f"{what}: a Polars column of type Object; expected one of an Arrow type")
    try:
        if package == "pandas" and type(rows).__name__ == "DataFrame":
            return _of_pandas(rows).to_reader()
        if hasattr(rows, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(rows)
        if hasattr(rows, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(rows)]).to_reader()
        if package == "pyarrow" and hasattr(rows, "scanner"):  # a dataset
            rows = rows.scanner()
        if package == "pyarrow" and hasattr(rows, "to_reader"):
            return rows.to_reader()
        if isinstance(rows, Mapping):
            for name, column in rows.items():
                if isinstance(column, str | bytes) or not hasattr(column, "__len__"):
                    kind = "text" if isinstance(column, str) else type(column).__name__
                    raise TypeError(f"{name} is one {kind}; expected a sequence of values for each column")
            if not rows:
                raise TypeError("it has no columns")
            return pa.table(dict(rows)).to_reader()
        if isinstance(rows, Iterable) and not isinstance(rows, str | bytes) and not hasattr(rows, "dtype"):
            found = _of_items(rows)
            if found is not None:
                return found
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{what}: expected {expected}, found {type(rows).__name__}: {without_values(error)}"
        ) from None
    kind = type(rows).__name__
    if isinstance(rows, list | tuple) and rows:
        kind = f"{kind} of {type(rows[0]).__name__}"
    instead = _INSTEAD.get(package) or _INSTEAD.get(what) or _INSTEAD.get(type(rows).__name__)
    hint = f"; {instead}" if instead else ""
    raise InvalidInputError(f"{what}: expected {expected}, found {kind}{hint}")


def _is_column(rows: Any) -> bool:
    """Whether an object is one column: an array of Arrow that has no structs, or a series of pandas or Polars."""
    if isinstance(rows, pa.Array | pa.ChunkedArray):
        return not pa.types.is_struct(rows.type)
    is_series = type(rows).__name__ in ("Series", "Index") and hasattr(rows, "dtype")
    return is_series and "Struct" not in str(rows.dtype)


def _of_pandas(frame: Any) -> pa.Table:
    """Returns the rows of a DataFrame. Named levels of its index become columns, also of a RangeIndex."""
    names = [name for name in frame.index.names if name is not None and name not in frame.columns]
    if names:
        rest = [at for at, name in enumerate(frame.index.names) if name not in names]
        frame = (frame.droplevel(rest) if rest else frame).reset_index()
    return pa.Table.from_pandas(frame, preserve_index=False)


def _of_items(rows: Iterable[Any]) -> pa.RecordBatchReader | None:
    """The rows of batches, tables or dicts; None if the items are of another type. A list without items has no rows."""
    if not isinstance(rows, Sequence | Iterator):
        return None
    items = iter(rows)
    first = next(items, None)
    if isinstance(first, pa.RecordBatch | pa.Table):
        batches = chain.from_iterable(
            item.to_batches() if isinstance(item, pa.Table) else [item] for item in chain([first], items)
        )
        return pa.RecordBatchReader.from_batches(first.schema, batches)
    if first is None and isinstance(rows, list | tuple) and not rows:
        return pa.table({}).to_reader()
    if not isinstance(first, Mapping):
        return None
    dicts = [first, *items]
    if not all(isinstance(row, Mapping) for row in dicts):
        raise TypeError("expected a dict for each row")
    names = dict.fromkeys(chain.from_iterable(dicts))
    if not names:
        raise TypeError("its rows have no columns")
    if not all(isinstance(name, str) for name in names):
        raise TypeError("expected names of columns as keys")
    return pa.table({name: [row.get(name) for row in dicts] for name in names}).to_reader()


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
    if streamed:
        return reader
    try:
        return reader.read_all()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInputError(f"{what}: {without_values(error)}") from None


def key_rows(keys: Any, join_cols: str | Sequence[str] | None) -> Any:
    """Returns keys that are values, such as a list of numbers, or tuples of values as a table; others as they are.

    Raises:
        InvalidInputError: the keys are values of one column, but not exactly one column is named; or a tuple has more
            or fewer values than columns are named.
    """
    column: Any = None
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        column = None if pa.types.is_struct(keys.type) else keys
    elif isinstance(keys, set | frozenset | range):
        column = list(keys)
    elif isinstance(keys, list | tuple):
        is_column = not keys or not isinstance(keys[0], pa.RecordBatch | pa.Table | Mapping)
        column = keys if is_column else None
    elif (
        type(keys).__name__ in ("ndarray", "Series", "Index", "RangeIndex") and getattr(keys, "ndim", 1) == 1
    ):
        column = keys.to_arrow() if hasattr(keys, "to_arrow") else keys
    if column is None:
        return keys
    names = [join_cols] if isinstance(join_cols, str) else list(join_cols or ())
    if (
        names
        and isinstance(column, list | tuple)
        and column
        and all(isinstance(key, tuple) for key in column)
    ):
        if other := next((key for key in column if len(key) != len(names)), None):
            raise InvalidInputError(
                f"keys: expected tuples of {counted(len(names), 'value')}, one for each of join_cols, found one of "
                f"{len(other)}"
            )
        return pa.table(
            {name: _array(values) for name, values in zip(names, zip(*column, strict=True), strict=True)}
        )
    if len(names) != 1:
        raise InvalidInputError(
            f"keys: expected the name of one column for a {type(keys).__name__}, found {len(names)}: name it in "
            "join_cols, or pass a table of keys"
        )
    return pa.table({names[0]: _array(column)})


def _array(values: Any) -> pa.Array | pa.ChunkedArray:
    try:
        return values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"keys: expected values of one type: {without_values(error)}") from None


def position_rows(deletes: Any) -> Any:
    """Returns positions by path as rows with the columns ``file_path`` and ``pos``; other rows as they are.

    Raises:
        InvalidInputError: a path is not a string, or its positions are not integers.
    """
    if not isinstance(deletes, Mapping) or deletes.keys() == {"file_path", "pos"}:
        return deletes
    paths: list[pa.Array] = [pa.array([], pa.string())]
    found: list[pa.Array] = [pa.array([], pa.int64())]
    for path, given in deletes.items():
        if not isinstance(path, str):
            raise InvalidInputError(
                f"deletes: expected a mapping of paths to positions, found a key of type {type(path).__name__}"
            )
        bitmap = given if isinstance(given, PositionBitmap) else PositionBitmap.from_positions(given)
        found.append(bitmap.to_arrow())
        paths.append(pa.repeat(pa.scalar(path), len(bitmap)))
    return pa.table({"file_path": pa.chunked_array(paths), "pos": pa.chunked_array(found)})


def renamed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns a batch with a schema that has the same types and other names, at all depths.

    Arrow's cast matches fields by name, and drops fields with other names.
    """
    return pa.record_batch(_Renamed(batch, schema))


class _Renamed:
    """A batch exported with another schema."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch, self._schema = batch, schema

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[Any, Any]:
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]
