"""Slow and simple codecs of the other formats: records of Delta and Paimon, bitmaps of Lance, Mumbling."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Iterable, Sequence

from tests.kit.oracle import (
    MAGIC,
    Reader,
    check,
    decode32,
    decode_blob,
    encode32,
    frame,
)

NATIVE_MAGIC = bytes.fromhex("d0d33964")
PAIMON_MAGIC = bytes.fromhex("5e43f2d0")


def opened(record: bytes, magic: bytes) -> bytes:
    """The payload of a frame."""
    reader = Reader(bytes(record))
    length = reader.number(">I")
    check(length == len(record) - 8, "length")
    body = reader.take(length)
    check(body[:4] == magic, "magic")
    check(reader.number(">I") == zlib.crc32(body), "CRC")
    return body[4:]


# Lance's bitmaps, Paimon's V1 --------------------------------------------------------------------------


def encode_bitmap32(positions: Iterable[int]) -> bytes:
    return encode32(sorted({int(p) for p in positions}))


def decode_bitmap32(data: bytes) -> list[int]:
    reader = Reader(bytes(data))
    positions = decode32(reader)
    check(reader.at == len(reader.data), "trailing bytes")
    return positions


def encode_paimon_v1(positions: Iterable[int]) -> bytes:
    return frame(encode_bitmap32(positions), PAIMON_MAGIC)


def decode_paimon(record: bytes) -> list[int]:
    if bytes(record[4:8]) == PAIMON_MAGIC:
        return decode_bitmap32(opened(record, PAIMON_MAGIC))
    return decode_blob(record)


# Delta ---------------------------------------------------------------------------------------------------


def encode_native(positions: Iterable[int]) -> bytes:
    """The native payload after its magic: a bitmap for each key up to the largest."""
    by_key = {
        key: [p & 0xFFFFFFFF for p in group]
        for key, group in itertools.groupby(sorted({int(p) for p in positions}), lambda p: p >> 32)
    }
    parts = [encode32(by_key.get(key, [])) for key in range(max(by_key, default=-1) + 1)]
    return struct.pack("<I", len(parts)) + b"".join(struct.pack("<I", len(part)) + part for part in parts)


def decode_native(payload: bytes) -> list[int]:
    reader = Reader(bytes(payload))
    positions: list[int] = []
    for key in range(reader.number("<I")):
        part = reader.take(reader.number("<I"))
        positions.extend(key << 32 | low for low in decode_bitmap32(part))
    check(reader.at == len(reader.data), "trailing bytes")
    return positions


def decode_delta(record: bytes) -> list[int]:
    if bytes(record[4:8]) == NATIVE_MAGIC:
        return decode_native(opened(record, NATIVE_MAGIC))
    return decode_blob(record)


def record(payload: bytes, magic: bytes = MAGIC) -> bytes:
    return frame(payload, magic)


# Mumbling ------------------------------------------------------------------------------------------------


def to_bits(values: Iterable[int], width: int) -> bytes:
    text = "".join(f"{value:0{width}b}" for value in values) if width else ""
    text += "0" * (-len(text) % 8)
    return bytes(int(text[at : at + 8], 2) for at in range(0, len(text), 8))


def encode_chunk(values: Sequence[int]) -> bytes:
    m = min(values)
    over = [value - m for value in values]
    widest = max(over).bit_length()
    best: bytes | None = None
    for b1 in range(widest + 1):
        exceptions = [at for at, value in enumerate(over) if value.bit_length() > b1]
        b2 = widest - b1 if exceptions else 0
        kept_m = 0 if b1 == 8 else m
        primary = values if b1 == 8 else over
        made = bytes([b2 << 4 | b1, len(exceptions), kept_m])
        made += to_bits((value & (1 << b1) - 1 for value in primary), b1)
        made += bytes(exceptions) + to_bits((over[at] >> b1 for at in exceptions), b2)
        if best is None or len(made) < len(best):
            best = made
    assert best is not None
    return best


def encode_mumbling(positions: Iterable[int]) -> bytes:
    wanted = sorted({int(p) for p in positions})
    n = wanted[-1] // 256 + 1 if wanted else 0
    lows: list[list[int]] = [[] for _ in range(n)]
    for position in wanted:
        lows[position // 256].append(position % 256)
    descriptors = [min(len(low), 32) for low in lows]
    made = bytes([1]) + len(wanted).to_bytes(3, "little") + n.to_bytes(2, "little")
    for first in range(0, n, 256):
        made += encode_chunk(descriptors[first : first + 256])
    for low in lows:
        made += bytes(low) if len(low) < 32 else sum(1 << (255 - p) for p in low).to_bytes(32, "big")
    return made


def take_bits(reader: Reader, count: int, width: int) -> list[int]:
    data = reader.take((count * width + 7) // 8)
    text = "".join(f"{byte:08b}" for byte in data)
    check("1" not in text[count * width :], "padding")
    return [int(text[at * width : (at + 1) * width] or "0", 2) for at in range(count)]


def decode_chunk(reader: Reader, n: int) -> list[int]:
    widths, e, m = reader.take(3)
    b1, b2 = widths & 15, widths >> 4
    check(b1 + b2 <= 8 and not (b1 == 8 and e), "widths")
    values = take_bits(reader, n, b1)
    offsets = list(reader.take(e))
    check(all(a < b for a, b in itertools.pairwise(offsets)), "offsets of exceptions")
    check(all(offset < n for offset in offsets), "offset of an exception")
    for offset, high in zip(offsets, take_bits(reader, e, b2), strict=True):
        values[offset] |= high << b1
    values = [value + m for value in values]
    check(all(value < 256 for value in values), "descriptor")
    return values


def decode_mumbling(data: bytes) -> list[int]:
    reader = Reader(bytes(data))
    head = reader.take(6)
    check(head[0] == 1, "version")
    cardinality, n = int.from_bytes(head[1:4], "little"), int.from_bytes(head[4:6], "little")
    check(n <= 8192, "containers")
    descriptors = [d for first in range(0, n, 256) for d in decode_chunk(reader, min(256, n - first))]
    positions: list[int] = []
    for at, descriptor in enumerate(descriptors):
        check(descriptor < 64, "descriptor")
        if descriptor < 32:
            low = list(reader.take(descriptor))
            check(all(a < b for a, b in itertools.pairwise(low)), "sparse container")
        else:
            bits = int.from_bytes(reader.take(32), "big")
            low = [p for p in range(256) if bits >> (255 - p) & 1]
            check(len(low) >= 32, "dense container")
        positions.extend(at * 256 + p for p in low)
    check(reader.at == len(reader.data), "trailing bytes")
    check(len(positions) == cardinality, "cardinality")
    return positions
