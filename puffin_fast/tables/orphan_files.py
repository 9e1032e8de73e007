"""Lists the files in a table's folder that nothing in its history needs, and removes them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from puffin_fast._api.arguments import check_ids
from puffin_fast._api.keywords import public
from puffin_fast._concurrency.threads import check_threads
from puffin_fast.tables.opening import open_table
from puffin_fast.verbs.remove_orphan_files import (
    IN_FLIGHT,
    RemoveOrphanFilesResult,
    check_removal,
    modified_before,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from puffin_fast.tables.opening import TableLike


@public
def orphan_files(
    table: TableLike,
    *,
    older_than: timedelta = IN_FLIGHT,
    keep: Iterable[int] | None = None,
    threads: int | None = None,
) -> pa.Table:
    """Lists the files below a table's location that no snapshot or version needs; removes none.

    These are files of commits that failed, and of an Iceberg table files of expired snapshots, and Puffin files whose
    vectors were merged or compacted. A file of a Delta table is needed if a commit or checkpoint in the log refers to
    it, also as a removed data file, because time travel may read it.

    In doubt a file is not listed: if its location may be another spelling of a needed one (``s3a`` for ``s3``), if
    the filesystem does not report its age, or if it belongs to another table below the location. Of Delta, hidden files
    and folders (names that begin with ``_`` or ``.``, except ``_change_data``) are not listed.

    Of Iceberg, files are not listed either that metadata of the table needs which the catalog does not have and which
    is not known to be an earlier state of the catalog's (a warning is logged with its name), or that belong to another
    table whose metadata is at or below this one's location, also to a table that was dropped and created again
    there. Where a table of Delta, Hudi, Lance or Paimon has the same folder, as that of `delta.from_iceberg`, only
    metadata files are listed. Local links are not followed. Files outside of the table's location
    (``write.data.path``) are not listed. A file of another table whose metadata is somewhere else, and whose
    ``write.data.path`` points below this table's location, cannot be recognised: give such tables folders of their own.
    If another catalog writes metadata of this table to a folder outside of its location, and this catalog does not name
    that folder, it is not found either.

    Args:
        table: as `delete`.
        older_than: list only files that were not modified within this time.
        keep: ids of the snapshots of an Iceberg table that are treated as the only ones, to list the files that the
            expiry of the others would make orphans; all by default. Heads of branches and tags are always included.
        threads: number of manifests read at a time; the number of processors by default.

    Returns:
        ``path`` string (with the scheme of the table's location), ``n_bytes`` int64, ``modified`` timestamp
        in UTC; sorted by path.

    Raises:
        InvalidInputError: `older_than` is not a timedelta.
        NotFoundError: the table, a snapshot of `keep` or a manifest does not exist.
        CorruptDataError: a manifest or the log cannot be read, or a commit is missing.
        UnsupportedError: the FileIO cannot list files, the metadata of the table, or of another table in the
            location, cannot be read, or the catalog's answer may lack snapshots.
        ConflictError: other commits removed metadata files faster than they could be listed.

    Examples:
        >>> len(pf.orphan_files(table)), len(pf.orphan_files(path))  # Iceberg, Delta
        (0, 0)
    """
    check_threads(threads)
    modified_before(older_than)
    ids = check_ids("keep", keep)
    opened = open_table(table)
    opened.need("orphan_files")
    if ids is not None:
        opened.need("keep")
    return opened.orphans(older_than, ids, threads)


@public
def remove_orphan_files(
    table: TableLike,
    *,
    older_than: timedelta = IN_FLIGHT,
    threads: int | None = None,
    dry_run: bool = True,
) -> RemoveOrphanFilesResult:
    """Removes the files that `orphan_files` lists; unlike other verbs, only with ``dry_run=False``.

    All snapshots and versions can still be read. A vacuum of other libraries also removes the files of old versions of
    a Delta table.

    Args:
        table, older_than: as `orphan_files`.
        threads: number of files removed at a time; the number of processors by default.
        dry_run: remove nothing, and return what would be removed.

    Raises:
        InvalidInputError: as `orphan_files`, or `older_than` is negative.
        NotFoundError, CorruptDataError: as `orphan_files`.
        UnsupportedError: as `orphan_files`, and if the property ``gc.enabled`` of an Iceberg table is false.
        ConflictError: as `orphan_files`, and if the location or metadata folder of an Iceberg table has metadata of
            the table that is newer than the catalog's or follows other commits: the table may be in another catalog,
            too.

    Examples:
        >>> pf.remove_orphan_files(table).files.num_rows  # Iceberg
        0
        >>> pf.remove_orphan_files(path, dry_run=False).files.num_rows  # Delta
        0
    """
    check_removal(older_than, threads, dry_run=dry_run)
    opened = open_table(table)
    opened.need("remove_orphan_files")
    return opened.remove_orphans(older_than, threads, dry_run)
