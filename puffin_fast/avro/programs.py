"""What a kernel needs to walk the records of Avro blocks and to decode their fields."""

from __future__ import annotations

from typing import Any

from puffin_fast._kernels.avro import records as avro

_PLAIN_TYPES = {
    "boolean": "boolean",
    "int": "long",  # the same encoding, and no value is truncated
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "string": "string",
}
_OPERATIONS = {
    "boolean": avro.BOOLEAN,
    "long": avro.LONG,
    "float": avro.FLOAT,
    "double": avro.DOUBLE,
    "bytes": avro.BYTES,
    "string": avro.STRING,
}


def kernel_type(kind: Any) -> Any:
    """A type that the kernel walks, of the same encoding; None if there is none."""
    if isinstance(kind, str):
        return _PLAIN_TYPES.get(kind)
    if isinstance(kind, list):
        parts = [part if part == "null" else kernel_type(part) for part in kind]
        return parts if len(kind) == 2 and kind.count("null") == 1 and None not in parts else None
    if kind["type"] == "fixed":
        return kind if kind["size"] > 0 else None
    if kind["type"] == "array":
        items = kernel_type(kind["items"])
        return items and {"type": "array", "items": items}
    if kind["type"] == "record":
        fields = [{"name": field["name"], "type": kernel_type(field["type"])} for field in kind["fields"]]
        return {**kind, "fields": fields} if all(field["type"] for field in fields) else None
    return None


def is_one_value(kind: Any) -> bool:
    """Whether the kernel decodes values of a type from `kernel_type`: there are no records but pairs of a map."""
    if isinstance(kind, list):
        return all(part == "null" or (not isinstance(part, list) and is_one_value(part)) for part in kind)
    if isinstance(kind, str) or kind["type"] == "fixed":
        return True
    return kind["type"] == "array" and (_is_pair(kind["items"]) or is_one_value(kind["items"]))


def _is_pair(kind: Any) -> bool:
    """Whether a type is a record of a key and a value, of which Iceberg's maps are arrays."""
    if not isinstance(kind, dict) or kind["type"] != "record":
        return False
    fields = kind["fields"]
    return [f["name"] for f in fields] == ["key", "value"] and all(is_one_value(f["type"]) for f in fields)


def program(kind: Any) -> list[int]:
    """The instructions for the kernel to walk a value of a type from `kernel_type`."""
    if isinstance(kind, str):
        return [_OPERATIONS[kind]]
    if isinstance(kind, list):
        inner = program(next(part for part in kind if part != "null"))
        return [avro.OPTIONAL, kind.index("null"), len(inner), *inner]
    if kind["type"] == "fixed":
        return [avro.FIXED, kind["size"]]
    if kind["type"] == "array":
        items = program(kind["items"])
        return [avro.MAP if _is_pair(kind["items"]) else avro.ARRAY, len(items), *items]
    return [word for field in kind["fields"] for word in program(field["type"])]
