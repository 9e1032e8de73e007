"""The last check of all codecs: the number of positions is that of the metadata."""

from __future__ import annotations

from puffin_fast._positions import as_integer
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import CorruptDataError


def counted(
    bitmap: PositionBitmap,
    cardinality: int | None,
    *,
    what: str = "deletion vector",
    path: str | None = None,
    offset: int = 0,
) -> PositionBitmap:
    """Checks the number of positions of a set, and returns the set.

    Args:
        bitmap: the set.
        cardinality: number of positions in the metadata; None if it is unknown.
        what: the vector's name in the error.
        path, offset: its place, for the error.

    Raises:
        CorruptDataError: the set has another number of positions.
    """
    if cardinality is not None and len(bitmap) != as_integer(cardinality, "cardinality"):
        raise CorruptDataError(
            f"cardinality of a {what}", path=path, offset=offset, expected=cardinality, found=len(bitmap)
        )
    return bitmap
