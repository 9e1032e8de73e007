"""The file of a version, which makes a commit: whether it was written, also if the storage did not say so."""

from __future__ import annotations

import time

from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.delta.log.segment import commit_path, has_versions
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.errors import CommitUnknownError, NotFoundError, PuffinFastError, UnsupportedError

ATTEMPTS = 2
"""Maximum number of requests to an object store after which there is no version."""

WAIT_S = 0.2
"""Seconds before the second request."""


def put_version(storage: TableStorage, version: int, data: bytes, known_by: str) -> bool:
    """Writes the file of a version unless it exists; returns whether its bytes are these.

    On an object store, no error says that the file was not written: the client repeats a request whose answer was
    lost, and reports what the last one came to. An earlier one may be done later still. So the file is read. If it is
    not there, the request is repeated, which changes nothing if an earlier one was done.

    Args:
        data: the content of the file.
        known_by: what only this content has, for messages.

    Raises:
        CommitUnknownError: the file may have been written, or an object store may write it later.
        UnsupportedError: the filesystem has no conditional writes.
        Exception: what a local disk says that has not written the file.
    """
    path = commit_path(version)
    if storage.is_local:
        return _put_locally(storage, path, data, known_by)
    cause: Exception | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(WAIT_S)
        try:
            if storage.put(path, data):
                return True
        except UnsupportedError:  # before any request
            raise
        except Exception as error:
            if is_from_outside(error):
                raise
            cause = error
        try:
            return storage.holds(path, data)
        except Exception as error:
            if is_from_outside(error):
                raise
            cause = cause or error
    assert cause is not None
    raise _unknown(storage, path, cause, known_by) from cause


def put_first_version(storage: TableStorage, data: bytes, known_by: str) -> bool:
    """Writes the file of version 0 of a new table; returns False if there is a table. Raises as `put_version`.

    The log is listed first: a table whose first versions were removed has no file of version 0. And if the storage
    cannot be reached, nothing was sent.
    """
    return not has_versions(storage) and put_version(storage, 0, data, known_by)


def _put_locally(storage: TableStorage, path: str, data: bytes, known_by: str) -> bool:
    """As `put_version`. An error may come after the file got its name, but no file comes later."""
    cause: Exception | None = None
    try:
        if storage.put(path, data):
            storage.wait_for_renames(path)
    except Exception as error:
        if is_from_outside(error):
            raise
        cause = error
    try:
        is_there = storage.holds(path, data)
    except NotFoundError:
        is_there = False
    except Exception as error:
        if is_from_outside(error):
            raise
        raise _unknown(storage, path, cause or error, known_by) from error
    if not is_there and cause is not None:
        raise cause
    return is_there


def _unknown(storage: TableStorage, path: str, cause: Exception, known_by: str) -> CommitUnknownError:
    return CommitUnknownError(
        f"{storage.root}/{path}: it is unknown whether this commit happened: {cause}; it happened if the file has, or "
        f"gets, {known_by}"
    )


def may_have_happened(storage: TableStorage, version: int, error: BaseException) -> bool:
    """Whether the file of a version may be there although an exception has ended its commit.

    Args:
        error: the exception. One of this package says so itself. Any other may come after the file was written, from a
            signal's handler for example; an object store may write it later.
    """
    if isinstance(error, PuffinFastError):
        return isinstance(error, CommitUnknownError)
    return not storage.is_local or storage.new_input(f"{storage.root}/{commit_path(version)}").exists()
