"""Each kind of buffer that the functions on bytes take."""

from __future__ import annotations

import array
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

__all__ = ["BUFFERS", "as_buffer"]


def _mapped(data: bytes) -> mmap.mmap:
    mapped = mmap.mmap(-1, max(len(data), 1))
    mapped[: len(data)] = data
    return mapped


def _frozen(data: bytes) -> Any:
    view = np.frombuffer(data, np.uint8).copy()
    view.flags.writeable = False
    return view


def _misaligned(data: bytes) -> memoryview:
    return memoryview(b"\xff" + data + b"\xff")[1:-1]


BUFFERS: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "memoryview_of_a_bytearray": lambda data: memoryview(bytearray(data)),
    "misaligned_memoryview": _misaligned,
    "numpy": lambda data: np.frombuffer(data, np.uint8),
    "numpy_read_only": _frozen,
    "numpy_signed": lambda data: np.frombuffer(data, np.int8),
    "array": lambda data: array.array("B", data),
    "arrow_buffer": pa.py_buffer,
    "mmap": _mapped,
}
"""Ways to hand over bytes."""


@pytest.fixture(params=BUFFERS)
def as_buffer(request: pytest.FixtureRequest) -> Callable[[bytes], Any]:
    """Each kind of buffer in turn, as a function of bytes."""
    return BUFFERS[request.param]
