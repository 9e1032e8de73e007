"""Where a deletion vector lies: a descriptor of the log as location, offset and length.

    u   the last 20 characters are a UUID in Z85, what stands before is a folder: <folder>/deletion_vector_<uuid>.bin
    p   a path or URI, absolute
    i   the vector itself, in Z85

A record begins at `offset` and is `sizeInBytes` + 8 bytes long. Where a `u` or `p` has no offset, writers meant the
first byte of the file or the first after its version: the record's own length decides.
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

__all__ = ["VectorLocation", "descriptor_of", "file_name", "locate", "path_of"]

_UUID_CHARACTERS = 20


class VectorLocation(NamedTuple):
    """Where the record of a vector lies.

    Attributes:
        path: the file; `inline:…` for a vector that stands in the log.
        offset, length: of the record.
        cardinality: deleted rows, as the descriptor says.
    """

    path: str
    offset: int
    length: int
    cardinality: int


def file_name(name: uuid.UUID) -> str:
    """The name of a file of vectors."""
    return f"deletion_vector_{name}.bin"


def descriptor_of(name: uuid.UUID, offset: int, record: bytes, cardinality: int) -> dict[str, Any]:
    """The descriptor of a record in a file at the table's root."""
    return {
        "storageType": "u",
        "pathOrInlineDv": codec.z85_encode(name.bytes),
        "offset": offset,
        "sizeInBytes": len(record) - codec.FRAME_BYTES,
        "cardinality": cardinality,
    }


def locate(descriptor: Mapping[str, Any], storage: TableStorage, name: str) -> VectorLocation:
    """Where a vector lies.

    Args:
        descriptor: of the log.
        storage: the table's.
        name: the data file, which tells inline vectors apart.

    Raises:
        CorruptDataError: a descriptor without what it needs, or whose name is no UUID.
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
    return VectorLocation(path, offset, size + codec.FRAME_BYTES, cardinality)


def path_of(descriptor: Mapping[str, Any], storage: TableStorage, where: str = "deletion vector") -> str:
    """The file in which a vector lies; `inline:` for one that stands in the log.

    Args:
        descriptor: of the log.
        storage: the table's.
        where: what errors call it.

    Raises:
        CorruptDataError: a name that is no UUID.
        UnsupportedError: an unknown storage type.
    """
    kind, text = descriptor["storageType"], descriptor["pathOrInlineDv"]
    if kind == "i":
        return INLINE
    if kind == "u":
        return f"{storage.root}/{_relative(text, where)}"
    if kind == "p":
        return storage.location(text)
    raise UnsupportedError(f"{where}: storage type {kind!r}; u, p and i are known")


def _relative(text: str, where: str) -> str:
    try:
        return _file_of(text)
    except CorruptDataError as error:
        raise CorruptDataError(
            error.what, path=where, offset=error.offset, expected=error.expected, found=error.found
        ) from None


@lru_cache(maxsize=1 << 14)
def _file_of(text: str) -> str:
    """The path that a name in Z85 means; many vectors share a file."""
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
