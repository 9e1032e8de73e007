"""A file access for tables that writes snapshots only if absent, also with several processes.

pypaimon writes a snapshot under a temporary name, checks that its number is free, and renames it. A lock makes these
steps atomic only within one process. A local rename replaces a snapshot that another process wrote in between: the
commit of that process is lost, although it was reported as successful. Here, a hard link gives the snapshot its name.
"""

from __future__ import annotations

import os
import re
from typing import Any

from puffin_fast._io import open_source, split_location
from puffin_fast._io.sink import put_if_absent, wait_for_renames
from puffin_fast.errors import InvalidInputError, NotFoundError

_SNAPSHOT = re.compile(r"snapshot-(\d+)", re.ASCII)


class SnapshotRefusedError(BaseException):
    """The storage does not let a snapshot be written. No `Exception`, because pypaimon tries again after those.

    Attributes:
        error: what the storage said.
    """

    def __init__(self, error: InvalidInputError) -> None:
        super().__init__(str(error))
        self.error = error


class SnapshotFiles:
    """File access of pypaimon that writes a snapshot on a local disk only if it does not exist.

    Args:
        file_io: the FileIO of pypaimon; used for all other files.

    Attributes:
        written: the number of the snapshot that was written; None if there is none.
        is_tried: whether a snapshot was to be written.
    """

    def __init__(self, file_io: Any) -> None:
        self._file_io = file_io
        self.written: int | None = None
        self.is_tried = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file_io, name)

    def try_to_write_atomic(self, path: str, content: str) -> bool:
        """Writes a file unless it exists; returns whether it was written.

        Raises:
            SnapshotRefusedError: the storage is read-only.
        """
        snapshot = _SNAPSHOT.fullmatch(os.path.basename(path))
        self.is_tried |= snapshot is not None
        is_local = split_location(path)[0] in ("", "file")
        if snapshot is None or not is_local:
            done = bool(self._file_io.try_to_write_atomic(path, content))
        else:
            try:
                done = _put(str(self._file_io.to_filesystem_path(path)), content.encode())
            except InvalidInputError as error:
                raise SnapshotRefusedError(error) from error
        if done and snapshot is not None:
            self.written = int(snapshot[1])
        return done


def _put(path: str, data: bytes) -> bool:
    if not put_if_absent(path, data):
        return False
    wait_for_renames(path)  # pypaimon and Java rename their files to this path, which would replace the file
    try:
        with open_source(path) as source:
            return source.read_at(0, source.size) == data
    except NotFoundError:
        return False
