"""Points in time, as callers give them."""

from __future__ import annotations

from datetime import datetime

from puffin_fast.errors import InvalidInputError

__all__ = ["milliseconds_of"]


def milliseconds_of(as_of: int | str | datetime) -> int:
    """A point in time as milliseconds since 1970.

    Raises:
        InvalidInputError: text that is no time, or a time without a zone.
    """
    if isinstance(as_of, str):
        try:
            as_of = datetime.fromisoformat(as_of)
        except ValueError as error:
            raise InvalidInputError(f"as_of={as_of!r}: expected 2024-01-15T00:00:00+00:00, say") from error
    if isinstance(as_of, datetime):
        if as_of.tzinfo is None:
            raise InvalidInputError(f"as_of={as_of}: a time zone is needed, as in {as_of.isoformat()}+00:00")
        as_of = int(as_of.timestamp() * 1000)
    if not isinstance(as_of, int) or isinstance(as_of, bool):
        raise InvalidInputError(
            f"as_of={as_of!r}: expected milliseconds since 1970, or a datetime or text with a time zone"
        )
    return as_of
