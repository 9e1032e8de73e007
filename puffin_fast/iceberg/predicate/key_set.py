"""Sets of keys: which rows have a key that stands in a table of keys, and in which row of it.

A key of several columns is narrowed column by column to one integer: the number of the first column's value,
then the number of the pair of that and the next column's, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.iceberg.predicate.string_hash import RowHash

if TYPE_CHECKING:
    from pyiceberg.types import NestedField

__all__ = ["KeySet"]

FEW = 1 << 15
"""Up to so many values Arrow's hash table is made again for each batch without costing anything."""

Bools = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int32]

SEEDS = (0, 1, 2)
SHORT_SHIFT = np.uint64(32)
"""A first look takes the upper half of a hash: a bitmap of short numbers answers fastest."""


class _Values:
    """Distinct values of one column, numbered in the order in which they came; null is a value."""

    def __init__(self, distinct: pa.Array) -> None:
        self.distinct = distinct

    @staticmethod
    def of(values: pa.Array | pa.ChunkedArray) -> _Values:
        distinct = pc.unique(values)
        distinct = distinct.combine_chunks() if isinstance(distinct, pa.ChunkedArray) else distinct
        if len(distinct) > max(FEW, 1):
            if _is_integral(distinct.type):
                return _Integers(distinct)
            if pa.types.is_large_string(distinct.type) or pa.types.is_large_binary(distinct.type):
                return _Strings.of_distinct(distinct) or _Values(distinct)
        return _Values(distinct)

    def __len__(self) -> int:
        return len(self.distinct)

    @property
    def hashed(self) -> bool:
        """A hash table of the values is made for each batch: large batches pay."""
        return True

    def contains(self, values: pa.Array, *, nulls: bool = True) -> pa.BooleanArray:
        """Which values are among these."""
        return pc.is_in(values, value_set=self.distinct, skip_nulls=not nulls)

    def index(self, values: pa.Array, *, nulls: bool = True) -> pa.Int32Array:
        """The numbers of values; null where a value is not among these."""
        return pc.index_in(values, value_set=self.distinct, skip_nulls=not nulls)


class _Integers(_Values):
    """Integers, or what is stored as integers: a bitmap instead of a hash table made for each batch."""

    def __init__(self, distinct: pa.Array) -> None:
        super().__init__(distinct)
        numbers, null = _numbers(distinct)
        self._null = None if null is None else int(np.flatnonzero(null)[0])
        places = np.arange(len(distinct)) if null is None else np.flatnonzero(~null)
        order = places[np.argsort(numbers[places], kind="stable")]
        self._order = order.astype(np.int32)
        self._sorted = numbers[order]

    @property
    def hashed(self) -> bool:
        return False

    @cached_property
    def _bitmap(self) -> PositionBitmap | None:
        """The values, counted from the lowest; None when they lie too far apart."""
        if int(self._sorted[-1]) - int(self._sorted[0]) >= 1 << 62:
            return None
        return PositionBitmap.from_positions(self._sorted - self._sorted[0])

    def _found(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """Where in an array stand numbers of the set."""
        maybe = (numbers >= self._sorted[0]) & (numbers <= self._sorted[-1])
        at = np.flatnonzero(maybe)
        some = numbers if at.size == numbers.size else numbers[at]
        if not at.size:
            return at
        bitmap = self._bitmap
        if bitmap is not None:
            known = bitmap.contains(some - self._sorted[0])
        else:
            known = self._sorted[np.searchsorted(self._sorted, some)] == some
        found: npt.NDArray[np.intp] = at[known]
        return found

    def contains(self, values: pa.Array, *, nulls: bool = True) -> pa.BooleanArray:
        numbers, null = _numbers(values)
        found = np.zeros(len(values), np.bool_)
        found[self._found(numbers)] = True
        if null is not None:
            found[null] = nulls and self._null is not None
        return pa.array(found)

    def index(self, values: pa.Array, *, nulls: bool = True) -> pa.Int32Array:
        numbers, null = _numbers(values)
        found = self._found(numbers)
        result = np.zeros(len(values), np.int32)
        absent = np.ones(len(values), np.bool_)
        result[found] = self._order[np.searchsorted(self._sorted, numbers[found])]
        absent[found] = False
        if null is not None:
            absent[null] = not nulls or self._null is None
            result[null] = self._null or 0
        return pa.array(result, mask=absent)


class _Strings(_Values):
    """Strings or bytes: found by their hashes, which no two of them share, then compared."""

    def __init__(self, distinct: pa.Array, hash: RowHash, order: Numbers, hashes: Hashes) -> None:
        super().__init__(distinct)
        null = distinct.is_null().to_numpy(zero_copy_only=False)
        self._null = int(np.flatnonzero(null)[0]) if distinct.null_count else None
        self._hash, self._order, self._sorted = hash, order, hashes
        self._short = PositionBitmap.from_positions(hashes >> SHORT_SHIFT)

    @classmethod
    def of_distinct(cls, distinct: pa.Array) -> _Strings | None:
        """None: whatever the hash, two values share it, which somebody must have wanted."""
        valid = distinct.is_valid().to_numpy(zero_copy_only=False)
        for seed in SEEDS:
            hash = RowHash(seed)
            hashes = hash.of(distinct)
            order = np.argsort(hashes)
            order = order[valid[order]]
            hashes = hashes[order]
            if (hashes[1:] != hashes[:-1]).all():
                return cls(distinct, hash, order.astype(np.int32), hashes)
        return None

    @property
    def hashed(self) -> bool:
        return False

    def _found(self, values: pa.Array) -> tuple[npt.NDArray[np.intp], Numbers]:
        """Where in an array stand values of the set, and which."""
        numbers = self._hash.of(values)
        at = np.flatnonzero(self._short.contains(numbers >> SHORT_SHIFT))
        place = np.searchsorted(self._sorted, numbers[at])
        place[place == len(self._sorted)] = 0
        index = self._order[place]
        some, known = (array.take(pa.array(rows)) for array, rows in ((values, at), (self.distinct, index)))
        equal = pc.fill_null(pc.equal(some, known), False).to_numpy(zero_copy_only=False)
        return at[equal], index[equal]

    def contains(self, values: pa.Array, *, nulls: bool = True) -> pa.BooleanArray:
        return pc.is_valid(self.index(values, nulls=nulls))

    def index(self, values: pa.Array, *, nulls: bool = True) -> pa.Int32Array:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        at, found = self._found(values)
        result, absent = np.zeros(len(values), np.int32), np.ones(len(values), np.bool_)
        result[at], absent[at] = found, False
        if values.null_count and nulls and self._null is not None:
            null = values.is_null().to_numpy(zero_copy_only=False)
            result[null], absent[null] = self._null, False
        return pa.array(result, mask=absent)


def _is_integral(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_signed_integer(kind)
        or pa.types.is_date(kind)
        or pa.types.is_time(kind)
        or pa.types.is_timestamp(kind)
    )


def _numbers(values: pa.Array) -> tuple[npt.NDArray[np.int64], Bools | None]:
    """Values as int64 (anything where they are null), and where they are null."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    plain = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    null = None
    if plain.null_count:
        null = plain.is_null().to_numpy(zero_copy_only=False)
        plain = plain.fill_null(0)
    numbers: npt.NDArray[np.int64] = plain.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers, null


@dataclass(frozen=True)
class KeySet:
    """Keys of one set of columns: null is equal to null, NaN to NaN, and -0.0 is not 0.0.

    Attributes:
        fields: the columns, in the order of the keys.
    """

    fields: tuple[NestedField, ...]
    _columns: tuple[_Values, ...]
    _pairs: tuple[_Values, ...]

    @classmethod
    def of(cls, fields: Sequence[NestedField], keys: Sequence[pa.Array | pa.ChunkedArray]) -> KeySet:
        """The set of the rows of some columns of equal length."""
        columns: list[_Values] = []
        pairs: list[_Values] = []
        code: Any = None
        for at, key in enumerate(keys):
            array = key.combine_chunks() if isinstance(key, pa.ChunkedArray) else key
            values = _Values.of(array)
            columns.append(values)
            if len(keys) == 1:
                break
            index = values.index(array)
            if at == 0:
                code = index
                continue
            pair = _pair(code, index, len(values))
            pairs.append(_Values.of(pair))
            code = pairs[-1].index(pair)
        return cls(tuple(fields), tuple(columns), tuple(pairs))

    def __len__(self) -> int:
        """The number of distinct keys."""
        return len(self._pairs[-1]) if self._pairs else len(self._columns[0])

    @property
    def columns(self) -> list[pa.Array]:
        """The distinct values of each column."""
        return [values.distinct for values in self._columns]

    @property
    def batch_rows(self) -> int:
        """Rows of a batch from which on the making of hash tables does not count."""
        return max((len(v) for v in (*self._columns, *self._pairs) if v.hashed), default=1)

    def contains(self, columns: Mapping[int, pa.Array]) -> pa.BooleanArray:
        """Which rows have a key of the set.

        Args:
            columns: field id to values, in the storage types of `fields`.

        Returns:
            a boolean array without nulls.
        """
        if len(self.fields) == 1:
            return self._columns[0].contains(columns[self.fields[0].field_id])
        return pc.is_valid(self.index(columns))

    def index(self, columns: Mapping[int, pa.Array]) -> pa.Int32Array:
        """The number of each row's key among the distinct keys, in the order in which they came.

        Args:
            columns: as for `contains`.

        Returns:
            int32, null where the key is not in the set.
        """
        code: Any = self._columns[0].index(columns[self.fields[0].field_id])
        for field, values, pairs in zip(self.fields[1:], self._columns[1:], self._pairs, strict=True):
            index = values.index(columns[field.field_id])
            code = pairs.index(_pair(code, index, len(values)), nulls=False)
        return code


def _pair(left: Any, right: Any, n_right: int) -> Any:
    """Two indices as one integer, null where either is; below 2^62, for both are below 2^31."""
    return pc.add(pc.multiply(pc.cast(left, pa.int64()), n_right), pc.cast(right, pa.int64()))
