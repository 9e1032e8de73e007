"""Codes of dictionary pages: each width, kind of run and selection of values gives the values that were encoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from puffin_fast._kernels.parquet import pages
from tests.kit.cases import each

Codes = npt.NDArray[np.uint32]
Rows = npt.NDArray[np.int32]
N = 4_000


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def packed(codes: Codes, bits: int) -> bytes:
    """A run of packed values; zeros are added up to a multiple of 8."""
    n = -(-len(codes) // 8) * 8
    some = np.zeros(n, np.uint64)
    some[: len(codes)] = codes
    each = (some[:, None] >> np.arange(bits, dtype=np.uint64) & 1).astype(np.uint8)
    return varint(n >> 3 << 1 | 1) + np.packbits(each, bitorder="little").tobytes()


def encoded(codes: Codes, bits: int, rng: np.random.Generator) -> bytes:
    """The hybrid encoding, in runs of one value and of packed values; codes of the former are made equal."""
    found, at = b"", 0
    while at < len(codes):
        n = int(rng.choice([1, 8, 40, 3000]))
        if rng.random() < 0.3:
            codes[at : at + n] = codes[at]
            found += varint(n << 1) + int(codes[at]).to_bytes((bits + 7) // 8, "little")
        else:
            n = -(-n // 8) * 8
            found += packed(codes[at : at + n], bits)
        at += n
    return found


def zigzag(value: int) -> bytes:
    return varint(value << 1)


def chunk(bits: int, data: bytes, entries: bytes, width: int, n: int) -> bytes:
    """A dictionary page of plain values, and a data page of `n` codes."""
    return b"".join(
        b"\x15"
        + zigzag(kind)
        + b"\x15"
        + zigzag(len(body))
        + b"\x15"
        + zigzag(len(body))
        + struct
        + b"".join(b"\x15" + zigzag(number) for number in numbers)
        + b"\0\0"
        + body
        for struct, kind, body, numbers in (
            (b"\x4c", 2, entries, [len(entries) // width, 0]),
            (b"\x2c", 0, bytes([bits]) + data, [n, 8, 3, 3]),
        )
    )


def decoded(
    pages_of: bytes, width: int, first: int, n: int, rows: Rows | None, out: npt.NDArray[Any]
) -> None:
    decoder = pages.PageDecoder(
        pages_of,
        lambda data, n_bytes: data,
        n_rows=5_000,
        most_bytes=1 << 30,
        stored=width,
        width=width,
        conversion=pages.SAME,
        most_level=0,
    )
    validity, _ = decoder.read_into(first, n, rows, out)
    assert validity is None


@each("bits", range(33))
def test_codes_and_entries_are_those_that_were_encoded(bits: int) -> None:
    rng = np.random.default_rng(bits)
    n_entries = 1 << min(bits, 12)
    codes = rng.integers(0, n_entries, N).astype(np.uint32)
    data = encoded(codes, bits, rng)
    for base, share in ((0, 1.0), (0, 0.9), (3, 0.5), (1001, 0.05), (0, 0.0)):
        rows = np.flatnonzero(rng.random(N - base) < share).astype(np.int32)
        for some in (rows, None):
            n = len(rows)
            expected = codes[base : base + n] if some is None else codes[base + rows]
            for width in (1, 4, 8, 12, 16):
                entries = rng.integers(0, 256, n_entries * width, np.uint8)
                cells = np.zeros(n * width, np.uint8)
                found = chunk(bits, data, entries.tobytes(), width, N)
                decoded(found, width, base, n if some is None else N - base, some, cells)
                assert np.array_equal(cells.reshape(n, width), entries.reshape(-1, width)[expected])


@each("bits", range(1, 33))
def test_the_highest_bit_of_a_code_is_read(bits: int) -> None:
    codes = np.zeros(N, np.uint32)
    codes[N // 2] = 1 << (bits - 1)
    with pytest.raises(ValueError, match="expected form"):
        decoded(chunk(bits, packed(codes, bits), bytes(4), 4, N), 4, 0, N, None, np.zeros(N * 4, np.uint8))


@pytest.mark.parametrize("rows", [None, np.arange(0, N, 2, dtype=np.int32)], ids=["all", "some"])
def test_codes_that_the_dictionary_does_not_have_are_refused(rows: Rows | None) -> None:
    rng = np.random.default_rng(0)
    n = N if rows is None else len(rows)
    entries, out = bytes(7 * 8), np.zeros(n * 8, np.uint8)
    for wrong in (0, 1022, 1024, N - 2):
        codes = rng.integers(0, 7, N).astype(np.uint32)
        codes[wrong] = 7
        data = packed(codes, 3)
        with pytest.raises(ValueError, match="expected form"):
            decoded(chunk(3, data, entries, 8, N), 8, 0, N, rows, out)
    for bits, short in ((3, b""), (33, b""), (3, data[:-1]), (3, b"\x01"), (3, b"\0\x01")):
        with pytest.raises(ValueError, match=r"expected form|too many bits"):
            decoded(chunk(bits, short, entries, 8, N), 8, 0, N, rows, out)
