"""Parses UUIDs written as text, with or without hyphens."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_TEXT = r"^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$"


class UuidText(pa.ExtensionType):  # type: ignore[misc]
    """The type in which a file stores UUIDs as text."""

    def __init__(self) -> None:
        super().__init__(pa.large_string(), "puffin_fast.uuid_text")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> UuidText:
        return cls()


def is_uuid_text(array: Any) -> Any:
    """A mask that is true where a text is a UUID, and null where it is null."""
    return pc.match_substring_regex(array, _TEXT)


def uuids_of_text(array: Any, wanted: pa.DataType) -> Any:
    """Returns UUIDs as values of 16 bytes.

    Args:
        array: text; nulls stay null.
        wanted: fixed_size_binary(16).

    Raises:
        pa.ArrowInvalid: a text is not a UUID.
    """
    fits = pc.fill_null(is_uuid_text(array), True)
    if not pc.all(fits, min_count=0).as_py():
        wrong = array.filter(pc.invert(fits))[0]
        raise pa.ArrowInvalid(f"{wrong.as_py()!r} is not a UUID")
    digits = pc.replace_substring(array, "-", "")
    raw = bytes.fromhex("".join(digits.drop_null().to_pylist()))
    values = pa.Array.from_buffers(wanted, len(raw) // 16, [None, pa.py_buffer(raw)])
    if not array.null_count:
        return values
    places = pc.subtract(pc.cumulative_sum(pc.cast(array.is_valid(), pa.int64())), 1)
    return values.take(pc.if_else(array.is_valid(), places, pa.scalar(None, pa.int64())))
