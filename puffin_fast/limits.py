"""Limits on what a file may make a reader do; each follows from the bytes that were read.

docs/limits.md lists them. A limit of a table's files is a property of the FileIO, which takes those of the
catalog: ``load_catalog(name, **{"puffin-fast.limit.inflation-ratio": "1000"})``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from puffin_fast.errors import InvalidInputError

__all__ = [
    "INFLATION_RATIO",
    "LEAST_INFLATED",
    "MAX_METADATA_BYTES",
    "MAX_SCHEMA_DEPTH",
    "MAX_SCHEMA_TYPES",
    "Limit",
    "POSITION_DELETE_BYTES",
    "most_inflated",
]


class Limit(NamedTuple):
    """A limit that a property of a FileIO adjusts.

    Attributes:
        key: the property.
        default: the limit where the property is not set.
    """

    key: str
    default: int

    def of(self, io: Any = None) -> int:
        """The limit for the files of a FileIO or another filesystem.

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
"""Bytes of one manifest or manifest list, as stored."""

INFLATION_RATIO = Limit("puffin-fast.limit.inflation-ratio", 100)
"""Bytes that one stored byte of a manifest, a footer or a compressed blob may become."""

POSITION_DELETE_BYTES = Limit("puffin-fast.limit.position-delete-bytes", 1 << 28)
"""Bytes of the bitmaps that the positions of one position-delete file become."""

LEAST_INFLATED = 1 << 20
"""Bytes that a compressed input of any length may become."""

MAX_SCHEMA_DEPTH = 32
"""Levels of types within types of an Avro schema; manifests need 8."""


MAX_SCHEMA_TYPES = 10_000
"""Types of an Avro schema, each named one counted where it is used; a manifest of 1,000 partition fields has 4,000."""


def most_inflated(n_bytes: int, io: Any = None) -> int:
    """The most bytes that `n_bytes` compressed bytes may become."""
    return max(LEAST_INFLATED, INFLATION_RATIO.of(io) * n_bytes)
