"""`ThetaSketch`: an immutable sketch of distinct values, stored as its compact serialised bytes.

Sketches made here have the canonical form: the k = 4096 smallest distinct hashes, and as theta the (k + 1)th. It does
not depend on order, chunks or threads, and the union of the parts' sketches is the sketch of the whole.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from puffin_fast._display.html import html_fields
from puffin_fast._kernels.theta import sketches as kernel
from puffin_fast._positions import as_bytes
from puffin_fast.errors import InvalidInputError
from puffin_fast.theta import compact
from puffin_fast.theta.bounds import count_bounds, fraction_bounds
from puffin_fast.theta.compact import THETA_MAX
from puffin_fast.theta.values import SketchedType, feed, sketched_type

BLOB_TYPE = "apache-datasketches-theta-v1"
"""The type of Puffin blobs that are theta sketches (Puffin specification)."""


class Interval(NamedTuple):
    """An estimate between its bounds."""

    lower: float
    estimate: float
    upper: float


class ThetaSketch:
    """An immutable sketch of a set of values, which estimates the numbers of values in sets, unions, intersections and
    differences.

    Up to 4096 distinct values the count is exact. Above, its relative standard error is 1.56%. Sketches can be
    combined when their values were hashed as the same Iceberg type.

    Examples:
        >>> a, b = ThetaSketch.from_arrow(range(1000), "long"), ThetaSketch.from_arrow(range(500, 1500), "long")
        >>> (a | b).estimate, (a & b).estimate, (a - b).estimate, round(a.jaccard(b).estimate, 3)
        (1500.0, 500.0, 500.0, 0.333)
    """

    __slots__ = ("__weakref__", "_count", "_data", "_start", "_theta")

    _data: bytes
    _theta: int
    _start: int
    _count: int

    def __init__(self) -> None:
        self._hold(compact.encode(THETA_MAX, b""))

    def _hold(self, data: bytes, path: str | None = None) -> None:
        self._data, self._theta, self._start, self._count = compact.decode(data, path)

    @classmethod
    def _of(cls, theta: int, hashes: bytes) -> ThetaSketch:
        self = cls.__new__(cls)
        self._hold(compact.encode(theta, hashes))
        return self

    # ---- making one ---------------------------------------------------------------------------------------

    @classmethod
    def from_arrow(cls, array: Any, iceberg_type: Any = None) -> ThetaSketch:
        """Makes the sketch of a column's values; nulls, empty strings and empty binaries are not counted.

        Args:
            array: an Arrow array or chunked array, an object with the Arrow C interface, or a sequence.
            iceberg_type: a primitive Iceberg type, as PyIceberg's object or its text ("long", "decimal(12, 2)").
                It determines which bytes are hashed; by default it follows from the Arrow type.

        Raises:
            InvalidInputError: the type has no sketch, or values do not fit the Iceberg type.
        """
        builder = ThetaSketchBuilder(iceberg_type)
        builder.update(array)
        return builder.sketch()

    @classmethod
    def from_bytes(cls, data: Any, *, path: str | None = None) -> ThetaSketch:
        """Makes a sketch from its serialised compact form. All fields are checked.

        The bytes of ordered hashes of serial version 3 are not changed. Hashes that are not ordered are sorted, and
        compressed sketches (serial version 4, as Spark's ``theta_sketch_agg`` writes) are decompressed.

        Args:
            data: a buffer of bytes.
            path: the name of the sketch in errors.

        Raises:
            CorruptDataError: the bytes are not a well-formed sketch.
            UnsupportedError: another family, version or seed.
        """
        self = cls.__new__(cls)
        self._hold(as_bytes(data, "sketch"), path)
        return self

    @classmethod
    def union_all(cls, sketches: Iterable[ThetaSketch]) -> ThetaSketch:
        """Unites any number of sketches; the result has at most 4096 hashes.

        Raises:
            InvalidInputError: an item is not a ThetaSketch.

        Examples:
            >>> parts = [ThetaSketch.from_arrow(part) for part in ([1, 2], [2, 3])]
            >>> ThetaSketch.union_all(parts).estimate
            3.0
        """
        if not isinstance(sketches, Iterable):
            raise InvalidInputError(
                f"sketches: expected an iterable of sketches, found {type(sketches).__name__}"
            )
        builder = ThetaSketchBuilder()
        for sketch in sketches:
            builder.merge(sketch)
        return builder.sketch()

    def to_bytes(self) -> bytes:
        """Returns the serialised compact form."""
        return self._data

    __bytes__ = to_bytes

    # ---- estimates ----------------------------------------------------------------------------------------

    @property
    def theta(self) -> float:
        """The share of all hashes that the sketch retains; 1.0 if it is exact."""
        return self._theta / THETA_MAX

    @property
    def is_estimate(self) -> bool:
        """Whether hashes were discarded, so that counts are estimates."""
        return self._theta < THETA_MAX

    @property
    def estimate(self) -> float:
        """The number of distinct values."""
        return self._count * (float(THETA_MAX) / self._theta)

    def bounds(self, n_std_dev: int = 2) -> Interval:
        """Returns the estimate and its bounds with a confidence of 68%, 95.4% or 99.7% (1, 2 or 3 standard deviations).

        Args:
            n_std_dev: the number of standard deviations.

        Raises:
            InvalidInputError: n_std_dev is not 1, 2 or 3.
        """
        _check_deviations(n_std_dev)
        lower, upper = count_bounds(self._count, self.theta, n_std_dev)
        return Interval(lower, self.estimate, upper)

    def jaccard(self, other: ThetaSketch, n_std_dev: int = 2) -> Interval:
        """Returns the share of the union's values that are in both sets, and its bounds; 1.0 for two empty sets.

        Args:
            other: the sketch of the other set, of values that were hashed as the same Iceberg type.
            n_std_dev: as for `bounds`.

        Raises:
            InvalidInputError: n_std_dev is not 1, 2 or 3.
        """
        _check_deviations(n_std_dev)
        theta = min(self._theta, _sketch(other)._theta)
        both = len(np.intersect1d(self._below(theta), other._below(theta), assume_unique=True))
        either = len(self._below(theta)) + len(other._below(theta)) - both
        if either == 0:
            return Interval(1.0, 1.0, 1.0) if theta == THETA_MAX else Interval(0.0, 0.0, 1.0)
        lower, upper = fraction_bounds(both, either, theta / THETA_MAX, n_std_dev)
        return Interval(lower, both / either, upper)

    # ---- sets ---------------------------------------------------------------------------------------------

    def union(self, *others: ThetaSketch) -> ThetaSketch:
        """Returns the sketch of the values of this one or of one of the others; also | for one.

        Raises:
            InvalidInputError: an argument is not a ThetaSketch.
        """
        return ThetaSketch.union_all((self, *others))

    def intersection(self, *others: ThetaSketch) -> ThetaSketch:
        """Returns the sketch of the values of this one and of all others; also & for one.

        Raises:
            InvalidInputError: an argument is not a ThetaSketch.
        """
        return reduce(operator.and_, map(_sketch, (self, *others)))

    def difference(self, *others: ThetaSketch) -> ThetaSketch:
        """Returns the sketch of the values of this one that none of the others has; also - for one.

        Raises:
            InvalidInputError: an argument is not a ThetaSketch.
        """
        return reduce(operator.sub, map(_sketch, (self, *others)))

    def __or__(self, other: ThetaSketch) -> ThetaSketch:
        return self.union(other) if isinstance(other, ThetaSketch) else NotImplemented

    def __and__(self, other: ThetaSketch) -> ThetaSketch:
        if not isinstance(other, ThetaSketch):
            return NotImplemented
        if not self or not other:
            return ThetaSketch()
        theta = min(self._theta, _sketch(other)._theta)
        both = np.intersect1d(self._below(theta), other._below(theta), assume_unique=True)
        return ThetaSketch._of(theta, both.tobytes())

    def __sub__(self, other: ThetaSketch) -> ThetaSketch:
        if not isinstance(other, ThetaSketch):
            return NotImplemented
        if not self or not other:
            return self
        theta = min(self._theta, other._theta)
        rest = np.setdiff1d(self._below(theta), other._below(theta), assume_unique=True)
        return ThetaSketch._of(theta, rest.tobytes())

    def _hashes(self) -> npt.NDArray[np.uint64]:
        return np.frombuffer(self._data, "<u8", self._count, self._start)

    def _below(self, theta: int) -> npt.NDArray[np.uint64]:
        hashes = self._hashes()
        return hashes[: int(np.searchsorted(hashes, np.uint64(theta)))]

    def __bool__(self) -> bool:
        """Returns whether the sketch has any value."""
        return self._count > 0 or self.is_estimate

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ThetaSketch):
            return NotImplemented
        return self._theta == other._theta and bool(np.array_equal(self._hashes(), other._hashes()))

    def __hash__(self) -> int:
        return hash((self._theta, self._hashes().tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        return ThetaSketch.from_bytes, (self._data,)

    def __repr__(self) -> str:
        return f"ThetaSketch(estimate={self.estimate:.15g}, theta={self.theta:.3g}, {len(self._data)} bytes)"

    def _repr_html_(self) -> str:
        lower, estimate, upper = map(round, self.bounds())
        fields = {"estimate": estimate, "lower": lower, "upper": upper, "theta": self.theta}
        return html_fields("ThetaSketch", fields | {"n_bytes": len(self._data)})


class ThetaSketchBuilder:
    """Makes one sketch of many arrays and sketches. Not safe to use from several threads: use one builder per thread,
    and unite the sketches.

    Args:
        iceberg_type: as in `ThetaSketch.from_arrow`.
    """

    def __init__(self, iceberg_type: Any = None) -> None:
        self._type: SketchedType | None = None if iceberg_type is None else sketched_type(iceberg_type)
        self._accumulator = kernel.Accumulator()

    def update(self, array: Any) -> None:
        """Adds the values of a column.

        Raises:
            InvalidInputError: as `ThetaSketch.from_arrow`.
        """
        self._type = feed(self._accumulator, array, self._type)

    def merge(self, sketch: ThetaSketch) -> None:
        """Adds the values of a sketch."""
        _sketch(sketch)
        end = sketch._start + compact.WORD * sketch._count
        self._accumulator.add_hashes(sketch._data[:end], sketch._start, sketch._theta)

    def sketch(self) -> ThetaSketch:
        """Returns the sketch of all values that were added."""
        return ThetaSketch._of(*self._accumulator.result())


def _sketch(given: object) -> ThetaSketch:
    if not isinstance(given, ThetaSketch):
        hint = (
            "; write union(*sketches) or ThetaSketch.union_all(sketches)"
            if isinstance(given, list | tuple)
            else ""
        )
        raise InvalidInputError(f"expected a ThetaSketch, found {type(given).__name__}{hint}")
    return given


def _check_deviations(n_std_dev: int) -> None:
    if n_std_dev not in (1, 2, 3):
        raise InvalidInputError(f"n_std_dev: expected 1, 2 or 3, found {n_std_dev!r}")
