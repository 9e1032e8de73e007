"""The range whose changes are read, as a caller gives it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from puffin_fast._api.arguments import check_integer
from puffin_fast.errors import InvalidInputError


@dataclass(frozen=True)
class Ends:
    """The ends of a range of snapshots or versions. Each is named by at most one argument.

    Attributes:
        from_snapshot_id_exclusive, to_snapshot_id_inclusive: snapshot ids, or versions.
        from_timestamp_exclusive, to_timestamp_inclusive: the newest snapshot of the history that is not newer.
        branch, tag: the history that ends with the head of a branch, or with the snapshot of a tag.
    """

    from_snapshot_id_exclusive: int | None = None
    to_snapshot_id_inclusive: int | None = None
    from_timestamp_exclusive: int | str | datetime | None = None
    to_timestamp_inclusive: int | str | datetime | None = None
    branch: str | None = None
    tag: str | None = None

    def __post_init__(self) -> None:
        for end, of in (("from", "exclusive"), ("to", "inclusive")):
            number, time = f"{end}_snapshot_id_{of}", f"{end}_timestamp_{of}"
            check_integer(number, getattr(self, number))
            if getattr(self, number) is not None and getattr(self, time) is not None:
                raise InvalidInputError(f"{number} and {time}: expected at most one of them, found both")
