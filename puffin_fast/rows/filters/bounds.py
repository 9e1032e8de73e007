"""Sorted values and ranges, compared with the column bounds of metrics."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

TRUNCATED = 999
"""Nanoseconds by which PyIceberg's upper bounds of nanosecond timestamps may be too low: it writes microseconds."""


class _Lazy(Sequence[Any]):
    """A sequence over an Arrow array in an order; converts each value to Python when it is read."""

    def __init__(self, values: pa.Array, order: pa.Array) -> None:
        self._values, self._order = values, order

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, at: Any) -> Any:
        return self._values[self._order[at].as_py()].as_py()


@dataclass(frozen=True)
class Sorted:
    """Distinct values in ascending order. Temporal values are integers; strings are ordered by their bytes."""

    values: Any

    @classmethod
    def of(cls, values: pa.Array) -> Sorted:
        """Sorts an array of a storage type, which has neither nulls nor NaN."""
        plain = as_integers(values)
        if pa.types.is_integer(plain.type) or pa.types.is_floating(plain.type):
            return cls(np.sort(plain.to_numpy()))
        return cls(_Lazy(plain, pc.array_sort_indices(plain)))

    def ends(self) -> tuple[Any, Any]:
        """The lowest and the highest value, as Python objects."""
        low, high = self.values[0], self.values[-1]
        return getattr(low, "item", lambda: low)(), getattr(high, "item", lambda: high)()

    def any_between(self, low: Any, high: Any) -> bool:
        """Whether a value is between `low` and `high`, both included. None stands for no bound."""
        at = 0
        if low is not None:
            if isinstance(self.values, np.ndarray):
                at = int(np.searchsorted(self.values, low))
            else:
                at = bisect_left(self.values, low)
        return at < len(self.values) and (high is None or bool(self.values[at] <= high))

    def between_each(self, lows: Any, highs: Any) -> Any:
        """Whether a value is between two bounds, both included, for each of many: a mask."""
        n = len(self.values)
        if isinstance(self.values, np.ndarray) and n:
            at = np.searchsorted(self.values, lows)
            return (at < n) & (self.values[np.minimum(at, n - 1)] <= highs)
        pairs = zip(lows.tolist(), highs.tolist(), strict=True)
        return np.fromiter((self.any_between(*pair) for pair in pairs), np.bool_, len(lows))


@dataclass(frozen=True)
class Range:
    """All values from `low` to `high`, in the representation of `Sorted`."""

    low: Any
    high: Any

    def any_between(self, low: Any, high: Any) -> bool:
        """Whether the range overlaps `low` to `high`, both included. None stands for no bound."""
        return (low is None or bool(low <= self.high)) and (high is None or bool(self.low <= high))

    def between_each(self, lows: Any, highs: Any) -> Any:
        """Whether the range overlaps two bounds, for each of many: a mask."""
        return (lows <= operand(self.high)) & (operand(self.low) <= highs)


def operand(value: Any) -> Any:
    """Returns what an array of bounds is compared with: NumPy would take zero bytes off the end of bytes."""
    if not isinstance(value, bytes):
        return value
    found = np.empty(1, object)
    found[0] = value
    return found


def decode_bound(kind: IcebergType, raw: bytes | None) -> Any:
    """Decodes a bound from single-value serialisation; None if it is missing, NaN or not of this type."""
    if raw is None:
        return None
    try:
        found = from_bytes(kind, raw)  # type: ignore[arg-type]
    except (
        TypeError,
        ValueError,
        struct.error,
    ):  # written before the column was promoted to this type, or damaged
        return None
    return None if found != found else found


def literal_values(values: pa.Array) -> list[Any]:
    """Values as PyIceberg's literals hold them: temporal values are integers."""
    found: list[Any] = as_integers(values).to_pylist()
    return found


def as_integers(values: pa.Array) -> pa.Array:
    """Temporal values as the integers that are stored; other values unchanged."""
    if pa.types.is_temporal(values.type):
        return values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return values
