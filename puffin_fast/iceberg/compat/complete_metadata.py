"""Table metadata with all snapshots of the table.

A REST catalog may answer with the snapshots of branches and tags only (``snapshots=refs``), without the statistics of
the others and with a shorter snapshot log. It looks like the answer for a table whose other snapshots have expired. The
metadata file that the answer names has them all.

No release of PyIceberg ends this: 0.12.0 and its main branch of August 2026 take the answer as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyiceberg.exceptions import ValidationError
from pyiceberg.table.metadata import TableMetadataUtil

from puffin_fast._pyiceberg.v3_types import read_v3_types
from puffin_fast.errors import PuffinFastError, UnsupportedError
from puffin_fast.iceberg.compat.metadata_file import read_metadata_file

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


def read_complete(table: Table) -> TableMetadata:
    """Reads a table's metadata from its file, in the state in which the table was loaded.

    Raises:
        UnsupportedError: the file cannot be read, or has another state: it is unknown which snapshots the table has.
    """
    known, path = table.metadata, table.metadata_location
    read_v3_types()
    try:
        if not path:
            raise UnsupportedError("the catalog does not name it")
        own = {
            "table-uuid": str(known.table_uuid)
        }  # optional in version 1: PyIceberg makes a new one at each load
        found = TableMetadataUtil.parse_obj(own | read_metadata_file(table.io, path))
        if _state(found) != _state(known) or not by_id(found).keys() >= by_id(known).keys():
            raise UnsupportedError(
                f"expected the state {_state(known)} of the catalog, found {_state(found)}"
            )
    except (PuffinFastError, ValidationError, ValueError) as error:
        raise UnsupportedError(
            f"{'.'.join(table.name())}: the catalog's answer may lack snapshots, as it has {len(known.snapshots)}, and "
            f"the metadata file {path} does not show them: {error}"
        ) from error
    staged = getattr(table.catalog, "with_staged_updates", None)
    return found if staged is None else staged(found)


def by_id(metadata: TableMetadata) -> dict[int, Snapshot]:
    """Returns the snapshots of a table by their ids."""
    return {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}


def ancestors(snapshot: Snapshot | None, known: Mapping[int, Snapshot]) -> Iterator[Snapshot]:
    """Yields a snapshot and its ancestors among the known ones, newest first."""
    seen: set[int] = set()  # damaged metadata may have a circle
    while snapshot is not None and snapshot.snapshot_id not in seen:
        seen.add(snapshot.snapshot_id)
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else known.get(parent)


def _state(metadata: TableMetadata) -> tuple[str, int, int, int | None]:
    last = getattr(metadata, "last_sequence_number", 0)
    return str(metadata.table_uuid), last, metadata.last_updated_ms, metadata.current_snapshot_id
