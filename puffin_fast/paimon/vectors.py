"""Reads the deletion vectors of a Paimon table.

    snapshot/snapshot-N (JSON) -> indexManifest -> manifest/<name> (Avro) -> index/<file>, the range of each vector

The `length` of a vector in the index manifest is that of magic and bitmap for V1, and of the whole record for V2. The
length field of the record determines what is read. The vectors of primary-key tables, which compaction writes, are read
in the same way.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.fs

from puffin_fast._io import Source, open_source
from puffin_fast._io.folder import names_in
from puffin_fast._io.location import folder_of
from puffin_fast.dv import iceberg
from puffin_fast.dv import paimon as codec
from puffin_fast.errors import CorruptDataError, InvalidInputError, LimitExceededError, NotFoundError
from puffin_fast.limits import check_metadata_size
from puffin_fast.paimon.index_manifest import VectorsFile, index_manifest_of, live_files

VECTORS = pa.schema(
    [
        ("partition", pa.binary()),
        ("bucket", pa.int32()),
        ("file_name", pa.string()),
        ("blob", pa.large_binary()),
        ("cardinality", pa.int64()),
        ("version", pa.int8()),
        ("index_file", pa.string()),
    ]
)
"""The schema of the result of `vectors`."""

_SNAPSHOT = re.compile(r"snapshot-(\d+)", re.ASCII)
_HEAD_BYTES = 8
_FRAME_BYTES = 8


def vectors(table: Any, *, snapshot_id: int | None = None, filesystem: Any = None) -> pa.Table:
    """Reads and checks all deletion vectors of a snapshot, of version 1 and 2.

    Args:
        table: the table's folder, a path or a URI; or a table of pypaimon, of whose branch the snapshots are.
        snapshot_id: the number of the snapshot; the newest by default.
        filesystem: the pyarrow.fs.FileSystem or fsspec filesystem of the path; by default that of pypaimon's table.

    Returns:
        A row for each data file with a vector: ``partition`` (in Paimon's binary form), ``bucket``, ``file_name``,
        ``blob`` (`deletion-vector-v1`, as the functions of `puffin_fast.arrow` accept it), ``cardinality``, ``version``
        of the stored record and ``index_file``.

    Raises:
        NotFoundError: the table, the snapshot or a file does not exist.
        CorruptDataError: a file does not agree with the metadata.
        UnsupportedError: the version of the index manifest is unknown.
        InvalidInputError: the table is neither a path nor a table of pypaimon.

    Examples:
        >>> result = pf.paimon.delete(table, "id < 10")
        >>> pf.paimon.vectors(table)["cardinality"].to_pylist()
        [10]
    """
    root, folder, filesystem = _place(table, filesystem)
    path = f"{folder}/snapshot-{_chosen(folder, snapshot_id, filesystem)}"
    try:
        found = json.loads(_read(path, filesystem))
        manifest = found.get("indexManifest")
    except (ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, LimitExceededError):
            raise
        raise CorruptDataError(
            "snapshot of a Paimon table", path=path, expected="a JSON object", found=error
        ) from error
    rows: list[tuple[Any, ...]] = []
    if (name := index_manifest_of(manifest, path)) is not None:
        path = f"{root}/manifest/{name}"
        for file in live_files(_read(path, filesystem), path):
            rows += _vectors_of(file, root, filesystem)
    columns = list(zip(*rows, strict=True)) or [()] * len(VECTORS)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, VECTORS, strict=True)], schema=VECTORS
    )


def _vectors_of(file: VectorsFile, root: str, filesystem: Any) -> Iterator[tuple[Any, ...]]:
    """Yields the rows for an index file."""
    index = file.external_path or f"{root}/index/{file.name}"
    with open_source(index, filesystem=filesystem) as source:
        for one in file.ranges:
            record = read_record(source, one.offset, one.length, index)
            bitmap = codec.decode(record, cardinality=one.cardinality, path=index, offset=one.offset)
            version = codec.version_of(record)
            blob = record if version == 2 else iceberg.encode(bitmap)
            yield file.partition, file.bucket, one.file_name, blob, len(bitmap), version, file.name


def _place(table: Any, filesystem: Any) -> tuple[str, str, Any]:
    """The folder of a table, that of its snapshots, and their filesystem."""
    if isinstance(table, str | os.PathLike):
        root = folder_of(table)
        return root, f"{root}/snapshot", filesystem
    if not hasattr(table, "table_path") or not hasattr(table, "snapshot_manager"):
        raise InvalidInputError(
            f"table: expected the path of a table or a table of pypaimon, found {type(table).__name__}"
        )
    own = getattr(table.file_io, "filesystem", None)  # that of local files has no class of PyArrow
    if filesystem is None and isinstance(own, pyarrow.fs.FileSystem):
        filesystem = own
    return str(table.table_path).rstrip("/"), str(table.snapshot_manager().snapshot_dir), filesystem


def _chosen(folder: str, snapshot: int | None, filesystem: Any) -> int:
    names = names_in(folder, "snapshot-", filesystem=filesystem)
    known = [int(match[1]) for name in names if (match := _SNAPSHOT.fullmatch(name)) is not None]
    if not known:
        raise NotFoundError(f"{folder}: no snapshots of a Paimon table")
    if snapshot is not None and snapshot not in known:
        raise NotFoundError(
            f"{folder}: expected a snapshot from {min(known)} to {max(known)}, found {snapshot}"
        )
    return max(known) if snapshot is None else snapshot


def _read(path: str, filesystem: Any) -> bytes:
    with open_source(path, filesystem=filesystem) as source:
        check_metadata_size(path, source.size, filesystem)
        return source.read_at(0, source.size)


def read_record(source: Source, offset: int, length: int, path: str) -> bytes:
    """Reads a whole record of an index file.

    Args:
        source: the file.
        offset, length: its range in the index manifest; the length may exclude the length field and the checksum.
        path: of the file, for errors.

    Raises:
        CorruptDataError: the range is not a record.
    """
    if offset < 0 or length < 0:
        raise CorruptDataError(
            "range of a deletion vector", path=path, expected="0 or more", found=(offset, length)
        )
    head = source.read_at(offset, _HEAD_BYTES)
    declared = int.from_bytes(head[:4], "big") + _FRAME_BYTES
    if declared not in (length, length + _FRAME_BYTES):
        raise CorruptDataError(
            "length of a deletion vector",
            path=path,
            offset=offset,
            expected=f"{length} (index manifest)",
            found=declared,
        )
    return source.read_at(offset, declared)
