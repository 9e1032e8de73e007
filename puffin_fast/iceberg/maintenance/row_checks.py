"""Decodes and counts all rows of a snapshot's data files: damage of pages and text shows up, in files of any format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from puffin_fast._run.workers import Each
from puffin_fast.errors import PuffinFastError
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.iceberg.scans.scan import Scan
from puffin_fast.puffin.finding import MISMATCH, Finding, kind_of
from puffin_fast.rows.scan.located_rows import with_text
from puffin_fast.rows.scan.splits import jobs_of

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from puffin_fast.iceberg.manifest import ManifestEntry
    from puffin_fast.rows.scan.file_reader import FileReader


def check_rows(
    scan: Scan, metadata: TableMetadata, files: Sequence[ManifestEntry], each: Each
) -> list[Finding]:
    """Reads each data file whole, without its deletes. Memory holds a part of one file per call.

    Args:
        scan: the scan of the snapshot, with all columns.
        metadata: the metadata of the table.
        files: the data files.
        each: calls the check of a data file.

    Returns:
        A finding for each file that cannot be read, or that has another number of rows than its manifest entry.
    """
    check = _RowCheck(scan.reader(metadata))
    return [finding for found in each(check, files, _file_bytes, "decoding rows") for finding in found]


def _file_bytes(data: ManifestEntry) -> int:
    return data.file_size_in_bytes


class _RowCheck:
    """Reads data files whole; it can be pickled before its first call.

    Args:
        open_reader: makes the reader.
    """

    def __init__(self, open_reader: Callable[..., FileReader]) -> None:
        self._open_reader = open_reader

    @cached_property
    def _reader(self) -> FileReader:
        return self._open_reader()

    def __call__(self, data: ManifestEntry) -> list[Finding]:
        path = data.file_path
        try:
            jobs = jobs_of([FileTask(data)], 1, together=False)
            batches = (batch for job in jobs for group in self._reader.read_all(job) for batch in group)
            n_rows = sum(with_text(batch, path).num_rows for batch in batches)
        except PuffinFastError as error:
            return [Finding(kind_of(error), path, path, None, str(error))]
        if n_rows == data.record_count:
            return []
        message = f"{path}: rows: expected {data.record_count} (manifest), found {n_rows} (decoded)"
        return [Finding(MISMATCH, path, path, None, message)]
