"""Converts a writer's Avro schema to a plain schema: canonical names by field id, no logical types, no defaults.

A record within a record is flattened, because Avro encodes a record as the sequence of its fields. Schemas that no
manifest needs, and that would be expensive to read, are refused: a type that contains itself, arrays of items that
take no bytes, more than `limits.MAX_SCHEMA_DEPTH` levels, and more than `limits.MAX_SCHEMA_TYPES` types in place of
references to names: few names can stand for very many types. Types that are written out take bytes of the header each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import fastavro

from puffin_fast._process.cached import cached_property
from puffin_fast.limits import MAX_SCHEMA_DEPTH, MAX_SCHEMA_TYPES

_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))


class PartitionColumn(NamedTuple):
    """One field of the partition struct: its field id, its canonical name, and the scale if it is a decimal."""

    field_id: int | None
    name: str
    scale: int | None


_VALUE_TYPES: dict[str, str] = {"int": "long", "fixed": "bytes", "enum": "string", "float": "double"}


def value_type(kind: Any) -> str:
    """Names the values of a plain type, without null: for example ``long``, ``list<long>`` or ``map<long, bytes>``."""
    if isinstance(kind, list):
        return " or ".join(sorted({value_type(part) for part in kind if part != "null"}))
    if isinstance(kind, str):
        return _VALUE_TYPES.get(kind, kind)
    if kind["type"] == "record":
        types = {field["name"]: value_type(field["type"]) for field in kind["fields"]}
        if types.keys() == {"key", "value"}:
            return f"{types['key']}, {types['value']}"
        return "record"
    if kind["type"] == "array":
        items = value_type(kind["items"])
        return f"map<{items}>" if ", " in items else f"list<{items}>"
    return value_type(kind["type"])


class PlainSchema:
    """The converted schema of a file's records. It is not changed after it was made.

    Args:
        node: the writer's schema.
        names: the canonical name of each field id.

    Attributes:
        record: the plain schema of the records; each of its fields takes at least one byte.
        parsed: the same, parsed by fastavro.
        partition: the fields of the partition struct.
        constants: the fields that take no bytes (null, a fixed of size 0), and their only value.
        branches: added fields for the branch of a union that holds a flattened record, and the branch number that
            each record must have.

    Raises:
        Exception: the schema is not a record, is invalid, or is refused (see the module).
    """

    def __init__(self, node: Any, names: Mapping[int, str]) -> None:
        self._names = names
        self._known = frozenset(names.values())
        self._named: dict[
            str, tuple[dict[str, Any], int] | None
        ] = {}  # plain type and number of types; None while it is being defined
        self._scales: dict[str, int | None] = {}  # of the decimals among them
        self._empty = {"null"}
        self._n_named = self._n_unknown = self._n_types = self._n_expanded = self._depth = 0
        self.partition: list[PartitionColumn] = []
        self.constants: dict[str, bytes | None] = {}
        self.branches: dict[str, int] = {}
        plain = self._of(node)
        if not isinstance(plain, dict) or plain["type"] != "record":
            raise ValueError(
                f"expected a schema of records, found {plain if isinstance(plain, str) else type(node)}"
            )
        for field in plain["fields"]:
            if self._may_be_empty(field["type"]):
                self.constants[field["name"]] = None if field["type"] == "null" else b""
        fields = [field for field in plain["fields"] if field["name"] not in self.constants]
        self.record: dict[str, Any] = {**plain, "fields": fields}
        self.parsed = fastavro.parse_schema(self.record)

    @cached_property
    def array(self) -> Any:
        """The parsed schema of an array of records, with which all records of a block are decoded at once."""
        return fastavro.parse_schema({"type": "array", "items": self.record})

    @cached_property
    def value_types(self) -> dict[str, str]:
        """The `value_type` of each field of the records."""
        return {field["name"]: value_type(field["type"]) for field in self.record["fields"]}

    def _of(self, node: Any, inside: str | None = None) -> Any:
        """Converts one schema node; `inside` is the canonical name of the field that contains it."""
        self._n_types += 1
        self._depth += 1
        if self._depth > MAX_SCHEMA_DEPTH:
            raise ValueError(f"expected a schema of at most {MAX_SCHEMA_DEPTH} levels")
        plain = self._plain(node, inside)
        self._depth -= 1
        return plain

    def _plain(self, node: Any, inside: str | None) -> Any:
        if isinstance(node, list):
            return [self._of(part, inside) for part in node]
        if isinstance(node, str):
            return node if node in _PRIMITIVES else self._reference(node)
        kind = node["type"]
        if isinstance(kind, dict | list):
            return self._of(kind, inside)
        if kind == "record":
            name, before = self._begin(node), self._n_types
            fields = self._fields(node["fields"], inside)
            if all(self._may_be_empty(field["type"]) for field in fields):
                self._empty.add(name)
            return self._define(
                node, {"type": kind, "name": name, "fields": fields}, self._n_types - before + 1
            )
        if kind == "fixed":
            if not isinstance(node["size"], int) or node["size"] < 0:
                raise ValueError(f"a fixed of size {node['size']!r}")
            name = self._begin(node)
            if node["size"] == 0:
                self._empty.add(name)
            return self._define(node, {"type": kind, "name": name, "size": node["size"]}, 1)
        if kind == "enum":
            plain = {"type": kind, "name": self._begin(node), "symbols": node["symbols"]}
            return self._define(node, plain, 1)
        if kind == "array":
            items = self._of(node["items"])
            if self._may_be_empty(items):
                raise ValueError("an array of items that take no bytes")  # its count would have no bound
            return {"type": kind, "items": items}
        if kind == "map":
            return {"type": kind, "values": self._of(node["values"])}
        return self._of(kind, inside)

    def _reference(self, name: str) -> Any:
        """The canonical name of a type that was defined before; for a fixed, the same type with a name of its own."""
        if name not in self._named:
            raise ValueError(f"type {name!r} is not defined")
        found = self._named[name]
        if found is None:
            raise ValueError(f"type {name!r} contains itself")
        self._n_types += found[1]
        self._n_expanded += found[1] - 1  # the name itself stands in the schema
        if self._n_expanded > MAX_SCHEMA_TYPES:
            raise ValueError(f"expected at most {MAX_SCHEMA_TYPES} types in place of names in the schema")
        plain = found[0]
        if plain["type"] != "fixed" or plain["name"] in self._empty:
            return plain["name"]
        self._n_named += 1
        return {**plain, "name": f"t{self._n_named}"}

    def _begin(self, node: Mapping[str, Any]) -> str:
        """Starts the definition of a named type; returns its canonical name."""
        name = node["name"]
        if name in self._named and self._named[name] is None:
            raise ValueError(f"type {name!r} contains itself")
        self._named[name] = None
        self._n_named += 1
        return f"t{self._n_named}"

    def _define(self, node: Mapping[str, Any], plain: dict[str, Any], n_types: int) -> dict[str, Any]:
        self._named[node["name"]] = plain, n_types
        if plain["type"] == "fixed":
            self._scales[node["name"]] = _decimal_scale(node)
        return plain

    def _scale(self, node: Any) -> int | None:
        """The scale of a decimal, whose type may be named; None for other types."""
        named = (
            self._scales.get(part)
            for part in (node if isinstance(node, list) else [node])
            if isinstance(part, str)
        )
        return next((scale for scale in named if scale is not None), _decimal_scale(node))

    def _may_be_empty(self, kind: Any) -> bool:
        """Whether a value of a plain type may take no bytes."""
        return (
            not isinstance(kind, list)
            and (kind.get("name") if isinstance(kind, dict) else kind) in self._empty
        )

    def _fields(self, fields: Iterable[Mapping[str, Any]], inside: str | None) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = []
        for position, field in enumerate(fields):
            field_id = field.get("field-id")
            if inside == "partition":
                name = f"p{position}"
                self.partition.append(PartitionColumn(field_id, name, self._scale(field["type"])))
            elif isinstance(field_id, int) and field_id in self._names:
                name = self._names[field_id]
            elif field["name"] in ("key", "value") or (field_id is None and field["name"] in self._known):
                name = field["name"]
            else:
                name, self._n_unknown = f"u{self._n_unknown}", self._n_unknown + 1
            kind = self._of(field["type"], name)
            if name == "data_file" and isinstance(kind, list):
                kind, branch = _only_record(kind)
                self.branches[f"b{position}"] = branch
                result.append({"name": f"b{position}", "type": "long"})
            if isinstance(kind, dict) and kind["type"] == "record":
                result += kind["fields"]
            else:
                result.append({"name": name, "type": kind})
        return result


def _only_record(union: list[Any]) -> tuple[Any, int]:
    """The only record of a union, and its branch number, which is encoded as a long before the record."""
    found = [(kind, n) for n, kind in enumerate(union) if isinstance(kind, dict) and kind["type"] == "record"]
    if len(found) != 1:
        raise ValueError(f"expected a union of 1 record, found {len(found)}")
    return found[0]


def _decimal_scale(node: Any) -> int | None:
    for part in node if isinstance(node, list) else [node]:
        if isinstance(part, dict):
            if part.get("logicalType") == "decimal":
                return int(part.get("scale", 0))
            if isinstance(part.get("type"), dict | list):
                return _decimal_scale(part["type"])
    return None
