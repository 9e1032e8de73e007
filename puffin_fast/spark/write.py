"""A job: deleted positions of a DataFrame into Puffin files of a bounded size, written by the executors."""

from __future__ import annotations

import logging
import os
import re
import uuid
from typing import TYPE_CHECKING, Any

from puffin_fast._io import remove, split_location
from puffin_fast._io.folder import names_in
from puffin_fast.errors import ConflictError, InvalidInputError, PuffinFastError
from puffin_fast.spark._session import own_errors
from puffin_fast.spark._ship import over_batches
from puffin_fast.spark.transforms import TASK_MEMORY, partial_vectors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["TARGET_FILE_SIZE", "job_files", "remove_job_files", "write_deletion_vectors"]

TARGET_FILE_SIZE = 64 << 20
"""Bytes of blobs after which a task begins another Puffin file."""

_LOG = logging.getLogger(__name__)
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ATTEMPT = r"-\d{5,}-\d+-\d{4,}\.puffin"


def check_job(job_id: str | None) -> str:
    """The job's name, or a new one.

    Raises:
        InvalidInputError: it cannot be the first part of a file's name.
    """
    if job_id is None:
        return uuid.uuid4().hex
    if not isinstance(job_id, str) or not _JOB.fullmatch(job_id):
        raise InvalidInputError(
            f"job_id: expected at most 128 letters, digits, '.', '_', '-', a letter or digit first; "
            f"found {job_id!r}"
        )
    return job_id


def _check_place(location: str | os.PathLike[str], target_file_size: int) -> str:
    path = os.fspath(location)
    if not isinstance(path, str) or not path:
        raise InvalidInputError(f"location: expected a folder's path or URI, found {location!r}")
    if not isinstance(target_file_size, int) or target_file_size < 1:
        raise InvalidInputError(f"target_file_size: expected bytes, 1 or more, found {target_file_size!r}")
    scheme, _, _ = split_location(path)
    return path.rstrip("/") or "/" if scheme else os.path.abspath(path)


def job_files(location: str, job_id: str, *, filesystem: Any = None) -> list[str]:
    """Paths of the Puffin files that a job's tasks left in a folder, those that count and those that do not.

    Args:
        location: the folder that the job wrote to.
        job_id: the job's name, whole.
        filesystem: a pyarrow.fs.FileSystem or an fsspec filesystem, when the location alone does not say.
    """
    named = re.compile(re.escape(job_id) + _ATTEMPT)
    names = names_in(location, f"{job_id}-", filesystem=filesystem)
    return [f"{location.rstrip('/')}/{name}" for name in names if named.fullmatch(name)]


def remove_job_files(
    location: str, job_id: str, *, keep: frozenset[str] | set[str] = frozenset(), filesystem: Any = None
) -> list[str]:
    """Removes the files of a job that is over, except those that count.

    A task that was told to stop may still finish a file: call it again later when the job failed.

    Args:
        location: the folder that the job wrote to.
        job_id: the job's name, whole.
        keep: paths that stay, as the job reported them.
        filesystem: as for `job_files`.

    Returns:
        The paths that were removed.
    """
    lost = [path for path in job_files(location, job_id, filesystem=filesystem) if path not in keep]
    for path in lost:
        remove(path, filesystem=filesystem)
    return lost


def collect_written(written: DataFrame, location: str, job_id: str, filesystem: Any) -> pa.Table:
    """Runs the job, once: its rows name the files that count; all others of the job are removed.

    Raises:
        PuffinFastError: what an executor raised; the job's files are removed, as far as it is over.
    """
    import pyarrow.compute as pc

    kept: set[str] = set()
    try:
        with own_errors():
            table = written.toArrow()
        data_files = table["data_file"].drop_null()
        if pc.count_distinct(data_files).as_py() != len(data_files):
            raise PuffinFastError(f"job {job_id}: two vectors for one data file, none of them may be used")
        kept = set(pc.unique(table["path"].drop_null()).to_pylist())
    finally:
        try:
            remove_job_files(location, job_id, keep=kept, filesystem=filesystem)
        except (OSError, PuffinFastError) as trouble:  # must not hide the job's own outcome
            _LOG.warning("job %s: files that do not count may be left in %s: %s", job_id, location, trouble)
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
        job_id: begins the name of each file; must be new in that folder. A random one by default.
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
        ConflictError: a job of that name has left files there.
        MissingExtraError: an executor cannot import this package; names its host and Python.
        UnsupportedError: a streaming DataFrame, or a Python whose PyArrow Spark cannot use.
    """
    from puffin_fast.spark._pack import WRITTEN

    place, job = _check_place(location, target_file_size), check_job(job_id)
    partials = partial_vectors(deletes_df, file_path, pos, task_memory)
    if job_id is not None and (found := job_files(place, job, filesystem=filesystem)):
        raise ConflictError(f"job_id {job!r}: already used, {found[0]} exists")
    body = over_batches(
        "puffin_fast.spark._pack",
        "pack",
        memory=task_memory,
        location=place,
        job=job,
        target=target_file_size,
        filesystem=filesystem,
    )
    return collect_written(partials.mapInArrow(body, WRITTEN), place, job, filesystem)
