"""Each codec, the oracle of its bytes, and bytes that it refuses or only reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from puffin_fast import dv
from puffin_fast.bitmap import PositionBitmap
from tests.kit import malformed_formats, oracle, oracle_formats, strategies


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
