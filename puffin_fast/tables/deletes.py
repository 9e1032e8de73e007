"""Lists the deletes of a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from puffin_fast._api.arguments import check_texts
from puffin_fast._api.keywords import public
from puffin_fast.tables.opening import open_table

if TYPE_CHECKING:
    import pyarrow as pa

    from puffin_fast.tables.opening import TableLike


@public
def deletes(
    table: TableLike,
    *,
    file_paths: Sequence[str] | None = None,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
) -> pa.Table:
    """Lists the deletes of a table, from its manifests or log alone; also those of tables that `scan` cannot read.

    Args:
        table: as `scan`.
        file_paths: the data files of an Iceberg table whose deletes are listed, as the manifests have their paths; by
            default all. This takes less time and memory where a table has many.
        snapshot_id, branch, tag, as_of: the snapshot or version, as in `scan`.

    Returns:
        A row for each pair of a delete file and a data file that it may apply to, data files in the table's
        order, then the dangling delete files:

        - ``data_file`` string: null if a dangling delete file does not name one. Of Lance the number of the fragment.
        - ``rows`` int64: rows of the data file, deleted ones included; null if it is not live, and of Paimon.
        - ``kind`` string: ``vector``, ``position deletes`` or ``equality deletes``.
        - ``state`` string: ``applies``; ``superseded``, position deletes of a data file that has a vector;
          ``duplicate``, one of several vectors of a data file; ``dangling``, applies to no live data file.
        - ``path`` string (null for a vector in Delta's log), ``offset`` int64 (vectors only), ``n_bytes`` int64 (size
          of the vector, or of the whole file).
        - ``deleted`` int64: number of positions for this data file; null if only the file's content shows it
          (equality deletes, position deletes of several data files).
        - ``share`` double: ``deleted`` as a share of ``rows``.
        - ``sequence_number`` int64: data sequence number of Iceberg.

    Raises:
        NotFoundError, InvalidInputError, UnsupportedError: as `scan`, for the snapshot. One of `file_paths` is neither
            a data file of it, nor named by a dangling delete file.
        CorruptDataError: the metadata cannot be read.

    Examples:
        >>> result = pf.delete(table, "id < 10")  # Iceberg
        >>> pf.deletes(table).select(["kind", "deleted", "rows"]).to_pylist()
        [{'kind': 'vector', 'deleted': 10, 'rows': 100}]
        >>> result = pf.delete(path, "id < 50")  # Delta
        >>> pf.deletes(path)["share"].to_pylist()
        [0.5]
    """
    found = open_table(table)
    selected = {"snapshot_id": snapshot_id, "branch": branch, "tag": tag, "as_of": as_of}
    found.need("deletes", file_paths=file_paths, **selected)
    only = None if file_paths is None else {*check_texts("file_paths", file_paths)}
    return found.listed_deletes(only, **selected)
