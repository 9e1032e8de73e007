"""Reads position-delete files: the positions of each data file that they name.

    file_path  a a a b b     runs of equal paths, which are sorted in files of most writers
    pos        0 4 9 2 3     a: {0, 4, 9}, b: {2, 3}

A table may have many small delete files: most of the time for one of them is that of opening it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from puffin_fast import arrow
from puffin_fast._kernels.parquet.text_views import text_runs
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg as codec
from puffin_fast.errors import CorruptDataError, InvalidInputError
from puffin_fast.rows.files.files import reading
from puffin_fast.rows.files.projection import FIELD_ID
from puffin_fast.rows.files.reader import columns_of, open_format
from puffin_fast.rows.shared_deletes import FILE_PATH_ID

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from puffin_fast.rows.tasks import DeleteFile

BATCH_ROWS = 1 << 20
"""Maximum number of rows of a batch of a position-delete file."""

ROWS_OF_RUN = 8
"""Average number of rows of a run of equal paths from which on a batch is grouped by its runs ..."""

MOST_RUNS = 1 << 10
"""... or it has at most this number of runs."""

PATH_COLUMN = "file_path"
"""The name of the column of paths (table specification, "Position Delete Files")."""

POS_FIELD = 2147483545
"""Reserved field id of ``pos`` in position deletes."""


def read_position_deletes(io: FileIO, entry: DeleteFile) -> Iterator[dict[str, PositionBitmap]]:
    """Reads a position-delete file in batches of at most `BATCH_ROWS` rows.

    Yields:
        The positions of each data file in a batch.

    Raises:
        CorruptDataError: the row count is not that of the manifest entry, or a row has a null or an invalid
            position; also as `open_format`.
        NotFoundError, UnsupportedError: as `open_format`.
    """
    path = entry.file_path
    with reading(path, entry.file_format):
        file = open_format(io, entry)
        columns = _columns(file.schema_bytes, path)
        if file.n_rows != entry.record_count:
            raise CorruptDataError(
                "rows of a position-delete file",
                path=path,
                expected=f"{entry.record_count} (manifest)",
                found=file.n_rows,
            )
        left = file.n_rows
        for rows in columns_of(file, columns, BATCH_ROWS, views=True):
            paths, positions = (rows[name] for name in columns)
            left -= len(paths)
            found = _by_runs(paths, positions)
            if found is None:
                try:
                    grouped = arrow.encode_grouped(_as_dictionary(paths), positions)
                except InvalidInputError as error:
                    raise CorruptDataError(f"position deletes: {error}", path=path) from error
                blobs = map(codec.decode, grouped["blob"].to_pylist())
                found = dict(zip(grouped["file_path"].to_pylist(), blobs, strict=True))
            yield found
        if left:  # the header of an Avro file has no row count
            raise CorruptDataError(
                "rows of a position-delete file", path=path, expected=file.n_rows, found=file.n_rows - left
            )


def _by_runs(paths: pa.Array, positions: pa.Array) -> dict[str, PositionBitmap] | None:
    """The positions of each path; None if they are not in few runs, or not as expected."""
    if paths.type != pa.string_view() or positions.type != pa.int64():
        return None
    if len(paths) != len(positions) or paths.null_count or positions.null_count or paths.offset:
        return None
    _, views, *texts = paths.buffers()
    runs = text_runs(views, len(paths), texts, max(len(paths) // ROWS_OF_RUN, MOST_RUNS))
    if runs is None:
        return None
    starts, names = runs
    numbers = positions.to_numpy()
    found: dict[str, list[np.ndarray]] = {}
    for name, start, stop in zip(names, starts, [*starts[1:], len(paths)], strict=True):
        found.setdefault(name, []).append(numbers[start:stop])
    try:
        return {
            name: PositionBitmap.from_positions(parts[0] if len(parts) == 1 else np.concatenate(parts))
            for name, parts in found.items()
        }
    except InvalidInputError:
        return None


def _as_dictionary(paths: pa.Array) -> pa.Array:
    """Paths as a dictionary if they are views: those of one entry of a dictionary page are equal."""
    if paths.type != pa.string_view() or paths.null_count or paths.offset:
        return paths
    _, views, *texts = paths.buffers()
    coded = pa.Array.from_buffers(pa.binary(16), len(paths), [None, views]).dictionary_encode()
    buffers = [None, coded.dictionary.buffers()[1], *texts]
    distinct = pa.Array.from_buffers(pa.string_view(), len(coded.dictionary), buffers)
    return pa.DictionaryArray.from_arrays(coded.indices, distinct.cast(pa.large_string()))


def _columns(schema: bytes, path: str) -> Sequence[str]:
    """The names of the columns of paths and positions in a file of an Arrow schema, which is serialized."""
    columns, missing = _known_columns(schema)
    if missing:
        raise CorruptDataError(
            "columns of position deletes", path=path, expected=[*columns], found=f"no {[*missing]}"
        )
    return columns


@lru_cache(maxsize=64)
def _known_columns(schema: bytes) -> tuple[Sequence[str], Sequence[str]]:
    """The names of the columns, and those of them that are missing."""
    found = pa.ipc.read_schema(pa.py_buffer(schema))
    names = {
        int(field.metadata[FIELD_ID]): field.name
        for field in found
        if field.metadata and FIELD_ID in field.metadata
    }
    columns = names.get(FILE_PATH_ID, PATH_COLUMN), names.get(POS_FIELD, "pos")
    return columns, tuple(name for name in columns if name not in found.names)
