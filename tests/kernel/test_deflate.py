"""Raw deflate streams: what zlib compresses, and refused exactly where zlib refuses."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator

import numpy as np
import pytest

from puffin_fast._kernels.avro.inflate import Inflated

RNG = np.random.default_rng(0)
CONTENTS = {
    "nothing": b"",
    "one byte": b"x",
    "zeros": bytes(300_000),
    "paths": b"".join(b"file:///table/data/%05d-0-abcdef.parquet" % n for n in range(5000)),
    "int64 in steps": (np.arange(3000) * 1_000_003).tobytes(),
    "bits": bytes(RNG.choice([0, 1], 20_000).astype(np.uint8)),
    "skewed": bytes(np.minimum(RNG.geometric(0.3, 30_000), 255).astype(np.uint8)),
    "random": RNG.bytes(70_000),
    "far copies": RNG.bytes(32_768) * 3,
    **{f"period of {n}": RNG.bytes(n) * 500 for n in range(1, 36)},
}
STRATEGIES = [zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED]
LIMIT = 1 << 20


def streams(content: bytes) -> Iterator[bytes]:
    """The content, compressed in every way that zlib knows, in one block and in several."""
    for level in (0, 1, 6, 9):
        for strategy in STRATEGIES:
            for flush in (None, zlib.Z_SYNC_FLUSH, zlib.Z_PARTIAL_FLUSH):
                stream, half = zlib.compressobj(level, wbits=-15, strategy=strategy), len(content) // 2
                parts = [stream.compress(content[:half])]
                if flush is not None:
                    parts.append(stream.flush(flush))
                yield b"".join((*parts, stream.compress(content[half:]), stream.flush()))


def inflated(data: bytes, limit: int = LIMIT) -> bytes | str:
    """The content, or why it is refused."""
    try:
        return bytes(next(Inflated(data, [(0, len(data))], limit)))
    except zlib.error:
        return "damaged"
    except OverflowError:
        return "over the limit"


def expected(data: bytes, limit: int = LIMIT) -> bytes | str:
    stream = zlib.decompressobj(-15)
    try:
        content = stream.decompress(data, limit + 1)
    except zlib.error:
        return "damaged"
    return "over the limit" if len(content) > limit else content if stream.eof else "damaged"


@pytest.mark.parametrize("name", CONTENTS)
def test_what_zlib_compresses_is_inflated(name: str) -> None:
    content = CONTENTS[name]
    for stream in streams(content):
        assert inflated(stream) == content
        assert inflated(stream + b"more") == content
        assert inflated(stream, len(content)) == content
        if content:
            assert inflated(stream, len(content) - 1) == "over the limit"


@pytest.mark.parametrize("name", ["paths", "skewed", "bits", "period of 7"])
def test_truncated_streams_and_flipped_bits_are_refused_as_zlib_does(name: str) -> None:
    for stream in streams(CONTENTS[name][:400]):
        for end in range(len(stream)):
            assert inflated(stream[:end]) == "damaged"
        for bit in range(min(8 * len(stream), 900)):
            wrong = bytearray(stream)
            wrong[bit // 8] ^= 1 << bit % 8
            assert inflated(bytes(wrong)) == expected(bytes(wrong))


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_are_refused_or_inflated_as_zlib_does(seed: int) -> None:
    rng, every = random.Random(seed), [*streams(CONTENTS["paths"][:20_000]), *streams(CONTENTS["skewed"])]
    for _ in range(1000):
        stream = bytearray(rng.choice(every))
        for _ in range(rng.choice([1, 2, 5])):
            at = rng.randrange(min(len(stream), rng.choice([20, 100, 100_000])))
            stream[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        assert inflated(bytes(stream)) == expected(bytes(stream))
        head = bytes([rng.choice([1, 3, 5, 7, 4])]) + rng.randbytes(rng.randrange(60))
        assert inflated(head) == expected(head)


def test_blocks_take_the_memory_of_the_one_before() -> None:
    contents = [CONTENTS["paths"], b"", CONTENTS["random"], CONTENTS["one byte"], CONTENTS["zeros"]]
    parts = [zlib.compress(content, wbits=-15) for content in contents]
    places, at = [], 0
    for part in parts:
        places.append(("any", at, at + len(part)))
        at += len(part)
    data, n_bytes = b"".join(parts), sum(map(len, contents))
    assert [bytes(block) for block in Inflated(data, places, n_bytes)] == contents
    with pytest.raises(OverflowError, match="blocks of more than"):
        list(Inflated(data, places, n_bytes - 1))
    blocks = Inflated(data, places, n_bytes)
    view = memoryview(next(blocks))
    with pytest.raises(BufferError, match="in use"):
        next(blocks)
    assert view == contents[0]
    view.release()
    assert bytes(next(blocks)) == b""


def test_a_bomb_takes_no_more_memory_than_the_limit() -> None:
    bomb = zlib.compress(bytes(50 << 20), wbits=-15)
    blocks = Inflated(bomb, [(0, len(bomb))], 1 << 20)
    with pytest.raises(OverflowError):
        next(blocks)
    assert len(blocks) == 0


@pytest.mark.parametrize("place", [(1, 0), (0, 5), (5, 6), (4, 1 << 62)])
def test_places_outside_of_the_bytes_are_refused(place: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="in 4 bytes"):
        next(Inflated(b"abcd", [place], 10))
