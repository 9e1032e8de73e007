"""Malformed and non-canonical bytes of the other formats, made from those of `strategies`."""

from __future__ import annotations

import struct
from collections.abc import Callable

from tests.kit import oracle
from tests.kit import oracle_formats as formats
from tests.kit.strategies import ACCEPTED, ACCEPTED_BLOBS, MALFORMED, MALFORMED_BLOBS

Cases = dict[str, Callable[[], bytes]]

_KEY_0 = struct.pack("<QI", 1, 0)

MALFORMED_32: Cases = {
    name: lambda build=build: build()[12:]  # type: ignore[misc]
    for name, build in MALFORMED.items()
    if build()[:12] == _KEY_0
}
"""32-bit bitmaps: what is wrong inside the only key of a 64-bit one."""

ACCEPTED_32 = {name: (data[12:], held) for name, (data, held) in ACCEPTED.items() if data[:12] == _KEY_0}

_GOOD = formats.encode_paimon_v1([0, 5, 70_000])
_SMALL_NATIVE = formats.encode_native([0, 5, 70_000, (1 << 32) + 3])


def _cases(**cases: bytes) -> Cases:
    return {name: lambda data=data: data for name, data in cases.items()}  # type: ignore[misc]


MALFORMED_V1: Cases = (
    {
        name: lambda build=build: oracle.frame(build(), formats.PAIMON_MAGIC)  # type: ignore[misc]
        for name, build in MALFORMED_32.items()
    }
    | _cases(
        record_without_bytes=b"",
        record_with_a_length_only=_GOOD[:4],
        record_of_the_smallest_frame=oracle.frame(b"", formats.PAIMON_MAGIC),
        record_length_too_small=struct.pack(">I", len(_GOOD) - 9) + _GOOD[4:],
        record_length_huge=struct.pack(">I", 0xFFFFFFFF) + _GOOD[4:],
        record_magic_of_iceberg_around_32_bits=oracle.frame(_GOOD[8:-4]),
        record_magic_around_64_bits=oracle.frame(oracle.encode([0, 5]), formats.PAIMON_MAGIC),
        record_magic_of_delta_native=oracle.frame(_GOOD[8:-4], formats.NATIVE_MAGIC),
        record_magic_reversed=oracle.frame(_GOOD[8:-4], formats.PAIMON_MAGIC[::-1]),
        record_checksum_wrong=_GOOD[:-1] + bytes([_GOOD[-1] ^ 1]),
        record_with_a_trailing_byte=_GOOD + b"\0",
    )
)

ACCEPTED_V1 = {
    name: (oracle.frame(data, formats.PAIMON_MAGIC), held) for name, (data, held) in ACCEPTED_32.items()
}

MALFORMED_PAIMON = {n: b for n, b in MALFORMED_BLOBS.items() if n != "blob_magic_of_paimon"} | {
    f"v1_{name}": build for name, build in MALFORMED_V1.items()
}


def native(*parts: bytes, count: int | None = None, lengths: tuple[int, ...] | None = None) -> bytes:
    """A native payload field by field."""
    lengths = tuple(map(len, parts)) if lengths is None else lengths
    body = b"".join(struct.pack("<I", n) + part for n, part in zip(lengths, parts, strict=True))
    return struct.pack("<I", len(parts) if count is None else count) + body


_PART = oracle.encode32([1, 2, 3])

MALFORMED_NATIVE: Cases = (
    {
        name: lambda build=build: oracle.frame(native(build()), formats.NATIVE_MAGIC)  # type: ignore[misc]
        for name, build in MALFORMED_32.items()
    }
    | {
        name: lambda data=data: oracle.frame(data, formats.NATIVE_MAGIC)  # type: ignore[misc]
        for name, data in {
            "native_count_missing": b"\0\0",
            "native_count_too_large": native(_PART, count=2),
            "native_count_huge": native(_PART, count=0xFFFFFFFF),
            "native_count_too_small": native(_PART, _PART, count=1),
            "native_length_too_small": native(_PART, lengths=(len(_PART) - 1,)),
            "native_length_too_large": native(_PART, lengths=(len(_PART) + 1,)),
            "native_length_huge": native(_PART, lengths=(0xFFFFFFFF,)),
            "native_length_zero": native(b""),
            "native_keys_big_endian": struct.pack(">I", 1) + native(_PART)[4:],
            "native_magic_around_portable": oracle.encode([1, 2, 3]),
        }.items()
    }
    | _cases(
        native_checksum_wrong=formats.record(_SMALL_NATIVE, formats.NATIVE_MAGIC)[:-1] + b"\x01",
        native_length_of_the_record=b"\0\0\0\1" + formats.record(_SMALL_NATIVE, formats.NATIVE_MAGIC)[4:],
    )
)

ACCEPTED_NATIVE = {
    name: (oracle.frame(native(data), formats.NATIVE_MAGIC), held)
    for name, (data, held) in ACCEPTED_32.items()
} | {
    "native_nothing": (oracle.frame(native(), formats.NATIVE_MAGIC), []),
    "native_gap": (
        oracle.frame(formats.encode_native([(2 << 32) + 7]), formats.NATIVE_MAGIC),
        [(2 << 32) + 7],
    ),
    "native_small": (
        oracle.frame(_SMALL_NATIVE, formats.NATIVE_MAGIC),
        [0, 5, 70_000, (1 << 32) + 3],
    ),
}

MALFORMED_DELTA = {n: b for n, b in MALFORMED_BLOBS.items() if n != "blob_magic_of_delta_native"} | {
    f"native_{name}": build for name, build in MALFORMED_NATIVE.items()
}
ACCEPTED_DELTA = ACCEPTED_BLOBS | {f"native_{name}": case for name, case in ACCEPTED_NATIVE.items()}


def mumbling(
    *containers: bytes,
    descriptors: bytes,
    cardinality: int,
    n: int | None = None,
    version: int = 1,
) -> bytes:
    """A Mumbling bitmap field by field; the descriptors are packed already."""
    head = bytes([version]) + cardinality.to_bytes(3, "little")
    head += (len(containers) if n is None else n).to_bytes(2, "little")
    return head + descriptors + b"".join(containers)


_PLAIN = bytes([8, 0, 0])
"""The header of a chunk whose values stand as they are."""
_DENSE = bytes([0xAA]) * 32
_EVEN = list(range(0, 256, 2))

MALFORMED_MUMBLING: Cases = _cases(
    mumbling_without_bytes=b"",
    mumbling_header_truncated=b"\1\0\0\0\0",
    mumbling_version=mumbling(descriptors=b"", cardinality=0, version=2),
    mumbling_too_many_containers=mumbling(descriptors=b"\0\0\0" * 33, cardinality=0, n=8193),
    array_unsorted=mumbling(b"\5\3", descriptors=_PLAIN + b"\2", cardinality=2),
    array_repeated=mumbling(b"\5\5", descriptors=_PLAIN + b"\2", cardinality=2),
    run_passes_65535=mumbling(b"\5", descriptors=bytes([8, 0, 255, 2]), cardinality=1),
    bitmap_truncated=mumbling(_DENSE[:-1], descriptors=_PLAIN + b"\x20", cardinality=128),
    trailing_byte=mumbling(b"\3\5", descriptors=_PLAIN + b"\2", cardinality=2) + b"\0",
    mumbling_dense_with_31=mumbling(
        b"\xff\xff\xff\xfe" + bytes(28), descriptors=_PLAIN + b"\x20", cardinality=31
    ),
    mumbling_dense_empty=mumbling(bytes(32), descriptors=_PLAIN + b"\x20", cardinality=0),
    mumbling_reserved_descriptor=mumbling(_DENSE, descriptors=_PLAIN + b"\x40", cardinality=128),
    mumbling_cardinality_too_large=mumbling(b"\3\5", descriptors=_PLAIN + b"\2", cardinality=3),
    mumbling_cardinality_too_small=mumbling(b"\3\5", descriptors=_PLAIN + b"\2", cardinality=1),
    mumbling_no_descriptors=mumbling(descriptors=b"", cardinality=0, n=1),
    mumbling_descriptors_truncated=mumbling(descriptors=_PLAIN, cardinality=0, n=1),
    mumbling_widths_over_8=mumbling(b"\3", descriptors=bytes([0x54, 0, 1, 0]), cardinality=1),
    mumbling_exception_to_8_bits=mumbling(b"\3", descriptors=bytes([8, 1, 0, 1, 0]), cardinality=1),
    mumbling_exception_past_the_end=mumbling(b"\3", descriptors=bytes([0x80, 1, 0, 1, 1]), cardinality=1),
    mumbling_exceptions_repeated=mumbling(
        b"\3", b"\4", descriptors=bytes([0x80, 2, 0, 0, 0, 1, 1]), cardinality=2
    ),
    mumbling_padding_set=mumbling(b"\3", descriptors=bytes([1, 0, 0, 0xC0]), cardinality=1),
    mumbling_exception_padding_set=mumbling(b"\3", descriptors=bytes([0x10, 1, 0, 0, 0xC0]), cardinality=1),
)

ACCEPTED_MUMBLING = {
    "nothing": (mumbling(descriptors=b"", cardinality=0), []),
    "empty_bitmap_alone": (mumbling(b"", descriptors=b"\0\0\0", cardinality=0), []),
    "empty_bitmap_last": (mumbling(b"\7", b"", descriptors=_PLAIN + b"\1\0", cardinality=1), [7]),
    "mumbling_descriptors_not_packed": (
        mumbling(b"\3\5", descriptors=_PLAIN + b"\2", cardinality=2),
        [3, 5],
    ),
    "mumbling_low_bits_of_dense": (
        mumbling(_DENSE, descriptors=_PLAIN + b"\x3f", cardinality=128),
        _EVEN,
    ),
    "mumbling_minimum_not_the_least": (
        mumbling(b"\3\5", b"\1\2\3", descriptors=bytes([8, 0, 1, 1, 2]), cardinality=5),
        [3, 5, 257, 258, 259],
    ),
    "largest_position": (formats.encode_mumbling([8192 * 256 - 1]), [8192 * 256 - 1]),
}
