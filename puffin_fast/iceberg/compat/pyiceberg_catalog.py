"""The only file that touches PyIceberg's private parts: what to look at when a new PyIceberg comes out.

PyIceberg 0.12 reads format version 3 and refuses to write it, in three places. Manifests and manifest lists
are written by `manifests.py` without PyIceberg. Table metadata is written here: catalogs that keep their
metadata themselves (SQL, Hive, Glue, DynamoDB, BigQuery) write it through `_write_metadata`, which is
shadowed on that one catalog object while a commit runs. A REST catalog's server writes its own metadata.

More than 400 lines, so that private parts are looked for in one file only.
"""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import struct
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyiceberg
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    TooManyRequestsError,
    UnauthorizedError,
)
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, _StrictMetricsEvaluator
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    PyArrowFileIO,
    UnsupportedPyArrowTypeException,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV1, TableMetadataV3
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
    SetStatisticsUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    ValidatableTableRequirement,
    _apply_table_update,
    _TableMetadataUpdateContext,
    update_table_metadata,
)
from pyiceberg.typedef import IcebergBaseModel

from puffin_fast._runtime.fork import lock_across_fork
from puffin_fast.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptDataError,
    InvalidInputError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "KNOWN_VERSIONS",
    "BusyError",
    "LostRaceError",
    "check_version",
    "commit_snapshot",
    "commit_statistics",
    "commit_upgrade",
    "filesystem",
    "is_locked",
    "metrics_evaluator",
    "next_timestamp_ms",
    "proves_all_rows",
    "roll_back_returned_connections",
    "schema_of_arrow",
    "v3_metadata",
]

KNOWN_VERSIONS = ("0.12",)
"""Minor versions of PyIceberg whose private parts this file was written against."""

METADATA_WRITERS = ("_write_metadata", "_write_metadata_no_exist_check")
METADATA_KEYS = frozenset(
    str(field.alias or name)
    for version in (TableMetadataV1, TableMetadataV3)
    for name, field in version.model_fields.items()
)
SNAPSHOT_KEYS = frozenset(str(field.alias or name) for name, field in Snapshot.model_fields.items())


class LostRaceError(ConflictError):
    """The catalog refused a commit because the table moved on; nothing of it happened: it can be retried."""


class BusyError(LostRaceError):
    """The catalog's database was locked by others until its timeout; for certain nothing happened."""

    @classmethod
    def of(cls, name: str, error: BaseException) -> BusyError:
        """The error for a table from the one that SQLAlchemy raised."""
        return cls(f"{name}: the catalog's database is busy: {getattr(error, 'orig', error)}")


def check_version(version: str = pyiceberg.__version__) -> None:
    """Refuses a PyIceberg whose private parts are unknown here.

    Raises:
        UnsupportedError: the installed version is not one of `KNOWN_VERSIONS`.
    """
    if ".".join(version.split(".")[:2]) not in KNOWN_VERSIONS:
        raise UnsupportedError(
            f"pyiceberg {version}: expected {' or '.join(f'{known}.x' for known in KNOWN_VERSIONS)}; "
            "writing tables uses parts of it that change between versions"
        )


# --- table metadata of format version 3 ---------------------------------------------------------------------


class _WritableV3(TableMetadataV3):
    """Format version 3 metadata that serialises: PyIceberg's own class raises NotImplementedError there."""

    def model_dump_json(  # type: ignore[override]
        self, exclude_none: bool = True, exclude: Any | None = None, by_alias: bool = True, **kwargs: Any
    ) -> str:
        return IcebergBaseModel.model_dump_json(
            self, exclude_none=exclude_none, exclude=exclude, by_alias=by_alias, **kwargs
        )


def _writable(metadata: TableMetadata) -> TableMetadata:
    """The same metadata, able to be written; next-row-id is required in version 3 and starts at 0."""
    if not isinstance(metadata, TableMetadataV3):
        return metadata
    fields = dict(metadata)
    if metadata.next_row_id is None:
        if metadata.snapshots:
            raise CorruptDataError(
                "table metadata",
                path=metadata.location,
                expected="next-row-id in format version 3",
                found="none",
            )
        fields["next_row_id"] = 0
    return _WritableV3.model_construct(**fields)


def _monotone(metadata: TableMetadata) -> TableMetadata:
    """The same metadata, updated no earlier than its last snapshot, wherever the clock went meanwhile."""
    last = max((entry.timestamp_ms for entry in metadata.snapshot_log), default=0)
    if metadata.last_updated_ms >= last:
        return metadata
    return metadata.model_copy(update={"last_updated_ms": last})


def _refuse_what_would_be_lost(metadata: TableMetadata, io: FileIO) -> None:
    """PyIceberg drops the metadata keys that it does not know (as encryption-keys): do not write then."""
    if not metadata.metadata_log:
        return
    previous = metadata.metadata_log[-1].metadata_file
    with io.new_input(previous).open() as stream:
        raw = stream.read()
    document = json.loads(gzip.decompress(raw) if previous.endswith(".gz.metadata.json") else raw)
    unknown = {key for key, value in document.items() if value not in (None, [], {})} - METADATA_KEYS
    for snapshot in document.get("snapshots") or []:
        unknown |= {f"snapshots.{key}" for key in snapshot.keys() - SNAPSHOT_KEYS}
    if unknown:
        raise UnsupportedError(
            f"{previous}: {', '.join(sorted(unknown))}: PyIceberg {pyiceberg.__version__} knows it not: "
            "a commit through it would drop it"
        )


_hook_lock = lock_across_fork()
_hooks: list[tuple[int, MetastoreCatalog]] = []
"""Thread and catalog of each `v3_metadata` context that is open."""


def _metadata_writer(
    write: Callable[..., None],
    begun: Callable[[str], object] = lambda path: None,
    written: Callable[[], object] = lambda: None,
) -> Callable[..., None]:
    """What writes version 3 metadata in place of a catalog's own function.

    Args:
        write: the catalog's.
        begun: is called with the path before the file is written.
        written: is called when the file is complete.
    """

    def write_v3(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        _refuse_what_would_be_lost(metadata, io)
        begun(metadata_path)
        write(_writable(_monotone(metadata)), io, metadata_path)
        written()

    return write_v3


def _writers_of(catalog: Catalog) -> list[str]:
    return [name for name in METADATA_WRITERS if hasattr(catalog, name)]


def _is_hooked(catalog: Catalog) -> bool:
    return any(hooked is catalog for _, hooked in _hooks)


def _unhook(catalog: MetastoreCatalog) -> None:
    if not _is_hooked(catalog):
        for name in METADATA_WRITERS:
            catalog.__dict__.pop(name, None)


def _after_fork() -> None:
    """A child process has one thread: the contexts of the others ended with them."""
    gone = [catalog for thread, catalog in _hooks if thread != threading.get_ident()]
    _hooks[:] = [hook for hook in _hooks if hook[0] == threading.get_ident()]
    for catalog in gone:
        _unhook(catalog)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def v3_metadata(catalog: Catalog) -> Iterator[None]:
    """Within this context the catalog object writes table metadata of format version 3.

    Only this one object changes, and it is as before afterwards. `create_table`, `append`, `delete` and the
    other functions here use it themselves; it is needed around PyIceberg's own changes of a version 3 table
    in a catalog that writes its metadata itself:

        with v3_metadata(catalog), table.update_schema() as update:
            update.add_column("note", StringType())

    Args:
        catalog: any PyIceberg catalog; on one whose server writes the metadata (REST) this does nothing.

    Raises:
        UnsupportedError: a PyIceberg that this file does not know.
    """
    check_version()
    roll_back_returned_connections(catalog)
    if not isinstance(catalog, MetastoreCatalog):
        yield
        return
    hook = (threading.get_ident(), catalog)
    with _hook_lock:
        if not _is_hooked(catalog):
            for name in _writers_of(catalog):
                catalog.__dict__[name] = _metadata_writer(getattr(catalog, name))
        _hooks.append(hook)
    try:
        yield
    finally:
        with _hook_lock:
            _hooks.remove(hook)
            _unhook(catalog)


def _committing(catalog: Catalog, begun: Callable[[str], object], written: Callable[[], object]) -> Catalog:
    """The catalog as an object that writes version 3 metadata, and tells when.

    It is of a subclass and shares the state of the other, which stays as it is: other threads use it.
    """
    if not isinstance(catalog, MetastoreCatalog):
        return catalog
    kind = type(catalog)

    def writer(name: str) -> property:
        write = _metadata_writer(getattr(catalog, name), begun, written)
        return property(lambda _: write)

    body: dict[str, Any] = {name: writer(name) for name in _writers_of(catalog)}
    derived: Catalog = object.__new__(
        types.new_class(kind.__name__, (kind,), exec_body=lambda namespace: namespace.update(body))
    )
    derived.__dict__ = catalog.__dict__
    return derived


# --- commits ------------------------------------------------------------------------------------------------


def roll_back_returned_connections(catalog: Catalog) -> None:
    """Makes sure that no pooled connection of a SQL catalog is inside of a transaction.

    SQLite keeps a transaction open when COMMIT fails because others read or because the disk is full, and
    SQLAlchemy returns such a connection to its pool without a rollback. The connection would then hold its
    lock, and the next reader on it would see what was never committed.
    """
    engine = getattr(catalog, "engine", None)
    if engine is None:
        return
    from sqlalchemy import event

    for name in ("reset", "checkout"):
        if not event.contains(engine, name, _roll_back):
            event.listen(engine, name, _roll_back)


def _roll_back(connection: Any, *_: object) -> None:
    if getattr(connection, "in_transaction", False):
        connection.rollback()


def is_locked(error: BaseException) -> bool:
    """Whether SQLite gave up waiting for others; what it was asked to do did not happen then."""
    code: int | None = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class _AssertLastSequenceNumber(ValidatableTableRequirement):
    """No snapshot came in on any branch: two snapshots must never share a sequence number or row ids.

    Checked by catalogs that run in this process; a REST server checks it on its own.
    """

    type: str = "assert-last-sequence-number"
    last_sequence_number: int

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        found = None if base_metadata is None else getattr(base_metadata, "last_sequence_number", 0)
        if found != self.last_sequence_number:
            raise CommitFailedException(
                f"last sequence number has changed: expected {self.last_sequence_number}, found {found}"
            )


class _AssertStatistics(ValidatableTableRequirement):
    """A snapshot is there, and its statistics file is still the one that was read (none when the path is null).

    Checked by catalogs that run in this process; a REST server has no such requirement.
    """

    type: str = "assert-statistics"
    snapshot_id: int
    statistics_path: str | None

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        if base_metadata is None or base_metadata.snapshot_by_id(self.snapshot_id) is None:
            raise CommitFailedException(f"snapshot {self.snapshot_id} is no longer there")
        found = _statistics_path(base_metadata, self.snapshot_id)
        if found != self.statistics_path:
            raise CommitFailedException(
                f"statistics of snapshot {self.snapshot_id} have changed: expected {self.statistics_path}, "
                f"found {found}"
            )


def _statistics_path(metadata: TableMetadata, snapshot_id: int) -> str | None:
    paths = (known.statistics_path for known in metadata.statistics if known.snapshot_id == snapshot_id)
    return next(paths, None)


class _AssertFormatVersion(ValidatableTableRequirement):
    """The table was not upgraded: what is committed was planned and written for this version.

    Checked by catalogs that run in this process.
    """

    type: str = "assert-format-version"
    format_version: int

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        found = None if base_metadata is None else base_metadata.format_version
        if found != self.format_version:
            raise CommitFailedException(
                f"format version has changed: expected {self.format_version}, found {found}"
            )


class _UpgradeToV3(UpgradeFormatVersionUpdate):
    """An upgrade that PyIceberg applies: its own stops at version 2."""


@_apply_table_update.register(_UpgradeToV3)
def _(
    update: _UpgradeToV3, base_metadata: TableMetadata, context: _TableMetadataUpdateContext
) -> TableMetadata:
    if isinstance(base_metadata, TableMetadataV1):
        base_metadata = base_metadata.to_v2()
    fields = base_metadata.model_dump()
    fields["format-version"] = update.format_version
    fields["last-updated-ms"] = next_timestamp_ms(base_metadata)
    fields.setdefault("next-row-id", 0)
    context.add_update(update)
    return TableMetadataUtil.parse_obj(fields)


def next_timestamp_ms(metadata: TableMetadata) -> int:
    """The time of a table's next snapshot or update: now, but later than everything that its metadata records.

    Java refuses metadata whose snapshot log goes back, and PyIceberg replaces a time that is equal to the last
    one by its own clock's.
    """
    times = [entry.timestamp_ms for entry in metadata.snapshot_log]
    times += [entry.timestamp_ms for entry in metadata.metadata_log]
    times += [snapshot.timestamp_ms for snapshot in metadata.snapshots]
    last = max(times, default=0)
    return max(int(time.time() * 1000), max(last, metadata.last_updated_ms) + 1)


def _ignore(*_: object) -> None:
    pass


def commit_snapshot(
    table: Table,
    snapshot: Snapshot,
    *,
    branch: str = MAIN_BRANCH,
    begun: Callable[[str], object] = _ignore,
    sent: Callable[[], object] = _ignore,
) -> None:
    """Makes a snapshot whose files are written the head of a branch, if its parent is still that head.

    Args:
        table: moved to the new metadata on success; `table.metadata` names the base of the commit.
        snapshot: the snapshot; its parent is what the branch must point at (none: the branch must not exist).
        branch: created if it does not exist.
        begun: is called with the path of the new metadata, where the catalog writes it in this process,
            before it is written.
        sent: is called right before the catalog may make the commit happen.

    Raises:
        LostRaceError: another commit came first; nothing happened.
        PuffinFastError: the catalog refused for another reason; nothing happened.
        CommitUnknownError: the catalog did not say, and neither does the table.
    """
    base, head = table.metadata, snapshot.parent_snapshot_id
    reference = base.refs.get(branch)
    updates: tuple[TableUpdate, ...] = (
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate(  # type: ignore[call-arg]
            ref_name=branch,
            type=SnapshotRefType.BRANCH,
            snapshot_id=snapshot.snapshot_id,
            max_ref_age_ms=reference.max_ref_age_ms if reference else None,
            max_snapshot_age_ms=reference.max_snapshot_age_ms if reference else None,
            min_snapshots_to_keep=reference.min_snapshots_to_keep if reference else None,
        ),
    )

    def landed(metadata: TableMetadata) -> bool | None:
        if metadata.snapshot_by_id(snapshot.snapshot_id) is not None:
            return True
        now = metadata.refs.get(branch)
        moved = (now.snapshot_id if now else None) != head or metadata.format_version != base.format_version
        return False if moved else None

    requirement = AssertRefSnapshotId(ref=branch, snapshot_id=head)  # type: ignore[call-arg]
    _commit(table, updates, (requirement,), landed, begun, sent)


def commit_upgrade(
    table: Table, *, begun: Callable[[str], object] = _ignore, sent: Callable[[], object] = _ignore
) -> None:
    """Raises a table's format version to 3; the next commit assigns row ids to the rows that are there.

    Args:
        table: moved to the new metadata.
        begun, sent: as for `commit_snapshot`.

    Raises:
        LostRaceError, PuffinFastError, CommitUnknownError: as `commit_snapshot`.
    """
    metastore = isinstance(table.catalog, MetastoreCatalog)
    update = (_UpgradeToV3 if metastore else UpgradeFormatVersionUpdate).model_validate({"format-version": 3})

    def landed(metadata: TableMetadata) -> bool | None:
        return True if metadata.format_version >= 3 else None

    _commit(table, (update,), (), landed, begun, sent)


def commit_statistics(
    table: Table,
    statistics: StatisticsFile,
    *,
    begun: Callable[[str], object] = _ignore,
    sent: Callable[[], object] = _ignore,
) -> None:
    """Makes a written statistics file the one of its snapshot, in place of an earlier one.

    Args:
        table: moved to the new metadata.
        statistics: the file.
        begun, sent: as for `commit_snapshot`.

    Raises:
        LostRaceError, PuffinFastError, CommitUnknownError: as `commit_snapshot`.
    """
    path, snapshot_id = statistics.statistics_path, statistics.snapshot_id
    requirements: tuple[Any, ...] = ()
    if isinstance(table.catalog, MetastoreCatalog):
        earlier = _statistics_path(table.metadata, snapshot_id)
        requirements = (_AssertStatistics(snapshot_id=snapshot_id, statistics_path=earlier),)

    def landed(metadata: TableMetadata) -> bool | None:
        return True if any(known.statistics_path == path for known in metadata.statistics) else None

    update = SetStatisticsUpdate(statistics=statistics)  # type: ignore[call-arg]
    _commit(table, (update,), requirements, landed, begun, sent)


def _commit(
    table: Table,
    updates: tuple[TableUpdate, ...],
    requirements: tuple[TableRequirement, ...],
    landed: Callable[[TableMetadata], bool | None],
    begun: Callable[[str], object],
    sent: Callable[[], object],
) -> None:
    catalog, base, name = table.catalog, table.metadata, ".".join(table.name())
    required: list[Any] = [AssertTableUUID(uuid=base.table_uuid), *requirements]
    is_metastore = isinstance(catalog, MetastoreCatalog)
    is_sent = not (is_metastore and _writers_of(catalog))
    if is_metastore:
        required += [
            _AssertLastSequenceNumber(last_sequence_number=getattr(base, "last_sequence_number", 0)),
            _AssertFormatVersion(format_version=base.format_version),
        ]
        try:
            update_table_metadata(base, updates)
        except ValueError as error:
            raise InvalidInputError(f"{name}: {error}") from error

    def send() -> None:
        nonlocal is_sent
        is_sent = True
        sent()

    if is_sent:
        sent()
    roll_back_returned_connections(catalog)
    try:
        response = _committing(catalog, begun, send).commit_table(table, tuple(required), updates)
    except (CommitFailedException, TooManyRequestsError) as error:
        raise LostRaceError(f"{name}: {error}") from error
    except PuffinFastError:
        raise
    except NoSuchTableError as error:
        raise NotFoundError(f"{name}: {error}") from error
    except NotImplementedError as error:
        raise UnsupportedError(f"{type(catalog).__name__} takes no commits: {error}") from error
    except Exception as error:
        if is_locked(error):
            raise BusyError.of(name, error) from error
        if not is_sent:
            raise PuffinFastError(f"{name}: the metadata could not be written: {error}") from error
        _settle(table, error, landed)
    else:
        table.metadata, table.metadata_location = response.metadata, response.metadata_location


def _settle(table: Table, error: Exception, landed: Callable[[TableMetadata], bool | None]) -> None:
    """After an error that does not say what became of the commit: ask the table, and believe only a proof."""
    name = ".".join(table.name())
    try:
        fresh = table.catalog.load_table(table.name())
        verdict = landed(fresh.metadata)
    except Exception:
        raise _unknown(name, error) from error
    if verdict:
        table.metadata, table.metadata_location = fresh.metadata, fresh.metadata_location
        return
    if verdict is False:
        raise LostRaceError(f"{name}: {error}") from error
    refused = (BadRequestError, UnauthorizedError, ForbiddenError, AuthorizationExpiredError)
    reason = getattr(error, "orig", error)
    if isinstance(reason, (*refused, sqlite3.Error)):
        raise PuffinFastError(f"{name}: the catalog refused the commit: {reason}") from error
    raise _unknown(name, error) from error


def _unknown(name: str, error: Exception) -> CommitUnknownError:
    return CommitUnknownError(
        f"{name}: the catalog did not say whether the commit happened ({type(error).__name__}: {error}); "
        "nothing was removed. Load the table again: if its newest snapshot is not yours, repeat the job"
    )


# --- data files ---------------------------------------------------------------------------------------------


def schema_of_arrow(schema: pa.Schema) -> Schema:
    """An Arrow schema as an Iceberg schema of version 3, without ids (all -1).

    Raises:
        InvalidInputError: a type that Iceberg does not have.
    """
    try:
        return Catalog._convert_schema_if_needed(schema, 3)
    except (UnsupportedPyArrowTypeException, TypeError, ValueError) as error:
        raise InvalidInputError(f"schema: {error}") from error


def filesystem(io: FileIO, location: str) -> tuple[Any, str]:
    """The pyarrow or fsspec filesystem that a table's FileIO uses for a location, and the path on it."""
    check_version()
    if isinstance(io, PyArrowFileIO):
        scheme, netloc, path = PyArrowFileIO.parse_location(location, io.properties)
        return io.fs_by_scheme(scheme, netloc), path
    if hasattr(io, "_get_fs_from_uri"):
        from urllib.parse import urlparse

        return io._get_fs_from_uri(urlparse(location), location), location
    raise UnsupportedError(f"{type(io).__name__}: expected PyIceberg's PyArrowFileIO or FsspecFileIO")


# --- planning -----------------------------------------------------------------------------------------------


def proves_all_rows(
    schema: Schema, expression: BooleanExpression, case_sensitive: bool
) -> Callable[[Any], bool]:
    """Whether all rows of a file (anything with a `DataFile`'s metrics) match for sure, by its metrics.

    Args:
        schema: the table's.
        expression: unbound; what proves it is `RowFilter.strict_expression`.
        case_sensitive: whether its names must agree in case.
    """
    return _by_metrics(_StrictMetricsEvaluator(schema, expression, case_sensitive).eval, unsure=False)


def metrics_evaluator(
    schema: Schema, expression: BooleanExpression, case_sensitive: bool
) -> Callable[[Any], bool]:
    """Whether a file (anything with a `DataFile`'s metrics) may hold rows that match, by its metrics."""
    return _by_metrics(_InclusiveMetricsEvaluator(schema, expression, case_sensitive).eval, unsure=True)


def _by_metrics(evaluate: Callable[[Any], Any], *, unsure: bool) -> Callable[[Any], bool]:
    def evaluated(entry: Any) -> bool:
        try:
            return bool(evaluate(entry))
        except (ValueError, struct.error):  # bounds that are no values of the column's type
            return unsure

    return evaluated
