"""The table object of one job, which no other thread uses, and the files that the job has begun.

Threads may share a `Table`, and PyIceberg replaces its metadata in place whenever one of them refreshes or commits. A
job therefore plans and commits with an object of its own, and updates the shared one afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError as InvalidMetadata
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    NoSuchIdentifierError,
    NoSuchNamespaceError,
    NoSuchTableError,
    ValidationError,
)
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.locations import LocationProvider

from puffin_fast._api.arguments import check_table_name
from puffin_fast._process.fork import lock_across_fork
from puffin_fast._process.interrupt import interruptible, is_from_outside
from puffin_fast._process.outcome import note_outcome, nothing_committed
from puffin_fast._pyiceberg.v3_types import read_v3_types
from puffin_fast.errors import (
    CommitUnknownError,
    CorruptDataError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)
from puffin_fast.iceberg.catalogs.catalog_commit import BusyError, LostRaceError
from puffin_fast.iceberg.catalogs.near_names import near_names
from puffin_fast.iceberg.catalogs.path_table import table_in_folder, why_read_only
from puffin_fast.iceberg.catalogs.relative_paths import (
    folder_of_catalog,
    is_relative_path,
    said_of_relative_path,
    stored_metadata_file,
)
from puffin_fast.iceberg.compat.complete_metadata import ancestors, by_id, read_complete
from puffin_fast.iceberg.compat.sql_catalog import is_locked, roll_back_returned_connections
from puffin_fast.iceberg.compat.table_metadata import check_catalog, writes_metadata
from puffin_fast.iceberg.compat.table_properties import choice_property, integer_property

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionKey
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_publishing = lock_across_fork()


class WorkingTable(Table):
    """A copy of a table object for one job.

    Args:
        shared: the caller's table, which `publish` updates.

    Attributes:
        created: all locations that the job has chosen or begun to write. They are removed if the job fails.
        doubtful: locations of a lost attempt. They are not removed before the table was loaded again: a catalog whose
            client repeats requests may refuse a commit that it has made.
    """

    def __init__(self, shared: Table) -> None:
        super().__init__(
            shared.name(), shared.metadata, shared.metadata_location, shared.io, shared.catalog, shared.config
        )
        self._shared = shared
        self.created: list[str] = []
        self.doubtful: list[str] = []
        self._complete: TableMetadata | None = None
        self._n_removed = 0
        self._sent: Literal["nothing", "unanswered", "committed"] = "nothing"

    @classmethod
    def of(cls, table: Table) -> WorkingTable:
        """Returns the table itself if a job made it, else a copy for a job."""
        return table if isinstance(table, cls) else cls(table)

    @property
    def shown(self) -> str:
        """The name in messages."""
        return ".".join(self.name())

    def load(self) -> None:
        """Loads the table's newest metadata; raises as `refresh`."""
        refresh(self)

    def complete(self) -> None:
        """Completes the metadata, which may have the snapshots of branches and tags only; raises as `read_complete`.

        If other commits have removed the metadata file, the newest metadata is loaded.
        """
        if self.metadata is self._complete:
            return
        try:
            found = read_complete(self)
        except UnsupportedError as error:
            if not isinstance(error.__cause__, NotFoundError):
                raise
            self.load()
            found = read_complete(self)
        self.metadata = self._complete = found

    def publish(self) -> None:
        """Gives the caller's table this metadata, unless another thread gave it newer metadata."""
        shared = self._shared
        with _publishing:
            if _age(self.metadata) >= _age(shared.metadata):
                shared.metadata, shared.metadata_location = self.metadata, self.metadata_location
                shared.io, shared.config = self.io, self.config

    def location_provider(self) -> LocationProvider:
        """Returns the table's location provider. Every location that it makes is added to `created`."""
        return _RecordedLocations(super().location_provider(), self.created)

    @contextmanager
    def handing_over(self) -> Iterator[Callable[[], None]]:
        """Yields a function to call right before the catalog may make a commit.

        From then until the catalog has answered, no file may be removed, even if the job is interrupted. After the
        commit, metadata files that the metadata log dropped are removed if the table's properties say so.

        Raises:
            InvalidInputError: a property ``write.metadata.…`` of the table has a value that is not allowed.
        """
        base, files = self.metadata, list[str]()
        removes_old = _removes_old_metadata(self)

        def sent() -> None:
            self._sent = "unanswered"
            files[:], self.created[:] = self.created, []

        try:
            yield sent
        except CommitUnknownError:
            raise
        except BusyError:
            self._sent = "nothing"
            self.created[:0] = files
            raise
        except LostRaceError:
            self.doubtful += files
            raise
        except PuffinFastError:
            self._sent = "nothing"
            self.created[:0] = files
            raise
        self._sent = "committed"
        self.created.clear()
        if removes_old:
            dropped = _logged(base) - _logged(self.metadata) - {self.metadata_location}
            remove_files(self.io, (path for path in dropped if ".metadata.json" in path))

    def take_back(self) -> None:
        """Returns the files of lost attempts to `created`, except those that the metadata loaded since refers to."""
        if not self.doubtful:
            return
        self.complete()
        metadata = self.metadata
        needed = {self.metadata_location, *_logged(metadata)}
        needed.update(file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics))
        self.created[:0] = [path for path in self.doubtful if path not in needed]
        self.doubtful.clear()
        self._sent = "nothing"

    def remove(self, paths: Iterable[str]) -> None:
        """Removes files of the job."""
        paths = set(paths)
        self.created[:] = [path for path in self.created if path not in paths]
        self._n_removed += remove_files(self.io, paths)

    def remove_created(self) -> None:
        """Removes all files that the job has begun."""
        self.remove(self.created)

    def note_outcome(self, error: BaseException) -> None:
        """Adds to an exception from outside whether the commit happened. Call it after `remove_created`."""
        if self._sent == "nothing":
            note_outcome(error, nothing_committed(self._n_removed))
        elif self._sent == "committed":
            note_outcome(
                error, f"the last commit to {self.shown} happened; files of a later one were removed"
            )
        else:
            note_outcome(
                error,
                f"it is unknown whether the commit to {self.shown} happened, because the catalog had not answered; no "
                "file was removed. Load the table again, and repeat the job if its newest snapshot is not of this job",
            )


def complete_metadata(table: Table) -> TableMetadata:
    """Returns a table's metadata with all snapshots, which the catalog may have left out; raises as `read_complete`."""
    working = WorkingTable.of(table)
    working.complete()
    return working.metadata


def with_history(table: Table, snapshot: Snapshot | None) -> TableMetadata:
    """Returns a table's metadata with all ancestors of a snapshot that have not expired; raises as `read_complete`."""
    *_, oldest = (None, *ancestors(snapshot, by_id(table.metadata)))
    is_whole = oldest is None or oldest.parent_snapshot_id is None
    return table.metadata if is_whole else complete_metadata(table)


def refresh(table: Table) -> None:
    """Loads a table's newest metadata.

    Raises:
        BusyError: the catalog's database is locked.
        NotFoundError: the table no longer exists.
        UnsupportedError: PyIceberg cannot read its metadata, or the table can be read only.
        PuffinFastError: the catalog does not answer.
    """
    shown = ".".join(table.name())
    if (why := why_read_only(table)) is not None:
        raise UnsupportedError(f"{shown}: {why}")
    with _loading(table.catalog, shown):
        try:
            table.refresh()
        except FileNotFoundError:
            if not is_relative_path(table.metadata_location):
                raise
            raise NotFoundError(f"{shown}: {said_of_relative_path(table.metadata_location)}") from None


def load_table(catalog: Catalog, name: str | tuple[str, ...]) -> Table:
    """Loads a table, also one that PyIceberg's `Catalog.load_table` refuses because of types of format version 3.

    These are ``variant``, ``geometry`` and ``geography`` in the specification's spelling, and transforms of several
    columns. From then on PyIceberg itself loads and refreshes such tables too, in this process.

    Args:
        catalog: any PyIceberg catalog.
        name: ``"namespace.table"``, or its parts.

    Raises:
        NotFoundError: there is no such table.
        UnsupportedError: it is a view, or PyIceberg cannot read its metadata.
        ConflictError: the catalog's database is locked.
        PuffinFastError: the catalog does not answer.

    Examples:
        >>> pf.iceberg.load_table(catalog, "shop.orders").format_version
        3
    """
    check_catalog(catalog)
    shown = check_table_name(name)
    try:
        with _loading(catalog, shown):
            try:
                return catalog.load_table(name)
            except FileNotFoundError:
                if (found := _relative_table(catalog, shown)) is None:
                    raise
                return found
    except _RelativeNotFound:
        raise
    except NotFoundError:
        if _is_view(catalog, name):
            raise UnsupportedError(f"{shown}: a view; expected a table") from None
        hint = near_names(catalog, shown)
        raise NotFoundError(f"{shown}: no such table in catalog {catalog.name!r}{hint}") from None


class _RelativeNotFound(NotFoundError):
    """The metadata file has a relative path and is not below the folders that are certain."""


def _relative_table(catalog: Catalog, shown: str) -> Table | None:
    """A table whose metadata file was not found, if its path is relative and is right in the folder of the catalog's
    SQLite file; None if the path is not relative.

    Raises:
        NotFoundError: the path is relative, and the file is not there either.
    """
    namespace, _, name = shown.rpartition(".")
    path = stored_metadata_file(catalog, namespace, name)
    if path is None or not is_relative_path(path):
        return None
    folder = folder_of_catalog(catalog)
    if folder is None or not os.path.isfile(os.path.join(folder, path)):
        raise _RelativeNotFound(f"{shown}: {said_of_relative_path(path)}")
    return table_in_folder((*namespace.split("."), name), path, folder)


def _is_view(catalog: Catalog, name: str | tuple[str, ...]) -> bool:
    try:
        return bool(catalog.view_exists(name))
    except Exception as error:  # a catalog without views, or one that does not answer
        if is_from_outside(error):
            raise
        return False


@contextmanager
def _loading(catalog: Catalog, shown: str) -> Iterator[None]:
    """Turns what PyIceberg raises while it loads a table into the errors of `refresh`."""
    read_v3_types()
    roll_back_returned_connections(catalog)
    try:
        with interruptible():
            yield
    except PuffinFastError:
        raise
    except (ValidationError, InvalidMetadata) as error:
        raise UnsupportedError(f"{shown}: PyIceberg cannot read the metadata: {error}") from error
    except (NoSuchTableError, NoSuchNamespaceError, NoSuchIdentifierError) as error:
        raise NotFoundError(f"{shown}: {error}") from error
    except NotImplementedError as error:
        raise UnsupportedError(f"{type(catalog).__name__} does not load tables: {error}") from error
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise CorruptDataError(f"{shown}: values of the metadata: {error!r}") from error
    except Exception as error:
        if is_from_outside(error):
            raise
        if is_locked(error):
            raise BusyError.of(shown, error) from error
        raise PuffinFastError(f"{shown}: the table could not be loaded: {error}") from error


def _age(metadata: TableMetadata) -> tuple[int, int]:
    return getattr(metadata, "last_sequence_number", 0), metadata.last_updated_ms


def _logged(metadata: TableMetadata) -> set[str]:
    """The metadata files in a table's metadata log."""
    return {entry.metadata_file for entry in metadata.metadata_log}


def _removes_old_metadata(table: Table) -> bool:
    """Whether a commit removes metadata files that are dropped from the log. A REST catalog's server does it itself."""
    properties, enabled = table.metadata.properties, TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED
    integer_property(properties, TableProperties.METADATA_PREVIOUS_VERSIONS_MAX, None, positive=False)
    removes = choice_property(properties, enabled, ("false", "true")) == "true"
    return removes and writes_metadata(table.catalog)


def remove_files(io: FileIO, paths: Iterable[str]) -> int:
    """Removes files that no table needs; returns their number. One that cannot be removed becomes an orphan file."""
    n_removed = 0
    for path in paths:
        try:
            io.delete(path)
            n_removed += 1
        except Exception as error:
            if is_from_outside(error):
                raise
    return n_removed


class _RecordedLocations(LocationProvider):
    """A location provider that records each location that it makes."""

    def __init__(self, provider: LocationProvider, created: list[str]) -> None:
        super().__init__(provider.table_location, provider.table_properties)
        self._provider, self._created = provider, created

    def new_data_location(self, data_file_name: str, partition_key: PartitionKey | None = None) -> str:
        path = self._provider.new_data_location(data_file_name, partition_key)
        self._created.append(path)
        return path

    def new_metadata_location(self, metadata_file_name: str) -> str:
        path = self._provider.new_metadata_location(metadata_file_name)
        self._created.append(path)
        return path
