"""The results of `orphan_files` and `remove_orphan_files`, and the checks of their arguments."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._api.arguments import check_flags
from puffin_fast._concurrency.threads import check_threads
from puffin_fast._display.html import HtmlFields
from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError

IN_FLIGHT = timedelta(days=3)
"""Files modified within this time may belong to a commit in progress."""

SCHEMA = pa.schema([("path", pa.string()), ("n_bytes", pa.int64()), ("modified", pa.timestamp("us", "UTC"))])


@dataclass(frozen=True)
class RemoveOrphanFilesResult(HtmlFields):
    """The result of a removal of orphan files.

    Attributes:
        files: the files that were removed, or would be in a dry run: as `orphan_files` returns them.
        n_bytes: their size in bytes.
        not_removed: a sentence for each orphan file that could not be removed.
        seconds: wall time.
        dry_run: True if no file was removed.
    """

    files: pa.Table
    n_bytes: int = 0
    not_removed: tuple[str, ...] = ()
    seconds: float = 0.0
    dry_run: bool = True

    @classmethod
    def of(
        cls,
        listed: pa.Table,
        started: float,
        removed: Collection[str] | None = None,
        not_removed: Sequence[str] = (),
    ) -> RemoveOrphanFilesResult:
        """Makes a result.

        Args:
            listed: the orphan files.
            started: the time of `time.perf_counter` at which the removal began.
            removed: the paths of those that were removed; None in a dry run.
            not_removed: as the attribute.
        """
        files = listed
        if removed is not None:
            files = listed.filter(pc.is_in(listed["path"], pa.array(list(removed), pa.string())))
        return cls(
            files=files,
            n_bytes=pc.sum(files["n_bytes"]).as_py() or 0,
            not_removed=tuple(not_removed),
            seconds=time.perf_counter() - started,
            dry_run=removed is None,
        )


def check_removal(older_than: timedelta, threads: int | None, *, dry_run: bool) -> None:
    """Checks the arguments of a removal.

    Raises:
        InvalidInputError: an argument is of another type, or `older_than` is negative, so that files of commits in
            progress would be removed.
    """
    check_flags(dry_run=dry_run)
    check_threads(threads)
    if isinstance(older_than, timedelta) and older_than < timedelta():
        raise InvalidInputError(
            "older_than: expected a timedelta that is not negative, such as timedelta(days=7), found "
            f"{shown_argument(older_than)}"
        )


def modified_before(older_than: timedelta) -> datetime:
    """Returns the time before which orphan files were modified.

    Raises:
        InvalidInputError: `older_than` is not a timedelta.
    """
    if not isinstance(older_than, timedelta):
        raise InvalidInputError(f"older_than: expected a timedelta, found {shown_argument(older_than)}")
    now = datetime.now(UTC)
    return now - min(older_than, now - datetime.min.replace(tzinfo=UTC))


def orphan_table(files: Iterable[tuple[str, int, datetime]]) -> pa.Table:
    """Returns the result of `orphan_files`, sorted by path."""
    columns = list(zip(*sorted(files), strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)
