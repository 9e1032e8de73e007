"""Sets of keys: finds which rows of a batch have a key of the set, and the number of that key.

The distinct values of each column are numbered. A key of several columns is reduced to one number, column by column:
the number of the first column's value and that of the second column's value form a pair, the distinct pairs are
numbered, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._kernels.rows.members import Members
from puffin_fast._process.cached import cached_property
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.columns.row_selection import flags_of
from puffin_fast.key_index import hash_bytes
from puffin_fast.rows.filters.bounds import Sorted
from puffin_fast.rows.keys.integers import is_ascending, is_integral, numbers_of

if TYPE_CHECKING:
    from pyiceberg.types import NestedField

MAX_HASH_TABLE_VALUES = 1 << 15
"""Up to this number of values, it costs little that Arrow builds its hash table again for each batch."""

FEW_VALUES = 1 << 10
"""Up to this number of texts are found in a set of Python's, which is made once: Arrow makes a table for each array."""

MOST_HASHED_BYTES = 1 << 12
"""Up to this number of values of fixed bytes, Arrow's hash table for a batch of few rows costs less than strings do."""

BITS_PER_VALUE = 32
"""If the range of integers has at most this number of bits per value, they are found by one bit for each number."""

Bools = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int32]

SHORT_SHIFT = np.uint64(32)
"""The first test uses the upper 32 bits of a hash, because a bitmap of small numbers is the fastest to search."""


class _Values:
    """Distinct values of one column, numbered by their first occurrence. Null is a value."""

    def __init__(self, distinct: pa.Array) -> None:
        self.distinct = distinct

    @staticmethod
    def of(values: pa.Array, most_hashed: int) -> _Values:
        if is_integral(values.type) and len(values) - values.null_count > max(most_hashed, 1):
            return _Integers(values)
        distinct = pc.unique(values)
        if _is_text(distinct.type) and len(distinct) > max(most_hashed, 1):
            return _Strings.of_distinct(distinct) or _Values(distinct)
        if _has_fixed_bytes(distinct.type) and len(distinct) > max(most_hashed, MOST_HASHED_BYTES, 1):
            return _FixedBytes.of_distinct(distinct) or _Values(distinct)
        return _Values(distinct)

    def __len__(self) -> int:
        return len(self.distinct)

    @property
    def hashed(self) -> bool:
        """Whether Arrow builds a hash table of the values for each batch, so that large batches are faster."""
        return True

    def contains(self, values: pa.Array, *, nulls: bool = True) -> Bools:
        """Which values are in the set."""
        if (
            len(values) <= FEW_VALUES
            and values.type == self.distinct.type
            and (known := self._texts) is not None
        ):
            found = (value in known and (nulls or value is not None) for value in _bytes_of(values))
            return np.fromiter(found, np.bool_, len(values))
        return flags_of(pc.is_in(values, value_set=self.distinct, skip_nulls=not nulls))

    @cached_property
    def _texts(self) -> frozenset[bytes | None] | None:
        """The values if they are texts or bytes, and not too many: few are found among them."""
        is_small = len(self.distinct) <= MAX_HASH_TABLE_VALUES and _is_text(self.distinct.type)
        return frozenset(_bytes_of(self.distinct)) if is_small else None

    def index(self, values: pa.Array, *, nulls: bool = True) -> pa.Int32Array:
        """The number of each value; null for a value that is not in the set."""
        return pc.index_in(values, value_set=self.distinct, skip_nulls=not nulls)

    def sorted(self) -> Sorted:
        """The values but null in ascending order."""
        return Sorted.of(self.distinct.drop_null())


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def _bytes_of(texts: pa.Array | pa.ChunkedArray) -> list[bytes | None]:
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    found: list[bytes | None] = texts.view(pa.large_binary()).to_pylist()
    return found


class _Integers(_Values):
    """Integers, or values stored as integers: found by bits or a bitmap; no hash table."""

    def __init__(self, values: pa.Array) -> None:
        numbers, null = numbers_of(values)
        rows = None if null is None else np.flatnonzero(~null)
        if rows is not None:
            numbers = numbers[rows]
        lowest = int(numbers.min())
        span = int(numbers.max()) - lowest + 1
        dense = span <= BITS_PER_VALUE * len(numbers)
        self._members = Members(numbers, lowest, span) if dense else None
        self._null: int | None = None
        self._first: Numbers | None = None
        if null is None and is_ascending(numbers):
            super().__init__(values)
            self._sorted = numbers
        else:
            self._sorted, order = _sorted_with_rows(numbers, self._members)
            self._number(values, order if rows is None else rows[order], null)
            del order  # 8 bytes a value, while the bitmap is made
        self._bitmap: PositionBitmap | None = None
        if self._members is None and span <= 1 << 62:
            self._bitmap = PositionBitmap.from_positions(self._sorted - self._sorted[0])

    def _number(self, values: pa.Array, order: npt.NDArray[np.intp], null: Bools | None) -> None:
        """Numbers the distinct values in the order of their first rows: `order`, and the first null."""
        at_null = np.empty(0, np.intp) if null is None else np.flatnonzero(null)[:1]
        if len(order) + len(at_null) < len(values):
            first = np.sort(np.append(order, at_null))  # for each row the number of its distinct value
            order, at_null = np.searchsorted(first, order), np.searchsorted(first, at_null)
            values = values.take(pa.array(first))
        super().__init__(values)
        self._first = order.astype(np.int32)
        self._null = int(at_null[0]) if len(at_null) else None

    def sorted(self) -> Sorted:
        return Sorted(self._sorted)

    @property
    def hashed(self) -> bool:
        return False

    def _found(self, numbers: npt.NDArray[np.int64]) -> Bools:
        """Which numbers are values of the set."""
        if self._members is not None:
            found: Bools = np.empty(len(numbers), np.bool_)
            self._members.contain(numbers, found)
            return found
        found = (numbers >= self._sorted[0]) & (numbers <= self._sorted[-1])
        at = np.flatnonzero(found)
        some = numbers if at.size == numbers.size else numbers[at]
        if self._bitmap is not None:
            found[at] = self._bitmap.contains(some - self._sorted[0])
        elif at.size:
            found[at] = self._sorted[np.searchsorted(self._sorted, some)] == some
        return found

    def _places(self, numbers: npt.NDArray[np.int64]) -> Numbers:
        """The index of each number among the sorted values; -1 if it is not among them."""
        places = np.empty(len(numbers), np.int32)
        if self._members is not None:
            self._members.ranks(numbers, places)
            return places
        found = self._found(numbers)
        places.fill(-1)
        places[found] = np.searchsorted(self._sorted, numbers[found])
        return places

    def contains(self, values: pa.Array, *, nulls: bool = True) -> Bools:
        numbers, null = numbers_of(values)
        found = self._found(numbers)
        if null is not None:
            found[null] = nulls and self._null is not None
        return found

    def index(self, values: pa.Array, *, nulls: bool = True) -> pa.Int32Array:
        numbers, null = numbers_of(values)
        places = self._places(numbers)
        absent = places < 0
        result = places if self._first is None else self._first[places]
        if null is not None:
            absent[null] = not nulls or self._null is None
            result[null] = self._null or 0
        return pa.array(result, mask=absent)


def _sorted_with_rows(
    numbers: npt.NDArray[np.int64], members: Members | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp]]:
    """The distinct numbers in ascending order, and the first row of each."""
    if members is not None:
        distinct, rows = np.empty(len(members), np.int64), np.empty(len(members), np.intp)
        members.sorted(distinct)
        members.first(numbers, rows)
        return distinct, rows
    rows = np.argsort(numbers)
    distinct = numbers[rows]
    if not is_ascending(distinct):
        starts = np.flatnonzero(np.append(True, distinct[1:] != distinct[:-1]))
        distinct, rows = distinct[starts], np.minimum.reduceat(rows, starts)
    return distinct, rows


class _Strings(_Values):
    """Strings or bytes: found by their hashes, which are distinct within the set, then compared."""

    def __init__(self, distinct: pa.Array, order: Numbers, hashes: Hashes) -> None:
        super().__init__(distinct)
        null = distinct.is_null().to_numpy(zero_copy_only=False)
        self._null = int(np.flatnonzero(null)[0]) if distinct.null_count else None
        self._order, self._sorted = order, hashes
        self._short = PositionBitmap.from_positions(hashes >> SHORT_SHIFT)

    @classmethod
    def of_distinct(cls, distinct: pa.Array) -> _Strings | None:
        """Makes the set; None if two values have equal hashes: of 10 million, one set in 100,000, or a crafted one."""
        valid = distinct.is_valid().to_numpy(zero_copy_only=False)
        hashes = hash_bytes(distinct)
        order = np.argsort(hashes)
        order = order[valid[order]]
        hashes = hashes[order]
        if (hashes[1:] == hashes[:-1]).any():
            return None
        return cls(distinct, order.astype(np.int32), hashes)

    @property
    def hashed(self) -> bool:
        return False

    def _found(self, values: pa.Array) -> tuple[npt.NDArray[np.intp], Numbers]:
        """The indices of an array at which there are values of the set, and the numbers of these values."""
        numbers = hash_bytes(values)
        at = np.flatnonzero(self._short.contains(numbers >> SHORT_SHIFT))
        place = np.searchsorted(self._sorted, numbers[at])
        place[place == len(self._sorted)] = 0
        index = self._order[place]
        some, known = (array.take(pa.array(rows)) for array, rows in ((values, at), (self.distinct, index)))
        equal = pc.fill_null(pc.equal(some, known), False).to_numpy(zero_copy_only=False)
        return at[equal], index[equal]

    def contains(self, values: pa.Array, *, nulls: bool = True) -> Bools:
        return flags_of(pc.is_valid(self.index(values, nulls=nulls)))

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


class _FixedBytes(_Values):
    """Values of a fixed number of bytes, which are compared as strings."""

    def __init__(self, distinct: pa.Array, strings: _Strings) -> None:
        super().__init__(distinct)
        self._strings = strings

    @classmethod
    def of_distinct(cls, distinct: pa.Array) -> _FixedBytes | None:
        """Makes the set; None as `_Strings.of_distinct`."""
        strings = _Strings.of_distinct(_as_bytes(distinct))
        return None if strings is None else cls(distinct, strings)

    @property
    def hashed(self) -> bool:
        return False

    def contains(self, values: pa.Array, *, nulls: bool = True) -> Bools:
        return self._strings.contains(_as_bytes(values), nulls=nulls)

    def index(self, values: pa.Array, *, nulls: bool = True) -> pa.Int32Array:
        return self._strings.index(_as_bytes(values), nulls=nulls)


def _has_fixed_bytes(kind: pa.DataType) -> bool:
    """Whether equal values of a type are those of equal bytes, and these are a fixed number: uuids, wide decimals."""
    return bool(pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal128(kind))


def _as_bytes(values: pa.Array) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    width = values.type.byte_width
    return values.view(pa.binary(width)).cast(pa.large_binary())


@dataclass(frozen=True)
class KeySet:
    """A set of keys. Null equals null, NaN equals NaN, and -0.0 differs from 0.0.

    Attributes:
        fields: the key columns, in the order in which they were given.
    """

    fields: tuple[NestedField, ...]
    _columns: tuple[_Values, ...]
    _pairs: tuple[_Values, ...]

    @classmethod
    def of(
        cls,
        fields: Sequence[NestedField],
        keys: Sequence[pa.Array | pa.ChunkedArray],
        *,
        most_hashed: int | None = None,
    ) -> KeySet:
        """Makes the set from the key columns, which have equal lengths; each row is a key.

        Args:
            fields: the key columns.
            keys: their values.
            most_hashed: number of values up to which Arrow may build its hash table again for each batch; None:
                `MAX_HASH_TABLE_VALUES`.
        """
        if most_hashed is None:
            most_hashed = MAX_HASH_TABLE_VALUES
        columns: list[_Values] = []
        pairs: list[_Values] = []
        code: Any = None
        for at, key in enumerate(keys):
            array = key.combine_chunks() if isinstance(key, pa.ChunkedArray) else key
            values = _Values.of(array, most_hashed)
            columns.append(values)
            if len(keys) == 1:
                break
            index = values.index(array)
            if at == 0:
                code = index
                continue
            pair = _pair(code, index, len(values))
            pairs.append(_Values.of(pair, most_hashed))
            code = pairs[-1].index(pair)
        return cls(tuple(fields), tuple(columns), tuple(pairs))

    def __len__(self) -> int:
        """The number of distinct keys."""
        return len(self._pairs[-1]) if self._pairs else len(self._columns[0])

    @property
    def columns(self) -> list[pa.Array]:
        """The distinct values of each column."""
        return [values.distinct for values in self._columns]

    def sorted(self, at: int) -> Sorted:
        """The values of a column but null, in order; the column has no NaN."""
        return self._columns[at].sorted()

    @property
    def batch_rows(self) -> int:
        """The smallest number of rows in a batch for which the cost of building hash tables is small."""
        return max((len(v) for v in (*self._columns, *self._pairs) if v.hashed), default=1)

    def contains(self, columns: Mapping[int, pa.Array]) -> Bools:
        """Tests which rows have a key of the set.

        Args:
            columns: values by field id, in the storage types of `fields`.

        Returns:
            a mask, one bool for each row.
        """
        if len(self.fields) == 1:
            return self._columns[0].contains(columns[self.fields[0].field_id])
        return flags_of(pc.is_valid(self.index(columns)))

    def index(self, columns: Mapping[int, pa.Array]) -> pa.Int32Array:
        """Finds the number of each row's key. Distinct keys are numbered by their first occurrence.

        Args:
            columns: as for `contains`.

        Returns:
            int32 array, null where the key is not in the set.
        """
        code: Any = self._columns[0].index(columns[self.fields[0].field_id])
        for field, values, pairs in zip(self.fields[1:], self._columns[1:], self._pairs, strict=True):
            index = values.index(columns[field.field_id])
            code = pairs.index(_pair(code, index, len(values)), nulls=False)
        return code


def _pair(left: Any, right: Any, n_right: int) -> Any:
    """Two indices as one int64, null where either is null. It is below 2^62, because both are below 2^31."""
    return pc.add(pc.multiply(pc.cast(left, pa.int64()), n_right), pc.cast(right, pa.int64()))
