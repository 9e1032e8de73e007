"""Fixtures: files that count the bytes that are read, and Puffin bytes that the writer refuses to write."""

from __future__ import annotations

import io
import struct
from typing import Any

import lz4.frame
import pytest

from puffin_fast.puffin import PuffinWriter


class CountingFile(io.BytesIO):
    """A file object that remembers each range read of it as (first byte, byte after the last)."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.ranges: list[tuple[int, int]] = []

    def read(self, size: int | None = -1, /) -> bytes:
        start = self.tell()
        data = super().read(size)
        self.ranges.append((start, start + len(data)))
        return data

    def touched(self, start: int, end: int) -> bool:
        return any(first < end and start < last for first, last in self.ranges)


def raw_file(
    payload: bytes,
    *,
    blobs: bytes = b"",
    flags: bytes = bytes(4),
    size: int | None = None,
    head: bytes = b"PFA1",
    middle: bytes = b"PFA1",
    end: bytes = b"PFA1",
) -> bytes:
    """A Puffin file with any part replaced by something else."""
    trailer = struct.pack("<i", len(payload) if size is None else size) + flags + end
    return head + blobs + middle + payload + trailer


def lz4_payload(payload: bytes, **settings: Any) -> bytes:
    frame: bytes = lz4.frame.compress(payload, **settings)
    return frame


@pytest.fixture
def small_file() -> bytes:
    """Three blobs, one for each codec, a few hundred bytes."""
    sink = io.BytesIO()
    with PuffinWriter(sink, properties={"created-by": "test"}) as writer:
        writer.add(b"plain bytes", type="a", fields=(1,), snapshot_id=5, sequence_number=6)
        writer.add(b"zz" * 40, type="b", compression="zstd", properties={"k": "v"})
        writer.add(b"ll" * 40, type="c", compression="lz4")
    return sink.getvalue()
