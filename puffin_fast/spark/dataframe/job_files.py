"""The files of a job by their names.

Every run of a job has a name of its own, ``{job}-{12 hex digits}``, so two runs of one job never touch each
other's files. A run on a table writes into a folder of that name in the table's data folder. A file is
``{run}-{partition:05d}-{taskAttemptId}-{n:04d}.puffin``, or ``.parquet`` in a table of format version 2; a local
Puffin file that is not whole yet, or whose writer was killed, ``.{that}.{16 hex digits}.tmp``.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from puffin_fast._runtime import FileSet, remove
from puffin_fast._runtime.folder import names_in
from puffin_fast.errors import InvalidInputError

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["check_job", "data_folder", "job_files", "remove_job_files", "remove_run_files", "run_name"]

Place: TypeAlias = "str | os.PathLike[str] | Table"

_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_RUN = "-[0-9a-f]{12}"
_ATTEMPT = r"-\d{5,}-\d+-\d{4,}\.(?:puffin|parquet)"


def check_job(job_id: str) -> str:
    """The job's name.

    Raises:
        InvalidInputError: it cannot be the first part of a file's name.
    """
    if not isinstance(job_id, str) or not _JOB.fullmatch(job_id):
        raise InvalidInputError(
            f"job_id: expected at most 128 letters, digits, '.', '_', '-', a letter or digit first; "
            f"found {job_id!r}"
        )
    return job_id


def run_name(job_id: str | None, kind: str) -> str:
    """A new name for a run of a job; of one without a name, after the kind of job."""
    return f"{kind if job_id is None else check_job(job_id)}-{uuid.uuid4().hex[:12]}"


def data_folder(table: Table) -> str:
    """Where a table's data files go, without a slash at the end."""
    return (table.properties.get("write.data.path") or f"{table.location()}/data").rstrip("/")


def _files(folder: str, run: str, prefix: str, filesystem: Any) -> list[str]:
    """Paths of a folder's files of the runs whose name fits a pattern."""
    whole = run + _ATTEMPT
    fits = re.compile(rf"{whole}|\.{whole}\.[0-9a-f]{{16}}\.tmp").fullmatch
    names = [name for start in ("", ".") for name in names_in(folder, start + prefix, filesystem=filesystem)]
    return [f"{folder.rstrip('/')}/{name}" for name in names if fits(name)]


def _is_table(where: Place) -> bool:
    return hasattr(where, "metadata_location")


def _found(where: Any, job_id: str, filesystem: Any) -> Iterator[tuple[str, Any]]:
    """Paths of a job's files, each with its filesystem."""
    run = re.escape(check_job(job_id)) + _RUN
    if not _is_table(where):
        folders, handle = [os.fspath(where)], filesystem
    else:
        from puffin_fast.iceberg.compat.pyiceberg_catalog import filesystem as filesystem_of

        root = data_folder(where)
        handle, _ = filesystem_of(where.io, root)
        names = names_in(root, f"{job_id}-", folders=True, filesystem=handle)
        folders = [f"{root}/{name}" for name in names if re.fullmatch(run, name)]
    for folder in folders:
        for path in _files(folder, run, f"{job_id}-", handle):
            yield path, handle


def job_files(where: Place, job_id: str, *, filesystem: Any = None) -> list[str]:
    """Paths of the files of deletes that the runs of a job left, those that count and those that do not.

    Args:
        where: the folder that the job wrote to, or the table.
        job_id: the job's name, whole.
        filesystem: a pyarrow.fs.FileSystem or an fsspec filesystem, when the folder alone does not say; a
            table's own is known.
    """
    return [path for path, _ in _found(where, job_id, filesystem)]


def remove_job_files(
    where: Place, job_id: str, *, keep: Collection[str] = frozenset(), filesystem: Any = None
) -> list[str]:
    """Removes the files of a job that is over, except those that count.

    A task that was told to stop may still finish a file: call it again later when the job failed. While a run
    of the job is under way its files look like any other's, so wait for its end.

    Args:
        where: the folder that the job wrote to, or the table; then what any of its snapshots needs stays.
        job_id: the job's name, whole.
        keep: paths that stay, as the job reported them or in another spelling (see `FileSet`).
        filesystem: as for `job_files`.

    Returns:
        The paths that were removed.
    """
    found = list(_found(where, job_id, filesystem))
    stays = list(keep)
    if found and _is_table(where):  # asked after the listing: what a commit took meanwhile stays
        stays += _needed(where)
    known = FileSet(stays)
    found = [(path, handle) for path, handle in found if path not in known]
    for path, handle in found:
        remove(path, filesystem=handle)
    return [path for path, _ in found]


def _needed(table: Any) -> set[str]:
    """The files that a table's snapshots need; the table is loaded anew."""
    from puffin_fast.iceberg.maintenance.orphan_files import needed_files

    table.refresh()
    return needed_files(table, table.metadata.snapshots)


def remove_run_files(folder: str, run: str, *, keep: Collection[str], filesystem: Any) -> None:
    """Removes the files of one run, except those that count."""
    known = FileSet(keep)
    for path in _files(folder, re.escape(run), f"{run}-", filesystem):
        if path not in known:
            remove(path, filesystem=filesystem)
