"""Tables whose metadata has changes that are not committed yet, and are sent with the next snapshot.

A transaction of PyIceberg may change the schema and then append rows. The rows are written for the changed schema, and
the catalog gets both in one request.

No release of PyIceberg ends this: 0.12.0 and its main branch of August 2026 refuse rows in such a transaction for
version 3, as they cannot write its manifests (issue 3620 of iceberg-python).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCreate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)

from puffin_fast.errors import ConflictError
from puffin_fast.iceberg.compat.table_updates import AssertFormatVersion, UpgradeToV3


@dataclass
class StagedUpdates:
    """Changes of a table's metadata, which are sent before and after the snapshot of a job.

    Attributes:
        before: the job sees these: it writes its files for the metadata that they make.
        after: these come after the snapshot.
        requirements: the requirements of the changes, on the metadata of the table without them.
    """

    before: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]
    after: tuple[TableUpdate, ...] = ()
    sent: set[int] = field(default_factory=set)
    """Ids of the snapshots that were sent. A table that has one of them has the changes, too."""


def with_staged_updates(table: Table, staged: StagedUpdates) -> Table:
    """Returns a table of which a job sees the staged changes, and commits them with its snapshot.

    Args:
        table: not changed. It may be one that the commit creates (`StagedTable`).
        staged: the changes.

    Raises:
        ConflictError: the table was changed, or created, by another commit.
    """
    catalog = _catalog_with(table, staged)
    return catalog.load_table(table.name())


def with_updates(metadata: TableMetadata, updates: tuple[TableUpdate, ...]) -> TableMetadata:
    """Returns the metadata with changes, as old as before: `read_complete` compares it with that of the file."""
    changed = update_table_metadata(metadata, updates)
    return changed.model_copy(update={"last_updated_ms": metadata.last_updated_ms})


def sendable(catalog: Catalog, updates: Iterable[TableUpdate]) -> tuple[TableUpdate, ...]:
    """Returns the updates as the catalog takes them: a server has its own upgrade to version 3."""
    if isinstance(catalog, MetastoreCatalog):
        return tuple(updates)
    return tuple(
        UpgradeFormatVersionUpdate.model_validate({"format-version": update.format_version})
        if isinstance(update, UpgradeToV3)
        else update
        for update in updates
    )


def stageable(updates: Iterable[TableUpdate]) -> tuple[TableUpdate, ...]:
    """Returns the updates as PyIceberg can apply them to metadata: its own upgrade stops at version 2."""
    return tuple(
        UpgradeToV3.model_validate({"format-version": 3})
        if isinstance(update, UpgradeFormatVersionUpdate) and update.format_version == 3
        else update
        for update in updates
    )


def _catalog_with(table: Table, staged: StagedUpdates) -> Catalog:
    """A copy of the table's catalog that applies the staged changes to the tables that it loads, and commits them."""
    catalog, shown = table.catalog, ".".join(table.name())
    kind, is_new = type(catalog), isinstance(table, StagedTable)
    commits = 0

    def apply(metadata: TableMetadata) -> TableMetadata:
        if any(metadata.snapshot_by_id(snapshot_id) is not None for snapshot_id in staged.sent):
            return metadata
        try:
            for requirement in staged.requirements:
                requirement.validate(metadata)
            return with_updates(metadata, staged.before)
        except (CommitFailedException, ValueError) as error:
            if staged.sent:  # the commit is refused for the same reason
                return metadata
            raise ConflictError(f"{shown}: nothing was committed: {error}") from error

    def new_table(self: Catalog) -> Table:
        metadata = update_table_metadata(MetastoreCatalog._empty_table_metadata(), staged.before)
        return Table(table.name(), metadata, table.metadata_location, table.io, self, table.config)

    def load_table(self: Catalog, identifier: Any) -> Table:
        try:
            found = kind.load_table(self, identifier)
        except NoSuchTableError:
            if commits or not is_new:
                raise
            return new_table(self)
        if commits:
            return found
        location, io, config = found.metadata_location, found.io, found.config
        return Table(found.name(), apply(found.metadata), location, io, self, config)

    def commit_table(
        self: Catalog, _: Table, requirements: tuple[Any, ...], updates: tuple[Any, ...]
    ) -> CommitTableResponse:
        nonlocal commits
        commits += 1
        try:
            required = (AssertCreate(),) if is_new else _merged(requirements)
            staged.sent.update(
                update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)
            )
            changes = sendable(self, (*staged.before, *updates, *staged.after))
            return kind.commit_table(self, table, required, changes)
        except CommitFailedException as error:
            if is_new:
                raise ConflictError(f"{shown}: nothing was committed: {error}") from error
            raise
        finally:
            commits -= 1

    def _merged(requirements: tuple[Any, ...]) -> tuple[Any, ...]:
        """The requirements of the job and of the changes. The catalog compares them with the unchanged metadata."""
        of_job = [one for one in requirements if not isinstance(one, AssertFormatVersion)]
        if isinstance(catalog, MetastoreCatalog):
            of_job.append(AssertFormatVersion(format_version=table.metadata.format_version))
        return (*of_job, *staged.requirements)

    body: dict[str, Callable[..., Any]] = {
        "load_table": load_table,
        "commit_table": commit_table,
        "with_staged_updates": staticmethod(apply),
    }
    derived: Catalog = object.__new__(
        types.new_class(kind.__name__, (kind,), exec_body=lambda namespace: namespace.update(body))
    )
    derived.__dict__ = catalog.__dict__
    return derived
