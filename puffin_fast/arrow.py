"""Functions on Arrow arrays of positions and of blobs, with one native call for each array.

Each function accepts any object with the Arrow C interface (pyarrow, polars, pandas, DuckDB, arro3), chunked, sliced,
dictionary-encoded or run-end encoded. For nulls it raises an error with the name and row. Blobs are
`deletion-vector-v1` of the Puffin specification.
Results are `binary` arrays, or `large_binary` if the blobs together exceed 2 GiB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._alignment import aligned
from puffin_fast._kernels.roaring import batch
from puffin_fast._positions import (
    MAX_POSITION,
    as_position,
    as_positions,
    checked_array,
    decoded,
    joined,
    refuse_position,
    value_type,
)
from puffin_fast.dv import iceberg
from puffin_fast.errors import InvalidInputError
from puffin_fast.theta import ThetaSketch

__all__ = [
    "cardinality",
    "contains",
    "decode",
    "encode",
    "encode_grouped",
    "mask",
    "theta_sketch",
    "theta_union",
    "union",
]


def __dir__() -> list[str]:
    return sorted(__all__)


_INT32_MAX = (1 << 31) - 1
_MOST_ROWS = (1 << 60) - 1


# ---- columns in ----------------------------------------------------------------------------------------------


def _column(source: Any, what: str) -> pa.Array:
    """Converts an object with the Arrow C interface, or a sequence, to one aligned array without nulls, as `joined`."""
    if isinstance(source, (pa.Array, pa.ChunkedArray)):  # a union would be made in each call
        column = source
    elif hasattr(source, "__arrow_c_array__"):
        column = pa.array(source)
    elif hasattr(source, "__arrow_c_stream__"):
        column = pa.chunked_array(source)
    else:
        try:
            column = pa.array(source)
        except (pa.ArrowException, TypeError) as error:
            raise InvalidInputError(f"{what}: expected an Arrow array: {error}") from error
    checked_array(column, what)
    column = aligned(joined(column))
    nulls = column.null_count
    if nulls == 0 and pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = decoded(column)
        nulls = column.null_count
    if nulls:
        row = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]
        raise InvalidInputError(f"{what}: row {row} is null, {nulls} of {len(column)} are")
    return column


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        or types.is_list_view(kind) or types.is_large_list_view(kind)
    )  # fmt: skip


def _lists(source: Any, what: str) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Returns the items of a column of lists, and n + 1 offsets into them that start at 0."""
    column = decoded(_column(source, what))
    if pa.types.is_null(column.type) and len(column) == 0:
        return pa.array([], pa.int64()), np.zeros(1, np.int64)
    if not _is_list(column.type):
        raise InvalidInputError(f"{what}: expected lists, found {column.type}")
    if len(column) == 0:  # offsets need not exist
        return pa.array([], column.type.value_type), np.zeros(1, np.int64)
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        lengths = pc.list_value_length(column).to_numpy().astype(np.int64)
        return column.flatten(), np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    offsets = column.offsets.to_numpy().astype(np.int64)
    items = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    return items, offsets - offsets[0]


def _row_of_item(offsets: npt.NDArray[np.int64], item: int) -> int:
    return int(np.searchsorted(offsets, item, side="right")) - 1


def _refuse_null_item(items: pa.Array, offsets: npt.NDArray[np.int64], what: str) -> None:
    if items.null_count:
        item = int(np.flatnonzero(items.is_null().to_numpy(zero_copy_only=False))[0])
        row = _row_of_item(offsets, item)
        raise InvalidInputError(f"{what}: row {row}: item {item - offsets[row]} is null")


def _blobs(source: Any, what: str) -> tuple[Any, npt.NDArray[np.int64], int]:
    """Returns (bytes, n + 1 offsets into them, n) of a column of binary values."""
    return _blobs_of(decoded(_column(source, what)), what)


def _blobs_of(column: pa.Array, what: str) -> tuple[Any, npt.NDArray[np.int64], int]:
    kind = column.type
    if pa.types.is_null(kind) and len(column) == 0:
        column = pa.array([], pa.large_binary())
    elif pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        column = column.cast(pa.large_binary())
    elif not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise InvalidInputError(f"{what}: expected binary values, found {kind}")
    n = len(column)
    _, offsets, data = column.buffers()
    width = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    if n == 0 or offsets is None:
        return b"", np.zeros(1, np.int64), 0
    bounds = np.frombuffer(offsets, width)[column.offset : column.offset + n + 1].astype(np.int64)
    return data or b"", bounds, n


# ---- columns out ---------------------------------------------------------------------------------------------


def _binary(data: Any, ends: Any, n: int) -> pa.Array:
    offsets = np.frombuffer(ends, np.int64)
    if offsets[-1] <= _INT32_MAX:
        narrow = pa.py_buffer(offsets.astype(np.int32))
        return pa.Array.from_buffers(pa.binary(), n, [None, narrow, pa.py_buffer(data)])
    return pa.Array.from_buffers(pa.large_binary(), n, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def _int64(data: Any, n: int) -> pa.Int64Array:
    return pa.Array.from_buffers(pa.int64(), n, [None, pa.py_buffer(data)])


# ---- the functions -------------------------------------------------------------------------------------------


def _row(what: str) -> Callable[[int], str]:
    return lambda i: f"{what}: row {i}"


def encode(lists: Any) -> pa.Array:
    """Encodes each list of positions as a blob; an empty list becomes the empty vector.

    Args:
        lists: a list array of any integer type, positions in any order, with or without repeats.

    Returns:
        A binary array as long as `lists`.

    Raises:
        InvalidInputError: the array has another type, a null list or item, or a negative or too large position.

    Examples:
        >>> blobs = pf.arrow.encode(pa.array([[0, 5, 70_000], []], pa.list_(pa.int64())))
        >>> blobs.type, len(blobs), pf.arrow.cardinality(blobs).to_pylist()
        (DataType(binary), 2, [3, 0])
    """
    items, offsets = _lists(lists, "lists")
    _refuse_null_item(items, offsets, "lists")
    positions, n = as_positions(items, "lists"), len(offsets) - 1
    encoded = batch.encode_lists(positions, offsets, n, MAX_POSITION)
    if isinstance(encoded, int):
        refuse_position(positions[offsets[encoded] : offsets[encoded + 1]], f"lists: row {encoded}")
    data, ends, _ = encoded
    return _binary(data, ends, n)


def decode(blobs: Any) -> pa.LargeListArray:
    """Decodes each blob to its positions, ascending, as large_list<int64>.

    Raises:
        InvalidInputError: the array is not binary, or has a null.
        CorruptDataError: a blob is not well-formed; the message names its row.

    Examples:
        >>> pf.arrow.decode(pf.arrow.encode([[5, 0], [1]])).to_pylist()
        [[0, 5], [1]]
    """
    data, offsets, n = _blobs(blobs, "blobs")
    values, ends = batch.decode_blobs(data, offsets, n, _row("blobs"))
    items = _int64(values, len(values) // 8)
    return pa.Array.from_buffers(pa.large_list(pa.int64()), n, [None, pa.py_buffer(ends)], children=[items])


def cardinality(blobs: Any) -> pa.Int64Array:
    """Returns the number of positions of each blob, which is checked completely.

    Raises:
        InvalidInputError, CorruptDataError: as `decode`.

    Examples:
        >>> blobs = pf.arrow.encode([[0, 5, 70_000], [1, 2]])
        >>> pf.arrow.cardinality(blobs).to_pylist()
        [3, 2]
    """
    data, offsets, n = _blobs(blobs, "blobs")
    return _int64(batch.cardinality(data, offsets, n, _row("blobs")), n)


def union(lists: Any) -> pa.Array:
    """Unites each list of blobs to one blob; an empty list becomes the empty vector.

    Raises:
        InvalidInputError, CorruptDataError: as `decode`.

    Examples:
        >>> a, b = pf.arrow.encode([[0, 5], [5, 9]])
        >>> pf.arrow.decode(pf.arrow.union(pa.array([[a.as_py(), b.as_py()]]))).to_pylist()
        [[0, 5, 9]]
    """
    items, offsets = _lists(lists, "lists")
    _refuse_null_item(items, offsets, "lists")
    data, bounds, n_blobs = _blobs(items, "lists")

    def where(blob: int) -> str:
        row = _row_of_item(offsets, blob)
        return f"lists: row {row}: item {blob - offsets[row]}"

    data, ends, _ = batch.union_blobs(data, bounds, n_blobs, offsets, len(offsets) - 1, where)
    return _binary(data, ends, len(offsets) - 1)


def contains(blobs: Any, positions: Any) -> pa.BooleanArray:
    """Returns whether each position is in the blob of its row; false for negative positions.

    Each blob of a dictionary-encoded column (such as the vector of a file, for each of its rows) is decoded once, and
    each run once.

    Args:
        blobs: binary values, or one `bytes` for all positions.
        positions: as many integers, or one for all blobs.

    Raises:
        InvalidInputError: the lengths differ, or an array has a wrong type or nulls.
        CorruptDataError: as `decode`.

    Examples:
        >>> blobs = pf.arrow.encode([[0, 5, 70_000], [1, 2]])
        >>> pf.arrow.contains(blobs, [5, 5]).to_pylist()
        [True, False]
    """
    if isinstance(blobs, bytes | bytearray | memoryview | pa.Buffer):
        return pa.array(iceberg.decode(blobs).contains(as_positions(positions)))
    column = _column(blobs, "blobs")
    asked: npt.NDArray[Any]
    if isinstance(positions, int | np.integer):
        one = as_positions([int(positions)])
        asked = np.full(len(column), one[0], one.dtype)
    else:
        asked = as_positions(positions)
    if len(asked) != len(column):
        raise InvalidInputError(f"positions: expected {len(column)}, one for each blob, found {len(asked)}")
    if pa.types.is_dictionary(column.type):
        return _contains_by_dictionary(column, asked)
    data, offsets, n = _blobs_of(column, "blobs")
    answers = batch.contains_each(data, offsets, n, asked, _row("blobs"))
    return pa.array(np.frombuffer(memoryview(answers), np.bool_))


def _contains_by_dictionary(column: pa.DictionaryArray, asked: npt.NDArray[Any]) -> pa.BooleanArray:
    ids = column.indices.to_numpy().astype(np.int64)
    order = np.argsort(ids, kind="stable")
    used, starts = np.unique(ids[order], return_index=True)
    answers = np.empty(len(ids), np.bool_)
    for blob_id, rows in zip(used, np.split(order, starts[1:]), strict=True):
        blob = column.dictionary[int(blob_id)].as_py()
        answers[rows] = iceberg.decode(blob, path=f"blobs: row {rows[0]}").contains(asked[rows])
    return pa.array(answers)


def mask(blobs: Any, n_rows: Any) -> pa.Array:
    """Returns a flag for each row of each blob's data file: true if the row is deleted.

    Args:
        blobs: binary values, or one `bytes`.
        n_rows: rows of each data file, or one number for all.

    Returns:
        large_list<bool>, or for one blob a boolean array of n_rows.

    Raises:
        InvalidInputError, CorruptDataError: as `decode`; also a negative number of rows.

    Examples:
        >>> pf.arrow.mask(pf.arrow.encode([[0, 2]]), 4).to_pylist()
        [[True, False, True, False]]
    """
    if isinstance(blobs, bytes | bytearray | memoryview | pa.Buffer):
        bits = iceberg.decode(blobs).mask_packed(n_rows)
        return pa.Array.from_buffers(pa.bool_(), n_rows, [None, pa.py_buffer(bits)])
    data, offsets, n = _blobs(blobs, "blobs")
    if isinstance(n_rows, int | np.integer):
        rows: npt.NDArray[Any] = np.full(n, as_position(int(n_rows), "n_rows"))
    else:
        rows = as_positions(n_rows, "n_rows")
    if len(rows) != n:
        raise InvalidInputError(f"n_rows: expected {n}, one for each blob, found {len(rows)}")
    wrong = np.flatnonzero(
        (rows < 0) | (rows > _MOST_ROWS // max(n, 1))
    )  # so that their sum does not overflow
    if len(wrong):
        row = int(wrong[0])
        raise InvalidInputError(
            f"n_rows: row {row}: expected 0 to 2^60 in all {n} rows together, found {rows[row]}"
        )
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(rows.astype(np.int64))))
    packed = batch.mask_blobs(data, offsets, n, ends, _row("blobs"))
    flags = pa.Array.from_buffers(pa.bool_(), int(ends[-1]), [None, pa.py_buffer(packed)])
    return pa.Array.from_buffers(pa.large_list(pa.bool_()), n, [None, pa.py_buffer(ends)], children=[flags])


def encode_grouped(file_path: Any, pos: Any) -> pa.RecordBatch:
    """Encodes the positions of each distinct file path as one blob.

    Args:
        file_path: strings.
        pos: as many integers, in any order, with or without repeats.

    Returns:
        A batch of (file_path: string, blob: binary, cardinality: int64), in the order of the paths' dictionary.

    Raises:
        InvalidInputError: the lengths differ, an array has a wrong type or nulls, or a position is negative or too
            large.

    Examples:
        >>> batch = pf.arrow.encode_grouped(pa.array(["a", "b", "a"]), pa.array([0, 1, 5]))
        >>> batch["file_path"].to_pylist(), batch["cardinality"].to_pylist()
        (['a', 'b'], [2, 1])
    """
    paths = _column(file_path, "file_path")
    kind = value_type(paths.type)
    if pa.types.is_null(kind) and len(paths) == 0:
        paths = pa.array([], pa.string())
    elif not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise InvalidInputError(f"file_path: expected strings, found {paths.type}")
    positions = as_positions(_column(pos, "pos"), "pos")
    if len(positions) != len(paths):
        raise InvalidInputError(f"pos: expected {len(paths)}, one for each file_path, found {len(positions)}")
    if pa.types.is_string_view(kind):
        paths = decoded(paths).cast(pa.large_string())
    encoded = paths if pa.types.is_dictionary(paths.type) else paths.dictionary_encode()
    ids, names = _groups(encoded)
    items, offsets = _gather(ids, positions, len(names))
    n = len(names)
    encoded_lists = batch.encode_lists(items, offsets, n, MAX_POSITION)
    if isinstance(encoded_lists, int):
        refuse_position(positions, "pos")
    data, ends, cardinalities = encoded_lists
    return pa.record_batch(
        [names.cast(pa.string()), _binary(data, ends, n), _int64(cardinalities, n)],
        names=["file_path", "blob", "cardinality"],
    )


def _groups(encoded: pa.DictionaryArray) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """Returns a group id for each row, and the names of the groups. A dictionary of the caller may have repeated and
    unused values."""
    ids = np.ascontiguousarray(encoded.indices.to_numpy(), np.int32)
    names = encoded.dictionary
    distinct = names.dictionary_encode()
    if len(distinct.dictionary) != len(names):
        ids, names = distinct.indices.to_numpy()[ids], distinct.dictionary
    used = np.flatnonzero(np.bincount(ids, minlength=len(names)))
    if len(used) != len(names):
        renumbered = np.zeros(len(names), np.int32)
        renumbered[used] = np.arange(len(used), dtype=np.int32)
        ids, names = renumbered[ids], names.take(pa.array(used))
    return ids, names


def _gather(
    ids: npt.NDArray[np.int32], positions: npt.NDArray[Any], n_groups: int
) -> tuple[Any, npt.NDArray[np.int64]]:
    """Returns the positions ordered by group, and offsets into them; rows that are already grouped are not copied."""
    if len(ids) == 0 or bool((ids[1:] >= ids[:-1]).all()):
        return positions, np.searchsorted(ids, np.arange(n_groups + 1)).astype(np.int64)
    items, offsets = batch.group(ids, positions, n_groups)
    return np.frombuffer(memoryview(items), positions.dtype), np.frombuffer(memoryview(offsets), np.int64)


def theta_sketch(values: Any, iceberg_type: Any = None) -> ThetaSketch:
    """Returns the sketch of a column's distinct values, as `ThetaSketch.from_arrow`.

    Args:
        values, iceberg_type: as in `ThetaSketch.from_arrow`.

    Raises:
        InvalidInputError: in the cases of `ThetaSketch.from_arrow`.

    Examples:
        >>> pf.arrow.theta_sketch(pa.array([1, 2, 2, 3])).estimate
        3.0
    """
    return ThetaSketch.from_arrow(values, iceberg_type)


def theta_union(sketches: Any) -> ThetaSketch:
    """Returns the union of all sketches of a column of serialised sketches.

    Args:
        sketches: binary values, each a compact theta sketch (`apache-datasketches-theta-v1`).

    Raises:
        InvalidInputError: the array is not binary, or has a null.
        CorruptDataError, UnsupportedError: as `ThetaSketch.from_bytes`; the message names the row.

    Examples:
        >>> sketches = [pf.arrow.theta_sketch(pa.array(values)).to_bytes() for values in ([1, 2], [2, 3])]
        >>> pf.arrow.theta_union(pa.array(sketches)).estimate
        3.0
    """
    data, offsets, n = _blobs(sketches, "sketches")
    view = memoryview(data)
    return ThetaSketch.union(
        ThetaSketch.from_bytes(view[offsets[row] : offsets[row + 1]], path=f"sketches: row {row}")
        for row in range(n)
    )
