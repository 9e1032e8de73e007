"""The two codecs: one frame with its content size, without other bytes, and never more bytes than declared."""

from __future__ import annotations

import struct

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast.errors import CorruptDataError, InvalidInputError, LimitExceededError, UnsupportedError
from puffin_fast.puffin.compression import CODECS, compress, decompress

codecs = pytest.mark.parametrize("codec", CODECS)


@given(st.binary(max_size=2000), st.integers(1, 50), st.sampled_from(CODECS))
def test_codecs_round_trip(data: bytes, repeats: int, codec: str) -> None:
    assert decompress(compress(data * repeats, codec), codec) == data * repeats


@codecs
@pytest.mark.parametrize("n_bytes", [0, 1, 255, 256, 65791, 65792, 1 << 20])
def test_the_content_size_is_in_the_header(codec: str, n_bytes: int) -> None:
    frame = compress(bytes(n_bytes), codec)
    if codec == "zstd":
        assert zstandard.frame_content_size(frame) == n_bytes
    else:
        assert frame[4] & 8
        assert lz4.frame.get_frame_info(frame)["content_size"] == n_bytes
        assert lz4.frame.decompress(frame) == bytes(n_bytes)


@codecs
@pytest.mark.parametrize("data", [b"", b"abc" * 100, bytes(1 << 20)], ids=["nothing", "text", "zeros"])
def test_truncation_and_trailing_bytes_are_refused(codec: str, data: bytes) -> None:
    frame = compress(data, codec)
    for end in range(len(frame)):
        with pytest.raises(CorruptDataError):
            decompress(frame[:end], codec)
    for more in (b"\0", frame, b"junk" * 10):
        with pytest.raises(CorruptDataError):
            decompress(frame + more, codec)


def test_a_frame_without_content_size_is_refused() -> None:
    for codec, frame in (
        ("zstd", zstandard.ZstdCompressor(write_content_size=False).compress(b"abc")),
        ("lz4", lz4.frame.compress(b"abc", store_size=False)),
        ("lz4", lz4.frame.compress(b"", store_size=True)),  # liblz4 leaves out a size of 0
    ):
        with pytest.raises(CorruptDataError, match="content size"):
            decompress(frame, codec)


def test_a_skippable_frame_is_not_the_content() -> None:
    skippable = struct.pack("<II", 0x184D2A50, 4) + b"skip"
    for codec in CODECS:
        with pytest.raises(CorruptDataError, match="magic"):
            decompress(skippable + compress(b"abc", codec), codec)


@pytest.mark.parametrize("declared", [0, 2, 4, 255])
def test_a_zstd_content_size_that_is_wrong_is_refused(declared: int) -> None:
    frame = bytearray(compress(b"abc", "zstd"))
    assert frame[5] == 3
    frame[5] = declared
    with pytest.raises(CorruptDataError):
        decompress(bytes(frame), "zstd")


def lying_lz4(declared: int) -> bytes:
    """A frame of 30 bytes of content that declares another size, with a correct header checksum."""
    frame = bytearray(lz4.frame.compress(b"abc" * 10, store_size=True))
    frame[6:14] = struct.pack("<Q", declared)
    for checksum in range(256):
        frame[14] = checksum
        try:
            lz4.frame.get_frame_info(bytes(frame))
        except RuntimeError:
            continue
        return bytes(frame)
    raise AssertionError("no checksum fits")


@pytest.mark.parametrize("declared", [0, 29, 31, 9180, 2**31 - 1])
def test_an_lz4_content_size_that_is_wrong_is_refused(declared: int) -> None:
    with pytest.raises(CorruptDataError):
        decompress(lying_lz4(declared), "lz4")


def test_a_content_size_that_so_few_bytes_cannot_hold_is_refused_before_memory_is_allocated() -> None:
    with pytest.raises(CorruptDataError, match="content size: expected at most"):
        decompress(lying_lz4(2**30), "lz4")
    huge = bytes.fromhex("28b52ffd a0") + (2**30).to_bytes(4, "little") + bytes.fromhex("010000")
    with pytest.raises(CorruptDataError, match="content size: expected at most"):
        decompress(huge, "zstd")


def test_content_beyond_the_limit_is_refused() -> None:
    for codec in CODECS:
        frame = compress(bytes(1001), codec)
        assert decompress(frame, codec, limit=1001) == bytes(1001)
        with pytest.raises(LimitExceededError, match="1001 bytes, the limit is 1000"):
            decompress(frame, codec, limit=1000, path="x", offset=4)


def test_the_densest_frames_are_read() -> None:
    for codec in CODECS:
        zeros = bytes(50_000_000)
        assert decompress(compress(zeros, codec), codec) == zeros


def test_errors_name_path_and_offset() -> None:
    with pytest.raises(
        CorruptDataError, match=r"^s3://b/x: offset 77: zstd frame: expected magic 28 b5 2f fd"
    ):
        decompress(b"nonsense", "zstd", path="s3://b/x", offset=77)


def test_other_codecs_do_not_exist() -> None:
    with pytest.raises(UnsupportedError, match=r"^x: offset 4: .*found 'snappy'"):
        decompress(b"", "snappy", path="x", offset=4)
    with pytest.raises(InvalidInputError, match="found 'snappy'"):
        compress(b"", "snappy")
