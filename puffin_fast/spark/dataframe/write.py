"""A job: deleted positions of a DataFrame into Puffin files of a bounded size, written by the executors."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from puffin_fast._runtime import split_location
from puffin_fast.errors import ConflictError, InvalidInputError, PuffinFastError
from puffin_fast.spark.dataframe.job_files import job_files, remove_run_files, run_name
from puffin_fast.spark.dataframe.transforms import TASK_MEMORY, partial_vectors
from puffin_fast.spark.session.batches import collected
from puffin_fast.spark.session.executor_calls import over_batches

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["TARGET_FILE_SIZE", "collect_written", "write_deletion_vectors"]

TARGET_FILE_SIZE = 64 << 20
"""Bytes of blobs after which a task begins another Puffin file."""

_LOG = logging.getLogger(__name__)


def _check_place(location: str | os.PathLike[str], target_file_size: int) -> str:
    path = os.fspath(location)
    if not isinstance(path, str) or not path:
        raise InvalidInputError(f"location: expected a folder's path or URI, found {location!r}")
    if not isinstance(target_file_size, int) or target_file_size < 1:
        raise InvalidInputError(f"target_file_size: expected bytes, 1 or more, found {target_file_size!r}")
    scheme, _, _ = split_location(path)
    return path.rstrip("/") or "/" if scheme else os.path.abspath(path)


def collect_written(written: DataFrame, location: str, run: str, filesystem: Any) -> pa.Table:
    """Runs a run's Spark job, once: its rows name the files that count; all others of the run are removed.

    Raises:
        PuffinFastError: what an executor raised; the run's files are removed, as far as it is over.
    """
    import pyarrow.compute as pc

    kept: set[str] = set()
    try:
        table = collected(written)
        data_files = table["data_file"].drop_null()
        if pc.count_distinct(data_files).as_py() != len(data_files):
            raise PuffinFastError(f"job {run}: two vectors for one data file, none of them may be used")
        kept = set(pc.unique(table["path"].drop_null()).to_pylist())
    finally:
        try:
            remove_run_files(location, run, keep=kept, filesystem=filesystem)
        except (OSError, PuffinFastError) as trouble:  # must not hide the job's own outcome
            _LOG.warning("job %s: files that do not count may be left in %s: %s", run, location, trouble)
    return table.sort_by([("path", "ascending"), ("offset", "ascending")])


def write_deletion_vectors(
    deletes_df: DataFrame,
    location: str | os.PathLike[str],
    *,
    file_path: str = "file_path",
    pos: str = "pos",
    target_file_size: int = TARGET_FILE_SIZE,
    job_id: str | None = None,
    task_memory: int = TASK_MEMORY,
    filesystem: Any = None,
) -> pa.Table:
    """Encodes deleted positions and writes the vectors into Puffin files; runs at once.

    Executors write; nothing is written before every row was found good. Retried and speculative tasks write
    files of their own, of which only those count, and stay, that the driver got word of.

    Args:
        deletes_df: one row per deleted position, in any order, repeats allowed.
        location: the folder to write to, a path or URI that driver and executors reach; made if need be.
        file_path: the column with the data file's path, string.
        pos: the column with the row's position in that file, 0-based; any integer type.
        target_file_size: bytes of blobs after which a task begins another Puffin file; a larger vector gets
            a file of its own.
        job_id: begins the name of each file; must be new in that folder, so that of two runs at most one
            counts. What a dead run left `remove_job_files` removes.
        task_memory: as for `encode_deletes`.
        filesystem: a pyarrow.fs.FileSystem or fsspec filesystem that can be pickled, when the location alone
            does not say.

    Returns:
        data_file, path: string; offset, length (bytes), cardinality, file_size: int64. One row per
        data file, sorted by path and offset; no rows and no files when there are no deletes.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: a column of another type, a null, a position that is negative or too large, naming
            the column.
        ConflictError: a run of that job has left files there, or wrote some meanwhile.
        MissingExtraError: an executor cannot import this package; names its host and Python.
        UnsupportedError: a streaming DataFrame, or a Python whose PyArrow Spark cannot use.
    """
    from puffin_fast.spark.worker.rows import WRITTEN

    place, run = _check_place(location, target_file_size), run_name(job_id, "write")
    partials = partial_vectors(deletes_df, file_path, pos, task_memory)
    if job_id is not None and (found := job_files(place, job_id, filesystem=filesystem)):
        raise ConflictError(f"job_id {job_id!r}: already used, {found[0]} exists")
    body = over_batches(
        "puffin_fast.spark.worker.pack",
        "pack",
        memory=task_memory,
        location=place,
        job=run,
        target=target_file_size,
        filesystem=filesystem,
    )
    written = collect_written(partials.mapInArrow(body, WRITTEN), place, run, filesystem)
    # of two runs at once the one that ends later sees the other's files: at most one of them counts
    left = () if job_id is None else job_files(place, job_id, filesystem=filesystem)
    if others := [path for path in left if path.endswith(".puffin") and f"/{run}-" not in path]:
        remove_run_files(place, run, keep=(), filesystem=filesystem)
        raise ConflictError(f"job_id {job_id!r}: another run of it wrote {others[0]} meanwhile")
    return written
