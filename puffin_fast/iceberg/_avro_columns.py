"""Columns of an Avro file as lists: of many records by Polars where it is installed, else by fastavro.

Polars decodes manifests ten times as fast, and passes over at no cost what nobody asked for. It gets blocks
that fastavro has inflated, in a schema of types about which both agree. What it does not take goes to fastavro,
which words every error.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars

    from puffin_fast.iceberg._avro import AvroFile

__all__ = ["read_columns"]

LARGE = 1 << 15
"""Bytes of an Avro file from which on Polars is imported, which takes a while; once it is there, others use it."""


def read_columns(file: AvroFile, names: Collection[str]) -> dict[str, Any]:
    """The values of some fields, each as a list with an item per record.

    An array of records of ``key`` and ``value``, which is how Iceberg has maps in Avro, becomes a dict.

    Args:
        file: an Avro file.
        names: the fields; those that the file does not have are left out.

    Raises:
        CorruptDataError: the bytes are no such records.
        UnsupportedError: a codec that is not there.
    """
    wanted = {field["name"]: field["type"] for field in file.schema["fields"] if field["name"] in names}
    found = _by_polars(file, wanted)
    if found is None:
        records = list(file.records(wanted))
        found = {name: [record[name] for record in records] for name in wanted}
        for name, kind in wanted.items():
            if _is_map(kind):
                found[name] = [_dict(pairs) for pairs in found[name]]
    return found


def _dict(pairs: list[dict[str, Any]] | None) -> dict[Any, Any] | None:
    return None if pairs is None else {pair["key"]: pair["value"] for pair in pairs}


def _is_map(kind: Any) -> bool:
    for part in kind if isinstance(kind, list) else [kind]:
        if isinstance(part, dict) and part["type"] == "array" and isinstance(part["items"], dict):
            return {field["name"] for field in part["items"].get("fields", ())} == {"key", "value"}
    return False


# Polars ----------------------------------------------------------------------------------------------------

_SAME = {
    "int": "long",  # the same bytes, and no value is cut
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "string": "string",
}


@cache
def _polars() -> ModuleType | None:
    try:
        import polars
    except ImportError:  # as good, but slower
        return None
    return polars


def _by_polars(file: AvroFile, names: Collection[str]) -> dict[str, list[Any]] | None:
    """None: fastavro should."""
    fields = [
        {"name": field["name"], "type": _agreed(field["type"])}
        for field in file.schema["fields"]
        if field["type"] != "null"
    ]
    columns = [field["name"] for field in fields if field["name"] in names]
    if not columns or any(field["type"] is None for field in fields):
        return None
    if file.n_bytes < LARGE and "polars" not in sys.modules:
        return None
    if (polars := _polars()) is None:
        return None
    try:
        inflated, blocks = file.inflated({**file.schema, "fields": fields})
        # each field takes a byte at least; memory is reserved for as many records as a block claims
        if not all(0 <= n_records * len(fields) <= n_bytes for n_records, n_bytes in blocks):
            return None
        frame = polars.read_avro(inflated, columns=columns)
        result = {column.name: _values(column) for column in frame.get_columns()}
    except Exception:
        return None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # Rust's, about bytes that are too few
            raise
        return None
    return {name: result.get(name) or [None] * frame.height for name in names}


def _agreed(kind: Any) -> Any:
    """A type of the same bytes and values for both; None where there is none."""
    if isinstance(kind, str):
        return _SAME.get(kind)
    if isinstance(kind, list):
        parts = [part if part == "null" else _agreed(part) for part in kind]
        return parts if len(kind) == 2 and kind.count("null") == 1 and None not in parts else None
    if kind["type"] == "fixed":
        return kind if kind["size"] else None
    if kind["type"] == "array":
        items = _agreed(kind["items"])
        return items and {"type": "array", "items": items}
    if kind["type"] == "record":
        fields = [{"name": field["name"], "type": _agreed(field["type"])} for field in kind["fields"]]
        return {**kind, "fields": fields} if all(field["type"] for field in fields) else None
    return None


def _values(column: polars.Series) -> list[Any]:
    """Python's values of a column."""
    if column.null_count() == len(column):
        return [None] * len(column)
    if not hasattr(column.dtype, "inner"):
        return column.to_list()
    lengths = column.list.len()
    sizes = lengths.to_list()
    items = column.filter(lengths > 0).explode()
    if {field.name for field in getattr(items.dtype, "fields", ())} != {"key", "value"}:
        return list(_cut(items.to_list(), sizes))
    keys, values = (items.struct.field(name).to_list() for name in ("key", "value"))
    pairs = zip(keys, values, strict=True)
    return [None if some is None else dict(some) for some in _cut(pairs, sizes)]


def _cut(items: Iterable[Any], sizes: list[int | None]) -> Iterator[list[Any] | None]:
    """Items in lists of some sizes."""
    source = iter(items)
    return (None if size is None else list(islice(source, size)) for size in sizes)
