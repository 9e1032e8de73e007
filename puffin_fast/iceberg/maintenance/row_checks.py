"""Decodes and counts all rows of a snapshot's data files: damage of pages and text shows up, in files of any format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from puffin_fast._run.threads import on_threads
from puffin_fast.errors import PuffinFastError
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.iceberg.read.scan import Scan
from puffin_fast.puffin.finding import MISMATCH, Finding, kind_of
from puffin_fast.rows.scan.located_rows import with_text
from puffin_fast.rows.scan.splits import jobs_of

if TYPE_CHECKING:
    from puffin_fast.iceberg.manifest import ManifestEntry


def check_rows(scan: Scan, files: Sequence[ManifestEntry], threads: int | None) -> list[Finding]:
    """Reads each data file whole, without its deletes. Memory holds a part of one file per thread.

    Args:
        scan: the scan of the snapshot, with all columns.
        files: the data files.
        threads: number of files read at a time; the number of processors by default.

    Returns:
        A finding for each file that cannot be read, or that has another number of rows than its manifest entry.
    """
    reader = scan.file_reader()

    def check(data: ManifestEntry) -> list[Finding]:
        path = data.file_path
        try:
            jobs = jobs_of([FileTask(data)], 1, together=False)
            batches = (batch for job in jobs for group in reader.read_all(job) for batch in group)
            n_rows = sum(with_text(batch, path).num_rows for batch in batches)
        except PuffinFastError as error:
            return [Finding(kind_of(error), path, path, None, str(error))]
        if n_rows == data.record_count:
            return []
        message = f"{path}: rows: expected {data.record_count} (manifest), found {n_rows} (decoded)"
        return [Finding(MISMATCH, path, path, None, message)]

    return [
        finding for found in on_threads(check, files, threads, label="decoding rows") for finding in found
    ]
