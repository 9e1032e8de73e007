"""Bytes with one change, at each place in turn."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["flipped_bits"]


def flipped_bits(data: bytes, first: int = 0, stop: int | None = None, *, step: int = 1) -> Iterator[bytes]:
    """Bytes of which one bit is flipped: each of those from byte `first` to `stop`, or each `step`-th of them."""
    for bit in range(8 * first, 8 * (len(data) if stop is None else stop), step):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)
