"""The last check of all codecs: the number of positions equals the metadata's."""

from __future__ import annotations

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import CorruptDataError

__all__ = ["counted"]


def counted(
    bitmap: PositionBitmap,
    cardinality: int | None,
    *,
    what: str = "deletion vector",
    path: str | None = None,
    offset: int = 0,
) -> PositionBitmap:
    """The same set.

    Args:
        bitmap: what was read.
        cardinality: number of positions in the metadata; None when it is not known.
        what: the vector's name in the error.
        path, offset: where it lies, for the error.

    Raises:
        CorruptDataError: it holds another number of positions.
    """
    if cardinality is not None and len(bitmap) != cardinality:
        raise CorruptDataError(
            f"cardinality of a {what}", path=path, offset=offset, expected=cardinality, found=len(bitmap)
        )
    return bitmap
