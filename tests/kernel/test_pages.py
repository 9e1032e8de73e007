"""Codes of dictionary pages: each width, kind of run and selection of values gives the values that were encoded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from puffin_fast._kernels import pages

Codes = npt.NDArray[np.uint32]
N = 4_000


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


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
            some = np.zeros(n, np.uint64)
            some[: len(codes[at : at + n])] = codes[at : at + n]
            each = (some[:, None] >> np.arange(bits, dtype=np.uint64) & 1).astype(np.uint8)
            found += varint(n >> 3 << 1 | 1) + np.packbits(each, bitorder="little").tobytes()
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


def decoded(pages_of: bytes, width: int, first: int, n: int, rows: Codes | None, out: Codes) -> None:
    decoder = pages.PageDecoder(
        pages_of,
        lambda data, n_bytes: data,
        n_rows=5_000,
        most_bytes=1 << 30,
        stored=width,
        width=width,
        conversion=pages.SAME,
        is_optional=False,
    )
    validity, _ = decoder.read_into(first, n, rows, out)
    assert validity is None


@pytest.mark.parametrize("bits", range(33))
def test_codes_and_entries_are_those_that_were_encoded(bits: int) -> None:
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 1 << min(bits, 12), N).astype(np.uint32) << np.uint32(max(bits - 12, 0))
    data = encoded(codes, bits, rng)
    for base, share in ((0, 1.0), (0, 0.9), (3, 0.5), (1001, 0.05), (0, 0.0)):
        rows = np.flatnonzero(rng.random(N - base) < share).astype(np.int32)
        for some in (rows, None):
            n = len(rows)
            expected = codes[base : base + n] if some is None else codes[base + rows]
            out = np.zeros(n, np.uint32)
            pages.hybrid_into(data, bits, N, some, base, n, out)
            assert np.array_equal(out, expected)
            for width in (1, 4, 8, 12, 16) if bits <= 12 else ():
                entries = rng.integers(0, 256, (1 << bits) * width, np.uint8)
                cells = np.zeros(n * width, np.uint8)
                found = chunk(bits, data, entries.tobytes(), width, N)
                decoded(found, width, base, n if some is None else N - base, some, cells)
                assert np.array_equal(cells.reshape(n, width), entries.reshape(-1, width)[expected])


@pytest.mark.parametrize("rows", [None, np.arange(0, N, 2, dtype=np.int32)], ids=["all", "some"])
def test_codes_that_the_dictionary_does_not_have_are_refused(rows: Codes | None) -> None:
    rng = np.random.default_rng(0)
    n = N if rows is None else len(rows)
    entries, out = bytes(7 * 8), np.zeros(n * 8, np.uint8)
    for wrong in (0, 1022, 1024, N - 2):
        codes = rng.integers(0, 7, N).astype(np.uint32)
        codes[wrong] = 7
        each = (codes[:, None] >> np.arange(3, dtype=np.uint32) & 1).astype(np.uint8)
        data = varint(N >> 3 << 1 | 1) + np.packbits(each, bitorder="little").tobytes()
        with pytest.raises(ValueError, match="expected form"):
            decoded(chunk(3, data, entries, 8, N), 8, 0, N, rows, out)
    for bits, short in ((3, b""), (33, b""), (3, data[:-1]), (3, b"\x01"), (3, b"\0\x01")):
        with pytest.raises(ValueError, match=r"expected form|too many bits"):
            decoded(chunk(bits, short, entries, 8, N), 8, 0, N, rows, out)
