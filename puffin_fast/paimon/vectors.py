"""The deletion vectors of a Paimon table.

    snapshot/snapshot-N (JSON) -> indexManifest -> manifest/<name> (Avro) -> index/<file>, the range of each vector

A vector's `length` in the index manifest is that of magic and bitmap for V1, of the whole record for V2; the record's
own length decides what is read. Primary-key tables have vectors that compaction makes; they are read the same way.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa

from puffin_fast._runtime import Source, open_source
from puffin_fast._runtime.folder import names_in
from puffin_fast.dv import iceberg
from puffin_fast.dv import paimon as codec
from puffin_fast.errors import CorruptDataError, NotFoundError, UnsupportedError

__all__ = ["VECTORS", "vectors"]

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
"""What `vectors` gives."""

_SNAPSHOT = re.compile(r"snapshot-(\d+)", re.ASCII)
_VECTORS_INDEX = "DELETION_VECTORS"
_MANIFEST_VERSION = 1
_DELETE = 1
_HEAD_BYTES = 8
_FRAME_BYTES = 8


def vectors(
    table: str | os.PathLike[str], *, snapshot: int | None = None, filesystem: Any = None
) -> pa.Table:
    """The deletion vectors of a snapshot, every one of them read and checked; V1 and V2, mixed or not.

    Args:
        table: the table's folder, a path or a URI.
        snapshot: which one; the newest by default.
        filesystem: a pyarrow.fs.FileSystem or an fsspec filesystem on which the path lies.

    Returns:
        A row for each data file with a vector: ``partition`` (Paimon's bytes of it), ``bucket``, ``file_name``,
        ``blob`` (`deletion-vector-v1`, as the functions of `puffin_fast.arrow` take it), ``cardinality``, ``version``
        of the stored record and ``index_file``.

    Raises:
        NotFoundError: no Paimon table, no such snapshot, or a file that is gone.
        CorruptDataError: a file that is not what the metadata says.
        UnsupportedError: an index manifest of another version.
    """
    root = os.fspath(table).rstrip("/")
    path = f"{root}/snapshot/snapshot-{_chosen(root, snapshot, filesystem)}"
    try:
        found = json.loads(_read(path, filesystem))
        manifest = found.get("indexManifest")
    except (ValueError, AttributeError) as error:
        raise CorruptDataError(
            "snapshot of a Paimon table", path=path, expected="a JSON object", found=error
        ) from error
    rows: list[tuple[Any, ...]] = []
    for entry in _entries(f"{root}/manifest/{manifest}", filesystem) if manifest else ():
        name = entry["_FILE_NAME"]
        index = entry.get("_EXTERNAL_PATH") or f"{root}/index/{name}"
        with open_source(index, filesystem=filesystem) as source:
            for item in entry["_DELETIONS_VECTORS_RANGES"] or ():
                record = _record(source, item["f1"], item["f2"])
                cardinality = item.get("_CARDINALITY")
                bitmap = codec.decode(record, cardinality=cardinality, path=index, offset=item["f1"])
                version = codec.version_of(record)
                blob = record if version == 2 else iceberg.encode(bitmap)
                rows.append(
                    (entry["_PARTITION"], entry["_BUCKET"], item["f0"], blob, len(bitmap), version, name)
                )
    columns = list(zip(*rows, strict=True)) or [()] * len(VECTORS)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, VECTORS, strict=True)], schema=VECTORS
    )


def _chosen(root: str, snapshot: int | None, filesystem: Any) -> int:
    names = names_in(f"{root}/snapshot", "snapshot-", filesystem=filesystem)
    known = [int(match[1]) for name in names if (match := _SNAPSHOT.fullmatch(name)) is not None]
    if not known:
        raise NotFoundError(f"{root}: no Paimon table with snapshots")
    if snapshot is not None and snapshot not in known:
        raise NotFoundError(f"{root}: no snapshot {snapshot}, there are {min(known)} to {max(known)}")
    return max(known) if snapshot is None else snapshot


def _read(path: str, filesystem: Any) -> bytes:
    with open_source(path, filesystem=filesystem) as source:
        return source.read_at(0, source.size)


def _entries(path: str, filesystem: Any) -> Iterator[dict[str, Any]]:
    """The live index files of deletion vectors."""
    data = _read(path, filesystem)
    live: dict[str, dict[str, Any]] = {}
    try:
        entries: Any = fastavro.reader(io.BytesIO(data))
        for entry in entries:
            if entry["_VERSION"] != _MANIFEST_VERSION:
                raise UnsupportedError(f"{path}: index manifest of version {entry['_VERSION']}")
            if entry["_INDEX_TYPE"] != _VECTORS_INDEX:
                continue
            if entry["_KIND"] == _DELETE:
                live.pop(entry["_FILE_NAME"], None)
            else:
                live[entry["_FILE_NAME"]] = entry
    except (ValueError, KeyError, TypeError, EOFError, IndexError) as error:
        raise CorruptDataError(
            "index manifest", path=path, expected="an Avro file", found=repr(error)
        ) from error
    yield from live.values()


def _record(source: Source, offset: int, length: int) -> bytes:
    """A whole record: `length` may leave out length and checksum."""
    if offset < 0 or length < 0:
        raise CorruptDataError(
            "range of a deletion vector", path=source.path, expected="0 or more", found=(offset, length)
        )
    head = source.read_at(offset, _HEAD_BYTES)
    declared = int.from_bytes(head[:4], "big") + _FRAME_BYTES
    if declared not in (length, length + _FRAME_BYTES):
        raise CorruptDataError(
            "length of a deletion vector",
            path=source.path,
            offset=offset,
            expected=f"{length} (index manifest)",
            found=declared,
        )
    return source.read_at(offset, declared)
