"""Lists the deletes of a snapshot: a row per pair of delete file and data file, from the manifests alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast.iceberg.manifest import EQUALITY_DELETES, ManifestEntry
from puffin_fast.iceberg.plan.files import resolve
from puffin_fast.iceberg.plan.inventory import FileDeletes, check_found, take_inventory
from puffin_fast.rows.shared_deletes import single_data_file
from puffin_fast.verbs.listed_deletes import (
    APPLIES,
    DANGLING,
    DUPLICATE,
    EQUALITY,
    POSITIONS,
    SUPERSEDED,
    VECTOR,
    deletes_table,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.iceberg.plan.inventory import DeleteInventory


def listed_deletes(table: Table, only: set[str] | None, **selected: Any) -> pa.Table:
    """`deletes` of the data files of some paths, or of all."""
    snapshot, _ = resolve(table, **selected)
    found = take_inventory(table, snapshot, only=only)
    if only is not None:
        check_found(found, only)
    return deletes_table(rows_of(found))


def rows_of(found: DeleteInventory) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of `deletes`, with the columns of `SCHEMA`."""
    for file in found.files:
        yield from _of_file(file)
    for entry in (*found.dangling, *found.incomplete):
        yield _row(entry, entry.referenced_data_file or single_data_file(entry), None, DANGLING)


def _of_file(file: FileDeletes) -> Iterator[tuple[Any, ...]]:
    path, rows = file.data.file_path, file.data.record_count
    for entry in file.vectors:
        yield _row(entry, path, rows, APPLIES if len(file.vectors) == 1 else DUPLICATE)
    for entry in file.position_deletes:
        yield _row(entry, path, rows, SUPERSEDED if file.vectors else APPLIES)
    for entry in file.equality_deletes:
        yield _row(entry, path, rows, APPLIES)


def _row(entry: ManifestEntry, data_file: str | None, rows: int | None, state: str) -> tuple[Any, ...]:
    if entry.is_vector:
        kind, deleted, n_bytes = VECTOR, entry.record_count, entry.content_size_in_bytes
    elif entry.content == EQUALITY_DELETES:
        kind, deleted, n_bytes = EQUALITY, None, entry.file_size_in_bytes
    else:
        alone = single_data_file(entry) is not None
        kind, deleted, n_bytes = POSITIONS, entry.record_count if alone else None, entry.file_size_in_bytes
    share = deleted / rows if rows and deleted is not None else None
    where = entry.content_offset if entry.is_vector else None
    return (
        # bounds hold any bytes, and Arrow only text
        None if data_file is None else data_file.encode(errors="backslashreplace").decode(),
        rows,
        kind,
        state,
        entry.file_path,
        where,
        n_bytes,
        deleted,
        share,
        entry.sequence_number,
    )
