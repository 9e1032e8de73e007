"""Reads a table's metadata file as a JSON document, with bounded memory.

No release of PyIceberg ends this: 0.12.0 and its main branch of August 2026 read a file of any size.
"""

from __future__ import annotations

import gzip
import json
import zlib
from io import BytesIO
from typing import TYPE_CHECKING, Any

from puffin_fast._io import open_source
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.errors import CorruptDataError, LimitExceededError
from puffin_fast.limits import MAX_METADATA_BYTES, most_inflated

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_GZIP_MAGIC = b"\x1f\x8b"


def read_metadata_file(io: FileIO, path: str) -> dict[str, Any]:
    """The document of a metadata file, compressed or not.

    Raises:
        CorruptDataError: it is not a JSON object, or not complete.
        InvalidInputError: the path is not a regular file.
        LimitExceededError: it has more bytes, stored or decompressed, than `limits` allows.
        NotFoundError: there is no such file.
    """
    with open_source(path, filesystem=io) as source:
        source.expect_whole()
        _check(path, source.size, MAX_METADATA_BYTES.of(io))
        data = source.read_at(0, source.size)
    try:
        if data.startswith(_GZIP_MAGIC):
            limit = most_inflated(len(data), io)
            data = gzip.GzipFile(fileobj=BytesIO(data)).read(limit + 1)
            _check(path, len(data), limit)
        document = json.loads(data)
    except (ValueError, EOFError, OSError, RecursionError, zlib.error) as error:
        if is_from_outside(error):
            raise
        if isinstance(error, LimitExceededError):
            raise
        raise CorruptDataError("metadata file", path=path, expected="a JSON object", found=error) from error
    if not isinstance(document, dict):
        raise CorruptDataError(
            "metadata file", path=path, expected="a JSON object", found=type(document).__name__
        )
    return document


def _check(path: str, n_bytes: int, limit: int) -> None:
    if n_bytes > limit:
        raise LimitExceededError(f"{path}: {n_bytes} bytes or more, the limit for a metadata file is {limit}")
