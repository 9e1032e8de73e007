"""A job that writes the deleted positions of a DataFrame to Puffin files, on executors."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast._api.arguments import check_integer
from puffin_fast._io import split_location
from puffin_fast._io.run_folder import RunFolder
from puffin_fast.errors import ConflictError, InvalidInputError, PuffinFastError
from puffin_fast.spark.dataframe.job_files import job_files, run_name
from puffin_fast.spark.dataframe.transforms import TASK_MEMORY, partial_vectors
from puffin_fast.spark.session.executor_calls import received, sent_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from puffin_fast.spark.worker.reports import Report

PUFFIN_FILE_SIZE = 64 << 20
"""Bytes of blobs above which a task begins another Puffin file."""

WRITTEN = pa.schema(
    [
        pa.field("data_file", pa.string()),
        pa.field("path", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("cardinality", pa.int64()),
        pa.field("file_size", pa.int64()),
    ]
)
"""The columns of the result of `write_deletion_vectors`."""


def _check_place(location: str | os.PathLike[str], target_file_size: int) -> str:
    path = os.fspath(location)
    if not isinstance(path, str) or not path:
        raise InvalidInputError(f"location: expected a folder's path or URI, found {location!r}")
    check_integer("target_file_size", target_file_size, least=1, optional=False)
    scheme, _, _ = split_location(path)
    return path.rstrip("/") or "/" if scheme else os.path.abspath(path)


def collect_report(sent: DataFrame, folder: RunFolder, filesystem: Any) -> Report:
    """Runs the Spark job of a run once, and removes the files of the run that its reports do not name.

    Args:
        sent: the reports, as `sent_by` sends them.
        folder: the folder of the run.
        filesystem: lists and removes files.

    Raises:
        PuffinFastError: an executor raised an error; the files of finished tasks are removed.
    """
    from puffin_fast.spark.worker.reports import Report

    with folder.keeping(filesystem) as kept:
        report = Report.sum(received(sent))
        changed = report.changed()
        if len({*changed}) != len(changed):
            raise PuffinFastError(f"job {folder.run}: two deletion vectors for one data file; none was used")
        kept += report.files()
    return report


def write_deletion_vectors(
    deletes_df: DataFrame,
    location: str | os.PathLike[str],
    *,
    file_path: str = "file_path",
    pos: str = "pos",
    target_file_size: int = PUFFIN_FILE_SIZE,
    job_id: str | None = None,
    task_memory: int = TASK_MEMORY,
    filesystem: Any = None,
) -> pa.Table:
    """Encodes deleted positions as deletion vectors and writes them to Puffin files; runs immediately.

    Executors write the files, after all rows were checked. Retried and speculative tasks write files of their own;
    files that are not in the result are removed.

    Args:
        deletes_df: one row per deleted position, in any order; duplicates are allowed.
        location: the folder to write to, a path or URI that the driver and all executors reach; created if missing.
        file_path: the column with the data file's path, string.
        pos: the column with the row's position in that file, 0-based; any integer type.
        target_file_size: bytes of blobs above which a task begins another Puffin file; a larger vector gets
            a file of its own.
        job_id: the first part of the name of each file. It must be new in the folder: at most one of two runs succeeds.
            `remove_job_files` removes the files of a run that was killed.
        task_memory: as for `encode_deletes`.
        filesystem: a pyarrow.fs.FileSystem or fsspec filesystem that can be pickled; needed when the location
            does not determine it.

    Returns:
        data_file, path: string; offset, length (bytes), cardinality, file_size: int64. One row per
        data file, sorted by path and offset; no rows and no files when there are no deletes.

    Raises:
        NotFoundError: a column does not exist.
        InvalidInputError: a column has another type; a null; a position is negative or above 0x7FFFFFFE80000000.
        ConflictError: files of the job already exist, or another run of the job writes at the same time.
        MissingExtraError: an executor cannot import this package; the message names its host and Python.
        UnsupportedError: a streaming DataFrame, or a PyArrow that PySpark does not support.

    Examples:
        >>> written = pf.spark.write_deletion_vectors(deletes, path)
        >>> sorted(written["cardinality"].to_pylist())
        [1, 2]
    """
    from puffin_fast.spark.worker.pack import Place, pack

    place, run = _check_place(location, target_file_size), run_name(job_id, "write")
    partials = partial_vectors(deletes_df, file_path, pos, task_memory)
    if job_id is not None and (found := job_files(place, job_id, filesystem=filesystem)):
        raise ConflictError(f"job_id {job_id!r}: already used, {found[0]} exists")
    folder = RunFolder(place, run)
    to = Place(folder, target_file_size)
    sent = sent_by(partials, pack, memory=task_memory, place=to, filesystem=filesystem)
    report = collect_report(sent, folder, filesystem)
    # of two runs at the same time, the one that ends later sees the files of the other: at most one succeeds
    left = () if job_id is None else job_files(place, job_id, filesystem=filesystem)
    if others := [path for path in left if path.endswith(".puffin") and f"/{run}-" not in path]:
        folder.clear((), filesystem)
        raise ConflictError(f"job_id {job_id!r}: another run of it wrote {others[0]} at the same time")
    vectors = [asdict(one.vector) for one in report.deleted if one.vector is not None]
    return pa.Table.from_pylist(vectors, WRITTEN).sort_by([("path", "ascending"), ("offset", "ascending")])
