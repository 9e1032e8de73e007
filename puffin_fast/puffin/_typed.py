"""Footers as msgspec reads them, where it is installed (extra `fast`): parsed and checked in one typed pass.

It says yes or nothing: what it is not sure of, `metadata` reads again, which refuses with a message or accepts.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Any

try:
    import msgspec
except ImportError:
    msgspec = None  # type: ignore[assignment]

__all__ = ["read"]

Columns = list[tuple[Any, ...]]

BLOB_KEYS = 6
"""Keys that every blob has; one of them, the type, is a string as well."""

if msgspec is not None:
    _Id = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
    _Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    _Range = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

    class _Blob(msgspec.Struct, gc=False, rename="kebab"):
        type: str
        fields: tuple[_Id, ...]
        snapshot_id: _Long
        sequence_number: _Long
        offset: _Range
        length: _Range
        compression_codec: str | None = None
        properties: dict[str, str] = msgspec.field(default_factory=dict)

    class _File(msgspec.Struct):
        blobs: list[_Blob]
        properties: dict[str, str] = msgspec.field(default_factory=dict)

    _decode = msgspec.json.Decoder(_File).decode
    _row = attrgetter(*_Blob.__struct_fields__)


def read(text: str) -> tuple[Columns, dict[str, str]] | None:
    """The fields of all blobs, a column each in their order, and the file's properties; None for "not sure".

    Sure is a text without escapes, of which every string is in the result: no key was unknown or came twice.
    """
    if msgspec is None or "\\" in text:
        return None
    try:
        file = _decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    columns = list(zip(*map(_row, file.blobs), strict=True))
    n_strings = 1
    if file.properties:
        n_strings += 1 + 2 * len(file.properties)
    if columns:
        codecs, properties = columns[-2:]
        n_blobs = len(file.blobs)
        n_strings += (BLOB_KEYS + 1) * n_blobs + 2 * (n_blobs - codecs.count(None))
        n_strings += n_blobs - properties.count({}) + 2 * sum(map(len, properties))
    if 2 * n_strings != text.count('"'):
        return None
    return columns, file.properties
