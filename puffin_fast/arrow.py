"""Functions on Arrow arrays of positions and of blobs, with one native call for each array.

Each function accepts any object with the Arrow C interface (pyarrow, polars, pandas, DuckDB, arro3), chunked, sliced,
dictionary-encoded or run-end encoded. The result for a null is null. A null inside of a list raises an error with the
name and row, and so does a null in `encode_grouped`, because it names no row of a data file.

Blobs are `deletion-vector-v1` of the Puffin specification. ``codec`` names another format of `puffin_fast.dv`:
``"iceberg"``, ``"delta"``, ``"paimon"`` (written: version 2), ``"paimon-v1"``, ``"lance"`` or ``"mumbling"``. The first
three have equal bytes; blobs of the others are converted one by one.

Results are `binary` and `list` arrays, as PySpark accepts them, or `large_binary` and `large_list` if the blobs
together exceed 2 GiB or the items together 2^31 - 1. ``type`` names the type of the result, such as that of a schema's
field.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, TypeAlias

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
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg
from puffin_fast.dv.conversion import SAME, codec_of, convert
from puffin_fast.errors import InvalidInputError, LimitExceededError
from puffin_fast.theta import ThetaSketch

__all__ = [
    "cardinality",
    "contains",
    "decode",
    "difference",
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
_EMPTY = iceberg.encode(PositionBitmap())
_BYTES = (bytes, bytearray, memoryview, pa.Buffer)

Valid: TypeAlias = "npt.NDArray[np.bool_] | None"
"""Which rows are not null; None if all are not."""


# ---- columns in ----------------------------------------------------------------------------------------------


def _column(source: Any, what: str) -> pa.Array:
    """Converts an object with the Arrow C interface, or a sequence, to one aligned array, as `joined`; the dictionary
    of a result has no null."""
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
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = decoded(column)
    return column


def _without_nulls(column: pa.Array, what: str) -> pa.Array:
    if nulls := column.null_count:
        row = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]
        raise InvalidInputError(f"{what}: row {row} is null, {nulls} of {len(column)} are")
    return column


def _valid(column: pa.Array) -> Valid:
    return column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None


def _both(left: Valid, right: Valid) -> Valid:
    return (left if right is None else right) if left is None or right is None else left & right


def _sound(column: pa.Array, what: str) -> pa.Array:
    """Checks all offsets of a column, which Arrow's functions do not."""
    try:
        column.validate(full=True)
    except pa.ArrowException as error:
        raise InvalidInputError(f"{what}: {error}") from error
    return column


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        or types.is_list_view(kind) or types.is_large_list_view(kind)
    )  # fmt: skip


def _lists(source: Any, what: str) -> tuple[pa.Array, npt.NDArray[np.int64], Valid]:
    """Returns the items of a column of lists, n + 1 offsets into them that start at 0, and which lists are not null. A
    null has no items."""
    column = decoded(_column(source, what))
    valid = _valid(column)
    if pa.types.is_null(column.type):
        return pa.nulls(0), np.zeros(len(column) + 1, np.int64), valid
    if not _is_list(column.type):
        raise InvalidInputError(f"{what}: expected lists, found {column.type}")
    if len(column) == 0:  # offsets need not exist
        return pa.array([], column.type.value_type), np.zeros(1, np.int64), valid
    if valid is not None or not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        column = _sound(column, what)
        lengths = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
        return column.flatten(), np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))), valid
    offsets = column.offsets.to_numpy().astype(np.int64)
    items = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    return items, offsets - offsets[0], valid


def _row_of_item(offsets: npt.NDArray[np.int64], item: int) -> int:
    return int(np.searchsorted(offsets, item, side="right")) - 1


def _refuse_null_item(items: pa.Array, offsets: npt.NDArray[np.int64], what: str) -> None:
    if items.null_count:
        item = int(np.flatnonzero(items.is_null().to_numpy(zero_copy_only=False))[0])
        row = _row_of_item(offsets, item)
        raise InvalidInputError(f"{what}: row {row}: item {item - offsets[row]} is null")


_Blobs: TypeAlias = "tuple[Any, npt.NDArray[np.int64], int, Valid]"


def _blobs(source: Any, what: str, codec: str) -> _Blobs:
    """Returns (bytes, n + 1 offsets into them, n, rows that are not null) of a column of blobs. A null is the empty
    vector there."""
    return _blobs_of(decoded(_column(source, what)), what, lambda row: f"{what}: row {row}", codec)


def _blobs_of(column: pa.Array, what: str, where: Callable[[int], str], codec: str) -> _Blobs:
    valid, kind = _valid(column), column.type
    if pa.types.is_null(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        column = column.cast(pa.large_binary())
    elif not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise InvalidInputError(f"{what}: expected binary values, found {kind}")
    if codec != "iceberg":
        column = _of_iceberg(_sound(column, what), where, codec)
    if valid is not None:
        column = _sound(column, what).fill_null(_EMPTY)
    n = len(column)
    _, offsets, data = column.buffers()
    width = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    if n == 0 or offsets is None:
        return b"", np.zeros(1, np.int64), 0, valid
    bounds = np.frombuffer(offsets, width)[column.offset : column.offset + n + 1].astype(np.int64)
    return data or b"", bounds, n, valid


def _of_iceberg(column: pa.Array, where: Callable[[int], str], codec: str) -> pa.Array:
    """Converts blobs of a codec to those of `deletion-vector-v1`."""
    codec_of(codec, "codec")
    if codec in SAME and pc.all(pc.equal(pc.binary_slice(column, 4, 8), iceberg.MAGIC), min_count=0).as_py():
        return column
    return pa.array(
        (
            None if blob is None else convert(blob, codec, "iceberg", path=where(row))
            for row, blob in enumerate(value.as_py() for value in column)
        ),
        pa.large_binary(),
    )


# ---- columns out ---------------------------------------------------------------------------------------------


def _bits(valid: Valid) -> pa.Buffer | None:
    return None if valid is None else pa.array(valid).buffers()[1]


def _offsets(ends: Any) -> tuple[bool, pa.Buffer]:
    """Returns whether offsets fit 32 bits, and their buffer."""
    offsets = np.frombuffer(ends, np.int64)
    fits = bool(offsets[-1] <= _INT32_MAX)
    return fits, pa.py_buffer(offsets.astype(np.int32) if fits else ends)


def _binary(data: Any, ends: Any, n: int, valid: Valid = None) -> pa.Array:
    fits, offsets = _offsets(ends)
    kind = pa.binary() if fits else pa.large_binary()
    return pa.Array.from_buffers(kind, n, [_bits(valid), offsets, pa.py_buffer(data)])


def _list(items: pa.Array, ends: Any, n: int, valid: Valid) -> pa.Array:
    fits, offsets = _offsets(ends)
    kind = pa.list_(items.type) if fits else pa.large_list(items.type)
    return pa.Array.from_buffers(kind, n, [_bits(valid), offsets], children=[items])


def _int64(data: Any, n: int, valid: Valid = None) -> pa.Int64Array:
    return pa.Array.from_buffers(pa.int64(), n, [_bits(valid), pa.py_buffer(data)])


def _bool(flags: npt.NDArray[np.bool_], valid: Valid) -> pa.BooleanArray:
    return pa.array(flags, mask=None if valid is None else ~valid)


def _typed(found: pa.Array, kind: pa.DataType | None) -> pa.Array:
    """Converts a result to the type that the caller asked for."""
    if kind is None or found.type == kind:
        return found
    if not isinstance(kind, pa.DataType):
        raise InvalidInputError(f"type: expected an Arrow type, found {builtins.type(kind).__name__}")
    try:
        return found.cast(kind)
    except pa.ArrowException as error:
        raise InvalidInputError(f"type: {found.type} of {len(found)} rows as {kind}: {error}") from error


def _encoded(found: pa.Array, what: str, kind: pa.DataType | None, codec: str) -> pa.Array:
    """Converts blobs of `deletion-vector-v1` to the codec and the type that the caller asked for."""
    if codec not in SAME:
        codec_of(codec, "codec")
        blobs = []
        for row, blob in enumerate(found):
            try:
                blobs.append(convert(blob.as_py(), "iceberg", codec) if blob.is_valid else None)
            except LimitExceededError as error:
                raise LimitExceededError(f"{what}: row {row}: {error}") from error
        fits = sum(len(blob) for blob in blobs if blob is not None) <= _INT32_MAX
        found = pa.array(blobs, pa.binary() if fits else pa.large_binary())
    return _typed(found, kind)


# ---- the functions -------------------------------------------------------------------------------------------


def _row(what: str) -> Callable[[int], str]:
    return lambda i: f"{what}: row {i}"


def encode(lists: Any, *, type: pa.DataType | None = None, codec: str = "iceberg") -> pa.Array:
    """Encodes each list of positions as a blob; an empty list becomes the empty vector.

    Args:
        lists: a list array of any integer type, positions in any order, with or without repeats.
        type: the type of the result: binary, large_binary or binary_view.
        codec: the format of the blobs.

    Returns:
        A binary array as long as `lists`; null for a null list.

    Raises:
        InvalidInputError: the array has another type, a null item, or a negative or too large position; the codec is
            unknown.
        LimitExceededError: the codec cannot represent a position.

    Examples:
        >>> blobs = pf.arrow.encode(pa.array([[0, 5, 70_000], [], None], pa.list_(pa.int64())))
        >>> blobs.type, len(blobs), pf.arrow.cardinality(blobs).to_pylist()
        (DataType(binary), 3, [3, 0, None])
    """
    items, offsets, valid = _lists(lists, "lists")
    _refuse_null_item(items, offsets, "lists")
    positions, n = as_positions(items, "lists"), len(offsets) - 1
    encoded = batch.encode_lists(positions, offsets, n, MAX_POSITION)
    if isinstance(encoded, int):
        refuse_position(positions[offsets[encoded] : offsets[encoded + 1]], f"lists: row {encoded}")
    data, ends, _ = encoded
    return _encoded(_binary(data, ends, n, valid), "lists", type, codec)


def decode(blobs: Any, *, type: pa.DataType | None = None, codec: str = "iceberg") -> pa.Array:
    """Decodes each blob to its positions, ascending.

    Args:
        blobs: binary values.
        type: the type of the result, a list of integers; such as ``schema.field("positions").type``.
        codec: the format of the blobs.

    Returns:
        list<int64>; large_list<int64> for 2^31 positions and more. Null for a null blob.

    Raises:
        InvalidInputError: the array is not binary, or its positions do not fit the type.
        CorruptDataError: a blob is not well-formed; the message names its row.

    Examples:
        >>> pf.arrow.decode(pf.arrow.encode([[5, 0], [1]])).to_pylist()
        [[0, 5], [1]]
        >>> pf.arrow.decode(pf.arrow.encode([[5, 0]]), type=pa.list_(pa.uint64())).type
        ListType(list<item: uint64>)
    """
    data, offsets, n, valid = _blobs(blobs, "blobs", codec)
    values, ends = batch.decode_blobs(data, offsets, n, _row("blobs"))
    return _typed(_list(_int64(values, len(values) // 8), ends, n, valid), type)


def cardinality(blobs: Any, *, codec: str = "iceberg") -> pa.Int64Array:
    """Returns the number of positions of each blob, which is checked completely; null for a null blob.

    Args:
        blobs: binary values.
        codec: the format of the blobs.

    Raises:
        InvalidInputError, CorruptDataError: as `decode`.

    Examples:
        >>> blobs = pf.arrow.encode([[0, 5, 70_000], [1, 2]])
        >>> pf.arrow.cardinality(blobs).to_pylist()
        [3, 2]
    """
    data, offsets, n, valid = _blobs(blobs, "blobs", codec)
    return _int64(batch.cardinality(data, offsets, n, _row("blobs")), n, valid)


def union(lists: Any, *, type: pa.DataType | None = None, codec: str = "iceberg") -> pa.Array:
    """Unites each list of blobs to one blob; an empty list becomes the empty vector, and a null one null.

    Args:
        lists: lists of binary values.
        type: as in `encode`.
        codec: the format of the blobs and of the result.

    Raises:
        InvalidInputError, CorruptDataError: as `decode`; also a null inside of a list.

    Examples:
        >>> a, b = pf.arrow.encode([[0, 5], [5, 9]])
        >>> pf.arrow.decode(pf.arrow.union(pa.array([[a.as_py(), b.as_py()]]))).to_pylist()
        [[0, 5, 9]]
    """
    items, offsets, valid = _lists(lists, "lists")
    _refuse_null_item(items, offsets, "lists")

    def where(blob: int) -> str:
        row = _row_of_item(offsets, blob)
        return f"lists: row {row}: item {blob - offsets[row]}"

    data, bounds, n_blobs, _ = _blobs_of(decoded(_column(items, "lists")), "lists", where, codec)
    data, ends, _ = batch.union_blobs(data, bounds, n_blobs, offsets, len(offsets) - 1, where)
    return _encoded(_binary(data, ends, len(offsets) - 1, valid), "lists", type, codec)


def difference(
    blobs: Any, others: Any, *, type: pa.DataType | None = None, codec: str = "iceberg"
) -> pa.Array:
    """Subtracts from each blob the positions of another: what a new vector deletes beyond the old one, row by row.

    Args:
        blobs: binary values.
        others: as many, or one `bytes` that is subtracted from each.
        type: as in `encode`.
        codec: the format of the blobs, of the others and of the result.

    Returns:
        A binary array as long as `blobs`; null where the blob or the other is null.

    Raises:
        InvalidInputError, CorruptDataError: as `decode`; also arrays of different lengths.

    Examples:
        >>> new, old = pf.arrow.encode([[0, 5, 9], [1]]), pf.arrow.encode([[5], [1, 2]])
        >>> pf.arrow.decode(pf.arrow.difference(new, old)).to_pylist()
        [[0, 9], []]
    """
    one = isinstance(others, _BYTES)
    data, offsets, n, valid = _blobs(blobs, "blobs", codec)
    given = pa.array([bytes(others)], pa.large_binary()) if one else others
    other_data, other_offsets, n_others, other_valid = _blobs(given, "others", codec)
    if n_others != n and not one:
        raise InvalidInputError(f"others: expected {n}, one for each blob, found {n_others}")
    data, ends = batch.difference_blobs(
        data, offsets, n, other_data, other_offsets, n_others, _row("blobs"), _row("others")
    )
    return _encoded(_binary(data, ends, n, _both(valid, other_valid)), "blobs", type, codec)


def _integers(source: Any, what: str) -> tuple[npt.NDArray[Any], Valid]:
    """Converts integers of any kind, as `as_positions`, and returns which are not null; a null is 0 there."""
    if isinstance(source, list | tuple):
        if None not in source:
            return as_positions(source, what), None
        numbers = as_positions([0 if one is None else one for one in source], what)
        return numbers, np.array([one is not None for one in source])
    if isinstance(source, (pa.Array, pa.ChunkedArray)) or hasattr(source, "__arrow_c_stream__"):
        column = decoded(_column(source, what))
        valid = _valid(column)
        if pa.types.is_null(column.type):
            return np.zeros(len(column), np.int64), valid
        if valid is not None and pa.types.is_integer(column.type):
            column = column.fill_null(0)
        return as_positions(column, what), valid
    return as_positions(source, what), None


def contains(blobs: Any, positions: Any, *, codec: str = "iceberg") -> pa.BooleanArray:
    """Returns whether each position is in the blob of its row; false for negative positions.

    Each blob of a dictionary-encoded column (such as the vector of a file, for each of its rows) is decoded once, and
    each run once.

    Args:
        blobs: binary values, or one `bytes` for all positions.
        positions: as many integers, or one for all blobs.
        codec: the format of the blobs.

    Returns:
        A boolean array; null where the blob or the position is null.

    Raises:
        InvalidInputError: the lengths differ, or an array has a wrong type.
        CorruptDataError: as `decode`.

    Examples:
        >>> blobs = pf.arrow.encode([[0, 5, 70_000], [1, 2]])
        >>> pf.arrow.contains(blobs, [5, 5]).to_pylist()
        [True, False]
    """
    if isinstance(blobs, _BYTES):
        asked, known = _integers(positions, "positions")
        return _bool(codec_of(codec, "codec")[1](blobs).contains(asked), known)
    column = _column(blobs, "blobs")
    if isinstance(positions, int | np.integer):
        one = as_positions([int(positions)])
        asked, known = np.full(len(column), one[0], one.dtype), None
    else:
        asked, known = _integers(positions, "positions")
    if len(asked) != len(column):
        raise InvalidInputError(f"positions: expected {len(column)}, one for each blob, found {len(asked)}")
    if pa.types.is_dictionary(column.type):
        valid = _both(_valid(column), known)
        return _bool(_contains_by_dictionary(column, asked, valid, codec), valid)
    data, offsets, n, valid = _blobs_of(column, "blobs", _row("blobs"), codec)
    answers = batch.contains_each(data, offsets, n, asked, _row("blobs"))
    return _bool(np.frombuffer(memoryview(answers), np.bool_), _both(valid, known))


def _contains_by_dictionary(
    column: pa.DictionaryArray, asked: npt.NDArray[Any], valid: Valid, codec: str
) -> npt.NDArray[np.bool_]:
    kept = np.arange(len(column)) if valid is None else np.flatnonzero(valid)
    ids = column.indices.fill_null(0).to_numpy().astype(np.int64)[kept]
    order = np.argsort(ids, kind="stable")
    used, starts = np.unique(ids[order], return_index=True)
    answers = np.zeros(len(column), np.bool_)
    _, decode_one = codec_of(codec, "codec")
    for blob_id, start, stop in zip(used, starts, [*starts[1:], len(ids)], strict=False):
        rows = kept[order[start:stop]]
        blob = column.dictionary[int(blob_id)].as_py()
        answers[rows] = decode_one(blob, path=f"blobs: row {rows[0]}").contains(asked[rows])
    return answers


def mask(blobs: Any, n_rows: Any, *, type: pa.DataType | None = None, codec: str = "iceberg") -> pa.Array:
    """Returns a flag for each row of each blob's data file: true if the row is deleted.

    Args:
        blobs: binary values, or one `bytes`.
        n_rows: rows of each data file, or one number for all.
        type: the type of the result.
        codec: the format of the blobs.

    Returns:
        list<bool>, large_list<bool> for 2^31 rows and more, or for one blob a boolean array of n_rows. Null where the
        blob or the number of rows is null.

    Raises:
        InvalidInputError, CorruptDataError: as `decode`; also a negative number of rows.

    Examples:
        >>> pf.arrow.mask(pf.arrow.encode([[0, 2]]), 4).to_pylist()
        [[True, False, True, False]]
    """
    if isinstance(blobs, _BYTES):
        bits = codec_of(codec, "codec")[1](blobs).mask_packed(n_rows)
        return _typed(pa.Array.from_buffers(pa.bool_(), n_rows, [None, pa.py_buffer(bits)]), type)
    data, offsets, n, valid = _blobs(blobs, "blobs", codec)
    rows: npt.NDArray[Any]
    if isinstance(n_rows, int | np.integer):
        rows = np.full(n, as_position(int(n_rows), "n_rows"))
    else:
        rows, known = _integers(n_rows, "n_rows")
        valid = _both(valid, known)
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
    if valid is not None:
        rows = np.where(valid, rows, 0)
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(rows.astype(np.int64))))
    packed = batch.mask_blobs(data, offsets, n, ends, _row("blobs"))
    flags = pa.Array.from_buffers(pa.bool_(), int(ends[-1]), [None, pa.py_buffer(packed)])
    return _typed(_list(flags, ends, n, valid), type)


def encode_grouped(file_path: Any, pos: Any, *, codec: str = "iceberg") -> pa.RecordBatch:
    """Encodes the positions of each distinct file path as one blob.

    Args:
        file_path: strings.
        pos: as many integers, in any order, with or without repeats.
        codec: the format of the blobs.

    Returns:
        A batch of (file_path: string, blob: binary, cardinality: int64), in the order of the paths' dictionary.
        Paths that together exceed 2 GiB are large_string.

    Raises:
        InvalidInputError: the lengths differ, an array has a wrong type or nulls, a position is negative or too
            large, or the codec is unknown.
        LimitExceededError: the codec cannot represent a position.

    Examples:
        >>> batch = pf.arrow.encode_grouped(pa.array(["a", "b", "a"]), pa.array([0, 1, 5]))
        >>> batch["file_path"].to_pylist(), batch["cardinality"].to_pylist()
        (['a', 'b'], [2, 1])
    """
    paths = _without_nulls(_column(file_path, "file_path"), "file_path")
    kind = value_type(paths.type)
    if pa.types.is_null(kind) and len(paths) == 0:
        paths = pa.array([], pa.string())
    elif not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise InvalidInputError(f"file_path: expected strings, found {paths.type}")
    positions = as_positions(_without_nulls(_column(pos, "pos"), "pos"), "pos")
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
    blobs = _encoded(_binary(data, ends, n), "file_path", None, codec)
    text = pa.string() if names.nbytes <= _INT32_MAX else pa.large_string()
    return pa.record_batch(
        [names.cast(text), blobs, _int64(cardinalities, n)], names=["file_path", "blob", "cardinality"]
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
    """Returns the union of all sketches of a column of serialised sketches; nulls are not counted.

    Args:
        sketches: binary values, each a compact theta sketch (`apache-datasketches-theta-v1`).

    Raises:
        InvalidInputError: the array is not binary.
        CorruptDataError, UnsupportedError: as `ThetaSketch.from_bytes`; the message names the row.

    Examples:
        >>> sketches = [pf.arrow.theta_sketch(pa.array(values)).to_bytes() for values in ([1, 2], [2, 3])]
        >>> pf.arrow.theta_union(pa.array(sketches)).estimate
        3.0
    """
    data, offsets, n, valid = _blobs(sketches, "sketches", "iceberg")
    view = memoryview(data)
    return ThetaSketch.union_all(
        ThetaSketch.from_bytes(view[offsets[row] : offsets[row + 1]], path=f"sketches: row {row}")
        for row in (range(n) if valid is None else np.flatnonzero(valid).tolist())
    )
