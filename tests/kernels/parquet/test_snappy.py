"""Snappy blocks: what PyArrow's codec compresses, and refused exactly where it refuses."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast._kernels.parquet import snappy
from tests.kit.cases import each
from tests.kit.damage import flipped_bits

CODEC = pa.Codec("snappy")
GUARD = 128
"""Bytes around the output that must stay as they are: more than the kernel overwrites after an element."""

RNG = np.random.default_rng(0)
CONTENTS = {
    "nothing": b"",
    "one byte": b"x",
    "zeros": bytes(10_000),
    "int64": np.arange(1_000_000, 1_003_000).tobytes(),
    "int64 in steps": (np.arange(3000) * 1_000_003).tobytes(),
    "int32": RNG.integers(0, 4000, 5000, dtype=np.int32).tobytes(),
    "int128": np.stack([RNG.integers(0, 1 << 20, 2000), np.zeros(2000, np.int64)], axis=1).tobytes(),
    "floats": (RNG.integers(0, 10_000, 3000) / 100).tobytes(),
    "text": b" ".join(RNG.choice([b"alpha", b"beta", b"gamma delta", b"epsilon"], 3000)),
    "random": RNG.bytes(70_000),
    "random, repeated": RNG.bytes(3000) * 5,
    **{f"period of {n}": RNG.bytes(n) * 500 for n in range(1, 20)},
}


def varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def literal(data: bytes, n_bytes: int = 0) -> bytes:
    """A literal whose length stands in `n_bytes` bytes."""
    if n_bytes == 0:
        return bytes([(len(data) - 1) << 2]) + data
    return bytes([(59 + n_bytes) << 2]) + (len(data) - 1).to_bytes(n_bytes, "little") + data


def copy(kind: int, offset: int, length: int) -> bytes:
    if kind == 1:
        return bytes([offset >> 8 << 5 | (length - 4) << 2 | 1, offset & 255])
    return bytes([(length - 1) << 2 | kind]) + offset.to_bytes(2 if kind == 2 else 4, "little")


def decoded(block: bytes) -> bytes | None:
    """The content; None for a refusal. Nothing around the output is written to."""
    try:
        n_bytes = snappy.decoded_size(block)
    except ValueError:
        return None
    memory = np.full(n_bytes + 2 * GUARD, 0xA5, np.uint8)
    try:
        snappy.decode_into(block, memory[GUARD : GUARD + n_bytes])
    except ValueError:
        return None
    finally:
        assert (memory[:GUARD] == 0xA5).all()
        assert (memory[GUARD + n_bytes :] == 0xA5).all()
    return memory[GUARD : GUARD + n_bytes].tobytes()


def pyarrow_decoded(block: bytes) -> bytes | None:
    declared = sum((byte & 127) << (7 * at) for at, byte in enumerate(block[:5]))
    head = next((at + 1 for at, byte in enumerate(block[:5]) if byte < 128), 0)
    declared &= (1 << (7 * head)) - 1
    if head == 0 or declared >= 1 << 32 or 3 * declared > 64 * (len(block) - head):
        return None  # no length, or one that no block of this size has: PyArrow would allocate it first
    try:
        found: bytes = CODEC.decompress(block, declared, asbytes=True)
    except (pa.ArrowException, OSError):
        return None
    return found


@each("content", CONTENTS.values(), ids=CONTENTS)
def test_what_pyarrow_compresses_is_decompressed(content: bytes) -> None:
    assert decoded(CODEC.compress(content, asbytes=True)) == content


@pytest.mark.parametrize("content", [b"abcdefgh" * 30, *(CONTENTS[name] for name in ("int64", "text"))])
def test_a_truncated_block_is_refused(content: bytes) -> None:
    block = CODEC.compress(content[:600], asbytes=True)
    for size in range(len(block)):
        assert decoded(block[:size]) is None


@pytest.mark.parametrize("name", ["int64", "int128", "text", "period of 3"])
def test_a_block_with_any_changed_bit_is_what_pyarrow_makes_of_it(name: str) -> None:
    block = CODEC.compress(CONTENTS[name][:700], asbytes=True)
    for changed in flipped_bits(block):
        assert decoded(changed) == pyarrow_decoded(changed)


FIRST = literal(bytes(range(60)))
"""60 bytes that offsets may count back to."""

REST = literal(b"r" * 200, 1)
"""Enough after an element for the kernel to read and write in words."""

HOSTILE = {
    "offset 0": copy(2, 0, 4),
    "offset before the start": copy(2, 61, 4),
    "offset far before the start": copy(3, 0xFFFFFFFF, 4),
    "short offset 0": copy(1, 0, 4),
    "short offset before the start": copy(1, 2047, 11),
    "literal past the end of the block": b"\xf4\xff\xff",
}


@pytest.mark.parametrize("rest", [b"", REST], ids=["at the end", "before more"])
@pytest.mark.parametrize("element", HOSTILE.values(), ids=HOSTILE)
def test_hostile_elements_are_refused(element: bytes, rest: bytes) -> None:
    for declared in (60, 64, 71, 264, 271):
        block = varint(declared) + FIRST + element + rest
        assert decoded(block) is None
        assert pyarrow_decoded(block) is None


@pytest.mark.parametrize("rest", [b"", REST], ids=["at the end", "before more"])
def test_a_literal_of_4_gib_is_refused(rest: bytes) -> None:
    """PyArrow's length has 32 bits, and is 0 then."""
    assert decoded(varint(60 + len(rest[2:])) + FIRST + b"\xfc\xff\xff\xff\xff" + rest) is None


@pytest.mark.parametrize(
    "block", [b"", b"\x80", b"\xff" * 5, b"\xff\xff\xff\xff\x10", b"\xff\xff\xff\xff\x0f\0a"]
)
def test_lengths_that_lie_are_refused_before_anything_is_allocated(block: bytes) -> None:
    with pytest.raises(ValueError, match="snappy: "):
        snappy.decoded_size(block)


@pytest.mark.parametrize("difference", [-1, 1])
@pytest.mark.parametrize("size", [1, 60, 300])
def test_another_length_than_the_declared_one_is_refused(size: int, difference: int) -> None:
    body = literal(bytes(size), 2)
    assert decoded(varint(size) + body) == bytes(size)
    assert decoded(varint(size + difference) + body) is None
    with pytest.raises(ValueError, match=f"not a block of {size + difference} bytes"):
        snappy.decode_into(varint(size) + body, bytearray(size + difference))


@pytest.mark.parametrize("n_bytes", [1, 2, 3, 4])
def test_lengths_of_literals_may_have_more_bytes_than_they_need(n_bytes: int) -> None:
    block = varint(3 + 200) + literal(b"abc", n_bytes) + REST
    assert decoded(block) == b"abc" + b"r" * 200 == pyarrow_decoded(block)


@each("after", [0, 200])
@each("before", range(1, 12))
def test_copies_of_every_kind_offset_and_length(before: int, after: int) -> None:
    """Overlapping copies repeat what they copied, at the start of the output and near its end as anywhere."""
    start = bytes(range(1, before + 1))
    rest = literal(b"r" * after, 1) if after else b""
    for kind, lengths in ((1, range(4, 12)), (2, range(1, 65)), (3, range(1, 65))):
        for offset in range(1, before + 1):
            for length in lengths:
                copied = (start[-offset:] * 64)[:length]
                more = (copied * 9)[-8:]  # what a second copy of 8 bytes back has
                block = literal(start) + copy(kind, offset, length)
                content = start + copied
                if len(content) >= 8:
                    more = content[-8:]
                    block, content = block + copy(2, 8, 5), content + more[:5]
                    block, content = block + copy(1, 5, 11), content + (content[-5:] * 3)[:11]
                assert decoded(varint(len(content) + after) + block + rest) == content + b"r" * after


_ELEMENTS = st.one_of(
    st.binary(min_size=1, max_size=60).map(literal),
    st.tuples(st.binary(min_size=1, max_size=300), st.integers(2, 4)).map(lambda it: literal(*it)),
    st.tuples(st.just(1), st.integers(0, 2047), st.integers(4, 11)).map(lambda it: copy(*it)),
    st.tuples(st.sampled_from([2, 3]), st.integers(0, 40), st.integers(1, 64)).map(lambda it: copy(*it)),
    st.binary(max_size=3),
)


@given(st.lists(_ELEMENTS, max_size=60), st.integers(0, 3000))
def test_any_elements_are_what_pyarrow_makes_of_them(elements: list[bytes], declared: int) -> None:
    body = literal(bytes(range(60))) + b"".join(elements)
    length = written(body)
    for size in {declared, declared if length is None else length}:
        block = varint(size) + body
        assert decoded(block) == pyarrow_decoded(block)


def written(body: bytes) -> int | None:
    """The number of bytes that elements write; None where they do not end with the body."""
    at = total = 0
    while at < len(body):
        tag, kind = body[at], body[at] & 3
        length, n_bytes = (tag >> 2) + 1, (0, 1, 2, 4)[kind]
        if kind == 1:
            length = 4 + (tag >> 2 & 7)
        elif kind == 0 and length > 60:
            n_bytes = length - 60
            length = int.from_bytes(body[at + 1 : at + 1 + n_bytes], "little") + 1
        at += 1 + n_bytes + (length if kind == 0 else 0)
        total += length
    return total if at == len(body) and total < 1 << 20 else None


@given(st.binary(max_size=400), st.integers(1, 400), st.integers(1, 40))
def test_any_content_comes_back(part: bytes, size: int, times: int) -> None:
    content = (part[:size] * times) + part[::-1]
    assert decoded(CODEC.compress(content, asbytes=True)) == content
