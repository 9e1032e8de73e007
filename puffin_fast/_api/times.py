"""Converts points in time that callers give."""

from __future__ import annotations

from datetime import datetime

from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError


def milliseconds_of(time: int | str | datetime, name: str = "as_of") -> int:
    """Converts a point in time to milliseconds since 1970.

    Args:
        time: the point in time.
        name: the name of the argument, for messages.

    Raises:
        InvalidInputError: the text is not ISO 8601, or the time has no time zone.
    """
    given = time
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError as error:
            raise InvalidInputError(
                f"{name}={time!r}: expected ISO 8601, such as 2024-01-15T00:00:00+00:00"
            ) from error
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise InvalidInputError(f"{name}={given}: expected a time zone, as in {time.isoformat()}+00:00")
        time = int(time.timestamp() * 1000)
    if not isinstance(time, int) or isinstance(time, bool):
        raise InvalidInputError(
            f"{name}={shown_argument(time)}: expected milliseconds since 1970, or a datetime or text with a time zone"
        )
    return time
