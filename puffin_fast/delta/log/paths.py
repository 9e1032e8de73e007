"""The paths of actions on files, as columns: how they are spelled, and the keys of files.

A path is relative to the table, or absolute: a URI or a path of the file system. It may be percent-encoded.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.delta.log.storage import canonical_path

_SEPARATOR = "\x1f"
_SPELLED = "^/|[%:]"
"""Matches paths that differ from the location relative to the table: encoded or absolute ones."""


def keys_of(actions: pa.Table) -> pa.Array:
    """Returns the keys of files: the canonical path and the unique id of the vector.

    Args:
        actions: the columns `path` and `deletionVector`.
    """
    paths = actions["path"].combine_chunks()
    spelled = are_spelled(paths)
    if pc.any(spelled).as_py():
        canonical = [canonical_path(path) for path in paths.filter(spelled).to_pylist()]
        paths = pc.replace_with_mask(paths, spelled, pa.array(canonical, pa.string()))
    vectors = actions["deletionVector"].combine_chunks()
    kind, name, offset = (vectors.field(at) for at in range(3))
    ids = pc.binary_join_element_wise(
        pc.fill_null(kind, ""),
        pc.fill_null(name, ""),
        pc.fill_null(pc.binary_join_element_wise("@", offset.cast(pa.string()), ""), ""),
        "",
    )
    ids = pc.if_else(vectors.is_valid(), ids, "")
    return pc.binary_join_element_wise(paths, ids, _SEPARATOR)


def are_spelled(paths: pa.Array) -> pa.BooleanArray:
    """Returns which paths of the log are encoded or absolute. The others are below the folder of the table."""
    if not may_be_spelled(pa.chunked_array([paths])):
        return pa.array(np.zeros(len(paths), np.bool_))
    return pc.match_substring_regex(paths, _SPELLED)


def may_be_spelled(paths: pa.ChunkedArray) -> bool:
    """False where no path matches `_SPELLED`."""
    return may_contain(paths, b"%:") or pc.any(pc.starts_with(paths, "/")).as_py() is True


def may_contain(paths: pa.ChunkedArray, characters: bytes) -> bool:
    """False where no path has one of some characters; by their buffers, which may hold more than the paths."""
    buffers = (chunk.buffers()[2] for chunk in paths.chunks)
    data = [b"" if buffer is None else buffer.to_pybytes() for buffer in buffers]
    return any(character in one for one in data for character in characters)
