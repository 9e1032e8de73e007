"""A slow and simple implementation of the kernels in plain Python: portable Roaring and `deletion-vector-v1`.

::

    bitmap64   u64 number of bitmaps | { u32 key | bitmap32 }*                            keys ascending
    bitmap32   u32 12346 | u32 n | n x (u16 key, u16 card-1) | n x u32 offset | containers
               u16 12347 | u16 n-1 | run flags | n x (u16 key, u16 card-1) | offsets if n >= 4 | containers
    container  array: card x u16 | bitmap (card > 4096): 1024 x u64 | run: u16 r, r x (u16 first, u16 more)
    blob       u32 BE length | D1 D3 39 64 | bitmap64 | u32 BE CRC-32 of magic and bitmap64
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Iterable, Sequence

MAGIC = bytes.fromhex("d1d33964")
NO_RUNS, RUNS = 12346, 12347
ARRAY_MAX, BITMAP_BYTES, CHUNK = 4096, 8192, 1 << 16
OFFSETS_FROM = 4
"""A bitmap with run containers has an offset table from this many containers on."""
MAX_KEY = (1 << 31) - 2
MAX_POSITION = 0x7FFFFFFE80000000


class RefusedError(Exception):
    """The bytes are not a bitmap or blob; the message names the check."""


def check(holds: bool, what: str) -> None:
    if not holds:
        raise RefusedError(what)


# Encode ----------------------------------------------------------------------------------------------


def runs_of(values: Sequence[int]) -> list[tuple[int, int]]:
    """Maximal runs of sorted distinct integers as (first, last)."""
    breaks = [(a, b) for a, b in itertools.pairwise(values) if b != a + 1]
    lasts, firsts = [a for a, _ in breaks], [b for _, b in breaks]
    return list(zip([*values[:1], *firsts], [*lasts, *values[-1:]], strict=True))


def bits_of(values: Iterable[int]) -> bytes:
    """The bytes of a bitmap container."""
    found = bytearray(BITMAP_BYTES)
    for value in values:
        found[value >> 3] |= 1 << (value & 7)
    return bytes(found)


def encode_container(lows: Sequence[int]) -> tuple[bool, bytes]:
    """Whether it is a run container, and its bytes: the choice for a set built point by point."""
    runs = runs_of(lows)
    plain_size = 2 * len(lows) if len(lows) <= ARRAY_MAX else BITMAP_BYTES
    if 2 + 4 * len(runs) < plain_size:
        pairs = [struct.pack("<HH", first, last - first) for first, last in runs]
        return True, struct.pack("<H", len(runs)) + b"".join(pairs)
    if len(lows) <= ARRAY_MAX:
        return False, struct.pack(f"<{len(lows)}H", *lows)
    return False, bits_of(lows)


def encode32(values: Sequence[int]) -> bytes:
    """Portable 32-bit Roaring of sorted distinct values below 2^32."""
    chunks = [
        (key, [v % CHUNK for v in group]) for key, group in itertools.groupby(values, lambda v: v // CHUNK)
    ]
    containers = [encode_container(lows) for _, lows in chunks]
    n, any_run = len(chunks), any(is_run for is_run, _ in containers)
    if any_run:
        flags = sum(1 << i for i, (is_run, _) in enumerate(containers) if is_run)
        header = struct.pack("<HH", RUNS, n - 1) + flags.to_bytes((n + 7) // 8, "little")
    else:
        header = struct.pack("<II", NO_RUNS, n)
    header += b"".join(struct.pack("<HH", key, len(lows) - 1) for key, lows in chunks)
    if not any_run or n >= OFFSETS_FROM:
        sizes = [len(body) for _, body in containers]
        starts = itertools.accumulate(sizes[:-1], initial=len(header) + 4 * n) if n else ()
        header += b"".join(struct.pack("<I", start) for start in starts)
    return header + b"".join(body for _, body in containers)


def encode(positions: Iterable[int]) -> bytes:
    """Portable 64-bit Roaring of any positions, in any order, repeated or not."""
    groups = itertools.groupby(sorted(set(map(int, positions))), lambda p: p >> 32)
    parts = [struct.pack("<I", key) + encode32([p & 0xFFFFFFFF for p in group]) for key, group in groups]
    return struct.pack("<Q", len(parts)) + b"".join(parts)


def frame(vector: bytes, magic: bytes = MAGIC) -> bytes:
    """Length, magic and checksum around the bytes of a bitmap."""
    body = magic + vector
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def encode_blob(positions: Iterable[int]) -> bytes:
    return frame(encode(positions))


# Decode, with every check ------------------------------------------------------------------------------


class Reader:
    """Reads bytes in order, and raises an error at their end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.runs_touch = False
        """Whether two runs that could have been one were read: allowed, never written."""

    def take(self, n: int) -> bytes:
        check(self.at + n <= len(self.data), "truncated")
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, code: str) -> int:
        (value,) = struct.unpack(code, self.take(struct.calcsize(code)))
        return int(value)


def decode_runs(reader: Reader) -> list[int]:
    lows: list[int] = []
    for _ in range(reader.number("<H")):
        first, more = reader.number("<H"), reader.number("<H")
        check(first + more < CHUNK, "run passes 65535")
        check(not lows or first > lows[-1], "runs overlap or are out of order")
        reader.runs_touch |= bool(lows) and first == lows[-1] + 1
        lows.extend(range(first, first + more + 1))
    return lows


def decode_container(reader: Reader, is_run: bool, cardinality: int) -> list[int]:
    if is_run:
        lows = decode_runs(reader)
    elif cardinality <= ARRAY_MAX:
        lows = [reader.number("<H") for _ in range(cardinality)]
        check(all(a < b for a, b in itertools.pairwise(lows)), "array unsorted or repeated")
    else:
        bits = int.from_bytes(reader.take(BITMAP_BYTES), "little")
        lows = [low for low, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"]
    check(len(lows) == cardinality, "cardinality")
    return lows


def decode32(reader: Reader) -> list[int]:
    start, cookie = reader.at, reader.number("<I")
    if cookie % CHUNK == RUNS:
        n = cookie // CHUNK + 1
        flags = int.from_bytes(reader.take((n + 7) // 8), "little")
    else:
        check(cookie == NO_RUNS, "cookie")
        n, flags = reader.number("<I"), 0
        check(n <= CHUNK, "count")
    check(reader.at + 4 * n <= len(reader.data), "truncated")
    headers = [(reader.number("<H"), reader.number("<H") + 1) for _ in range(n)]
    check(all(a < b for (a, _), (b, _) in itertools.pairwise(headers)), "container keys")
    has_offsets = cookie == NO_RUNS or n >= OFFSETS_FROM
    offsets = [reader.number("<I") for _ in range(n)] if has_offsets else None
    values: list[int] = []
    for i, (key, cardinality) in enumerate(headers):
        check(offsets is None or offsets[i] == reader.at - start, "offset")
        lows = decode_container(reader, bool(flags >> i & 1), cardinality)
        values.extend(key * CHUNK + low for low in lows)
    return values


def decode(data: bytes) -> list[int]:
    """Positions of portable 64-bit Roaring, ascending.

    Raises:
        RefusedError: a check fails; the message names it.
    """
    return decode64(Reader(bytes(data)))


def decode64(reader: Reader) -> list[int]:
    positions: list[int] = []
    last = -1
    for _ in range(reader.number("<Q")):
        key = reader.number("<I")
        check(key > last, "keys")
        check(key <= MAX_KEY, "key too large")
        last = key
        positions.extend(key << 32 | value for value in decode32(reader))
        check(not positions or positions[-1] <= MAX_POSITION, "position too large")
    check(reader.at == len(reader.data), "trailing bytes")
    return positions


def decode_blob(blob: bytes, cardinality: int | None = None) -> list[int]:
    reader = Reader(bytes(blob))
    length = reader.number(">I")
    check(length == len(blob) - 8, "length")
    body = reader.take(length)
    check(body[:4] == MAGIC, "magic")
    check(reader.number(">I") == zlib.crc32(body), "CRC")
    positions = decode(body[4:])
    check(cardinality is None or cardinality == len(positions), "cardinality of the vector")
    return positions


# Queries -----------------------------------------------------------------------------------------------


def mask(positions: Iterable[int], n_rows: int) -> list[bool]:
    """Returns one flag per row, True if it is deleted; positions after the last row are ignored."""
    flags = [False] * n_rows
    for position in positions:
        if position < n_rows:
            flags[position] = True
    return flags


def pack(flags: Sequence[bool]) -> bytes:
    """Flags as bits, least significant bit first, padded with zeros to a byte."""
    return sum(1 << i for i, flag in enumerate(flags) if flag).to_bytes((len(flags) + 7) // 8, "little")
