"""Lists the deletes of a snapshot: a row per pair of delete file and data file, from the manifests alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast._api.arguments import check_texts
from puffin_fast.iceberg.catalogs.path_table import as_table
from puffin_fast.iceberg.manifest import EQUALITY_DELETES, ManifestEntry
from puffin_fast.iceberg.plan.files import resolve
from puffin_fast.iceberg.plan.inventory import FileDeletes, check_found, take_inventory
from puffin_fast.rows.shared_deletes import single_data_file

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.iceberg.plan.inventory import DeleteInventory, check_found

VECTOR, POSITIONS, EQUALITY = "vector", "position deletes", "equality deletes"
APPLIES, SUPERSEDED, DUPLICATE, DANGLING = "applies", "superseded", "duplicate", "dangling"

SCHEMA = pa.schema(
    [
        ("data_file", pa.string()),
        ("rows", pa.int64()),
        ("kind", pa.string()),
        ("state", pa.string()),
        ("path", pa.string()),
        ("offset", pa.int64()),
        ("n_bytes", pa.int64()),
        ("deleted", pa.int64()),
        ("share", pa.float64()),
        ("sequence_number", pa.int64()),
    ]
)
"""Columns of `deletes`."""


def deletes(
    table: Table | str | os.PathLike[str],
    *,
    file_paths: Sequence[str] | None = None,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
) -> pa.Table:
    """Lists the deletes of a snapshot; reads manifests only. Also lists those of tables that `scan` cannot read.

    Args:
        table: a PyIceberg table of format version 1 to 3, or a path as in `scan`.
        file_paths: the data files whose deletes are listed, as the manifests have their paths; by default all. This
            takes less time and memory where a table has many.
        snapshot_id, branch, tag, as_of: the snapshot, as in `scan`.

    Returns:
        A row for each pair of a delete file and a data file that it may apply to, data files in the table's
        order, then the dangling delete files:

        - ``data_file`` string: null if a dangling delete file does not name one.
        - ``rows`` int64: rows of the data file, deleted ones included; null if it is not live.
        - ``kind`` string: ``vector``, ``position deletes`` or ``equality deletes``.
        - ``state`` string: ``applies``; ``superseded``, position deletes of a data file that has a vector;
          ``duplicate``, one of several vectors of a data file; ``dangling``, applies to no live data file.
        - ``path`` string, ``offset`` int64 (vectors only), ``n_bytes`` int64 (size of the vector, or of the
          whole file).
        - ``deleted`` int64: number of positions for this data file; null if only the file's content shows it
          (equality deletes, position deletes of several data files).
        - ``share`` double: ``deleted`` as a share of ``rows``.
        - ``sequence_number`` int64: data sequence number.

    Raises:
        NotFoundError, InvalidInputError, UnsupportedError: as `scan`, for the snapshot. One of `file_paths` is neither
            a data file of it, nor named by a dangling delete file.
        CorruptDataError: the metadata cannot be read.

    Examples:
        >>> result = pf.iceberg.delete(table, "id < 10")
        >>> pf.iceberg.deletes(table).select(["kind", "deleted", "rows"]).to_pylist()
        [{'kind': 'vector', 'deleted': 10, 'rows': 100}]
    """
    table = as_table(table)
    snapshot, _ = resolve(table, snapshot_id=snapshot_id, branch=branch, tag=tag, as_of=as_of)
    only = None if file_paths is None else {*check_texts("file_paths", file_paths)}
    found = take_inventory(table, snapshot, only=only)
    if only is not None:
        check_found(found, only)
    columns = list(zip(*rows_of(found), strict=True)) or [()] * len(SCHEMA)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


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
