"""Checks the deletion vectors of a version and their data files; changes nothing."""

from __future__ import annotations

import os
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

from puffin_fast._runtime.threads import check_threads, on_threads
from puffin_fast.delta.log.snapshot import Snapshot, snapshot
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.delta.read.descriptors import locate
from puffin_fast.delta.read.plan import DeltaTable, partition_values
from puffin_fast.delta.read.statistics import UNKNOWN, Statistics
from puffin_fast.dv import delta as codec
from puffin_fast.errors import PuffinFastError
from puffin_fast.files import Problem, read_vector
from puffin_fast.rows.files.parquet import open_parquet

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["verify"]


def verify(
    table: Any,
    *,
    version: int | None = None,
    as_of: int | str | datetime | None = None,
    data_files: bool = True,
    threads: int | None = None,
    filesystem: Any = None,
) -> list[Problem]:
    """Reads and checks all deletion vectors of a version and their data files.

    The checks: each descriptor; the range, magic, checksum, containers and cardinality of each vector; that its
    positions are below the row count of the data file; that the data file exists, is Parquet, and has the row count and
    size of the log; that the statistics of files with vectors have `numRecords`; that no data file has two vectors;
    that scans can read the partition values.

    Args:
        table, version, as_of, filesystem: as `scan`.
        data_files: whether the footers of all data files are read and compared with the log.
        threads: number of files read at a time; the number of processors by default.

    Returns:
        The problems, those of partition values first, then in the order of the log; empty if there are none.

    Raises:
        NotFoundError, UnsupportedError, CorruptDataError: the log cannot be read.
    """
    check_threads(threads)
    base = (
        table
        if isinstance(table, Snapshot)
        else snapshot(table, version=version, as_of=as_of, filesystem=filesystem)
    )
    opened = DeltaTable.of(base)
    storage, files = base.storage, base.files
    of_partitions = _partition_problems(opened)
    counts = Statistics.of(files["stats"], {}, base.root).n_rows.tolist()
    rows = list(
        zip(
            map(storage.location, files["path"].to_pylist()),
            files["size"].to_pylist(),
            files["deletionVector"].to_pylist(),
            counts,
            strict=True,
        )
    )
    times = Counter(location for location, *_ in rows)

    def check(row: tuple[str, int | None, dict[str, Any] | None, int]) -> list[Problem]:
        found = _check_file(storage, *row, data_files=data_files)
        if times[row[0]] > 1:
            found.append(Problem(row[0], None, row[0], f"{times[row[0]]} times in version {base.version}"))
        return found

    of_files = on_threads(check, rows, threads, label="checking deletes")
    return of_partitions + [problem for found in of_files for problem in found]


def _partition_problems(table: DeltaTable) -> list[Problem]:
    """The problems of partition columns, or else of each file whose values cannot be read."""

    def wrong(files: pa.Table) -> str | None:
        try:
            partition_values(table, files)
        except PuffinFastError as error:
            return str(error)
        return None

    base, files = table.snapshot, table.snapshot.files
    if (message := wrong(files.slice(0, 0))) is not None:
        return [Problem(base.root, None, None, message)]
    if wrong(files) is None:
        return []
    locations = map(base.storage.location, files["path"].to_pylist())
    each = ((location, wrong(files.slice(at, 1))) for at, location in enumerate(locations))
    return [Problem(location, None, location, message) for location, message in each if message is not None]


def _check_file(
    storage: TableStorage,
    location: str,
    size: int | None,
    vector: dict[str, Any] | None,
    n_rows: int,
    *,
    data_files: bool,
) -> list[Problem]:
    found: list[Problem] = []

    def wrong(path: str, offset: int | None, message: str) -> None:
        found.append(Problem(path, offset, location, message))

    if vector is not None and n_rows == UNKNOWN:
        wrong(location, None, "numRecords: expected a number beside a deletion vector, found none")
    if data_files:
        try:
            stored = open_parquet(storage, location).metadata.num_rows
            if n_rows not in (UNKNOWN, stored):
                wrong(location, None, f"numRecords: expected {stored} (footer), found {n_rows}")
            n_rows = stored
            actual = os.path.getsize(location) if os.path.isfile(location) else size
            if size is not None and actual != size:
                wrong(location, None, f"size: expected {actual} (file), found {size}")
        except PuffinFastError as error:
            wrong(location, None, str(error))
    if vector is None:
        return found
    try:
        where = locate(vector, storage, location)
    except PuffinFastError as error:
        wrong(location, None, str(error))
        return found
    try:
        bitmap = read_vector(
            where.path,
            where.offset,
            where.length,
            cardinality=where.cardinality,
            filesystem=storage,
            decode=codec.decode,
        )
    except PuffinFastError as error:
        wrong(where.path, where.offset, str(error))
        return found
    if n_rows != UNKNOWN and bitmap and bitmap.max() >= n_rows:
        wrong(
            where.path,
            where.offset,
            f"{location}: expected positions below {n_rows} (rows), found {bitmap.max()}",
        )
    return found
