"""The check bank's tables: every codec and every kind of buffer."""

from __future__ import annotations

import array
import mmap
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap, BitMap64

from puffin_fast import dv
from puffin_fast.bitmap import PositionBitmap
from tests.kit import malformed_formats, oracle, oracle_formats, strategies


def croaring(positions: Any, *, runs: bool = True) -> bytes:
    """CRoaring's bytes of a set, optionally with run containers.

    Only a set of 32 bits takes an array without a Python object for each point. Positions of few keys therefore become
    such sets, which CRoaring then reads as one set of 64 bits.
    """
    values = np.sort(np.asarray(positions, np.uint64))
    high = values >> np.uint64(32)
    keys = high[np.diff(high, prepend=high[:1] + np.uint64(1)) != 0]
    if len(keys) > 16:
        peer = BitMap64(values)
    else:
        parts = [len(keys).to_bytes(8, "little")]
        for key in keys:
            low = array.array("I", values[high == key].astype(np.uint32).tobytes())
            parts += [int(key).to_bytes(4, "little"), bytes(BitMap(low).serialize())]
        peer = BitMap64.deserialize(b"".join(parts))
    if runs:
        peer.run_optimize()
    return bytes(peer.serialize())


class Codec(NamedTuple):
    """One kind of bytes, ours and the oracle's, and bytes that it refuses or only reads."""

    name: str
    encode: Callable[[PositionBitmap], bytes]
    decode: Callable[[Any], PositionBitmap]
    oracle_encode: Callable[[Sequence[int]], bytes]
    oracle_decode: Callable[[bytes], list[int]]
    malformed: dict[str, Callable[[], bytes]]
    accepted: dict[str, tuple[bytes, list[int]]]
    maximum: int = oracle.MAX_POSITION
    frames: bool = True
    """Whether a frame of length, magic and checksum surrounds the set."""


CODECS = [
    Codec(
        "bitmap",
        PositionBitmap.to_bytes,
        PositionBitmap.from_bytes,
        oracle.encode,
        oracle.decode,
        strategies.MALFORMED,
        strategies.ACCEPTED,
        frames=False,
    ),
    Codec(
        "iceberg",
        dv.iceberg.encode,
        dv.iceberg.decode,
        oracle.encode_blob,
        oracle.decode_blob,
        strategies.MALFORMED_BLOBS,
        strategies.ACCEPTED_BLOBS,
    ),
    Codec(
        "delta",
        dv.delta.encode,
        dv.delta.decode,
        oracle.encode_blob,
        oracle_formats.decode_delta,
        malformed_formats.MALFORMED_DELTA,
        malformed_formats.ACCEPTED_DELTA,
    ),
    Codec(
        "paimon",
        dv.paimon.encode,
        dv.paimon.decode,
        oracle.encode_blob,
        oracle_formats.decode_paimon,
        malformed_formats.MALFORMED_PAIMON,
        strategies.ACCEPTED_BLOBS,
    ),
    Codec(
        "paimon_v1",
        partial(dv.paimon.encode, version=1),
        dv.paimon.decode,
        oracle_formats.encode_paimon_v1,
        oracle_formats.decode_paimon,
        malformed_formats.MALFORMED_V1,
        {
            name: case
            for name, case in malformed_formats.ACCEPTED_V1.items()
            if name != "run_of_everything"  # past what Paimon puts into V1; read all the same
        },
        maximum=dv.paimon.MAX_POSITION_V1,
    ),
    Codec(
        "lance",
        partial(dv.lance.encode, form="bin"),
        dv.lance.decode,
        oracle_formats.encode_bitmap32,
        oracle_formats.decode_bitmap32,
        malformed_formats.MALFORMED_32,
        malformed_formats.ACCEPTED_32,
        maximum=dv.lance.MAX_POSITION,
        frames=False,
    ),
    Codec(
        "mumbling",
        dv.mumbling.encode,
        dv.mumbling.decode,
        oracle_formats.encode_mumbling,
        oracle_formats.decode_mumbling,
        malformed_formats.MALFORMED_MUMBLING,
        malformed_formats.ACCEPTED_MUMBLING,
        maximum=dv.mumbling.MAX_POSITION,
        frames=False,
    ),
]


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
