"""Checks the deletion vectors of a version and their data files; changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from puffin_fast._concurrency.workers import Workers, workers_of
from puffin_fast._io import open_source
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.delta.scans.descriptors import locate
from puffin_fast.delta.scans.plan import DeltaTable, partition_values
from puffin_fast.delta.scans.statistics import UNKNOWN, Statistics
from puffin_fast.delta.scans.version_state import VersionState
from puffin_fast.dv import delta as codec
from puffin_fast.errors import PuffinFastError
from puffin_fast.puffin.finding import DUPLICATE, MISMATCH, Finding, Kind, kind_of
from puffin_fast.puffin.vectors import read_vector
from puffin_fast.rows.files.parquet import ParquetReader
from puffin_fast.rows.findings import Findings, Level, unchecked_at
from puffin_fast.rows.scan.file_reader import FileReader
from puffin_fast.rows.scan.located_rows import with_text
from puffin_fast.rows.scan.scan import Scan
from puffin_fast.rows.scan.splits import jobs_of
from puffin_fast.rows.tasks import DataFile, TaskOf

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pyarrow as pa
    from pyspark.sql import SparkSession


def findings_of(
    base: Snapshot, level: Level, threads: int | None, workers: Executor | SparkSession | None
) -> Findings:
    """`verify` of a version, with checked arguments."""
    who = workers_of(workers, threads)
    opened = DeltaTable.of(base)
    storage, files = base.storage, base.files
    of_partitions = _partition_findings(opened)
    counts = Statistics.of(files["stats"], {}, base.root).n_rows.tolist()
    rows = [
        _Row(*row)
        for row in zip(
            map(storage.location, files["path"].to_pylist()),
            files["size"].to_pylist(),
            files["deletionVector"].to_pylist(),
            counts,
            strict=True,
        )
    ]
    times = Counter(row.location for row in rows)
    check = partial(_check_file, storage, data_files=level != "metadata")
    findings = of_partitions
    for row, found in zip(rows, who.each(check, rows, _bytes_read, "checking deletes"), strict=True):
        findings += found
        if times[row.location] > 1:
            message = f"{times[row.location]} times in version {base.version}"
            findings.append(Finding(DUPLICATE, row.location, row.location, None, message))
    if level == "rows":
        damaged = {finding.path for finding in findings}
        findings += _check_rows(base, damaged, who)
    return Findings(findings, level=level, data_files=len(rows), unchecked=unchecked_at(level))


def _check_rows(base: Snapshot, damaged: AbstractSet[str | None], workers: Workers) -> list[Finding]:
    """Reads each data file whole, without its deletes, except those in which a problem was found."""
    whole = Scan(VersionState(base))
    files = [task.data for task in whole.tasks() if task.data.file_path not in damaged]
    check = partial(_check_rows_of, whole.file_reader())
    every = workers.each(check, files, lambda data: data.file_size_in_bytes, "decoding rows")
    return [finding for found in every for finding in found]


def _check_rows_of(reader: FileReader, data: DataFile) -> list[Finding]:
    path = data.file_path
    try:
        jobs = jobs_of([TaskOf(data)], 1, together=False)
        for job in jobs:
            for batch in chain.from_iterable(reader.read_all(job)):
                with_text(batch, path)
    except PuffinFastError as error:
        return [Finding(kind_of(error), path, path, None, str(error))]
    return []


def _partition_findings(table: DeltaTable) -> list[Finding]:
    """The findings of partition columns, or else of each file whose values cannot be read."""

    def wrong(files: pa.Table) -> PuffinFastError | None:
        try:
            partition_values(table, files)
        except PuffinFastError as error:
            return error
        return None

    base, files = table.snapshot, table.snapshot.files
    if (error := wrong(files.slice(0, 0))) is not None:
        return [Finding(kind_of(error), None, base.root, None, str(error))]
    if wrong(files) is None:
        return []
    locations = map(base.storage.location, files["path"].to_pylist())
    each = ((location, wrong(files.slice(at, 1))) for at, location in enumerate(locations))
    return [
        Finding(kind_of(error), location, location, None, str(error))
        for location, error in each
        if error is not None
    ]


class _Row(NamedTuple):
    """A data file as the log has it."""

    location: str
    size: int | None
    vector: dict[str, Any] | None
    n_rows: int


def _bytes_read(row: _Row) -> int:
    """The bytes of its vector; of the data file, only the footer is read."""
    return 0 if row.vector is None else int(row.vector["sizeInBytes"] or 0)


def _check_file(storage: TableStorage, row: _Row, *, data_files: bool) -> list[Finding]:
    location, size, vector, n_rows = row
    found: list[Finding] = []

    def wrong(kind: Kind, path: str, offset: int | None, message: str) -> None:
        found.append(Finding(kind, location, path, offset, message))

    if vector is not None and n_rows == UNKNOWN:
        wrong(MISMATCH, location, None, "numRecords: expected a number beside a deletion vector, found none")
    if data_files:
        try:
            stored = ParquetReader(storage, location).n_rows
            if n_rows not in (UNKNOWN, stored):
                wrong(MISMATCH, location, None, f"numRecords: expected {stored} (footer), found {n_rows}")
            n_rows = stored
            with open_source(location, filesystem=storage.filesystem) as source:
                actual = source.size
            if size is not None and actual != size:
                wrong(MISMATCH, location, None, f"size: expected {actual} (file), found {size}")
        except PuffinFastError as error:
            wrong(kind_of(error), location, None, str(error))
    if vector is None:
        return found
    try:
        where = locate(vector, storage, location)
    except PuffinFastError as error:
        wrong(kind_of(error), location, None, str(error))
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
        wrong(kind_of(error), where.path, where.offset, str(error))
        return found
    if n_rows != UNKNOWN and bitmap and bitmap.max() >= n_rows:
        wrong(
            MISMATCH,
            where.path,
            where.offset,
            f"{location}: expected positions below {n_rows} (rows), found {bitmap.max()}",
        )
    return found
