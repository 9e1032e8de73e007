"""The compact serialised form of a theta sketch.

```
byte 0     1        2        3, 4   5       6         8            12         16          24
preLongs | serVer | family | 0, 0 | flags | seedHash | count: i32 | p: f32 | theta: u64 | hashes: u64 …   3: estimating
                                          |          | count: i32 | p: f32 | hashes: u64 …                2: exact
                                          |          | hash: u64                                          1: one value
                                          |          |                                                    1: empty
```
All words are little-endian, hashes distinct and below theta. Flags: 2 read-only, 4 empty, 8 compact, 16 ordered
(the hashes ascend), 32 single item. theta is 2^63 - 1 (exact) unless it is written. An empty sketch may also have the
longer preambles, with a count of 0; its theta has no meaning. Source: the Puffin specification,
`apache-datasketches-theta-v1`, and the DataSketches library's compact form (serVer 3, family 3).

Hashes that are not ordered, and other versions, are only read. Version 1 has the layout of an estimating sketch,
without flags and seed hash. Version 2 has that of version 3, without the form for a single value. The hashes of both
are ordered.

Serial version 4: entryBits in byte 3, bytes of the count in byte 4, then theta when preLongs is 2, the
count, and the difference of each hash to the one before in entryBits bits, most significant bit first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from puffin_fast.errors import CorruptDataError, LimitExceededError, UnsupportedError

THETA_MAX = (1 << 63) - 1
WORD = 8

_OLDEST_VERSION, _OLD_VERSION, _SERIAL_VERSION, _COMPRESSED_VERSION = 1, 2, 3, 4
_FAMILY, _SEED_HASH = 3, 0x93CC
_BIG_ENDIAN, _READ_ONLY, _EMPTY, _COMPACT, _ORDERED, _SINGLE = 1, 2, 4, 8, 16, 32
_FLAGS = _READ_ONLY | _COMPACT | _ORDERED
_PREAMBLE = struct.Struct("<BBBxxBH")
_COUNT = struct.Struct("<if")
_FAMILIES = {1: "Alpha", 2: "QuickSelect", 4: "Union", 5: "Intersection", 6: "A-not-B"}

_MOST_COMPRESSED = 1 << 24
"""Maximum number of hashes of a compressed sketch: a hash may take one bit there, and takes 8 bytes in memory."""

_DECOMPRESSED_TOGETHER = 1 << 14

Corrupt = Callable[[str, int, object, object], CorruptDataError]


def encode(theta: int, hashes: bytes) -> bytes:
    """Encodes the compact ordered form, as Java writes it."""
    count, seed, flags = len(hashes) // WORD, _SEED_HASH, _FLAGS
    long_preamble = theta < THETA_MAX
    if not long_preamble and count < 2:
        if count == 0:
            flags, seed = flags | _EMPTY, 0  # Java's constant for the empty sketch has no seed hash
        else:
            flags |= _SINGLE
        return _PREAMBLE.pack(1, _SERIAL_VERSION, _FAMILY, flags, seed) + hashes
    head = _PREAMBLE.pack(3 if long_preamble else 2, _SERIAL_VERSION, _FAMILY, flags, seed)
    head += _COUNT.pack(count, 1.0)
    return head + (theta.to_bytes(WORD, "little") if long_preamble else b"") + hashes


def decode(data: bytes, path: str | None = None) -> tuple[bytes, int, int, int]:
    """Checks a compact sketch.

    Args:
        data: the whole sketch.
        path: the name of the sketch in errors.

    Returns:
        The bytes of serial version 3 with ordered hashes (`data` itself if they have that form), theta, the offset of
        the hashes, and their number.

    Raises:
        CorruptDataError: the bytes are not a well-formed sketch.
        UnsupportedError: another family, version or seed.
        LimitExceededError: a compressed sketch with more than 2^24 hashes.
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
    if not _OLDEST_VERSION <= version <= _COMPRESSED_VERSION:
        raise unsupported(f"serial version {version}; expected {_OLDEST_VERSION} to {_COMPRESSED_VERSION}")
    if family != _FAMILY:
        name = f" ({_FAMILIES[family]})" if family in _FAMILIES else ""
        raise unsupported(f"family {family}{name}; expected {_FAMILY} (Compact)")
    if version == _OLDEST_VERSION:
        return decode(_upgrade(data, longs, version, corrupt), path)
    if version != _OLD_VERSION and (flags & _BIG_ENDIAN or not flags & _COMPACT):
        raise corrupt("flags", 5, "compact and little-endian", f"{flags:#04x}")
    empty = version == _SERIAL_VERSION and bool(flags & _EMPTY)
    if empty and longs == 1:
        if len(data) != _PREAMBLE.size:
            raise corrupt("an empty sketch", _PREAMBLE.size, f"{_PREAMBLE.size} bytes", len(data))
        return data, THETA_MAX, _PREAMBLE.size, 0
    if seed != _SEED_HASH and not empty:
        raise unsupported(f"seed hash {seed:#06x}; expected {_SEED_HASH:#06x} (seed 9001)")
    if version == _OLD_VERSION:
        return decode(_upgrade(data, longs, version, corrupt), path)
    if version == _COMPRESSED_VERSION:
        if flags & _EMPTY:
            raise corrupt("flags of a compressed sketch", 5, "not empty", f"{flags:#04x}")
        data = _decompress(data, longs, corrupt)  # whose hashes are differences, and so ordered
        longs, flags = data[0], data[5]
    if longs not in (1, 2, 3):
        raise corrupt("preamble longs", 0, "1, 2 or 3", longs)
    start, count, theta = WORD * longs, 1, THETA_MAX
    if len(data) < start:
        raise corrupt("preamble", 0, f"{start} bytes", len(data))
    if longs > 1:
        count, _ = _COUNT.unpack_from(data, _PREAMBLE.size)
    if longs > 2:
        theta = int.from_bytes(data[start - WORD : start], "little")
        if not 0 < theta <= THETA_MAX:
            raise corrupt("theta", start - WORD, f"1 to {THETA_MAX}", theta)
    if empty and count:
        raise corrupt("count of hashes of an empty sketch", _PREAMBLE.size, 0, count)
    if count < 0 or len(data) != start + WORD * count:
        raise corrupt("count of hashes", _PREAMBLE.size, f"{(len(data) - start) / WORD:g} by size", count)
    if empty:
        return decode(encode(THETA_MAX, b""), path)
    hashes = np.frombuffer(data, "<u8", count, start)
    places: npt.NDArray[np.int64] | None = None
    if not flags & _ORDERED:
        places = np.argsort(hashes, kind="stable")
        hashes = hashes[places]

    def place(at: int) -> int:
        return int(start) + WORD * (at if places is None else int(places[at]))

    if count:
        wrong = np.flatnonzero(hashes[1:] <= hashes[:-1])
        if len(wrong):
            at = int(wrong[0]) + 1
            what, above = "order of hashes", f"above {hashes[at - 1]:#x}"
            if places is not None:
                what, above = "hashes", "distinct ones"
            raise corrupt(what, place(at), above, f"{hashes[at]:#x}")
        if hashes[0] == 0 or hashes[-1] >= theta:
            at = 0 if hashes[0] == 0 else int(np.searchsorted(hashes, np.uint64(theta)))
            raise corrupt("hash", place(at), f"1 to theta - 1 = {theta - 1:#x}", f"{hashes[at]:#x}")
    if places is not None:
        data = encode(theta, hashes.tobytes())
        start = len(data) - WORD * count
    return data, theta, start, count


def _upgrade(data: bytes, longs: int, version: int, corrupt: Corrupt) -> bytes:
    """Converts serial version 1 or 2 to version 3; the caller checks that the hashes ascend."""
    known = (3,) if version == _OLDEST_VERSION else (1, 2, 3)
    if longs not in known:
        raise corrupt(f"preamble longs of serial version {version}", 0, " or ".join(map(str, known)), longs)
    start, count, theta = WORD * longs, 0, THETA_MAX
    if len(data) < start:
        raise corrupt("preamble", 0, f"{start} bytes", len(data))
    if longs > 1:
        count, _ = _COUNT.unpack_from(data, _PREAMBLE.size)
    if longs > 2:
        theta = int.from_bytes(data[start - WORD : start], "little")
    if not 0 < theta <= THETA_MAX:
        raise corrupt("theta", start - WORD, f"1 to {THETA_MAX}", theta)
    if len(data) != start + WORD * count:
        raise corrupt("count of hashes", _PREAMBLE.size, f"{(len(data) - start) / WORD:g} by size", count)
    return encode(theta, data[start:])


def _decompress(data: bytes, longs: int, corrupt: Corrupt) -> bytes:
    """Converts serial version 4 to version 3; the caller checks that the hashes ascend."""
    bits, count_bytes = data[3], data[4]
    if longs not in (1, 2):
        raise corrupt("preamble longs of a compressed sketch", 0, "1 or 2", longs)
    if not 1 <= bits <= 63 or not 1 <= count_bytes <= 4:
        expected = "1 to 63 entry bits and 1 to 4 count bytes"
        raise corrupt("compressed sketch", 3, expected, f"{bits} and {count_bytes}")
    count_start = WORD * longs
    start = count_start + count_bytes
    if len(data) < start:
        raise corrupt("preamble", 0, f"{start} bytes", len(data))
    theta = THETA_MAX if longs == 1 else int.from_bytes(data[WORD:count_start], "little")
    count = int.from_bytes(data[count_start:start], "little")
    if len(data) - start != (count * bits + 7) // 8:
        raise corrupt("count of hashes", count_start, f"{8 * (len(data) - start) // bits} by size", count)
    if count > _MOST_COMPRESSED:
        raise LimitExceededError(f"theta sketch: {count} compressed hashes, the limit is {_MOST_COMPRESSED}")
    deltas = np.empty(count, np.uint64)
    for first in range(
        0, count, _DECOMPRESSED_TOGETHER
    ):  # a multiple of 8, so that each part begins at a byte
        n = min(_DECOMPRESSED_TOGETHER, count - first)
        packed = np.frombuffer(data, np.uint8, (n * bits + 7) // 8, start + first * bits // 8)
        words = np.zeros((n, 64), np.uint8)
        words[:, 64 - bits :] = np.unpackbits(packed, count=n * bits).reshape(n, bits)
        deltas[first : first + n] = np.packbits(words, axis=1).view(">u8")[:, 0]
    if not 0 < theta <= THETA_MAX:
        raise corrupt("theta", WORD, f"1 to {THETA_MAX}", theta)
    return encode(theta, np.cumsum(deltas, dtype=np.uint64).astype("<u8").tobytes())
