"""Enables deletion vectors: raises the protocol and sets the property, in one commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from puffin_fast._api.arguments import check_flags
from puffin_fast._io.storage_options import filesystem_of
from puffin_fast.delta.log.action_types import as_json
from puffin_fast.delta.log.commit import Changes, OnlyChanges, check_properties, commit, newest
from puffin_fast.delta.log.protocol import (
    ENABLE_VECTORS,
    is_set,
    warn_of_vectors,
    with_vectors,
)
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.log.storage import storage_of


def enable(
    table: Any,
    *,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> int | None:
    """Enables deletion vectors: reader version 3, writer version 7, ``delta.enableDeletionVectors``.

    Features that older protocol versions implied are then listed by name. Readers without support for deletion vectors
    can no longer read the table; `disable` makes them able to.

    Args:
        table: a Delta table, as `delete` takes it.
        snapshot_properties: additional entries of the commit's ``commitInfo``.
        dry_run: check the table, write nothing.

    Returns:
        The new version, in a dry run the version after the newest one; None if deletion vectors were enabled already.

    Raises:
        NotFoundError: the table does not exist.
        UnsupportedError: a feature is unknown or forbids deletion vectors; the message names it.
        ConflictError: a concurrent commit changed the protocol or the metadata.
        CommitUnknownError: the storage did not answer whether the commit happened.
        EngineSupportWarning: is a warning; the message names readers that can no longer read the table. It comes before
            the commit, so that nothing is committed where warnings are errors.

    Examples:
        >>> pf.delta.enable(path) is None  # deletion vectors were enabled already
        True
    """

    def plan(base: Snapshot) -> OnlyChanges:
        actions = []
        if not base.protocol.has_vectors:
            protocol = with_vectors(base.protocol, base.configuration)
            actions.append({"protocol": protocol.action()})
        if not is_set(base.configuration, ENABLE_VECTORS):
            configuration = {**base.configuration, ENABLE_VECTORS: "true"}
            actions.append({"metaData": {**base.metadata, "configuration": configuration}})
        if not actions:
            return OnlyChanges()
        parameters = {"properties": as_json({ENABLE_VECTORS: "true"})}
        return OnlyChanges(Changes(actions, "SET TBLPROPERTIES", parameters=parameters))

    check_flags(dry_run=dry_run)
    check_properties(snapshot_properties)
    storage = storage_of(table, filesystem_of(table, None, None))
    base = newest(storage)
    if plan(base).changes is None:
        return None
    warn_of_vectors(storage.root, stacklevel=3)
    if dry_run:
        return base.version + 1
    _, committed = commit(storage, plan, snapshot_properties=snapshot_properties)
    return committed.version
