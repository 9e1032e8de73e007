"""A slow and simple implementation of a segment of a key index."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise

import zstandard

from tests.kit import oracle
from tests.kit.theta_oracle import murmur

WORD = (1 << 64) - 1
FACTORS = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def fmix(x: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ x >> 33) * factor & WORD
    return x ^ x >> 33


def mix(value: int, bits: int) -> int:
    mask, half = (1 << bits) - 1, (bits + 1) // 2
    value &= mask
    for at, factor in enumerate(FACTORS):
        value = value * factor & mask
        if at < 2:
            value ^= value >> half
    return value


def text_hash(value: str) -> int:
    """Of 63 bits: the 64-bit word of two texts joined loses its last bit, too."""
    return murmur(value.encode())


def bits_of_numbers(numbers: Sequence[int]) -> int:
    return next(
        bits for bits in (32, 40, 48, 64) if all(-(1 << (bits - 1)) <= n < 1 << (bits - 1) for n in numbers)
    )


class Bits:
    def __init__(self) -> None:
        self.value = self.n = 0

    def add(self, value: int, n: int) -> None:
        self.value |= value << self.n
        self.n += n


def encode(
    values: Sequence[int | str | None],
    files: Sequence[tuple[str, int, int]],
    kind: str,
    form: tuple[int, int, int],
) -> bytes:
    """A segment of integers or texts.

    Args:
        values: of the rows.
        files: location, bytes and rows of each data file.
        kind: of the key column.
        form: bits of a block, a slot and a remainder.
    """
    b, t, r = form
    numbers = [value for value in values if isinstance(value, int)]
    bits = bits_of_numbers(numbers)
    exact = kind != "text"
    entries = []
    for row, value in enumerate(values):
        if value is not None:
            hash = mix(value, bits) if isinstance(value, int) else text_hash(value) >> 63 - b - t - r
            entries.append((hash, row))
    o = max(0, len(values) - 1).bit_length()
    text = json.dumps(
        {"kinds": [kind], "fields": [], "files": [list(file) for file in files], "stored_row_ids": []}
    ).encode()
    tables = zstandard.ZstdCompressor().compress(text)
    null_rows = [row for row, value in enumerate(values) if value is None]
    nulls = oracle.encode(null_rows) if null_rows else b""
    seal = zlib.crc32(text + nulls)
    blocks: list[list[tuple[int, int]]] = [[] for _ in range(1 << b)]
    for hash, row in sorted(entries):
        blocks[hash >> t + r].append((hash & (1 << t + r) - 1, row))
    before = [0]
    for block in blocks:
        before.append(before[-1] + len(block))
    directory = struct.pack(f"<{len(before)}I", *before)
    fixed = 4 + ((1 << t) + 7) // 8 + 1
    starts = [at * fixed + n * (1 + r + o) // 8 for at, n in enumerate(before)]
    body = b""
    for at, block in enumerate(blocks):
        out = Bits()
        for slot in range(1 << t):
            for rest, _ in block:
                if rest >> r == slot:
                    out.add(1, 1)
            out.add(0, 1)
        for rest, _ in block:
            out.add(rest & (1 << r) - 1, r)
        for _, row in block:
            out.add(row, o)
        data = out.value.to_bytes(starts[at + 1] - starts[at] - 4, "little")
        checksum = zlib.crc32(data) ^ fmix(at << 32 | len(block)) & 0xFFFFFFFF ^ seal
        body += struct.pack("<I", checksum) + data
    head = struct.pack(
        "<4sBBBBBBxxIIIQQI", b"PFKI", 2, not exact, b, t, r, o, len(tables), len(nulls), zlib.crc32(directory),
        len(entries), len(values), 0,
    )  # fmt: skip
    return head + struct.pack("<I", zlib.crc32(head + tables + nulls)) + tables + nulls + directory + body


def summed(data: bytes) -> bytes:
    """Bytes with the checksums that they should have, as far as they are a segment."""
    if len(data) < 48:
        return data
    *_, b, t, r, o, tables, nulls = struct.unpack_from("<4sBBBBBBxxII", data)
    start = 48 + tables + nulls
    body = start + 4 * ((1 << min(b, 20)) + 1)
    if body > len(data):
        return data
    try:
        text = zstandard.ZstdDecompressor().decompress(data[48 : 48 + tables], max_output_size=1 << 20)
    except zstandard.ZstdError:
        text = b""
    seal = zlib.crc32(text + data[48 + tables : start])
    before = struct.unpack_from(f"<{(body - start) // 4}I", data, start)
    found = bytearray(data)
    fixed = 4 + ((1 << min(t, 20)) + 7) // 8 + 1
    starts = [body + at * fixed + n * (1 + r + o) // 8 for at, n in enumerate(before)]
    for at, (first, last) in enumerate(pairwise(starts)):
        if first + 4 <= last <= len(data):
            n = before[at + 1] - before[at] & WORD
            checksum = zlib.crc32(data[first + 4 : last]) ^ fmix((at << 32 | n) & WORD) & 0xFFFFFFFF
            struct.pack_into("<I", found, first, checksum ^ seal)
    struct.pack_into("<I", found, 20, zlib.crc32(data[start:body]))
    struct.pack_into("<I", found, 44, zlib.crc32(bytes(found[:44]) + data[48:start]))
    return bytes(found)
