"""Checks a table: its metadata, its deletes and its data files."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from puffin_fast._api.keywords import public
from puffin_fast._concurrency.threads import check_threads
from puffin_fast.rows.findings import Findings, Level, check_level
from puffin_fast.tables.opening import open_table

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyspark.sql import SparkSession

    from puffin_fast.tables.opening import TableLike


@public
def verify(
    table: TableLike,
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
    level: Level = "files",
    threads: int | None = None,
    workers: Executor | SparkSession | None = None,
) -> Findings:
    """Checks a snapshot or version: its metadata, all deletes, and the data files that are live; changes nothing.

    Checked are, in all formats:

    - each vector's range, magic, checksum, containers and cardinality against the metadata that names it;
    - its positions against the row count of its data file, and that no data file has two vectors;
    - from level "files" on, that each live data file exists and has the size and row count of the metadata;
    - at level "rows", that all rows of each live data file can be decoded, and how many they are.

    In Iceberg tables also:

    - the footers of Puffin files, which must name the same range, data file and cardinality;
    - that a Puffin file with live vectors has no superseded ones: Java's ``Table.expireSnapshots()`` may delete it;
    - the bounds and counts of columns against the data file's footer; that bounds of geometry and geography columns may
      be points;
    - that a vector contains all positions of the position-delete files that it supersedes;
    - that a delete file of one data file has the partition spec and the partition of that data file;
    - that each delete file applies to a live data file, which is not younger than the deletes (a position-delete
      file that names no live data file is no error: `iceberg.convert_position_deletes` removes it);
    - that the segments of key indexes are sound, and at level "rows" have the keys of the data files that they cover;
    - the counts of snapshot summary, manifest list and manifests.

    In Delta tables also: that the statistics of files with vectors have ``numRecords``, and that scans can read the
    partition values.

    Args:
        table: as `scan`.
        snapshot_id, branch, tag, as_of: the snapshot or version, as in `scan`.
        level: "files" reads the end of each data file, "metadata" opens none of them, "rows" decodes all of them.
        threads: number of files read at a time; the number of processors by default.
        workers: an executor of ``concurrent.futures`` or a SparkSession, which reads the data files instead
            of threads.

    Returns:
        The findings, a list that is empty if there is none; data files are in the table's order. Its ``unchecked``
        says what was not checked.

    Raises:
        NotFoundError, InvalidInputError, UnsupportedError: as `scan`, for the snapshot; `level` has another value.
        CorruptDataError: the metadata or the log cannot be read.

    Examples:
        >>> list(pf.verify(table))  # Iceberg: no finding
        []
        >>> list(pf.verify(path, level="rows"))  # Delta
        []
    """
    found = open_table(table)
    selected = {"snapshot_id": snapshot_id, "branch": branch, "tag": tag, "as_of": as_of}
    found.need("verify", workers=workers, **selected)
    check_level(level)
    check_threads(threads)
    return found.findings(level, threads, workers, **selected)
