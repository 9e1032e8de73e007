"""Limits on the memory that files, keys and rows may take.

docs/limits.md lists them. A `Limit` is adjusted by a property of the FileIO, which takes the properties of the
catalog: ``load_catalog(name, **{"puffin-fast.limit.inflation-ratio": "1000"})``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from puffin_fast.errors import InvalidInputError, LimitExceededError

__all__ = [
    "INFLATION_RATIO",
    "KEY_BYTES",
    "KEY_INDEX_BYTES",
    "LEAST_INFLATED",
    "MAX_METADATA_BYTES",
    "MAX_SCHEMA_DEPTH",
    "MAX_SCHEMA_TYPES",
    "Limit",
    "POSITION_DELETE_BYTES",
    "check_metadata_size",
    "most_inflated",
]


class Limit(NamedTuple):
    """A limit that a property of the FileIO adjusts.

    Attributes:
        key: name of the property.
        default: the limit if the property is not set.
    """

    key: str
    default: int

    def of(self, io: Any = None) -> int:
        """Returns the limit for the files of a FileIO.

        Args:
            io: a FileIO. For other filesystems and None, the default holds.

        Raises:
            InvalidInputError: the property is not a positive integer.
        """
        properties = getattr(io, "properties", None)
        value = properties.get(self.key) if isinstance(properties, dict) else None
        if value is None:
            return self.default
        if not str(value).isdecimal() or int(value) < 1:
            raise InvalidInputError(f"{self.key}: expected a positive integer, found {value!r}")
        return int(value)


MAX_METADATA_BYTES = Limit("puffin-fast.limit.metadata-bytes", 1 << 30)
"""Stored bytes of one metadata file, such as a manifest or a manifest list."""

INFLATION_RATIO = Limit("puffin-fast.limit.inflation-ratio", 100)
"""Decompressed bytes for each stored byte of a compressed block, blob or metadata file."""

POSITION_DELETE_BYTES = Limit("puffin-fast.limit.position-delete-bytes", 1 << 28)
"""Bytes of all bitmaps that are made of the positions of one position-delete file."""

KEY_BYTES = Limit("puffin-fast.limit.key-bytes", 4 << 30)
"""Memory of given keys, and of given rows with their keys; more are divided among temporary files."""

KEY_INDEX_BYTES = Limit("puffin-fast.limit.key-index-bytes", 1 << 30)
"""Memory of one segment of a key index while it is built or written; more rows are divided among several."""

LEAST_INFLATED = 1 << 20
"""Decompressed bytes that are always allowed, for compressed input of any length."""

MAX_SCHEMA_DEPTH = 32
"""Levels of nested types in an Avro schema; manifests need 8."""

MAX_SCHEMA_TYPES = 10_000
"""Types that names stand for in an Avro schema; types that are written out are not counted."""


def check_metadata_size(path: str | None, n_bytes: int, io: Any = None) -> None:
    """Checks the size of a metadata file before it is read.

    Raises:
        LimitExceededError: it has more than `MAX_METADATA_BYTES` bytes.
    """
    limit = MAX_METADATA_BYTES.of(io)
    if n_bytes > limit:
        raise LimitExceededError(f"{path}: {n_bytes} bytes, the limit for metadata is {limit}")


def most_inflated(n_bytes: int, io: Any = None) -> int:
    """Returns the number of bytes to which `n_bytes` compressed bytes may be decompressed."""
    return max(LEAST_INFLATED, INFLATION_RATIO.of(io) * n_bytes)
