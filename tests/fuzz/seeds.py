"""Writes the corpus in the repository: small inputs that reach every kind of container and every refusal."""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from puffin_fast import dv
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.puffin import PuffinWriter
from tests.fuzz import parquet_targets
from tests.kit import key_index_oracle, malformed_formats, oracle, oracle_formats, strategies

CORPUS = Path(__file__).parent / "corpus"
LARGEST = 600
"""Bytes of a seed; larger ones slow the fuzzer down."""


def _bitmaps() -> Iterator[bytes]:
    for build in strategies.MALFORMED.values():
        yield build()
    for data, _ in strategies.ACCEPTED.values():
        yield data
    for positions in (range(3), [1, 70_000, 1 << 33], [k << 16 for k in range(6)], range(10, 5000)):
        yield oracle.encode(positions)


def _blobs() -> Iterator[bytes]:
    yield oracle.encode_blob([0, 5, 70_000, (1 << 32) + 3])
    for name, build in strategies.MALFORMED_BLOBS.items():
        if name.startswith("blob_"):
            yield build()
    yield from _bitmaps()  # the target frames them


def _delta() -> Iterator[bytes]:
    for build in malformed_formats.MALFORMED_DELTA.values():
        yield build()
    yield oracle_formats.encode_native([0, 5, 70_000, (1 << 32) + 3])
    yield dv.delta.encode_inline(PositionBitmap.from_positions([1, 2, 70_000]))[0].encode()
    yield oracle.encode([0, 5, 70_000])


def _paimon() -> Iterator[bytes]:
    for build in malformed_formats.MALFORMED_PAIMON.values():
        yield build()
    yield oracle.encode32([0, 5, 70_000])


def _lance() -> Iterator[bytes]:
    for build in malformed_formats.MALFORMED_32.values():
        yield build()
    yield dv.lance.encode(PositionBitmap.from_positions([1, 5, 9]), form="arrow")


def _mumbling() -> Iterator[bytes]:
    for build in malformed_formats.MALFORMED_MUMBLING.values():
        yield build()
    for data, _ in malformed_formats.ACCEPTED_MUMBLING.values():
        yield data
    for positions in (range(3), range(0, 300, 2), [1, 70_000]):
        yield oracle_formats.encode_mumbling(positions)
        yield oracle_formats.encode_mumbling(positions)[6:]


def _files() -> Iterator[bytes]:
    for compression in (None, "zstd", "lz4"):
        for compress_footer in (False, True):
            sink = io.BytesIO()
            with PuffinWriter(sink, properties={"a": "b"}, compress_footer=compress_footer) as writer:
                for positions in ([1, 2, 3], range(50)):
                    writer.add(
                        oracle.encode_blob(positions),
                        type="deletion-vector-v1",
                        fields=(2147483645,),
                        properties={"referenced-data-file": "f", "cardinality": str(len(positions))},
                        compression=compression,
                    )
            yield sink.getvalue()
            yield sink.getvalue()[:-1]
    yield b"PFA1" * 2 + struct.pack("<i", 0) + bytes(4) + b"PFA1"


def _footers() -> Iterator[bytes]:
    yield b'{"blobs":[]}'
    yield b'{"blobs":[],"properties":{"created-by":"x"}}'
    yield (
        b'{"blobs":[{"type":"deletion-vector-v1","fields":[2147483645],"snapshot-id":-1,"sequence-number":-1,'
        b'"offset":4,"length":32,"properties":{"referenced-data-file":"f","cardinality":"1"}}]}'
    )
    yield (
        b'{"blobs":[{"type":"t","fields":[],"snapshot-id":1,"sequence-number":1,"offset":4,"length":0,'
        b'"compression-codec":"zstd"}]}'
    )
    yield b"[]"
    yield b'{"blobs":[{}]}'


def _words() -> Iterator[bytes]:
    def word(kind: int, low: int, length: int = 0) -> int:
        return kind | low << 3 | length << 19

    for words in (
        [word(2, 0, 8000), word(4, 3, 5000)],
        [word(3, 0, 4096), word(1, 1), word(3, 0, 4097), word(0, 1), word(5, 9)],
        [word(2, 65_000, 2000), word(4, 1, 3000), word(5, 5), word(5, 5), word(5, 1)],
        [word(1, 65_535), word(2, 60_000, 8000), word(0, 3), word(2, 1, 3)],
    ):
        yield struct.pack(f"<{len(words)}I", *words) * 2


def _snappy() -> Iterator[bytes]:
    codec = pa.Codec("snappy")
    for content in (
        b"",
        bytes(300),
        np.arange(1000, 1060).tobytes(),
        bytes(range(256)),
        b"abc" * 50,
        b"ab, cd, ef" * 30,
    ):
        yield codec.compress(content, asbytes=True)
        yield content
    tail = b"\xf0\xc7" + b"r" * 200  # the kernel reads and writes words far from the ends
    for element in (b"\x0e\0\0", b"\x0e\x04\0", b"\x01\x03", b"\x0f\x02\0\0\0", b"\xfc\xff\xff\xff\xff"):
        yield b"\xd0\x01\x0cabcd" + element + tail


def _json_rows() -> Iterator[bytes]:
    yield b'{"a":1,"t":"x","o":{"n":-7,"t":null,"o":{"a":900000000000000000}}}\n{}\n{"o":null,"z":[1,{"b":2.5e3}]}'
    yield rb' { "t" : "a\"\\\/\b\f\n\r\t\u00e9\u20ac\ud83d\ude00" , "o" : {} } '
    yield '{"t":"né€😀","o":{"t":"","n":0}}\t\r\n{"x":true,"y":false,"a":null}'.encode()
    yield b'{"a":-0}\n{"a":1.0}'
    yield b'{"a":1,"a":2}'
    yield b'{"o":{"n":2147483648}}'
    yield b'{"x":"\\ud800"}'
    yield b'{"x":' + b"[" * 70 + b"]" * 70 + b"}"


def _parquet_footers() -> Iterator[bytes]:
    yield from map(parquet_targets.footer_of, parquet_targets.files())


def _parquet_pages() -> Iterator[bytes]:
    for at, chunk in enumerate(parquet_targets.chunks()):
        yield bytes([at]) + chunk.data


def _key_index() -> Iterator[bytes]:
    files = [("a", 1, 2), ("b", 2, 3)]
    yield key_index_oracle.encode([5, -7, None, 5, 1 << 33], files, "integer", (0, 3, 37))
    yield key_index_oracle.encode([5, -7, 0, 5, 3], files, "integer", (2, 4, 26))
    yield key_index_oracle.encode(["5", "", None, "0", "5"], files, "text", (1, 3, 8))
    yield key_index_oracle.encode([], [], "integer", (0, 3, 29))


SEEDS = {
    "bitmap": _bitmaps,
    "blob": _blobs,
    "delta": _delta,
    "json_rows": _json_rows,
    "key_index": _key_index,
    "lance": _lance,
    "mumbling": _mumbling,
    "paimon": _paimon,
    "parquet_footer": _parquet_footers,
    "parquet_pages": _parquet_pages,
    "puffin": _files,
    "puffin_footer": _footers,
    "encode": _words,
    "sets": _words,
    "snappy": _snappy,
}


def main() -> None:
    for name, build in SEEDS.items():
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        kept = {hashlib.sha1(seed).hexdigest()[:16]: seed for seed in build() if len(seed) <= LARGEST}
        for key, seed in kept.items():
            (folder / key).write_bytes(seed)
        print(f"{name}: {len(kept)} seeds")


if __name__ == "__main__":
    main()
