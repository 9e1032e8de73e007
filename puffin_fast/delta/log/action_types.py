"""The types of actions, of the table's schema, and of other JSON in the log.

JSON values stay dictionaries with all their fields, also those that this package does not know. The fields that it
reads are checked once, when they are decoded: errors name the field, what was expected and what was found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from puffin_fast.errors import CorruptDataError, InvalidInputError

_Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Integer = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
_Version = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Counted = Annotated[int, Meta(ge=-1, le=2**62)]
"""A number from which a commit counts on."""
_Name = Annotated[str, Meta(min_length=1)]
_Texts = dict[str, str | None] | None
_Properties = dict[str, str | bool | int | float | None] | None
"""Texts by the protocol; deltalake also takes other values, as their JSON text."""


class _Vector(Struct, rename="camel"):
    storage_type: str | None = None
    path_or_inline_dv: str | None = None
    offset: _Integer | None = None
    size_in_bytes: _Integer | None = None
    cardinality: _Long | None = None


class _File(Struct, rename="camel"):
    path: _Name
    size: _Long | None = None
    partition_values: _Texts = None
    tags: _Texts = None
    deletion_vector: _Vector | None = None
    base_row_id: _Long | None = None
    default_row_commit_version: _Long | None = None


class _Add(_File, rename="camel"):
    modification_time: _Long | None = None
    stats: str | None = None


class _Remove(_File, rename="camel"):
    deletion_timestamp: _Long | None = None


class _Format(Struct):
    provider: str | None = None
    options: _Texts = None


class _MetaData(Struct, rename="camel"):
    schema_string: str
    partition_columns: list[str] | None = None
    configuration: _Properties = None
    format: _Format | None = None


class _Protocol(Struct, rename="camel"):
    min_reader_version: _Version
    min_writer_version: _Version
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class _DomainMetadata(Struct):
    domain: str
    configuration: str | None = None
    removed: bool | None = None


class _Transaction(Struct, rename="camel"):
    app_id: str
    version: _Long


class _Sidecar(Struct):
    path: _Name


class Actions(Struct, rename="camel"):
    """What a line of the log may have."""

    add: _Add | None = None
    remove: _Remove | None = None
    meta_data: _MetaData | None = None
    protocol: _Protocol | None = None
    domain_metadata: _DomainMetadata | None = None
    txn: _Transaction | None = None
    commit_info: dict[str, Any] | None = None
    sidecar: _Sidecar | None = None
    checkpoint_metadata: dict[str, Any] | None = None


class _DataChange(_File, rename="camel"):
    data_change: bool | None = None
    stats: str | None = None


class FileChanges(Actions, rename="camel"):
    """What a line of a commit may have, with the fields that say which rows it changes."""

    add: _DataChange | None = None  # type: ignore[assignment]
    remove: _DataChange | None = None  # type: ignore[assignment]
    cdc: _DataChange | None = None


ACTIONS = Actions.__struct_encode_fields__
"""The names of the actions."""


class CommitTime(Struct, rename="camel"):
    """The part of `commitInfo` that in-commit timestamps define; its other values are free."""

    in_commit_timestamp: _Counted | None = None


class RowIds(Struct, rename="camel"):
    """The configuration of the domain `delta.rowTracking`."""

    row_id_high_water_mark: _Counted


class FileStats(Struct, rename="camel"):
    """The part of a file's statistics that must be right."""

    num_records: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None


_Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class _TypeChange(Struct, rename="camel"):
    from_type: str | None = None
    to_type: str | None = None


class _FieldMetadata(Struct):
    mapping_id: _Id | None = field(default=None, name="delta.columnMapping.id")
    physical_name: _Name | None = field(default=None, name="delta.columnMapping.physicalName")
    nested_ids: dict[str, _Id] | None = field(default=None, name="delta.columnMapping.nested.ids")
    type_changes: list[_TypeChange] | None = field(default=None, name="delta.typeChanges")


class _Field(Struct):
    name: _Name
    type: str | Schema | _Array | _Map | _UserDefined
    nullable: bool = True
    metadata: _FieldMetadata | None = None


class Schema(Struct, tag_field="type", tag="struct"):
    """A struct of the schema, also the outermost one."""

    fields: list[_Field]


class _Array(Struct, tag_field="type", tag="array", rename="camel"):
    element_type: str | Schema | _Array | _Map | _UserDefined


class _Map(Struct, tag_field="type", tag="map", rename="camel"):
    key_type: str | Schema | _Array | _Map | _UserDefined
    value_type: str | Schema | _Array | _Map | _UserDefined


class _UserDefined(Struct, tag_field="type", tag="udt"):
    """A type of Spark's, which is not read."""


T = TypeVar("T")


def check(value: Any, kind: type[T], what: str, path: str) -> T:
    """Decodes a JSON value, whose other fields are ignored.

    Args:
        value: a value of JSON.
        what: the place of the value, for messages.

    Raises:
        CorruptDataError: a value is of another type; the message names its field.
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        said, _, place = str(error).replace("`", "").partition(" - at ")
        expected, _, found = said.removeprefix("Expected ").partition(", got ")
        if missing := said.partition("Object missing required field ")[2]:
            expected, found = f"a field {missing}", "none"
        elif said.startswith("Invalid value "):
            expected, found = "a known type", said.removeprefix("Invalid value ")
        name = place.removeprefix("key in ").removeprefix("$").removeprefix(".")
        raise CorruptDataError(
            f"{name} of {what}" if name else what,
            path=path,
            expected=expected,
            found=found or _value_at(value, name),
        ) from error


def _value_at(value: Any, place: str) -> Any:
    """Returns the value of a field of JSON by its place in an error; None if it is not found."""
    with suppress(LookupError, TypeError):
        for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", place):
            value = value[int(index) if index else name]
        return value
    return None


def number(text: str) -> int | float:
    """Converts a number with a point or an exponent: to an integer if it is one."""
    found = float(text)
    return int(found) if found.is_integer() and abs(found) < 2**53 else found


_DECODER = msgspec.json.Decoder(float_hook=number)


def parse(text: str | bytes, what: str, path: str, kind: Any = dict) -> Any:
    """Parses a JSON object whose texts are Unicode. Numbers like 5.0 are integers.

    Args:
        text: the JSON.
        what, path: as `check`.
        kind: the type that `check` compares with.

    Raises:
        CorruptDataError: it is no JSON, or no such object.
    """
    with suppress(msgspec.MsgspecError, ValueError, RecursionError):
        found = _DECODER.decode(text)
        msgspec.convert(found, kind)
        return found
    try:
        found = json.loads(text, parse_float=number)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(what, path=path, expected="a JSON object", found=error) from error
    check(found, kind, what, path)
    return found


def as_json(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """Encodes a value as Spark and deltalake do: without blanks, and with the characters of texts as they are.

    As escapes, characters of two surrogates would be other characters for Delta's kernel for Rust.

    Args:
        default: as for `json.dumps`.
    """
    return json.dumps(value, default=default, ensure_ascii=False, separators=(",", ":"))


def as_lines(actions: Iterable[Mapping[str, Any]]) -> bytes:
    """Encodes actions as the lines of a commit, in UTF-8.

    Raises:
        InvalidInputError: a text has half of a surrogate pair, which UTF-8 does not have.
    """
    try:
        return "".join(f"{as_json(action)}\n" for action in actions).encode()
    except UnicodeEncodeError as error:
        found = error.object[max(error.start - _SHOWN, 0) : error.end + _SHOWN]
        raise InvalidInputError(f"text for the log: expected Unicode, found {found!r}") from None


_SHOWN = 40
"""Characters of a text around a wrong one, in errors."""
