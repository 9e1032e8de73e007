"""Deflate blocks of Avro files and gzip pages of Parquet, by libdeflate and without it."""

from __future__ import annotations

import gzip
import random
import signal
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from puffin_fast._io import inflate
from puffin_fast.avro.blocks import SYNC_BYTES, Blocks, as_long
from puffin_fast.errors import CorruptDataError, LimitExceededError
from puffin_fast.parquet.page_codecs import CODEC_ERRORS, CODECS, PageError
from puffin_fast.rows.files.parquet import ParquetReader

SYNC = bytes(range(SYNC_BYTES))
MOST = 1 << 30


@pytest.fixture(params=["libdeflate", "zlib"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    assert inflate._raw is not None, "the extra `iceberg` installs deflate"
    if request.param == "zlib":
        monkeypatch.setattr(inflate, "_raw", None)
        monkeypatch.setattr(inflate, "_gzip", None)
    return str(request.param)


def deflated(content: bytes, level: int = 6) -> bytes:
    stream = zlib.compressobj(level, wbits=-zlib.MAX_WBITS)
    return stream.compress(content) + stream.flush()


def inflated(body: bytes, limit: int = MOST) -> bytes:
    """The bytes of a file with one block."""
    data = memoryview(as_long(0) + as_long(len(body)) + body + SYNC)
    blocks = Blocks(data, codec="deflate", sync=SYNC, limit=limit, n_fields=0, path="file", offset=0)
    (content,) = (block.data for block in blocks.some([0]))
    return bytes(content)


def texts(size: int) -> bytes:
    """Some bytes that repeat, and some that do not."""
    part = random.Random(size).randbytes(1000) + bytes(4000)
    return (part * (size // len(part) + 1))[:size]


@pytest.mark.parametrize(
    "size", [0, 1, 124_999, 125_000, 125_001, 1_000_000, 1_000_001, 8_000_000, 8_000_001]
)
def test_blocks_of_all_sizes_are_inflated(library: str, size: int) -> None:
    content = texts(size)
    for level in (0, 1, 9):
        assert inflated(deflated(content, level)) == content


def test_bytes_after_the_end_of_a_stream_are_ignored(library: str) -> None:
    assert inflated(deflated(b"some bytes") + b"\1\2\3") == b"some bytes"


@pytest.mark.parametrize("limit", [1, 125_000, 1_000_000, 8_000_000, 9_000_000])
def test_a_block_of_more_bytes_than_the_limit_is_refused(library: str, limit: int) -> None:
    assert len(inflated(deflated(bytes(limit)), limit)) == limit
    with pytest.raises(LimitExceededError, match=f"more than {limit} decompressed bytes"):
        inflated(deflated(bytes(limit + 1)), limit)


def test_damaged_blocks_are_refused_by_both_or_have_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    body = deflated(texts(20_000))
    found: dict[str, list[bytes | None]] = {"libdeflate": [], "zlib": []}
    damaged = [body[:at] for at in range(0, len(body), 37)]
    for _ in range(1000):
        at = chance.randrange(len(body))
        damaged.append(body[:at] + bytes([body[at] ^ 1 << chance.randrange(8)]) + body[at + 1 :])
    for name, results in found.items():
        if name == "zlib":
            monkeypatch.setattr(inflate, "_raw", None)
        for one in damaged:
            try:
                results.append(inflated(one))
            except CorruptDataError:
                results.append(None)
    assert found["libdeflate"] == found["zlib"]
    assert 0 < found["zlib"].count(None) < len(damaged)


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
def test_pages_of_gzip_have_their_declared_number_of_bytes(
    library: str, compress: Callable[[bytes], bytes]
) -> None:
    for size in (0, 1, 1000, 300_000):
        content = texts(size)
        assert bytes(CODECS["GZIP"](compress(content), size)) == content
        for other in (max(size - 1, 0), size + 1):
            try:
                found = CODECS["GZIP"](compress(content), other)
            except (PageError, *CODEC_ERRORS):
                continue
            assert len(found) == size  # the caller compares it with the declared number


def test_a_page_of_gzip_with_another_checksum_is_refused(library: str) -> None:
    page = bytearray(gzip.compress(texts(1000)))
    page[-8] ^= 1
    with pytest.raises(CODEC_ERRORS):
        CODECS["GZIP"](bytes(page), 1000)


def test_columns_of_gzip_are_read(library: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = pa.table({"k": rng.integers(0, 1 << 40, 20_000), "t": [f"text {n % 977}" for n in range(20_000)]})
    path = f"{tmp_path}/data.parquet"
    pq.write_table(rows, path, compression="gzip", data_page_size=10_000)
    batches = ParquetReader(PyArrowFileIO(), path).batches(0, ["k", "t"], 7_000, use_threads=False)
    assert pa.Table.from_batches(list(batches)).equals(rows)


def test_what_a_handler_raises_meanwhile_is_passed_on() -> None:
    def stop(number: int, frame: object) -> None:
        raise ValueError("from outside")

    def inflate_and_wait() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        inflate.inflate_raw(data, 1 << 28)
        time.sleep(10)

    data, before = deflated(bytes(1 << 28)), signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(ValueError, match="from outside"):
            inflate_and_wait()
    finally:
        signal.signal(signal.SIGALRM, before)
