"""The file of a version, which makes a commit: whether it was written, also if the storage did not say so."""

from __future__ import annotations

from puffin_fast.delta.log.segment import commit_path
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.errors import CommitUnknownError, InvalidInputError, NotFoundError, UnsupportedError

__all__ = ["may_have_happened", "put_version"]

_REFUSALS = (InvalidInputError, NotFoundError, UnsupportedError)
"""Errors of a storage that has not written the file, and will not."""


def put_version(storage: TableStorage, version: int, data: bytes, known_by: str) -> bool:
    """Writes the file of a version unless it exists; returns whether its bytes are these.

    They are, too, if the answer of the storage was lost, and the file was written. An object store may write it later
    still: there, only a refusal and the file of another commit say that this one did not happen.

    Args:
        storage: of the table.
        version: the version.
        data: the content of the file.
        known_by: what only this content has, for messages.

    Raises:
        CommitUnknownError: the storage did not answer whether the file was written.
    """
    path = commit_path(version)
    cause: Exception | None = None
    try:
        if storage.put(path, data) and not storage.wait_for_renames(path):
            return True
    except _REFUSALS:
        raise
    except Exception as error:
        cause = error
    try:
        found = storage.read(path, fresh=True)
    except Exception as error:
        if not (isinstance(error, NotFoundError) and storage.is_local):
            raise CommitUnknownError(
                f"{storage.root}/{path}: it is unknown whether this commit happened, because the storage did not "
                f"answer: {cause or error}; it happened if the file has {known_by}"
            ) from (cause or error)
        found = b""
    if found != data and cause is not None and storage.is_local:
        raise cause
    return found == data


def may_have_happened(storage: TableStorage, version: int, error: BaseException) -> bool:
    """Whether the file of a version may be there although an exception has ended its commit.

    Args:
        storage: of the table.
        version: the version.
        error: the exception. An interruption may come after the file was written; an object store may write it later.
    """
    if isinstance(error, Exception):
        return isinstance(error, CommitUnknownError)
    return not storage.is_local or storage.new_input(f"{storage.root}/{commit_path(version)}").exists()
