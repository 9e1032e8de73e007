"""Tables, readers and cases that several tests share with `test_avro`."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from puffin_fast.avro.blocks import as_long

SYNC = bytes(range(16))


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
