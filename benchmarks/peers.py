"""The libraries that the kernels are compared with: pyroaring, the C functions of CRoaring, and NumPy.

CRoaring is the library inside pyroaring's extension module, called through ctypes on whole arrays, so that
none of the time is Python's.
"""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pyroaring
from numpy.typing import NDArray
from pyroaring import BitMap64

Positions = NDArray[np.uint64]

SOURCE = Path(__file__).parent / "croaring_loop.c"
BUILD = Path(__file__).parent.parent / "build" / "bench"


@functools.cache
def _croaring() -> ctypes.CDLL:
    library = ctypes.CDLL(pyroaring.__file__)
    pointers = ("create", "portable_deserialize_safe", "or", "and", "andnot", "xor")
    for name in pointers:
        getattr(library, f"roaring64_bitmap_{name}").restype = ctypes.c_void_p
    for name in ("portable_size_in_bytes", "portable_serialize", "get_cardinality"):
        getattr(library, f"roaring64_bitmap_{name}").restype = ctypes.c_size_t
    library.roaring64_bitmap_internal_validate.restype = ctypes.c_bool
    return library


@functools.cache
def _loop() -> ctypes.CDLL:
    """The compiled loop of questions."""
    BUILD.mkdir(parents=True, exist_ok=True)
    made, scratch = BUILD / "croaring_loop.so", BUILD / f"croaring_loop.{os.getpid()}.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O3", "-shared", "-fPIC", str(SOURCE), "-o", str(scratch)], check=True)
    scratch.replace(made)
    return ctypes.CDLL(str(made))


def _call(name: str, *arguments: Any) -> Any:
    return getattr(_croaring(), f"roaring64_bitmap_{name}")(*arguments)


class Bitmap:
    """A bitmap of CRoaring, freed with the object."""

    def __init__(self, pointer: int) -> None:
        assert pointer
        self.pointer = ctypes.c_void_p(pointer)

    def __del__(self) -> None:
        _call("free", self.pointer)

    @classmethod
    def of(cls, positions: Positions) -> Bitmap:
        made = cls(_call("create"))
        _call(
            "add_many",
            made.pointer,
            ctypes.c_size_t(len(positions)),
            positions.ctypes.data_as(ctypes.c_void_p),
        )
        return made

    @classmethod
    def read(cls, data: bytes, *, check: bool) -> Bitmap:
        made = cls(_call("portable_deserialize_safe", data, ctypes.c_size_t(len(data))))
        if check:
            assert _call("internal_validate", made.pointer, ctypes.byref(ctypes.c_char_p()))
        return made

    def to_bytes(self) -> NDArray[np.uint8]:
        _call("run_optimize", self.pointer)
        out = np.empty(_call("portable_size_in_bytes", self.pointer), np.uint8)
        _call("portable_serialize", self.pointer, out.ctypes.data_as(ctypes.c_void_p))
        return out

    def combine(self, name: str, other: Bitmap) -> Bitmap:
        return Bitmap(_call(name, self.pointer, other.pointer))


def croaring_encode(positions: Positions) -> NDArray[np.uint8]:
    return Bitmap.of(positions).to_bytes()


def croaring_decode(data: bytes, out: Positions) -> Positions:
    """Decode with CRoaring's own validation, as far as it goes."""
    bitmap = Bitmap.read(data, check=True)
    _call("to_uint64_array", bitmap.pointer, out.ctypes.data_as(ctypes.c_void_p))
    return out


def croaring_combine(name: str, *blobs: bytes) -> NDArray[np.uint8]:
    """Bytes to bytes; bounds are checked while reading, contents are not."""
    read = [Bitmap.read(data, check=False) for data in blobs]
    return functools.reduce(lambda left, right: left.combine(name, right), read).to_bytes()


class BitmapPairs:
    """Pairs of bitmaps of CRoaring, and loops over them."""

    def __init__(self, pairs: list[tuple[Bitmap, Bitmap]]) -> None:
        self.pairs = pairs  # which own the memory
        column = ctypes.c_void_p * len(pairs)
        lefts, rights = (
            column(*(left.pointer for left, _ in pairs)),
            column(*(right.pointer for _, right in pairs)),
        )
        self._arguments = lefts, rights, ctypes.c_size_t(len(pairs))

    def combine(self, name: str) -> None:
        """Combines each pair and frees the result."""
        combine, free = _croaring()[f"roaring64_bitmap_{name}"], _croaring().roaring64_bitmap_free
        _loop().combine_pairs(combine, free, *self._arguments)

    def ask(self, name: str) -> int:
        """Returns for how many pairs a question is answered with yes."""
        found: int = _loop().ask_pairs(_croaring()[f"roaring64_bitmap_{name}"], *self._arguments)
        return found


def croaring_contains(data: bytes, asked: Positions) -> NDArray[np.bool_]:
    bitmap = Bitmap.read(data, check=False)
    out = np.empty(len(asked), np.bool_)
    _loop().contains_many(
        _croaring().roaring64_bitmap_contains_bulk,
        bitmap.pointer,
        asked.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_size_t(len(asked)),
        out.ctypes.data_as(ctypes.c_void_p),
    )
    return out


def pyroaring_encode(positions: Positions | array[int]) -> bytes:
    """As its users do: the container choice of a set built point by point needs `run_optimize`."""
    bitmap = BitMap64(positions)
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


def pyroaring_decode(data: bytes) -> Positions:
    return np.frombuffer(BitMap64.deserialize(data).to_array(), np.uint64)


def pyroaring_combine(name: str, *blobs: bytes) -> bytes:
    read = [BitMap64.deserialize(data) for data in blobs]
    result = functools.reduce(getattr(BitMap64, name), read)
    result.run_optimize()
    return bytes(result.serialize())


def pyroaring_contains(data: bytes, asked: list[int]) -> list[bool]:
    bitmap = BitMap64.deserialize(data)
    return [value in bitmap for value in asked]


def scatter(data: bytes, n_rows: int) -> NDArray[np.bool_]:
    """Decode, then NumPy's assignment by index: the idiom for a mask."""
    flags = np.zeros(n_rows, np.bool_)
    flags[pyroaring_decode(data)] = True
    return flags


def as_array(positions: Positions) -> array[int]:
    return array("Q", positions.tobytes())
