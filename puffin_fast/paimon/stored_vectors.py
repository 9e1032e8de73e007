"""Reads the deletion vectors of a Paimon table.

    snapshot/snapshot-N (JSON) -> indexManifest -> manifest/<name> (Avro) -> index/<file>, the range of each vector

The `length` of a vector in the index manifest is that of magic and bitmap for V1, and of the whole record for V2. The
length field of the record determines what is read. The vectors of primary-key tables, which compaction writes, are read
in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from puffin_fast._io import open_source
from puffin_fast.dv import iceberg
from puffin_fast.dv import paimon as codec
from puffin_fast.paimon.index_manifest import VectorsFile, index_manifest_of, live_files, read_record
from puffin_fast.paimon.snapshots import TableFiles

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


def vectors(table: Any, *, snapshot_id: int | None = None, filesystem: Any = None) -> pa.Table:
    """Reads and checks all deletion vectors of a snapshot, of version 1 and 2.

    Args:
        table: the table's folder, a path or a URI; or a table of pypaimon; snapshots are those of its branch.
        snapshot_id: the number of the snapshot; by default the one at which pypaimon opened the table (its tag,
            snapshot, version, watermark or time), or the newest.
        filesystem: the pyarrow.fs.FileSystem or fsspec filesystem of the path; by default that of pypaimon's table.

    Returns:
        A row for each data file with a vector: ``partition`` (in Paimon's binary form), ``bucket``, ``file_name``,
        ``blob`` (`deletion-vector-v1`, as the functions of `puffin_fast.arrow` accept it), ``cardinality``, ``version``
        of the stored record and ``index_file``.

    Raises:
        NotFoundError: the table, the snapshot or a file does not exist.
        CorruptDataError: a file does not agree with the metadata.
        UnsupportedError: the version of the index manifest is unknown, or pypaimon opened the table for a range of
            snapshots.
        InvalidInputError: the table is neither a path nor a table of pypaimon, or its scan options are invalid.

    Examples:
        >>> result = pf.paimon.delete(table, "id < 10")
        >>> pf.paimon.vectors(table)["cardinality"].to_pylist()
        [10]
    """
    files = TableFiles.of(table, filesystem)
    snapshot, path = files.snapshot(snapshot_id)
    rows: list[tuple[Any, ...]] = []
    for file in vectors_files(files, snapshot, path):
        rows += _vectors_of(file, files)
    columns = list(zip(*rows, strict=True)) or [()] * len(VECTORS)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, VECTORS, strict=True)], schema=VECTORS
    )


def vectors_files(files: TableFiles, snapshot: Mapping[str, Any], path: str) -> list[VectorsFile]:
    """The index files of deletion vectors of a snapshot, whose file has a path."""
    name = index_manifest_of(snapshot.get("indexManifest"), path)
    if name is None:
        return []
    path = f"{files.root}/manifest/{name}"
    return live_files(files.read(path), path)


def _vectors_of(file: VectorsFile, files: TableFiles) -> Iterator[tuple[Any, ...]]:
    """Yields the rows for an index file."""
    index = file.external_path or f"{files.root}/index/{file.name}"
    with open_source(index, filesystem=files.filesystem) as source:
        for one in file.ranges:
            record = read_record(source, one.offset, one.length, index)
            bitmap = codec.decode(record, cardinality=one.cardinality, path=index, offset=one.offset)
            version = codec.version_of(record)
            blob = record if version == 2 else iceberg.encode(bitmap)
            yield file.partition, file.bucket, one.file_name, blob, len(bitmap), version, file.name
