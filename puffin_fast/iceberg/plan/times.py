"""Converts points in time that callers give."""

from __future__ import annotations

from datetime import datetime

from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError

__all__ = ["milliseconds_of"]


def milliseconds_of(as_of: int | str | datetime) -> int:
    """Converts a point in time to milliseconds since 1970.

    Raises:
        InvalidInputError: the text is not ISO 8601, or the time has no time zone.
    """
    if isinstance(as_of, str):
        try:
            as_of = datetime.fromisoformat(as_of)
        except ValueError as error:
            raise InvalidInputError(
                f"as_of={as_of!r}: expected ISO 8601, such as 2024-01-15T00:00:00+00:00"
            ) from error
    if isinstance(as_of, datetime):
        if as_of.tzinfo is None:
            raise InvalidInputError(f"as_of={as_of}: expected a time zone, as in {as_of.isoformat()}+00:00")
        as_of = int(as_of.timestamp() * 1000)
    if not isinstance(as_of, int) or isinstance(as_of, bool):
        raise InvalidInputError(
            f"as_of={shown_argument(as_of)}: expected milliseconds since 1970, or a datetime or text with a time zone"
        )
    return as_of
