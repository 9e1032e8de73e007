"""Manifests and manifest lists that would crash the process, fill its memory or never end."""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest
import zstandard

from puffin_fast.iceberg.manifest.avro_blocks import as_long
from tests.hostile.conftest import HostileTable

SYNC = bytes(range(16))
LIST_FIELDS = [
    {"name": "manifest_path", "type": "string", "field-id": 500},
    {"name": "manifest_length", "type": "long", "field-id": 501},
    {"name": "partition_spec_id", "type": "int", "field-id": 502},
]


def avro(schema: Any, blocks: list[tuple[int, bytes]], codec: str = "null") -> bytes:
    """An Avro file whose parts need not fit each other."""
    file = io.BytesIO()
    header = {
        "type": "record",
        "name": "h",
        "fields": [{"name": "meta", "type": {"type": "map", "values": "bytes"}}],
    }
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    fastavro.schemaless_writer(file, header, {"meta": meta})
    body = b"".join(as_long(n) + as_long(len(data)) + data + SYNC for n, data in blocks)
    return b"Obj\x01" + file.getvalue() + SYNC + body


def record(name: str, *fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


def _deflated(data: bytes) -> bytes:
    stream = zlib.compressobj(9, wbits=-15)
    return stream.compress(data) + stream.flush()


RECURSIVE = {
    "optional": record("r", ("a", ["null", "r"])),
    "list": record("r", ("a", {"type": "array", "items": "r"})),
    "map": record("r", ("a", {"type": "map", "values": "r"})),
    "itself": record("r", ("a", "r")),
    "through another": record("r", ("a", record("s", ("b", ["null", "r"])))),
}
DEEP: Any = "long"
for _ in range(300):
    DEEP = {"type": "array", "items": DEEP}
WIDE = record("w0", ("a", "long"), ("b", "null"))
WIDE_FIELDS: list[Any] = [("w0", {"type": "array", "items": WIDE})]
for level in range(1, 40):
    inner = record(f"w{level}", ("a", f"w{level - 1}"), ("b", f"w{level - 1}"))
    WIDE_FIELDS.append((f"w{level}", {"type": "array", "items": inner}))
HOSTILE_SCHEMAS = {
    **{f"recursive: {name}": schema for name, schema in RECURSIVE.items()},
    "deep": record("r", ("a", DEEP)),
    "names that double 40 times": record("r", *WIDE_FIELDS),
}

ZEROS = bytes(400 << 20)
BOMBS: dict[str, Callable[[], bytes]] = {
    "zstandard": lambda: avro(
        record("r", ("a", "long")), [(len(ZEROS), zstandard.compress(ZEROS))], "zstandard"
    ),
    "deflate": lambda: avro(record("r", ("a", "long")), [(len(ZEROS), _deflated(ZEROS))], "deflate"),
    "many blocks": lambda: avro(
        record("r", ("a", "long")), [(1 << 20, zstandard.compress(bytes(1 << 20)))] * 400, "zstandard"
    ),
    "2^40 empty records": lambda: avro(record("r"), [(1 << 40, b"")]),
    "2^40 nulls": lambda: avro(record("r", ("a", "null")), [(1 << 40, b"")]),
    "2^40 records of one byte": lambda: avro(record("r", ("a", "long")), [(1 << 40, b"\0")]),
}

READ = """
table = StaticTable.from_metadata(metadata)
refuses((errors.CorruptDataError, errors.LimitExceededError), lambda: iceberg.scan(table).to_arrow(), path)
refuses((errors.CorruptDataError, errors.LimitExceededError), lambda: iceberg.verify(table), path)
refuses((errors.CorruptDataError, errors.LimitExceededError), lambda: iceberg.deletes(table), path)
"""


@pytest.mark.parametrize(
    ("which", "schema"),
    [
        *(("manifest_list", schema) for schema in HOSTILE_SCHEMAS),
        ("data_manifest", "recursive: itself"),
        ("delete_manifest", "recursive: list"),
    ],
)
def test_a_schema_that_a_manifest_does_not_need_is_refused(
    hostile: HostileTable, confined: Callable[..., int], which: str, schema: str
) -> None:
    path: Path = getattr(hostile, which)
    data = avro(HOSTILE_SCHEMAS[schema], [(1, b"\x02" * 2_000)])
    path.write_bytes(data + bytes(max(0, path.stat().st_size - len(data))))  # as long as its list says
    confined(READ, limit_mib=256, metadata=hostile.metadata, path=path.name)


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_manifest_takes_memory_that_follows_from_its_bytes(
    hostile: HostileTable, confined: Callable[..., int], bomb: str
) -> None:
    hostile.manifest_list.write_bytes(BOMBS[bomb]())
    confined(READ, limit_mib=256, metadata=hostile.metadata, path=hostile.manifest_list.name)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_manifest_that_is_no_regular_file_is_refused(
    hostile: HostileTable, confined: Callable[..., int], kind: str
) -> None:
    hostile.manifest_list.unlink()
    if kind == "pipe":
        os.mkfifo(hostile.manifest_list)
    else:
        hostile.manifest_list.symlink_to("/dev/zero")
    read = READ.replace("(errors.CorruptDataError, errors.LimitExceededError)", "errors.InvalidInputError")
    confined(read, limit_mib=256, metadata=hostile.metadata, path=hostile.manifest_list.name)


def test_the_limit_of_decompression_is_adjustable(
    hostile: HostileTable, confined: Callable[..., int]
) -> None:
    read = """
from puffin_fast.iceberg.manifest.avro import read_avro
plain = pyiceberg.io.pyarrow.PyArrowFileIO()
refuses(errors.LimitExceededError, lambda: read_avro(plain, path, {}), "the limit for")
wide = pyiceberg.io.pyarrow.PyArrowFileIO({"puffin-fast.limit.inflation-ratio": "100000"})
assert read_avro(wide, path, {}).n_records == 1 << 22
wrong = pyiceberg.io.pyarrow.PyArrowFileIO({"puffin-fast.limit.inflation-ratio": "-1"})
refuses(errors.InvalidInputError, lambda: read_avro(wrong, path, {}), "inflation-ratio")
"""
    zeros = bytes(1 << 22)
    hostile.manifest_list.write_bytes(
        avro(record("r", ("a", "long")), [(len(zeros), zstandard.compress(zeros))], "zstandard")
    )
    confined(read, limit_mib=256, path=f"file://{hostile.manifest_list}")
