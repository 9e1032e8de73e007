"""The commits of a table for a stream: the newest one, the next ones, and the changes between two of them.

A position is the snapshot id or version up to which a stream has read; None is the empty table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from puffin_fast._io.storage_options import filesystem_of
from puffin_fast._process.cached import cached_property
from puffin_fast.delta.changelog.versions import Versions, earliest
from puffin_fast.delta.log.segment import LogListing
from puffin_fast.delta.log.snapshot import load_snapshot
from puffin_fast.delta.log.storage import storage_of
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg.catalogs.configured_catalog import configured_catalog
from puffin_fast.iceberg.catalogs.working_table import complete_metadata, load_table
from puffin_fast.iceberg.changelog.history import History
from puffin_fast.iceberg.plan.files import resolve
from puffin_fast.rows.changes.ends import Ends
from puffin_fast.spark.sources.stream_options import EARLIEST, LATEST, StreamOptions
from puffin_fast.tables.changes import changes as changes_of
from puffin_fast.tables.delta import DeltaTable

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.rows.changes.change_scan import Changes

_AGAIN = "begin a query with a new checkpoint"

LOST = f"Changes are lost: {_AGAIN} and the option start='table'"
"""What to do after an expired snapshot, or a commit that the log no longer has."""


class Commits(Protocol):
    """A table that a stream follows. Its metadata is that of the last `refresh`.

    Attributes:
        key: the name of a position in offsets.
    """

    key: str

    def refresh(self) -> None:
        """Reads the newest metadata of the table: one request."""

    @property
    def table_id(self) -> str:
        """The id of the table; another table with the same name has another id."""

    @property
    def head(self) -> int | None:
        """The newest position."""

    def beginning(self) -> int | None:
        """The position at which a new query begins, if it does not begin with all rows."""

    def after(self, position: int | None, most: int | None) -> int | None:
        """Returns the position after some more commits.

        Args:
            position: the position before.
            most: the largest number of commits; None for all.

        Raises:
            NotFoundError: the position is no longer in the history; the message says what to do.
        """

    def changes(self, before: int | None, after: int | None, **options: Any) -> Changes:
        """Returns the changes between two positions; `options` are arguments of `changes`."""


def open_commits(options: StreamOptions) -> Commits:
    """Opens the table of a stream.

    Raises:
        NotFoundError: the table does not exist.
    """
    return IcebergCommits(options) if options.path is None else DeltaCommits(options)


class IcebergCommits:
    """The snapshots of a branch of an Iceberg table."""

    key = "snapshot_id"

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        try:
            self._catalog = configured_catalog(options.catalog, options.properties)
        except Exception as error:  # the client of a catalog may raise any exception
            raise InvalidInputError(f"catalog {options.catalog or 'default'}: {error}") from error
        self._table: Table = self._load()

    def _load(self) -> Table:
        assert self._options.table is not None
        return load_table(self._catalog, self._options.table)

    def refresh(self) -> None:
        self._table = self._load()

    @property
    def table_id(self) -> str:
        return str(self._table.metadata.table_uuid)

    @property
    def head(self) -> int | None:
        found = resolve(self._table, branch=self._options.branch)[0]
        return None if found is None else found.snapshot_id

    def _history(self, **ends: Any) -> History:
        return History.of(
            self._table, complete_metadata(self._table), Ends(**ends, branch=self._options.branch)
        )

    def beginning(self) -> int | None:
        if self._options.start == LATEST:
            return self.head
        history = self._history(**self._options.beginning)
        found = history.earliest() if self._options.start == EARLIEST else history.before
        return None if found is None else found.snapshot_id

    def after(self, position: int | None, most: int | None) -> int | None:
        if position == self.head:
            return position
        try:
            found = self._history(from_snapshot_id_exclusive=position).snapshots()
        except NotFoundError as error:
            raise NotFoundError(
                f"table {self._options.name}: snapshot {position}, up to which the stream has read: {error}. {LOST}, "
                "and expire snapshots after the stream reads them"
            ) from error
        except InvalidInputError as error:
            raise NotFoundError(
                f"table {self._options.name}: snapshot {position}, up to which the stream has read, is not an ancestor "
                f"of snapshot {self.head}: the branch was rolled back or replaced. pf.spark.changes(spark, table, "
                f"{position}, {self.head}, net=True) are the changes between the two; apply them, then {_AGAIN} and "
                f"the option from_snapshot_id_exclusive={self.head}"
            ) from error
        return found[: most or len(found)][-1].snapshot_id

    def changes(self, before: int | None, after: int | None, **options: Any) -> Changes:
        own: dict[str, Any] = {} if after is not None else {"branch": self._options.branch}
        return changes_of(self._table, before, after, **own, **options)


class DeltaCommits:
    """The versions of a Delta table."""

    key = "version"

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        filesystem = filesystem_of(options.path, None, options.properties)
        self._storage = storage_of(options.path, filesystem)
        self._listing = LogListing.of(self._storage)

    def refresh(self) -> None:
        listing = LogListing.of(self._storage)
        if listing != self._listing:
            self._listing = listing
            vars(self).pop("table_id", None)

    @cached_property
    def table_id(self) -> str:
        return str(load_snapshot(self._storage, self._listing.segment()).metadata.get("id"))

    @property
    def head(self) -> int | None:
        return self._listing.latest

    def beginning(self) -> int | None:
        if self._options.start == LATEST:
            return self.head
        if self._options.start == EARLIEST:
            return earliest(self._listing) - 1 if earliest(self._listing) else None
        ends = Ends(**self._options.beginning)  # type: ignore[arg-type]
        found = Versions.of(self._storage, self._listing, ends, self._listing.latest)
        return found.first - 1 if found.first else None

    def after(self, position: int | None, most: int | None) -> int | None:
        read, latest = -1 if position is None else position, self._listing.latest
        if read > latest:
            raise NotFoundError(
                f"table {self._options.name}: no version {read}, up to which the stream has read; the newest is "
                f"{latest}. The log was replaced: {_AGAIN}"
            )
        if read < latest and read + 1 not in self._listing.commits:
            raise NotFoundError(
                f"table {self._options.name}: the log no longer has the commit of version {read + 1}, which the "
                f"stream has not read. {LOST}, and keep the log longer (delta.logRetentionDuration)"
            )
        end = latest if most is None else min(read + most, latest)
        return None if end < 0 else end

    def changes(self, before: int | None, after: int | None, **options: Any) -> Changes:
        return changes_of(DeltaTable(self._storage), before, after, **options)
