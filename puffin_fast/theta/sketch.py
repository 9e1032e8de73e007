"""`ThetaSketch`: an immutable sketch of distinct values, held as its compact serialised bytes.

```
byte 0     1        2        3, 4   5       6         8            12         16          24
preLongs | serVer | family | 0, 0 | flags | seedHash | count: i32 | p: f32 | theta: u64 | hashes: u64 …   3: estimating
                                          |          | count: i32 | p: f32 | hashes: u64 …                2: exact
                                          |          | hash: u64                                          1: one value
                                          |          |                                                    1: empty
```
All words are little-endian, hashes strictly ascending and below theta. Flags: 2 read-only, 4 empty, 8 compact,
16 ordered, 32 single item. theta is 2^63 - 1 (exact) unless it is written. Source: the Puffin specification,
`apache-datasketches-theta-v1`, and the DataSketches library's compact form (serVer 3, family 3).

Sketches made here have the canonical form: the k = 4096 smallest distinct hashes, and as theta the (k + 1)th. It does
not depend on order, chunks or threads, and the union of the parts' sketches is the sketch of the whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from puffin_fast._kernels import theta as kernel
from puffin_fast._positions import as_bytes
from puffin_fast.errors import CorruptDataError, InvalidInputError, UnsupportedError
from puffin_fast.theta.bounds import count_bounds, fraction_bounds
from puffin_fast.theta.values import SketchedType, feed, sketched_type

__all__ = ["Interval", "ThetaSketch", "ThetaSketchBuilder"]

_THETA_MAX = (1 << 63) - 1
_SERIAL_VERSION, _FAMILY, _SEED_HASH = 3, 3, 0x93CC
_BIG_ENDIAN, _READ_ONLY, _EMPTY, _COMPACT, _ORDERED, _SINGLE = 1, 2, 4, 8, 16, 32
_FLAGS = _READ_ONLY | _COMPACT | _ORDERED
_PREAMBLE = struct.Struct("<BBBxxBH")
_COUNT = struct.Struct("<if")
_WORD = 8
_FAMILIES = {1: "Alpha", 2: "QuickSelect", 4: "Union", 5: "Intersection", 6: "A-not-B"}


class Interval(NamedTuple):
    """An estimate between its bounds."""

    lower: float
    estimate: float
    upper: float


class ThetaSketch:
    """An immutable sketch of a set of values: how many are distinct, and of unions, intersections and differences.

    Up to 4096 distinct values the count is exact. Above, its relative standard error is 1.56%. Sketches can be
    combined when their values were hashed as the same Iceberg type.

    >>> a, b = ThetaSketch.from_arrow(range(1000), "long"), ThetaSketch.from_arrow(range(500, 1500), "long")
    >>> (a | b).estimate, (a & b).estimate, (a - b).estimate, round(a.jaccard(b).estimate, 3)
    (1500.0, 500.0, 500.0, 0.333)
    """

    __slots__ = ("_count", "_data", "_start", "_theta")

    _data: bytes
    _theta: int
    _start: int
    _count: int

    def __init__(self) -> None:
        self._hold(_serialise(_THETA_MAX, b""))

    def _hold(self, data: bytes, path: str | None = None) -> None:
        self._data = data
        self._theta, self._start, self._count = _check(data, path)

    @classmethod
    def _of(cls, theta: int, hashes: bytes) -> ThetaSketch:
        self = cls.__new__(cls)
        self._hold(_serialise(theta, hashes))
        return self

    # ---- making one ---------------------------------------------------------------------------------------

    @classmethod
    def from_arrow(cls, array: Any, iceberg_type: Any = None) -> ThetaSketch:
        """The sketch of a column's values; nulls, empty strings and empty binaries are not counted.

        Args:
            array: an Arrow array or chunked array, an object with the Arrow C interface, or a sequence.
            iceberg_type: a primitive Iceberg type, as PyIceberg's object or its text ("long", "decimal(12, 2)").
                It decides which bytes are hashed; without it, it follows from the Arrow type.

        Raises:
            InvalidInputError: a type that has no sketch, or values that the Iceberg type does not hold.
        """
        builder = ThetaSketchBuilder(iceberg_type)
        builder.update(array)
        return builder.sketch()

    @classmethod
    def from_bytes(cls, data: Any, *, path: str | None = None) -> ThetaSketch:
        """A sketch from its serialised compact form; every field is checked, and the bytes stay as they are.

        Args:
            data: a buffer of bytes.
            path: its name in errors.

        Raises:
            CorruptDataError: bytes that are not a well-formed sketch.
            UnsupportedError: another family, version or seed, or hashes that are not ordered.
        """
        self = cls.__new__(cls)
        self._hold(as_bytes(data, "sketch"), path)
        return self

    @classmethod
    def union(cls, sketches: Iterable[ThetaSketch]) -> ThetaSketch:
        """The sketch of all values of any number of sketches, with at most 4096 hashes."""
        builder = ThetaSketchBuilder()
        for sketch in sketches:
            builder.merge(sketch)
        return builder.sketch()

    def to_bytes(self) -> bytes:
        """The serialised compact form."""
        return self._data

    # ---- what it says -------------------------------------------------------------------------------------

    @property
    def theta(self) -> float:
        """The share of all hashes that the sketch retains; 1.0 when it is exact."""
        return self._theta / _THETA_MAX

    @property
    def is_estimate(self) -> bool:
        """Whether values were left out, so that counts are estimates."""
        return self._theta < _THETA_MAX

    @property
    def estimate(self) -> float:
        """The number of distinct values."""
        return self._count * (float(_THETA_MAX) / self._theta)

    def bounds(self, n_std_dev: int = 2) -> Interval:
        """The estimate between bounds that hold with 68%, 95.4% or 99.7% (1, 2 or 3 standard deviations).

        Raises:
            InvalidInputError: n_std_dev is not 1, 2 or 3.
        """
        _check_deviations(n_std_dev)
        lower, upper = count_bounds(self._count, self.theta, n_std_dev)
        return Interval(lower, self.estimate, upper)

    def jaccard(self, other: ThetaSketch, n_std_dev: int = 2) -> Interval:
        """The share of the union's values that both sets have, between its bounds; 1.0 for two empty sets."""
        _check_deviations(n_std_dev)
        theta = min(self._theta, other._theta)
        both = len(np.intersect1d(self._below(theta), other._below(theta), assume_unique=True))
        either = len(self._below(theta)) + len(other._below(theta)) - both
        if either == 0:
            return Interval(1.0, 1.0, 1.0) if theta == _THETA_MAX else Interval(0.0, 0.0, 1.0)
        lower, upper = fraction_bounds(both, either, theta / _THETA_MAX, n_std_dev)
        return Interval(lower, both / either, upper)

    # ---- sets ---------------------------------------------------------------------------------------------

    def __or__(self, other: ThetaSketch) -> ThetaSketch:
        return ThetaSketch.union((self, other)) if isinstance(other, ThetaSketch) else NotImplemented

    def __and__(self, other: ThetaSketch) -> ThetaSketch:
        if not isinstance(other, ThetaSketch):
            return NotImplemented
        if not self or not other:
            return ThetaSketch()
        theta = min(self._theta, other._theta)
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
        """Whether any value was seen."""
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


class ThetaSketchBuilder:
    """Makes one sketch of many arrays and sketches; not for several threads at once (make one for each, and unite).

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
        if not isinstance(sketch, ThetaSketch):
            raise InvalidInputError(f"expected a ThetaSketch, found {type(sketch).__name__}")
        end = sketch._start + _WORD * sketch._count
        self._accumulator.add_hashes(sketch._data[:end], sketch._start, sketch._theta)

    def sketch(self) -> ThetaSketch:
        """The sketch of everything that was added up to now."""
        return ThetaSketch._of(*self._accumulator.result())


def _check_deviations(n_std_dev: int) -> None:
    if n_std_dev not in (1, 2, 3):
        raise InvalidInputError(f"n_std_dev: expected 1, 2 or 3, found {n_std_dev!r}")


def _serialise(theta: int, hashes: bytes) -> bytes:
    """The compact ordered form, as Java writes it."""
    count, seed, flags = len(hashes) // _WORD, _SEED_HASH, _FLAGS
    long_preamble = theta < _THETA_MAX
    if not long_preamble and count < 2:
        if count == 0:
            flags, seed = flags | _EMPTY, 0  # Java's constant for the empty sketch has no seed hash
        else:
            flags |= _SINGLE
        return _PREAMBLE.pack(1, _SERIAL_VERSION, _FAMILY, flags, seed) + hashes
    head = _PREAMBLE.pack(3 if long_preamble else 2, _SERIAL_VERSION, _FAMILY, flags, seed)
    head += _COUNT.pack(count, 1.0)
    return head + (theta.to_bytes(_WORD, "little") if long_preamble else b"") + hashes


def _check(data: bytes, path: str | None) -> tuple[int, int, int]:
    """(theta, where the hashes begin, how many) of a compact ordered sketch.

    Raises:
        CorruptDataError, UnsupportedError: as `ThetaSketch.from_bytes`.
    """

    def corrupt(what: str, offset: int, expected: object, found: object) -> CorruptDataError:
        return CorruptDataError(
            f"theta sketch: {what}", path=path, offset=offset, expected=expected, found=found
        )

    def unsupported(what: str) -> UnsupportedError:
        return UnsupportedError(f"{'' if path is None else path + ': '}theta sketch: {what}")

    if len(data) < _PREAMBLE.size:
        raise corrupt("preamble", 0, f"{_PREAMBLE.size} bytes", len(data))
    longs, version, family, flags, seed = _PREAMBLE.unpack_from(data)
    longs &= 0x3F  # the upper two bits are the resize factor of a table
    if version != _SERIAL_VERSION:
        raise unsupported(f"serial version {version}; expected {_SERIAL_VERSION}")
    if family != _FAMILY:
        name = f" ({_FAMILIES[family]})" if family in _FAMILIES else ""
        raise unsupported(f"family {family}{name}; expected {_FAMILY} (Compact)")
    if flags & _BIG_ENDIAN or not flags & _COMPACT:
        raise corrupt("flags", 5, "compact and little-endian", f"{flags:#04x}")
    if longs == 1 and flags & _EMPTY:
        if len(data) != _PREAMBLE.size:
            raise corrupt("an empty sketch", _PREAMBLE.size, f"{_PREAMBLE.size} bytes", len(data))
        return _THETA_MAX, _PREAMBLE.size, 0
    if seed != _SEED_HASH:
        raise unsupported(f"seed hash {seed:#06x}; expected {_SEED_HASH:#06x} (seed 9001)")
    if not flags & _ORDERED:
        raise unsupported("hashes that are not ordered")
    if longs not in (1, 2, 3) or flags & _EMPTY:
        raise corrupt("preamble longs and flags", 0, "1, 2 or 3, not empty", f"{longs}, {flags:#04x}")
    start, count, theta = _WORD * longs, 1, _THETA_MAX
    if len(data) < start:
        raise corrupt("preamble", 0, f"{start} bytes", len(data))
    if longs > 1:
        count, _ = _COUNT.unpack_from(data, _PREAMBLE.size)
    if longs > 2:
        theta = int.from_bytes(data[start - _WORD : start], "little")
        if not 0 < theta <= _THETA_MAX:
            raise corrupt("theta", start - _WORD, f"1 to {_THETA_MAX}", theta)
    if count < 0 or len(data) != start + _WORD * count:
        raise corrupt("count of hashes", _PREAMBLE.size, f"{(len(data) - start) / _WORD:g} by size", count)
    hashes = np.frombuffer(data, "<u8", count, start)
    if count:
        wrong = np.flatnonzero(hashes[1:] <= hashes[:-1])
        if len(wrong):
            at = int(wrong[0]) + 1
            raise corrupt(
                "order of hashes", start + _WORD * at, f"above {hashes[at - 1]:#x}", f"{hashes[at]:#x}"
            )
        if hashes[0] == 0 or hashes[-1] >= theta:
            at = 0 if hashes[0] == 0 else int(np.searchsorted(hashes, np.uint64(theta)))
            raise corrupt("hash", start + _WORD * at, f"1 to theta - 1 = {theta - 1:#x}", f"{hashes[at]:#x}")
    return theta, start, count
