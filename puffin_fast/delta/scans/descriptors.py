"""Converts a deletion vector's descriptor in the log to location, offset and length.

    u   a folder, and a UUID in Z85 as the last 20 characters: <folder>/deletion_vector_<uuid>.bin
    p   a path or URI, absolute
    i   an inline vector, in Z85

A record begins at `offset` and has `sizeInBytes` + 8 bytes. If a `u` or `p` has no offset, the record begins at the
first byte of the file or at the byte after the file's version: the length field of the record shows which.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from puffin_fast.delta.log.storage import INLINE, TableStorage
from puffin_fast.dv import delta as codec
from puffin_fast.errors import CorruptDataError, UnsupportedError

_UUID_CHARACTERS = 20


class VectorLocation(NamedTuple):
    """The location of the record of a deletion vector.

    Attributes:
        path: the file; `inline:…` for an inline vector.
        offset, length: the offset and length of the record.
        cardinality: the number of deleted rows in the descriptor.
    """

    path: str
    offset: int
    length: int
    cardinality: int


def file_name(name: uuid.UUID) -> str:
    """Returns the name of a file of vectors."""
    return f"deletion_vector_{name}.bin"


def descriptor_of(name: uuid.UUID, offset: int, record: bytes, cardinality: int) -> dict[str, Any]:
    """Returns the descriptor of a record in a file at the table's root."""
    return {
        "storageType": "u",
        "pathOrInlineDv": codec.z85_encode(name.bytes),
        "offset": offset,
        "sizeInBytes": len(record) - codec.FRAME_BYTES,
        "cardinality": cardinality,
    }


def locate(descriptor: Mapping[str, Any], storage: TableStorage, name: str) -> VectorLocation:
    """Returns the location of a deletion vector.

    Args:
        name: the data file, which is part of the location of an inline vector.

    Raises:
        CorruptDataError: the descriptor lacks a field, or its name is not a UUID.
        UnsupportedError: an unknown storage type.
    """
    where = f"deletion vector of {name}"
    kind, text = descriptor.get("storageType"), descriptor.get("pathOrInlineDv")
    size, cardinality = descriptor.get("sizeInBytes"), descriptor.get("cardinality")
    if not isinstance(text, str) or size is None or size < 0 or cardinality is None or cardinality < 0:
        raise CorruptDataError(
            "descriptor",
            path=where,
            expected="pathOrInlineDv, sizeInBytes and cardinality",
            found=dict(descriptor),
        )
    if kind == "i":
        bitmap = codec.decode_inline(text, size, cardinality=cardinality, path=where)
        record = codec.encode(bitmap)
        return VectorLocation(storage.add_inline(name, record), 0, len(record), cardinality)
    path = path_of(descriptor, storage, where)
    offset = descriptor.get("offset")
    if offset is None:
        offset = _find(storage, path, size)
    elif offset < 0:
        raise CorruptDataError("offset of a descriptor", path=where, expected="at least 0", found=offset)
    return VectorLocation(path, offset, size + codec.FRAME_BYTES, cardinality)


def path_of(descriptor: Mapping[str, Any], storage: TableStorage, where: str = "deletion vector") -> str:
    """Returns the path of the file of a deletion vector; `inline:` for an inline vector.

    Args:
        where: the name of the vector in errors.

    Raises:
        CorruptDataError: the descriptor lacks a field, or its name is not a UUID.
        UnsupportedError: an unknown storage type.
    """
    kind, text = descriptor["storageType"], descriptor["pathOrInlineDv"]
    if kind is None or text is None:
        raise CorruptDataError(
            "descriptor", path=where, expected="storageType and pathOrInlineDv", found=dict(descriptor)
        )
    if kind == "i":
        return INLINE
    if kind == "u":
        return f"{storage.root}/{_relative(text, where)}"
    if kind == "p":
        return storage.location(text)
    raise UnsupportedError(f"{where}: storage type: expected u, p or i, found {kind!r}")


def _relative(text: str, where: str) -> str:
    try:
        return _file_of(text)
    except CorruptDataError as error:
        raise CorruptDataError(
            error.what, path=where, offset=error.offset, expected=error.expected, found=error.found
        ) from None


@lru_cache(maxsize=1 << 14)
def _file_of(text: str) -> str:
    """Returns the path for a name in Z85. The result is cached, because many vectors share a file."""
    folder, encoded = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
    raw = codec.z85_decode(encoded)
    if len(raw) != 16:
        raise CorruptDataError("UUID of a vector's file", expected="16 bytes", found=len(raw))
    name = file_name(uuid.UUID(bytes=raw))
    return f"{folder}/{name}" if folder else name


def _find(storage: TableStorage, path: str, size: int) -> int:
    head = storage.read_location(path, 0, 5)
    for offset in (0, 1):
        if struct.unpack_from(">I", head, offset)[0] == size:
            return offset
    raise CorruptDataError(
        "record of a descriptor without offset",
        path=path,
        offset=0,
        expected=f"a length of {size}",
        found=head.hex(),
    )
