"""Values of every kind in place of those of a JSON document or an Avro file."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro

from puffin_fast.avro.file import HEADER

__all__ = ["KINDS", "avro_cases", "avro_replaced", "places", "replaced"]

KINDS: list[Any] = [None, True, 0, -1, 2**63, 2**70, 1.5, "", "x", "7", [], {}, [None], ["a"], {"a": 1}]
AVRO_KINDS: list[Any] = [
    *(
        None,
        True,
        0,
        -1,
        2**31,
        2**63 - 1,
        1.5,
        float("nan"),
        "",
        "x",
        b"",
        b"x",
        [],
        [0],
        ["a"],
        {},
        {"a": 1},
    )
]
AVRO_TYPES = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
}


def places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value of a JSON document."""
    if at:
        yield at
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from places(value, (*at, key))


def replaced(document: dict[str, Any], at: tuple[Any, ...], value: Any) -> dict[str, Any]:
    document = copy.deepcopy(document)
    node: Any = document
    for key in at[:-1]:
        node = node[key]
    node[at[-1]] = value
    return document


def avro_cases(data: bytes) -> list[tuple[str, tuple[Any, ...], Any]]:
    """What may be replaced in an Avro file: values, also with their types, texts of the header, parts of the schema."""
    reader: Any = fastavro.reader(io.BytesIO(data))
    record = next(reader)
    schema = json.loads(reader.metadata["avro.schema"])
    headers = [key for key in reader.metadata if key not in ("avro.schema", "avro.codec")]
    return [
        *((what, at, kind) for what in ("value", "type") for at in places(record) for kind in AVRO_KINDS),
        *(("header", (key,), kind) for key in headers for kind in KINDS),
        *(("schema", at, kind) for at in places(schema) for kind in KINDS),
    ]


def avro_replaced(data: bytes, case: tuple[str, tuple[Any, ...], Any]) -> bytes | None:
    """The file with one value of `avro_cases` replaced; None if no Avro file has such a value."""
    what, at, kind = case
    source = io.BytesIO(data)
    if what in ("header", "schema"):
        header: Any = fastavro.schemaless_reader(source, HEADER, None)
        if what == "schema":
            schema = replaced(json.loads(header["meta"]["avro.schema"]), at, kind)
            header["meta"]["avro.schema"] = json.dumps(schema).encode()
        else:
            header["meta"][at[0]] = (kind if isinstance(kind, str) else json.dumps(kind)).encode()
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, HEADER, header)
        return sink.getvalue() + source.read()
    reader: Any = fastavro.reader(source)
    records = list(reader)
    schema = json.loads(reader.metadata["avro.schema"])
    metadata = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
    if what == "type":
        _retype(schema, at, kind)
        for record in records:
            _put(record, at, kind)
    else:
        records[0] = replaced(records[0], at, kind)
    sink = io.BytesIO()
    try:
        fastavro.writer(sink, fastavro.parse_schema(schema), records, metadata=metadata)
    except (
        ValueError,
        TypeError,
        AttributeError,
        OverflowError,
        KeyError,
        fastavro.schema.SchemaParseException,
    ):
        return None
    return sink.getvalue()


def _put(node: Any, at: tuple[Any, ...], value: Any) -> None:
    """Sets a field in each item of the lists on its path."""
    if node is None:
        return
    for key in range(len(node)) if isinstance(node, list) else at[:1]:
        if len(at) == 1:
            node[key] = value
        else:
            _put(node[key], at[1:], value)


def _retype(schema: Any, at: tuple[Any, ...], value: Any) -> None:
    """Gives the field at a path the type of a value."""
    node, owner, slot = schema, schema, "type"
    for key in at:
        while isinstance(node, list):
            node = next(branch for branch in node if branch != "null")
        if isinstance(key, int):
            owner, slot = node, "items"
        elif node["type"] == "map":
            owner, slot = node, "values"
        else:
            owner, slot = next(field for field in node["fields"] if field["name"] == key), "type"
            owner.pop("default", None)
        node = owner[slot]
    owner[slot] = _avro_type(value)


def _avro_type(value: Any) -> Any:
    if isinstance(value, list):
        return {"type": "array", "items": _avro_type(value[0]) if value else "int"}
    return {"type": "map", "values": "int"} if isinstance(value, dict) else AVRO_TYPES[type(value)]
