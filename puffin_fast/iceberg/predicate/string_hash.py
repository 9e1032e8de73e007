"""Hashes of strings, an Arrow array at a time: polynomials over the bytes, modulo 2^64.

With the prefix sums P of byte times base^place, a value from byte a to b has the hash (P[b] - P[a]) / base^a,
which is the same wherever the value stands. Its length and a last mixing come on top.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["RowHash"]

CHUNK = 1 << 18
"""Bytes hashed at a time: some arrays of eight times as much are made."""

Numbers = npt.NDArray[np.uint64]


class RowHash:
    """A hash of strings or bytes. Equal values have equal hashes; others may have, too.

    Args:
        seed: hashes of different seeds collide on different values.
    """

    def __init__(self, seed: int) -> None:
        base, self._mixer = (
            int(n) | 1 for n in np.random.default_rng(seed).integers(1 << 62, 1 << 63, 2, dtype=np.uint64)
        )
        self._powers = _powers(base, CHUNK)
        self._inverses = _powers(pow(base, -1, 1 << 64), CHUNK)
        self._base = base

    def of(self, values: pa.Array) -> Numbers:
        """The hash of each value of a large_string or large_binary array; anything where one is null."""
        _, raw_offsets, raw_data = values.buffers()
        offsets = np.frombuffer(raw_offsets, np.int64)[values.offset : values.offset + len(values) + 1]
        data = np.frombuffer(b"" if raw_data is None else raw_data, np.uint8)
        result = np.empty(len(values), np.uint64)
        row = 0
        while row < len(values):
            after = int(np.searchsorted(offsets, offsets[row] + CHUNK, "right")) - 1
            if after > row:
                result[row:after] = self._some(data, offsets[row : after + 1])
            else:  # a value longer than that
                after = row + 1
                result[row] = self._long(data[offsets[row] : offsets[after]])
            row = after
        with np.errstate(over="ignore"):
            result += np.diff(offsets).astype(np.uint64) * np.uint64(self._mixer)
            result ^= result >> np.uint64(32)
            result *= np.uint64(self._mixer)
        return result

    def _some(self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Numbers:
        """Values that stand in one chunk."""
        places = offsets - offsets[0]
        n_bytes = int(places[-1])
        sums = np.zeros(n_bytes + 1, np.uint64)
        with np.errstate(over="ignore"):
            np.cumsum(data[offsets[0] : offsets[-1]] * self._powers[:n_bytes], out=sums[1:])
            found: Numbers = (sums[places[1:]] - sums[places[:-1]]) * self._inverses[places[:-1]]
        return found

    def _long(self, data: npt.NDArray[np.uint8]) -> np.uint64:
        total, step = 0, pow(self._base, CHUNK, 1 << 64)
        for start in reversed(range(0, len(data), CHUNK)):
            part = data[start : start + CHUNK]
            with np.errstate(over="ignore"):
                sum_of_part = int((part * self._powers[: len(part)]).sum(dtype=np.uint64))
            total = (total * step + sum_of_part) % (1 << 64)
        return np.uint64(total)


def _powers(base: int, n: int) -> Numbers:
    """base^0 to base^n."""
    factors = np.full(n + 1, base, np.uint64)
    factors[0] = 1
    with np.errstate(over="ignore"):
        return np.cumprod(factors)
