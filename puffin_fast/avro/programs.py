"""What a kernel needs to walk the records of an Avro block without decoding them, and to cut fields out of them."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from typing import Any

from puffin_fast._kernels.avro import records as avro
from puffin_fast.avro.blocks import Block

_SHARED_TYPES = {
    "int": "long",  # the same encoding, and no value is truncated
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "string": "string",
}
_OPERATIONS = {
    "long": avro.LONG,
    "float": avro.FLOAT,
    "double": avro.DOUBLE,
    "bytes": avro.BYTES,
    "string": avro.BYTES,
}


def shared_type(kind: Any) -> Any:
    """A type with the same encoding and values in Polars and fastavro; None if there is none."""
    if isinstance(kind, str):
        return _SHARED_TYPES.get(kind)
    if isinstance(kind, list):
        parts = [part if part == "null" else shared_type(part) for part in kind]
        return parts if len(kind) == 2 and kind.count("null") == 1 and None not in parts else None
    if kind["type"] == "fixed":
        return kind if kind["size"] > 0 else None
    if kind["type"] == "array":
        items = shared_type(kind["items"])
        return items and {"type": "array", "items": items}
    if kind["type"] == "record":
        fields = [{"name": field["name"], "type": shared_type(field["type"])} for field in kind["fields"]]
        return {**kind, "fields": fields} if all(field["type"] for field in fields) else None
    return None


def program(kind: Any) -> list[int]:
    """The instructions for the kernel to skip a value of a type from `shared_type`."""
    if isinstance(kind, str):
        return [_OPERATIONS[kind]]
    if isinstance(kind, list):
        inner = program(next(part for part in kind if part != "null"))
        return [avro.OPTIONAL, kind.index("null"), len(inner), *inner]
    if kind["type"] == "fixed":
        return [avro.FIXED, kind["size"]]
    if kind["type"] == "array":
        items = program(kind["items"])
        return [avro.ARRAY, len(items), *items]
    return [word for field in kind["fields"] for word in program(field["type"])]


def cut_fields(
    fields: Sequence[dict[str, Any]], names: Collection[str], blocks: Sequence[Block]
) -> tuple[Block, ...] | None:
    """Returns blocks of records that have some of the fields only.

    Args:
        fields: of the records in the blocks.
        names: the fields that stay.
        blocks: without compression.

    Returns:
        None if there is a type that the kernel does not know, or a block does not have the bytes of its records.
    """
    words, sizes = array("q"), array("q")
    for field in fields:
        kind = shared_type(field["type"])
        if kind is None:
            return None
        own = program(kind)
        words.extend(own)
        sizes.append(len(own) if field["name"] in names else -len(own))
    found = []
    for block in blocks:
        data = avro.cut(block.data, block.n_records, words, sizes)
        if data is None:
            return None
        found.append(Block(block.n_records, bytes(data)))
    return tuple(found)
