"""A column of integers and nulls."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = "npt.NDArray[np.int64]"
Mask: TypeAlias = "npt.NDArray[np.bool_]"


class Column:
    """Integers and nulls. Equal values take no memory.

    Args:
        values: int64, 0 for null.
        valid: which of them are not null.
    """

    __slots__ = ("_n", "_valid", "_values")

    def __init__(self, values: Integers, valid: Mask) -> None:
        self._n = len(values)
        self._values = _short(values)
        self._valid = _short(valid)

    def __len__(self) -> int:
        return self._n

    @classmethod
    def of(cls, value: int | None, n: int) -> Column:
        """Returns a column that has one value."""
        values, valid = _one(value)
        return cls._of(n, values, valid) if n else cls(values[:0], valid[:0])

    @classmethod
    def _of(cls, n: int, values: Integers, valid: Mask) -> Column:
        found = cls.__new__(cls)
        found._n, found._values, found._valid = n, values, valid
        return found

    @property
    def values(self) -> Integers:
        """The integers, 0 for null. Read-only if they are equal."""
        return _repeated(self._values, self._n) if self._values.size == 1 else self._values

    @property
    def valid(self) -> Mask:
        """Which of them are not null. Read-only if all are, or none is."""
        return _repeated(self._valid, self._n) if self._valid.size == 1 else self._valid

    @property
    def short(self) -> tuple[Integers, Mask]:
        """The integers, and which are not null; of each only one if they are equal."""
        return self._values, self._valid

    def filled(self, default: int | None, where: Mask | None = None) -> Column:
        """Replaces nulls, or those that a mask selects, which may be that of a `short` column."""
        if default is None:
            return self
        missing = ~self._valid if where is None else where & ~self._valid
        if not missing.any():
            return self
        if missing.size == 1:
            return Column.of(default, self._n)
        return Column(np.where(missing, default, self._values), self._valid | missing)

    def take(self, rows: npt.NDArray[Any]) -> Column:
        """Returns some of the values, by index or by mask."""
        if self._values.size == self._valid.size == 1 and self._n:
            n = int(np.count_nonzero(rows)) if rows.dtype == np.bool_ else len(rows)
            return Column._of(n, self._values[:n], self._valid[:n])
        return Column(self.values[rows], self.valid[rows])

    def to_list(self) -> list[int | None]:
        """Converts to Python's int and None."""
        found: list[int | None] = self.values.tolist()
        if not self._valid.all():
            for at in np.flatnonzero(~self.valid).tolist():
                found[at] = None
        return found


@lru_cache(maxsize=256)
def _one(value: int | None) -> tuple[Integers, Mask]:
    return _short(np.array([value or 0], np.int64)), _short(np.array([value is not None]))


def _short(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Keeps one of equal values, read-only."""
    if not values.size or values[0] != values[-1] or not (values == values[0]).all():
        return values
    one = values[:1].copy()
    one.setflags(write=False)
    return one


def _repeated(one: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
    """As `numpy.broadcast_to`, which takes ten times as long."""
    return np.ndarray(n, one.dtype, one, strides=(0,))
