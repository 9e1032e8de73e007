"""The functions that are fuzzed: one for each decoder and each group of identities.

Each accepts any bytes; an exception that escapes, or a crash, is a bug. Decoders may raise what their
documentation says and nothing else, and the oracle must agree with the verdict.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from puffin_fast import arrow, dv, errors
from puffin_fast._kernels.parquet import snappy as snappy_kernel
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.delta.log import json_rows as json_columns
from puffin_fast.key_index import Segment, in_memory
from puffin_fast.puffin import PuffinReader, PuffinWriter
from tests.fuzz import parquet_targets
from tests.kit import key_index_oracle, oracle, oracle_formats

TARGETS: dict[str, Callable[[bytes], None]] = {}
"""By name; the corpus has a folder for each."""

SMALL = 20_000
"""Sets up to here are compared with the oracle position by position."""


def target(function: Callable[[bytes], None]) -> Callable[[bytes], None]:
    TARGETS[function.__name__] = function
    return function


def verdict(decode: Callable[[Any], PositionBitmap], data: bytes) -> PositionBitmap | None:
    """What was read, None for a refusal: of too many bytes, or with an offset that lies in the bytes."""
    try:
        return decode(data)
    except errors.LimitExceededError:
        return None
    except errors.CorruptDataError as error:
        offset = -1 if error.offset is None else error.offset
    assert 0 <= offset <= len(data), (offset, len(data))
    return None


def oracle_verdict(decode: Callable[[bytes], list[int]], data: bytes) -> list[int] | None:
    try:
        return decode(data)
    except oracle.RefusedError:
        return None


def consistent(bitmap: PositionBitmap) -> None:
    """Every view of one bitmap tells of the same set."""
    n = len(bitmap)
    if n > 1_000_000:
        return
    positions = bitmap.to_numpy()
    assert len(positions) == n
    assert bool((positions[1:] > positions[:-1]).all())
    again = PositionBitmap.from_positions(positions)
    assert again == bitmap
    assert hash(again) == hash(bitmap)
    assert PositionBitmap.from_bytes(bitmap.to_bytes()) == bitmap
    assert dv.iceberg.decode(dv.iceberg.encode(bitmap), cardinality=n) == bitmap
    if n:
        assert (bitmap.min(), bitmap.max()) == (int(positions[0]), int(positions[-1]))
        middle = int(positions[n // 2])
        assert bitmap.rank(middle) == n // 2 + 1
        assert bitmap.select(n // 2) == middle
        assert middle in bitmap
        some = positions[:: max(1, n // 500)]
        assert bool(bitmap.contains(some).all())
    flags = np.zeros(100_000, np.bool_)
    flags[positions[positions < 100_000].astype(np.int64)] = True
    assert np.array_equal(bitmap.mask(100_000), flags)
    assert np.array_equal(bitmap.mask_packed(100_000), np.packbits(flags, bitorder="little"))


@target
def bitmap(data: bytes) -> None:
    """Portable 64-bit Roaring."""
    read = verdict(PositionBitmap.from_bytes, data)
    expected = oracle_verdict(oracle.decode, data)
    assert (read is None) == (expected is None)
    if read is not None and expected is not None:
        assert len(read) == len(expected)
        if len(expected) <= SMALL:
            assert read.to_numpy().tolist() == expected
        consistent(read)


@target
def blob(data: bytes) -> None:
    """A `deletion-vector-v1` blob as it comes, and the same bytes inside a right frame."""
    for candidate in (data, oracle.frame(data)):
        read = verdict(dv.iceberg.decode, candidate)
        expected = oracle_verdict(oracle.decode_blob, candidate)
        assert (read is None) == (expected is None)
        blobs = pa.array([candidate], pa.binary())
        if read is None:
            try:
                arrow.decode(blobs)
            except errors.CorruptDataError:
                continue
            raise AssertionError("the batch form accepts what the single form refuses")
        assert arrow.cardinality(blobs).to_pylist() == [len(read)]
        if len(read) <= SMALL:
            assert arrow.decode(blobs).to_pylist() == [expected]


def same_verdict(
    decode: Callable[[Any], PositionBitmap],
    oracle_decode: Callable[[bytes], list[int]],
    data: bytes,
    encode: Callable[[PositionBitmap], bytes],
) -> None:
    """Both refuse, or both read the same set, which comes back when it is written again."""
    read, expected = verdict(decode, data), oracle_verdict(oracle_decode, data)
    assert (read is None) == (expected is None)
    if read is not None and expected is not None and len(expected) <= SMALL:
        assert read.to_numpy().tolist() == expected
        try:
            assert decode(encode(read)) == read
        except errors.LimitExceededError:
            assert read.max() >= 1 << 31


@target
def delta(data: bytes) -> None:
    """A record of Delta as it comes, both payloads in a right frame, and an inline vector."""
    native = oracle_formats.record(data, dv.delta.NATIVE_MAGIC)
    for candidate in (data, oracle.frame(data), native):
        same_verdict(dv.delta.decode, oracle_formats.decode_delta, candidate, dv.delta.encode)
    text = data.decode("latin-1")
    try:
        inline = dv.delta.decode_inline(text, len(text) // 5 * 4)
    except errors.CorruptDataError:
        return
    assert dv.delta.decode_inline(*dv.delta.encode_inline(inline)) == inline


@target
def paimon(data: bytes) -> None:
    """A record of Paimon as it comes, and both versions in a right frame."""
    for candidate in (data, oracle.frame(data), oracle.frame(data, oracle_formats.PAIMON_MAGIC)):
        same_verdict(dv.paimon.decode, oracle_formats.decode_paimon, candidate, dv.paimon.encode)


@target
def lance(data: bytes) -> None:
    """A deletion file of Lance: a bare bitmap, or an Arrow file."""
    if data[:6] == dv.lance.ARROW_MAGIC:
        verdict(dv.lance.decode, data)
    else:
        same_verdict(dv.lance.decode, oracle_formats.decode_bitmap32, data, dv.lance.encode)


@target
def mumbling(data: bytes) -> None:
    """A Mumbling bitmap as it comes, and descriptors and containers behind a header that fits."""
    same_verdict(dv.mumbling.decode, oracle_formats.decode_mumbling, data, dv.mumbling.encode)
    for n in (1, 3, 300):
        same_verdict(
            dv.mumbling.decode,
            oracle_formats.decode_mumbling,
            struct.pack("<BHBH", 1, len(data) % 300, 0, n) + data,
            dv.mumbling.encode,
        )


@target
def puffin(data: bytes) -> None:
    """A whole Puffin file: the footer is read, then every blob."""
    try:
        with PuffinReader(io.BytesIO(data)) as reader:
            for entry in reader.blobs:
                try:
                    reader.read(entry)
                except (errors.CorruptDataError, errors.UnsupportedError, errors.LimitExceededError):
                    continue
    except (errors.CorruptDataError, errors.UnsupportedError, errors.LimitExceededError):
        return


@target
def puffin_footer(data: bytes) -> None:
    """The footer's payload inside a right frame, then written again; an empty type is read and never written."""
    head, flags = b"PFA1", bytes(4)
    file = head + b"blob" * 8 + head + data + struct.pack("<i", len(data)) + flags + head
    try:
        with PuffinReader(io.BytesIO(file)) as reader:
            metadata = reader.metadata
    except (errors.CorruptDataError, errors.UnsupportedError, errors.LimitExceededError):
        return
    types = [entry.type or "none" for entry in metadata.blobs]
    sink = io.BytesIO()
    with PuffinWriter(sink, properties=dict(metadata.properties)) as writer:
        for entry, type in zip(metadata.blobs, types, strict=True):
            writer.add(b"x", type=type, fields=entry.fields, properties=dict(entry.properties))
    with PuffinReader(io.BytesIO(sink.getvalue())) as again:
        assert [entry.type for entry in again.blobs] == types
        assert [dict(e.properties) for e in again.blobs] == [dict(e.properties) for e in metadata.blobs]


def positions_from(data: bytes) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Positions out of bytes: each 4 of them place a point or start a run, near the one before or far."""
    words = np.frombuffer(data[: len(data) // 4 * 4], "<u4").astype(np.uint64)
    parts = []
    base = 0
    for word in words[:200].tolist():
        kind, low, length = word & 7, word >> 3 & 0xFFFF, word >> 19
        if kind == 0:
            base = (base + (low << 32)) % (oracle.MAX_KEY << 32)
        elif kind == 1:
            base = (base & ~0xFFFFFFFF) + (low << 16)
        elif kind == 2:
            parts.append(base + low + np.arange(length))
        elif kind == 3:
            parts.append(base + low + np.arange(length) * 2)
        elif kind == 4:
            parts.append(base + (np.arange(length) * 2654435761 + low) % 65_536)
        else:
            parts.append(np.array([base + low]))
    made = np.concatenate(parts) if parts else np.empty(0)
    return made.astype(np.uint64)[:500_000]


@target
def encode(data: bytes) -> None:
    """Any order and repeats give the bytes of the sorted set; raw words are taken or refused, never wrong."""
    positions = positions_from(data)
    wanted = np.unique(positions)
    made = PositionBitmap.from_positions(positions)
    assert np.array_equal(made.to_numpy(), wanted)
    assert made.to_bytes() == PositionBitmap.from_positions(wanted).to_bytes()
    if len(wanted) <= SMALL // 10:
        assert made.to_bytes() == oracle.encode(wanted.tolist())
    raw = np.frombuffer(data[: len(data) // 8 * 8], "<i8")
    try:
        found = PositionBitmap.from_positions(raw)
    except errors.InvalidInputError:
        assert len(raw)
        assert raw.min() < 0 or raw.max() > oracle.MAX_POSITION
    else:
        assert found.to_numpy().tolist() == np.unique(raw).tolist()
    lists = pa.array([positions.astype(np.int64), wanted.astype(np.int64)[::-1]], pa.list_(pa.int64()))
    single = dv.iceberg.encode(made)
    assert arrow.encode(lists).to_pylist() == [single, single]


@target
def sets(data: bytes) -> None:
    """Two sets and their combinations, against NumPy and against each other."""
    half = len(data) // 8 * 4
    left, right = np.unique(positions_from(data[:half])), np.unique(positions_from(data[half:]))
    a, b = PositionBitmap.from_positions(left), PositionBitmap.from_positions(right)
    union, both, only, either = a | b, a & b, a - b, a ^ b
    assert np.array_equal(union.to_numpy(), np.union1d(left, right))
    assert np.array_equal(both.to_numpy(), np.intersect1d(left, right, assume_unique=True))
    assert np.array_equal(only.to_numpy(), np.setdiff1d(left, right, assume_unique=True))
    assert np.array_equal(either.to_numpy(), np.setxor1d(left, right, assume_unique=True))
    assert union == b | a == PositionBitmap.union_all([a, b, both, only]) == either | both
    assert only == a - both == union - b
    assert len(a) + len(b) == len(union) + len(both)
    assert both.issubset(a)
    assert both.issubset(b)
    assert only.isdisjoint(b)
    assert (a == b) == (not either)
    for result in (union, both, only, either):
        assert result.to_bytes() == PositionBitmap.from_positions(result.to_numpy()).to_bytes()


@target
def snappy(data: bytes) -> None:
    """Any bytes are decompressed or refused as PyArrow's codec does it; what it compresses comes back."""
    codec = pa.Codec("snappy")
    for block in (data, codec.compress(data, asbytes=True)):
        try:
            n_bytes = snappy_kernel.decoded_size(block)
        except ValueError:
            assert block is data
            continue
        try:
            truth = codec.decompress(block, n_bytes, asbytes=True)
        except (pa.ArrowException, OSError):
            truth = None
        found = bytearray(n_bytes)
        try:
            snappy_kernel.decode_into(block, found)
        except ValueError:
            assert (
                truth is None or b"\xff\xff\xff\xff" in block
            )  # a literal of 4 GiB: PyArrow's length is 0 then
        else:
            assert bytes(found) == truth


JSON_COLUMNS = pa.schema(
    [
        ("a", pa.int64()),
        ("t", pa.string()),
        ("o", pa.struct([("n", pa.int32()), ("t", pa.string()), ("o", pa.struct([("a", pa.int64())]))])),
    ]
)


@target
def json_rows(data: bytes) -> None:
    """Lines that the kernel reads have the values that PyArrow reads."""
    data += b"" if data.endswith(b"\n") else b"\n"
    lines = pa.py_buffer(data)
    columns = json_columns.KernelColumns.of(JSON_COLUMNS)
    assert columns is not None
    found = columns.read(lines)
    if found is not None:
        found.validate()
        assert found.equals(json_columns.read_any(lines, JSON_COLUMNS))
        assert found.num_rows == data.count(b"\n")


@target
def key_index(data: bytes) -> None:
    """A segment as it comes, and with right checksums: what is found are rows of it."""
    for candidate in (data, key_index_oracle.summed(data)):
        read = in_memory(candidate)
        try:
            segment = Segment(read, len(candidate))
        except (errors.CorruptDataError, errors.UnsupportedError):
            continue
        keys = pa.array([0, 5, -7, 1 << 33, None], pa.int64())
        columns = [keys if kind == "integer" else keys.cast(pa.large_string()) for kind in segment.kinds]
        if not segment.exact or segment.kinds == ("integer",):
            try:
                file, position = segment.places(segment.find(read, columns).ordinals)
            except errors.CorruptDataError:
                pass
            else:
                rows = np.array([covered.n_rows for covered in segment.files], np.int64)
                assert bool(((position >= 0) & (position < rows[file])).all())
        try:
            entries = segment.entries(read)
        except errors.CorruptDataError:
            continue
        assert len(entries.hashes) == segment.n_entries
        assert bool((entries.ordinals < max(1, segment.n_rows)).all())


target(parquet_targets.parquet_footer)
target(parquet_targets.parquet_pages)
