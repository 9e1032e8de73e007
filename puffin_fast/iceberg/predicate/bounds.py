"""Values in order, held against the bounds that metrics state."""

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

__all__ = ["Range", "Sorted", "bound_of", "raw_values"]


class _Lazy(Sequence[Any]):
    """An Arrow array whose values become Python's when they are asked for."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, at: Any) -> Any:
        return self._values[at].as_py()


@dataclass(frozen=True)
class Sorted:
    """Distinct values in ascending order, as bounds have them: temporal ones as integers, strings by their bytes."""

    values: Any

    @classmethod
    def of(cls, values: pa.Array) -> Sorted:
        """Sorts the values of an array without nulls and NaN, of a storage type."""
        plain = _integers(values)
        if pa.types.is_integer(plain.type) or pa.types.is_floating(plain.type):
            return cls(np.sort(plain.to_numpy()))
        return cls(_Lazy(plain.take(pc.array_sort_indices(plain))))

    def ends(self) -> tuple[Any, Any]:
        """The lowest and the highest value, as Python's."""
        low, high = self.values[0], self.values[-1]
        return getattr(low, "item", lambda: low)(), getattr(high, "item", lambda: high)()

    def any_between(self, low: Any, high: Any) -> bool:
        """Whether a value lies from `low` to `high`, both included; None is no bound."""
        at = 0
        if low is not None:
            if isinstance(self.values, np.ndarray):
                at = int(np.searchsorted(self.values, low))
            else:
                at = bisect_left(self.values, low)
        return at < len(self.values) and (high is None or bool(self.values[at] <= high))


@dataclass(frozen=True)
class Range:
    """All values from `low` to `high`, as `Sorted` has them."""

    low: Any
    high: Any

    def any_between(self, low: Any, high: Any) -> bool:
        """Whether the range has a value from `low` to `high`, both included; None is no bound."""
        return (low is None or bool(low <= self.high)) and (high is None or bool(self.low <= high))


def bound_of(kind: IcebergType, raw: bytes | None) -> Any:
    """A bound in single-value serialisation as `Sorted` has its values; None where it says nothing."""
    if raw is None:
        return None
    try:
        found = from_bytes(kind, raw)  # type: ignore[arg-type]
    except (ValueError, struct.error):  # of a type that the column had before
        return None
    return None if found != found else found


def raw_values(values: pa.Array) -> list[Any]:
    """Values as PyIceberg's literals take them: temporal ones as integers."""
    found: list[Any] = _integers(values).to_pylist()
    return found


def _integers(values: pa.Array) -> pa.Array:
    if pa.types.is_temporal(values.type):
        return values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return values
