"""The filesystem inside of a table's FileIO.

A FileIO of PyIceberg has no public way to it, in 0.12.0 or on its main branch of August 2026.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from puffin_fast._pyiceberg.versions import check_version
from puffin_fast.errors import UnsupportedError


def filesystem(io: FileIO, location: str) -> tuple[Any, str]:
    """The pyarrow or fsspec filesystem that a table's FileIO uses for a location, and the path on it."""
    check_version()
    if isinstance(io, PyArrowFileIO):
        scheme, netloc, path = PyArrowFileIO.parse_location(location, io.properties)
        return io.fs_by_scheme(scheme, netloc), path
    if hasattr(io, "_get_fs_from_uri"):
        from urllib.parse import urlparse

        return io._get_fs_from_uri(urlparse(location), location), location
    raise UnsupportedError(f"{type(io).__name__}: expected PyIceberg's PyArrowFileIO or FsspecFileIO")
