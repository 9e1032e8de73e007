"""Bounds of geometry and geography columns: which of a manifest entry are wrong, and the entry without them.

    bound = x, y            16 bytes     little-endian doubles (table specification, Appendix G)
          | x, y, z         24 bytes
          | x, y, z or NaN, m            32 bytes

Releases of this package before these types were annotated in data files, and PyIceberg, take the least and the greatest
values in the order of their bytes instead, cut to a length: the start of a geometry in WKB. Readers that take it for a
corner of a box find no rows.

    WKB   = order of bytes (0 or 1), type (4 bytes): 1 to 17, plus 1000 (z), 2000 (m) or 3000 (z and m), coordinates ...
                                                     or the same with the flags of EWKB in the highest bits
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from puffin_fast._pyiceberg.v3_types import unordered_fields

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from puffin_fast.iceberg.manifest.entries import ManifestEntry

_POINT_BYTES = (16, 24, 32)
_KINDS = range(1, 18)
_DIMENSIONS = range(4)
_FLAGS = 0xE0000000
"""EWKB's flags: there is a z, an m, an id of a coordinate reference system."""


def fields_without_order(metadata: TableMetadata) -> frozenset[int]:
    """Returns the ids of the geometry and geography columns of all schemas of a table."""
    return frozenset(id for schema in metadata.schemas for id in unordered_fields(schema))


def wrong_bounds(entry: ManifestEntry, fields: Collection[int]) -> dict[int, bytes]:
    """Returns a wrong bound of each column that has one, by field id.

    Args:
        entry: with its metrics.
        fields: the ids of the geometry and geography columns.
    """
    maps = entry.lower_bounds or {}, entry.upper_bounds or {}
    found = ((id, bounds[id]) for id in sorted(fields) for bounds in maps if id in bounds)
    return {id: bound for id, bound in found if not is_point(bound)}


def without_wrong_bounds(entry: ManifestEntry, fields: Collection[int]) -> ManifestEntry:
    """Returns an entry without the bounds of columns that have a wrong one; the entry itself if there are none."""
    wrong = wrong_bounds(entry, fields)
    if not wrong:
        return entry
    lower, upper = (
        {id: bound for id, bound in (bounds or {}).items() if id not in wrong}
        for bounds in (entry.lower_bounds, entry.upper_bounds)
    )
    return replace(entry, lower_bounds=lower, upper_bounds=upper)


def is_point(bound: bytes) -> bool:
    """Returns whether a bound may be a point: it has the bytes of one, and does not start as WKB does."""
    if len(bound) not in _POINT_BYTES:
        return False
    kind = int.from_bytes(bound[1:5], "little" if bound[0] == 1 else "big") & ~_FLAGS
    return bound[0] > 1 or kind % 1000 not in _KINDS or kind // 1000 not in _DIMENSIONS
