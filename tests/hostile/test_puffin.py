"""Puffin files whose footer or blobs decompress to very many bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
import zstandard

BLOB = {"type": "t", "fields": [], "snapshot-id": 1, "sequence-number": 1, "offset": 4, "length": 0}


def puffin(payload: bytes, *, compressed: bool, blobs: bytes = b"") -> bytes:
    if compressed:
        payload = lz4.frame.compress(payload, store_size=True)
    flags = b"\1\0\0\0" if compressed else bytes(4)
    return b"PFA1" + blobs + b"PFA1" + payload + struct.pack("<i", len(payload)) + flags + b"PFA1"


FOOTERS: dict[str, Callable[[], bytes]] = {
    "blobs": lambda: json.dumps({"blobs": [BLOB] * 800_000}).encode(),
    "spaces": lambda: b'{"blobs": []' + b" " * (100 << 20) + b"}",
    "arrays": lambda: b'{"blobs": [], "properties": ' + b"[" * (50 << 20),
}


@pytest.mark.parametrize("footer", FOOTERS)
def test_a_footer_takes_memory_that_follows_from_its_bytes(
    tmp_path: Path, confined: Callable[..., int], footer: str
) -> None:
    path = tmp_path / "x.puffin"
    path.write_bytes(puffin(FOOTERS[footer](), compressed=True))
    assert path.stat().st_size < 1 << 20
    action = """
refuses(errors.LimitExceededError, lambda: puffin.PuffinReader(path), path, "the limit is")
refuses(errors.LimitExceededError, lambda: files.read_vectors(path), path)
(problem,) = files.check_vectors(path)
assert path in problem.message
"""
    assert confined(action, limit_mib=128, path=str(path)) < 64


def test_the_limit_of_blobs_is_that_of_the_footer(tmp_path: Path, confined: Callable[..., int]) -> None:
    path = tmp_path / "x.puffin"
    path.write_bytes(puffin(json.dumps({"blobs": [BLOB] * 100}).encode(), compressed=True))
    action = """
refuses(errors.LimitExceededError, lambda: puffin.PuffinReader(path, max_blob_bytes=5_000), "5000")
assert len(puffin.PuffinReader(path, max_blob_bytes=50_000).blobs) == 100
assert len(puffin.PuffinReader(path).blobs) == 100
"""
    confined(action, limit_mib=128, path=str(path))


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_blob_takes_memory_that_follows_from_its_bytes(
    tmp_path: Path, confined: Callable[..., int], codec: str
) -> None:
    zeros = bytes(1 << 30)
    blob = zstandard.compress(zeros) if codec == "zstd" else lz4.frame.compress(zeros, store_size=True)
    entry = BLOB | {"length": len(blob), "compression-codec": codec}
    path = tmp_path / "x.puffin"
    path.write_bytes(puffin(json.dumps({"blobs": [entry]}).encode(), compressed=False, blobs=blob))
    action = """
refuses(errors.LimitExceededError, lambda: puffin.PuffinReader(path).read(0), path, "the limit is")
(problem,) = files.check_vectors(path)
assert "the limit is" in problem.message
"""
    assert confined(action, limit_mib=128, path=str(path)) < 64
