"""A slow and simple implementation of theta sketches: MurmurHash3 x64-128, Iceberg's single values, Java's Alpha
sketch."""

from __future__ import annotations

import datetime
import decimal
import struct
import uuid
from collections.abc import Iterable
from typing import Any

SEED, K, MOST = 9001, 4096, (1 << 63) - 1
_WORD = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def _rotl(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & _WORD


def _fmix(x: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ x >> 33) * factor & _WORD
    return x ^ x >> 33


def murmur(data: bytes) -> int:
    """The first word of MurmurHash3 x64-128, shifted right by one as DataSketches does."""
    h1 = h2 = SEED
    whole = len(data) // 16 * 16
    for at in range(0, whole, 16):
        k1, k2 = struct.unpack_from("<QQ", data, at)
        h1 ^= _rotl(k1 * _C1 & _WORD, 31) * _C2 & _WORD
        h1 = ((_rotl(h1, 27) + h2) * 5 + 0x52DCE729) & _WORD
        h2 ^= _rotl(k2 * _C2 & _WORD, 33) * _C1 & _WORD
        h2 = ((_rotl(h2, 31) + h1) * 5 + 0x38495AB5) & _WORD
    k1, k2 = struct.unpack("<QQ", data[whole:].ljust(16, b"\0"))
    h2 ^= _rotl(k2 * _C2 & _WORD, 33) * _C1 & _WORD
    h1 ^= _rotl(k1 * _C1 & _WORD, 31) * _C2 & _WORD
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = (h1 + h2) & _WORD
    h2 = (h2 + h1) & _WORD
    return (_fmix(h1) + _fmix(h2) & _WORD) >> 1


def single_value(value: Any, kind: str) -> bytes:
    """Iceberg's single-value serialisation of a Python value."""
    epoch = datetime.datetime(1970, 1, 1, tzinfo=getattr(value, "tzinfo", None))
    formats = {"int": "<i", "long": "<q", "float": "<f", "double": "<d"}
    if kind == "boolean":
        return bytes([value])
    if kind in formats:
        return struct.pack(formats[kind], value)
    if kind == "date":
        return struct.pack("<i", value.toordinal() - epoch.toordinal())
    if kind == "time":
        return struct.pack(
            "<q", ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        )
    if kind in ("timestamp", "timestamptz"):
        return struct.pack("<q", (value - epoch) // datetime.timedelta(microseconds=1))
    if kind in ("timestamp_ns", "timestamptz_ns"):
        return struct.pack("<q", (value - epoch) // datetime.timedelta(microseconds=1) * 1000)
    if kind == "string":
        return bytes(value.encode())
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, decimal.Decimal):
        sign, digits, _ = value.as_tuple()
        unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
        length = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
        return unscaled.to_bytes(length, "big", signed=True)
    return bytes(value)


def hashes(values: Iterable[Any], kind: str) -> list[int]:
    """The distinct hashes, ascending; nulls and empty byte strings have none."""
    singles = {single_value(value, kind) for value in values if value is not None}
    return sorted({murmur(single) for single in singles if single} - {0})


def serialise(theta: int, kept: list[int]) -> bytes:
    """Java's compact ordered form."""
    if theta == MOST and not kept:
        return bytes.fromhex("01030300001e0000")
    if theta == MOST and len(kept) == 1:
        return bytes.fromhex("01030300003acc93") + struct.pack("<Q", kept[0])
    exact = theta == MOST
    head = bytes([2 if exact else 3, 3, 3, 0, 0, 0x1A, 0xCC, 0x93]) + struct.pack("<if", len(kept), 1.0)
    return head + (b"" if exact else struct.pack("<Q", theta)) + struct.pack(f"<{len(kept)}Q", *kept)


def compressed(theta: int, kept: list[int]) -> bytes:
    """Java's compressed form (serial version 4), of two hashes or more."""
    deltas = [after - before for before, after in zip([0, *kept], kept, strict=False)]
    bits = max(delta.bit_length() for delta in deltas)
    count = len(kept).to_bytes((len(kept).bit_length() + 7) // 8, "little")
    exact = theta == MOST
    head = bytes([1 if exact else 2, 4, 3, bits, len(count), 0x1A, 0xCC, 0x93])
    text = "".join(f"{delta:0{bits}b}" for delta in deltas)
    packed = int(text.ljust(-(-len(text) // 8) * 8, "0"), 2).to_bytes(-(-len(text) // 8), "big")
    return head + (b"" if exact else struct.pack("<Q", theta)) + count + packed


def canonical(values: Iterable[Any], kind: str) -> bytes:
    """The k smallest distinct hashes, and the next one as theta."""
    found = hashes(values, kind)
    return serialise(found[K] if len(found) > K else MOST, found[:K])


def alpha(stream: Iterable[int]) -> bytes:
    """What Java's Alpha sketch of nominal size 4096 compacts to, for hashes in the order of the values."""
    a = K / (K + 1)
    floor = int((a + 1) / 2 * float(1 << 63))
    theta, seen, entries = MOST, 0, set[int]()
    for value in stream:
        if value == 0 or value >= theta or value in entries:
            continue
        entries.add(value)
        seen += 1
        if seen > K or theta <= floor:
            theta = int(theta * a)
    return serialise(theta, sorted(value for value in entries if value < theta))
