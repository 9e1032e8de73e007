"""The delete files of a job, found by their names.

Each run of a job has a name of its own, ``{job}-{12 hex digits}``: two runs of a job do not share files. A run on
a table writes into a folder of that name in the table's data folder, in a Delta table's own folder. `RunFolder` says
how files are named; ``.puffin`` have vectors, ``.parquet`` rows, or position deletes in a table of format version 2,
``deletion_vector_{uuid}.bin`` vectors of a Delta table. ``.arrow`` files of rows that a job reads again, and
``.segment`` files of a key index, exist until it ends. A local file of deletion vectors that is not complete, or whose
writer was killed, is ``.{that}.{16 hex digits}.tmp``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from puffin_fast._io import FileSet, remove
from puffin_fast._io.folder import names_in
from puffin_fast._io.run_folder import JOB
from puffin_fast._io.run_folder import run_name as new_name
from puffin_fast.errors import InvalidInputError

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.delta.log.storage import TableStorage

Place: TypeAlias = "str | os.PathLike[str] | Table | Any"

_RUN = "-[0-9a-f]{12}"
_ATTEMPT = r"-(?:driver|worker|\d{5,}-\d+)-(?:[0-9a-f]{8}-)?\d{4,}\.(?:puffin|parquet|arrow|segment)"
_UNFINISHED = r"\.[0-9a-f]{16}\.tmp"
_RECORDS = r"deletion_vector_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.bin"
_DELTA_LOG = "_delta_log"


def check_job(job_id: str) -> str:
    """Checks that a job id can begin a file name, and returns it.

    Raises:
        InvalidInputError: the job id cannot begin a file name.
    """
    if not isinstance(job_id, str) or not JOB.fullmatch(job_id):
        raise InvalidInputError(
            f"job_id: expected at most 128 letters, digits, '.', '_', '-', a letter or digit first; "
            f"found {job_id!r}"
        )
    return job_id


def run_name(job_id: str | None, kind: str) -> str:
    """Returns a new name for a run of a job; it begins with the job id, or with the kind of job."""
    return new_name(None if job_id is None else check_job(job_id), kind)


def _files(folder: str, whole: str, prefix: str, filesystem: Any) -> list[str]:
    """Paths of the files in a folder whose names match a pattern, and of those that are not complete."""
    fits = re.compile(rf"{whole}|\.{whole}{_UNFINISHED}").fullmatch
    names = [name for start in ("", ".") for name in names_in(folder, start + prefix, filesystem=filesystem)]
    return [f"{folder.rstrip('/')}/{name}" for name in names if fits(name)]


def _is_table(where: Place) -> bool:
    return hasattr(where, "metadata_location")


def _delta(where: Any, filesystem: Any) -> TableStorage | None:
    """The storage of a Delta table; None for another folder."""
    if not hasattr(where, "table_uri"):
        folder = os.fspath(where).rstrip("/")
        if not names_in(f"{folder}/{_DELTA_LOG}", "", filesystem=filesystem):
            return None
    from puffin_fast._io.storage_options import filesystem_of
    from puffin_fast.delta.log.storage import storage_of

    return storage_of(where, filesystem_of(where, filesystem, None))


def _found(where: Any, job_id: str, filesystem: Any) -> Iterator[tuple[str, Any]]:
    """Paths of a job's files, each with its filesystem."""
    run, prefix = re.escape(check_job(job_id)) + _RUN, f"{job_id}-"
    if _is_table(where):
        from puffin_fast.iceberg.compat.filesystem import filesystem as filesystem_of
        from puffin_fast.iceberg.compat.table_properties import data_folder

        root = data_folder(where)
        handle, _ = filesystem_of(where.io, root)
        kinds = [(run + _ATTEMPT, prefix)]
    elif (storage := _delta(where, filesystem)) is not None:
        root, handle = storage.root, storage.filesystem
        kinds = [(_RECORDS, "deletion_vector_"), (run + _ATTEMPT, prefix)]
    else:
        for path in _files(os.fspath(where), run + _ATTEMPT, prefix, filesystem):
            yield path, filesystem
        return
    for name in names_in(root, prefix, folders=True, filesystem=handle):
        if re.fullmatch(run, name):
            for whole, start in kinds:
                for path in _files(f"{root}/{name}", whole, start, handle):
                    yield path, handle


def job_files(where: Place, job_id: str, *, filesystem: Any = None) -> list[str]:
    """Paths of the delete files of all runs of a job, committed or not.

    Args:
        where: the folder that the job wrote to, or the table; a Delta table by its path, its URI or deltalake's
            `DeltaTable`.
        job_id: the complete job id.
        filesystem: a pyarrow.fs.FileSystem or an fsspec filesystem; needed when the path does not determine
            it. For an Iceberg table, its FileIO is used.

    Examples:
        >>> result = pf.spark.write_deletion_vectors(deletes, path, job_id="nightly")
        >>> len(pf.spark.job_files(path, "nightly"))
        1
    """
    return [path for path, _ in _found(where, job_id, filesystem)]


def remove_job_files(
    where: Place, job_id: str, *, keep: Collection[str] = frozenset(), filesystem: Any = None
) -> list[str]:
    """Removes the delete files of a finished job that are not in use.

    Call it when no run of the job is active: files of an active run would be removed. After a failed job, call it
    again later: a task that was cancelled may still finish a file.

    Args:
        where: the folder that the job wrote to, or the table, as `job_files` takes it; files that a snapshot of the
            table or a version in the log of a Delta table needs are not removed.
        job_id: the complete job id.
        keep: paths that are not removed, in any spelling (``s3a`` for ``s3``).
        filesystem: as for `job_files`.

    Returns:
        The paths that were removed.

    Raises:
        PuffinFastError: the table could not be loaded with all its snapshots; nothing was removed.

    Examples:
        >>> result = pf.spark.write_deletion_vectors(deletes, path, job_id="failed")
        >>> len(pf.spark.remove_job_files(path, "failed"))
        1
    """
    found = list(_found(where, job_id, filesystem))
    stays = list(keep)
    if found:  # loaded after the listing, so that files of a commit in between are not removed
        stays += _needed(where, filesystem)
    known = FileSet(stays)
    found = [(path, handle) for path, handle in found if path not in known]
    for path, handle in found:
        remove(path, filesystem=handle)
    return [path for path, _ in found]


def _needed(where: Any, filesystem: Any) -> set[str]:
    """Returns the files that the current snapshots or versions of a table need."""
    if _is_table(where):
        from puffin_fast.iceberg.catalogs.working_table import WorkingTable
        from puffin_fast.iceberg.maintenance.orphan_files import files_of_unknown, needed_files

        table = WorkingTable(where)
        table.load()
        table.complete()
        table.publish()
        return needed_files(table, table.metadata.snapshots) | files_of_unknown(table)
    storage = _delta(where, filesystem)
    if storage is None:
        return set()
    from puffin_fast.delta.maintenance.orphan_files import needed_files as needed_by_log

    return needed_by_log(storage)
