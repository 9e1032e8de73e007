"""`PositionBitmap`: an immutable set of row positions, stored as its serialised bytes.

More than 400 lines, because it is one class; the kernels implement its methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin_fast._api.arguments import check_flags
from puffin_fast._api.keywords import named_attributes
from puffin_fast._display.html import html_fields, html_strip
from puffin_fast._kernels.roaring import masks, query, split, stored
from puffin_fast._positions import (
    MAX_POSITION,
    as_bytes,
    as_integer,
    as_position,
    as_positions,
    refuse_masked,
    refuse_position,
)
from puffin_fast.errors import InvalidInputError

__all__ = ["MAX_POSITION", "ContainerCounts", "PositionBitmap"]

_UINT64, _INT64 = np.dtype(np.uint64), np.dtype(np.int64)
_STRIPES = 128  # ranges of positions whose density notebooks show
_SLICE = 1 << 16  # number of positions that iteration converts to Python integers at a time


def _out(
    out: npt.NDArray[Any] | None, n: int, dtypes: tuple[npt.DTypeLike, ...], what: str
) -> npt.NDArray[Any]:
    """Returns a new array of n items of the first dtype, or the first n items of `out`."""
    if not 0 <= as_integer(n, what) < 1 << 60:
        raise InvalidInputError(f"{what}: expected a number of rows from 0 to 2^60, found {n}")
    if out is None:
        return np.empty(n, dtypes[0])
    if not isinstance(out, np.ndarray):
        raise InvalidInputError(f"out: expected a NumPy array, found {type(out).__name__}")
    flags = out.flags
    fits = out.dtype in dtypes and out.ndim == 1 and out.size >= n
    if not (fits and flags.c_contiguous and flags.aligned and flags.writeable):
        raise InvalidInputError(
            f"out: expected a writable contiguous array of {' or '.join(str(np.dtype(d)) for d in dtypes)} with at "
            f"least {n} items, found {out.dtype} of shape {out.shape}"
        )
    return out[:n]


def _is_eight_bytes(dtype: npt.DTypeLike) -> bool:
    try:
        return np.dtype(dtype) in (np.uint64, np.int64)
    except TypeError:
        return False


def _flags_of(mask: Any) -> Any:
    """Converts a series of Polars or pandas to an Arrow array; other objects are returned unchanged."""
    try:
        if hasattr(mask, "__arrow_c_stream__"):
            return pa.chunked_array(mask)
        if hasattr(mask, "__arrow_c_array__") or (hasattr(mask, "__array__") and hasattr(mask, "__len__")):
            return pa.array(mask)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"mask: expected one flag a row, found {type(mask).__name__}: {error}"
        ) from error
    return mask


def _bitmaps_of(bitmaps: Any, verb: str) -> list[PositionBitmap]:
    """The bitmaps of an iterable, which is not a bitmap itself: that one has positions."""
    if isinstance(bitmaps, PositionBitmap) or not isinstance(bitmaps, Iterable):
        found = type(bitmaps).__name__
        raise InvalidInputError(
            f"bitmaps: expected an iterable of bitmaps, found {found}; write bitmap.{verb}(*others) for single ones"
        )
    return list(bitmaps)


class ContainerCounts(NamedTuple):
    """The numbers of containers of each kind in a bitmap."""

    array: int
    bitmap: int
    run: int


_NAMES = {
    **dict.fromkeys(
        ("add", "append", "update", "insert", "add_range", "update_range"),
        "bitmap | PositionBitmap.from_positions([...]): a bitmap does not change",
    ),
    **dict.fromkeys(
        ("remove", "discard", "pop", "clear"),
        "bitmap - PositionBitmap.from_positions([...]): a bitmap does not change",
    ),
    **{
        f"{name}_update": f"bitmap.{name}(...), a new set: a bitmap does not change"
        for name in ("intersection", "difference", "symmetric_difference")
    },
    **dict.fromkeys(
        ("to_list", "tolist", "to_pylist", "to_array", "positions"), "to_numpy() or list(bitmap)"
    ),
    **dict.fromkeys(("cardinality", "size", "count", "get_cardinality"), "len(bitmap)"),
    **dict.fromkeys(("contains", "has"), "position in bitmap"),
    **dict.fromkeys(("serialize", "dumps", "to_bytes"), "pf.dv.iceberg.encode(bitmap)"),
    **dict.fromkeys(("deserialize", "loads", "from_bytes"), "pf.dv.iceberg.decode(blob)"),
}
"""Names that other libraries have, and what a bitmap has instead."""


@named_attributes({name: f"write {text}" for name, text in _NAMES.items()})
class PositionBitmap(stored.StoredBitmap):
    """An immutable set of positions, 0 … MAX_POSITION, as portable 64-bit Roaring bytes.

    The serialised bytes are the data structure: each operation reads them in place and writes new bytes, in the form in
    which Java and CRoaring write a set that is built position by position. Bytes of other writers are checked once and
    not changed.

    Several threads may use a bitmap at the same time. Arrays and buffers that are passed as arguments must not change
    during the call. If another thread writes to them, only the memory of the result is written to, and the call raises
    `InvalidInputError` or returns a set of other positions.

    Source: the Puffin specification, `deletion-vector-v1`; the Roaring format specification, "portable".

    Examples:
        >>> bitmap = PositionBitmap.from_positions([5, 0, 70_000, 5])
        >>> bitmap
        PositionBitmap([0, 5, 70000])
        >>> bitmap | PositionBitmap.from_range(3, 6), 5 in bitmap, bitmap.rank(5), bitmap.select(2)
        (PositionBitmap([0, 3, 4, 5, 70000]), True, 2, 70000)
        >>> bitmap.mask(6).tolist()
        [True, False, False, False, False, True]
    """

    __slots__ = ("__weakref__",)

    def __init__(self, positions: Any = ()) -> None:
        array = as_positions(positions)
        encoded = stored.of_positions(type(self), np.asarray(array))
        if encoded is None:
            refuse_position(array)
        self._become(encoded)

    # ---- making one ---------------------------------------------------------------------------------------

    @classmethod
    def from_positions(cls, positions: Any) -> PositionBitmap:
        """Makes the set of the given positions, which may be in any order and repeated.

        Memory in addition to the result: for sorted 8-byte positions, 64 KiB and 4 bytes per container; for unsorted
        ones, 4 bytes per position and a copy of the containers, or 16 bytes per position if they are few or very
        sparse. Arrays of other dtypes are copied first.

        Args:
            positions: a NumPy array of any integer dtype, an Arrow array or chunked array (or any object with the
                Arrow C interface), a range, or an iterable of Python integers.

        Raises:
            InvalidInputError: a null, a negative or too large position, or a value that is not an integer.
        """
        if type(positions) is np.ndarray:
            # None: the array must be copied first, or has a position out of range
            encoded = stored.of_positions(cls, positions)
            if encoded is not None:
                return encoded
        elif isinstance(positions, range) and positions.step == 1:
            return cls.from_range(positions.start, positions.stop)
        return cls(positions)

    @classmethod
    def from_range(cls, start: int, stop: int) -> PositionBitmap:
        """Makes the set of the positions start … stop - 1; empty if stop <= start.

        Args:
            start: the first position.
            stop: the one after the last position.

        Raises:
            InvalidInputError: the range is not inside of 0 … MAX_POSITION.
        """
        start, stop = as_integer(start, "start"), as_integer(stop, "stop")
        if stop <= start:
            return cls()
        if start < 0 or stop - 1 > MAX_POSITION:
            raise InvalidInputError(f"range: expected 0 to {MAX_POSITION}, found {start} to {stop - 1}")
        return stored.written(cls, *masks.encode_range(start, stop))

    @classmethod
    def from_mask(cls, mask: Any) -> PositionBitmap:
        """Makes the set of the rows whose flag is set.

        Args:
            mask: one flag per row: a NumPy bool (or uint8) array, or a boolean array of Arrow or series of Polars or
                pandas, in which null means not set (as in SQL's WHERE).

        Raises:
            InvalidInputError: the mask is another object.
        """
        if not isinstance(mask, np.ndarray | pa.Array | pa.ChunkedArray):
            mask = _flags_of(mask)
        if isinstance(mask, pa.ChunkedArray):
            mask = (
                mask.chunk(0)
                if mask.num_chunks == 1
                else pa.concat_arrays(mask.chunks or [pa.array([], mask.type)])
            )
        if isinstance(mask, pa.Array):
            if not pa.types.is_boolean(mask.type):
                raise InvalidInputError(f"mask: expected bool, found {mask.type}")
            if mask.null_count:
                mask = mask.fill_null(False)
            values = mask.buffers()[1]
            return stored.written(cls, *masks.encode_flags(values or b"", mask.offset, len(mask), True))
        array = mask if isinstance(mask, np.ndarray) else np.asarray(mask)
        refuse_masked(array, "mask")
        if array.ndim != 1 or (array.size and array.dtype not in (np.bool_, np.uint8)):
            raise InvalidInputError(
                f"mask: expected one flag a row, found {array.dtype} of shape {array.shape}"
            )
        flags = np.ascontiguousarray(array).view(np.uint8)
        return stored.written(cls, *masks.encode_flags(flags, 0, array.size, False))

    @classmethod
    def from_bytes(cls, data: Any, *, path: str | None = None, offset: int = 0) -> PositionBitmap:
        """Makes a set of portable 64-bit Roaring bytes, which are checked completely; buffers other than `bytes` are
        copied.

        Refused are: truncated bytes, trailing bytes, keys that do not ascend or are 2^31 - 1 or more, unknown cookies,
        a wrong offset table, values or runs that do not ascend or overlap, and a wrong cardinality. Accepted as
        non-canonical are: empty inner bitmaps, run containers that would be smaller in another form, runs that touch,
        and the run cookie without a run container. Operations write them in the canonical form.

        No memory is allocated before the checks have passed, and only the copy afterwards.

        Args:
            data: any contiguous buffer.
            path, offset: the place of the bytes, for errors.

        Raises:
            CorruptDataError: a rule of the format is violated. The message has the rule, the offset and the value.
        """
        data = as_bytes(data, "bitmap", offset)
        return stored.of_bytes(cls, data, 0, len(data), path, offset)

    @classmethod
    def union_all(cls, bitmaps: Iterable[PositionBitmap]) -> PositionBitmap:
        """Unites any number of bitmaps in one pass; the union of none is empty.

        Raises:
            InvalidInputError: an item is not a PositionBitmap.

        Examples:
            >>> PositionBitmap.union_all([PositionBitmap([1]), PositionBitmap([5]), PositionBitmap([1, 7])])
            PositionBitmap([1, 5, 7])
        """
        return stored.union(cls, _bitmaps_of(bitmaps, "union"))

    @classmethod
    def intersection_all(cls, bitmaps: Iterable[PositionBitmap]) -> PositionBitmap:
        """Intersects any number of bitmaps in one pass.

        Raises:
            InvalidInputError: an item is not a PositionBitmap, or there is none.

        Examples:
            >>> PositionBitmap.intersection_all([PositionBitmap([1, 5]), PositionBitmap([5, 7])])
            PositionBitmap([5])
        """
        every = _bitmaps_of(bitmaps, "intersection")
        if not every:
            raise InvalidInputError("bitmaps: expected at least one, found none")
        return (stored.union if len(every) == 1 else stored.intersection)(cls, every)

    # ---- bytes --------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Returns the portable 64-bit Roaring bytes."""
        if self._start == 0 and self._stop == len(self._data):
            return self._data
        return self._data[self._start : self._stop]

    @property
    def view(self) -> memoryview:
        """Returns the same bytes without a copy."""
        return memoryview(self._data)[self._start : self._stop]

    @property
    def n_bytes(self) -> int:
        """The number of serialised bytes."""
        return self._stop - self._start

    def __bytes__(self) -> bytes:
        """The portable 64-bit Roaring bytes, as `to_bytes`. A blob of a table has a frame around them, which a codec
        writes: `puffin_fast.dv.iceberg.encode`."""
        return self.to_bytes()

    def canonical(self) -> PositionBitmap:
        """Returns the same set in the canonical form, in which each container has its smallest form."""
        return self.union_all((self,))

    def containers(self) -> ContainerCounts:
        """Returns the numbers of array, bitmap and run containers."""
        return ContainerCounts(*self._facts()[:3])

    # ---- positions ----------------------------------------------------------------------------------------

    def to_numpy(
        self, dtype: npt.DTypeLike = np.uint64, out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[np.uint64] | npt.NDArray[np.int64]:
        """Returns all positions, ascending.

        Args:
            dtype: uint64 or int64.
            out: a contiguous 8-byte integer array to write to instead of a new one, of at least len(self) items.

        Returns:
            An array of shape (len(self),); with `out`, its first len(self) items.

        Raises:
            InvalidInputError: another dtype, or an `out` that is too small, not contiguous or not writable.
        """
        if out is not None:
            out = _out(out, self._cardinality, (np.uint64, np.int64), "positions")
            self._decode_into(out)
            return out
        if dtype is np.uint64:
            out = np.empty(self._cardinality, _UINT64)
        elif dtype is np.int64:
            out = np.empty(self._cardinality, _INT64)
        elif _is_eight_bytes(dtype):
            out = np.empty(self._cardinality, dtype)
        else:
            raise InvalidInputError(f"dtype: expected uint64 or int64, found {dtype}")
        self._fill(out)
        return out

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Returns all positions, ascending, for `numpy.asarray`; uint64 by default.

        Raises:
            ValueError: ``copy=False``, because the positions are decoded to a new array.
        """
        if copy is False:
            raise ValueError("a PositionBitmap holds encoded positions: NumPy needs a copy")
        positions = self.to_numpy(
            np.int64 if dtype is not None and np.dtype(dtype) == np.int64 else np.uint64
        )
        return positions if dtype is None else positions.astype(dtype, copy=False)

    __array_ufunc__ = None
    """NumPy's operators refuse a bitmap: ``array - bitmap`` would not be a difference of sets."""

    def to_arrow(self) -> pa.Int64Array:
        """Returns all positions, ascending, as an Arrow int64 array."""
        return pa.array(self.to_numpy(np.int64))

    def mask(
        self, n_rows: int, *, start: int = 0, invert: bool = False, out: npt.NDArray[np.bool_] | None = None
    ) -> npt.NDArray[np.bool_]:
        """Returns one flag per row: True if the row is in the set (with `invert`: if it is not).

        Args:
            n_rows: number of rows.
            start: the position of the first row.
            invert: flag the rows that are not in the set.
            out: a contiguous bool array of at least n_rows items to write to instead of a new one.
        """
        check_flags(invert=invert)
        out = _out(out, n_rows, (np.bool_,), "mask")
        masks.mask_into(self._data, self._start, out, as_position(start, "start"), invert)
        return out

    def mask_packed(
        self, n_rows: int, *, start: int = 0, out: npt.NDArray[np.uint8] | None = None
    ) -> npt.NDArray[np.uint8]:
        """Returns one bit per row, least significant first (as in Arrow), in (n_rows + 7) // 8 bytes; 1 if the row is
        in the set.

        Args:
            n_rows: number of rows.
            start: the position of the first row, a multiple of 65,536.
            out: a contiguous uint8 array of at least as many bytes to write to instead of a new one.
        """
        if as_position(start, "start") % 65_536:
            raise InvalidInputError(f"start: expected a multiple of 65536, found {start}")
        out = _out(out, (as_position(n_rows, "mask: rows") + 7) // 8, (np.uint8,), "mask")
        masks.bits_into(self._data, self._start, out, n_rows, start)
        return out

    # ---- queries ------------------------------------------------------------------------------------------

    def _lookup(self) -> query.Directory:
        if self._directory is None:
            self._directory = query.Directory(self._data, self._start, sum(self.containers()))
        return self._directory

    def contains(self, positions: Any, *, out: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.bool_]:
        """Returns whether each of the given positions, in any order, is in the set; false for negative ones.

        Args:
            positions: integers: a NumPy or Arrow array, or a sequence.
            out: an array of booleans of the same length that the result is written to.

        Returns:
            `out`, or a new array.

        Raises:
            InvalidInputError: the positions are not integers, have a null, or `out` has another type or length.
        """
        array = as_positions(positions)
        out = _out(out, array.size, (np.bool_,), "contains")
        self._lookup().contains(array, out)
        return out

    def __contains__(self, position: object) -> bool:
        if not isinstance(position, int | np.integer):
            return False
        position = int(position)
        return 0 <= position < 1 << 63 and self._lookup().contains_one(position)

    def rank(self, position: int) -> int:
        """Returns the number of positions of the set that are <= position."""
        position = as_integer(position, "position")
        return 0 if position < 0 else int(self._lookup().rank(min(position, (1 << 63) - 1)))

    def select(self, index: int) -> int:
        """Returns the position with exactly `index` smaller positions in the set.

        Raises:
            InvalidInputError: index is not in 0 … len(self) - 1.
        """
        index = as_integer(index, "index")
        if not 0 <= index < self._cardinality:
            raise InvalidInputError(f"index: expected one below {self._cardinality} positions, found {index}")
        return int(self._lookup().select(index))

    def min(self) -> int:
        """Returns the smallest position.

        Raises:
            InvalidInputError: the set is empty.
        """
        return self._not_empty()[3]

    def max(self) -> int:
        """Returns the largest position.

        Raises:
            InvalidInputError: the set is empty.
        """
        return self._not_empty()[4]

    def _not_empty(self) -> tuple[int, int, int, int, int]:
        if self._cardinality == 0:
            raise InvalidInputError("an empty bitmap has no smallest and no largest position")
        return self._facts()

    @property
    def cardinality(self) -> int:
        """The number of positions; also len()."""
        return self._cardinality

    def __iter__(self) -> Iterator[int]:
        positions = self.to_numpy()
        for begin in range(0, len(positions), _SLICE):
            yield from positions[begin : begin + _SLICE].tolist()

    # ---- sets ---------------------------------------------------------------------------------------------

    @staticmethod
    def _other(other: object) -> PositionBitmap:
        """Returns a bitmap as it is, and positions as a bitmap."""
        if isinstance(other, PositionBitmap):
            return other
        if isinstance(other, list | tuple) and any(isinstance(one, PositionBitmap) for one in other):
            raise InvalidInputError(
                f"bitmap: expected a PositionBitmap or positions, found a {type(other).__name__} of bitmaps; write "
                "bitmap.union(*others) or PositionBitmap.union_all(bitmaps), and likewise for other operations"
            )
        return PositionBitmap(other)

    @staticmethod
    def _others(*sets: object) -> list[PositionBitmap]:
        """`_other` of each argument; the first is `self`, which is anything in ``PositionBitmap.union(anything)``."""
        return [PositionBitmap._other(one) for one in sets]

    def union(self, *others: PositionBitmap | Any) -> PositionBitmap:
        """Returns the positions that are in this set or in one of the others, as ``frozenset.union``; also | for one.

        Args:
            others: bitmaps, or positions as `from_positions` accepts them.

        Raises:
            InvalidInputError: an argument has no positions.

        Examples:
            >>> PositionBitmap([1]).union(PositionBitmap([5]), [7])
            PositionBitmap([1, 5, 7])
        """
        every = PositionBitmap._others(self, *others)
        return stored.union(type(every[0]), every) if others else every[0]

    def intersection(self, *others: PositionBitmap | Any) -> PositionBitmap:
        """Returns the positions that are in this set and in all others, as ``frozenset.intersection``; also & for one.

        Args:
            others: as for `union`.

        Raises:
            InvalidInputError: an argument has no positions.

        Examples:
            >>> PositionBitmap([1, 5, 7]).intersection(PositionBitmap([5, 7]), [7])
            PositionBitmap([7])
        """
        every = PositionBitmap._others(self, *others)
        return stored.intersection(type(every[0]), every) if others else every[0]

    def difference(self, *others: PositionBitmap | Any) -> PositionBitmap:
        """Returns the positions of this set that no other set has, as ``frozenset.difference``; also - for one.

        Args:
            others: as for `union`.

        Raises:
            InvalidInputError: an argument has no positions.

        Examples:
            >>> PositionBitmap([1, 5, 7]).difference(PositionBitmap([5]), [7])
            PositionBitmap([1])
        """
        own, *every = PositionBitmap._others(self, *others)
        return own - every[0].union(*every[1:]) if every else own

    def symmetric_difference(self, other: PositionBitmap | Any) -> PositionBitmap:
        """Returns the positions that are in exactly one of two sets, as ``frozenset.symmetric_difference``; also ^.

        Args:
            other: as for `union`.

        Raises:
            InvalidInputError: the argument has no positions.

        Examples:
            >>> PositionBitmap([1, 5]).symmetric_difference(PositionBitmap([5, 7]))
            PositionBitmap([1, 7])
        """
        own, its = PositionBitmap._others(self, other)
        return own ^ its

    def split(self, *, n_bytes: int, cardinality: int) -> list[PositionBitmap]:
        """Splits the set into bitmaps with disjoint ranges, in order; an empty set has no parts.

        Args:
            n_bytes: maximum bytes of a part. Only a part that is a single container (8 KiB and a header) may exceed it.
            cardinality: maximum positions of a part. Only a single container (65,536 positions) may exceed it.
        """
        if as_integer(n_bytes, "n_bytes") < 0 or as_integer(cardinality, "cardinality") < 0:
            raise InvalidInputError(f"split: expected limits of 0 or more, found {n_bytes}, {cardinality}")
        most = (1 << 63) - 1
        parts = split.split(self._data, self._start, min(n_bytes, most), min(cardinality, most))
        return [stored.written(PositionBitmap, data, size) for data, size in parts]

    def issubset(self, other: PositionBitmap | Any) -> bool:
        """Returns whether each position of this set is in the other, a bitmap or positions; also <=."""
        other = self._other(other)
        return self._cardinality <= other._cardinality and not self._meets(stored.ANDNOT, other)

    def issuperset(self, other: PositionBitmap | Any) -> bool:
        """Returns whether each position of the other set, a bitmap or positions, is in this one; also >=."""
        return self._other(other).issubset(self)

    def __le__(self, other: PositionBitmap) -> bool:
        return self.issubset(other) if isinstance(other, PositionBitmap) else NotImplemented

    def __lt__(self, other: PositionBitmap) -> bool:
        if not isinstance(other, PositionBitmap):
            return NotImplemented
        return self._cardinality < other._cardinality and self.issubset(other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PositionBitmap):
            return NotImplemented
        if self._cardinality != other._cardinality:
            return False
        return self.view == other.view or not self._meets(stored.XOR, other)

    def __hash__(self) -> int:
        return hash(self.canonical().to_bytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        if self._cardinality <= 8:
            return f"PositionBitmap({self.to_numpy().tolist()})"
        return f"PositionBitmap({self._cardinality} positions, {self.min()} to {self.max()}, {self.n_bytes} bytes)"

    def _repr_html_(self) -> str:
        """The bitmap in a notebook: its numbers, and the density of positions between the smallest and the largest."""
        fields: dict[str, object] = {"cardinality": self._cardinality, "n_bytes": self.n_bytes}
        if not self._cardinality:
            return html_fields("PositionBitmap", fields)
        first, last = self.min(), self.max()
        stripes = min(_STRIPES, last + 1 - first)
        ends = [first + (last + 1 - first) * at // stripes for at in range(stripes + 1)]
        ranks = [self.rank(end - 1) for end in ends]
        shares = [(ranks[at + 1] - ranks[at]) / (ends[at + 1] - ends[at]) for at in range(stripes)]
        fields |= {"min": first, "max": last} | self.containers()._asdict()
        return html_fields("PositionBitmap", fields) + html_strip(shares)
