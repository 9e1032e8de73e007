"""A strict reader of the deletion vectors of Iceberg tables: of the current snapshot, from the bytes of its files.

It refuses what iceberg-go 0.7 refuses, which compares more than Java does:

- an entry's ``file_format`` is a format's name in capitals; a vector's is ``PUFFIN``;
- an entry of a vector has ``referenced_data_file``, ``content_offset`` and ``content_size_in_bytes``, at most 256 MiB,
  and no other vector is of the same data file;
- a Puffin file has its magic three times, only known flags, and one JSON object as its footer;
- each blob of the footer has a type and lies between the first magic and the footer; vectors have the snapshot id and
  the sequence number -1;
- the blob at the entry's offset has the entry's length, is a vector, is not compressed, and has the entry's
  ``referenced-data-file`` and ``cardinality``;
- a vector has its length, magic and checksum, no bytes after its bitmaps, ascending keys, and the entry's cardinality.

It also refuses a vector whose data file is not live, or is newer, or has another partition: Java does.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.kit.avro_files import read_avro
from tests.kit.oracle import check, decode_blob, mask
from tests.kit.rows import Rows, in_order
from tests.kit.tables import path_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["by_vectors", "read_vectors"]

MAGIC = b"PFA1"
FORMATS = {"PARQUET", "AVRO", "ORC", "PUFFIN"}
MAX_BYTES = 256 << 20
DELETED = 2


def by_vectors(table: Table, order: str = "id") -> Rows:
    """The rows of the Parquet files that no vector deletes, as PyArrow reads the files."""
    data, vectors = _read(table)
    columns, parts = [field.name for field in table.schema().fields], []
    for path in data:
        rows = pq.read_table(path_of(path), columns=columns, partitioning=None)
        parts.append(rows.filter(pa.array([not one for one in mask(vectors.get(path, ()), rows.num_rows)])))
    return in_order(pa.concat_tables(parts) if parts else [], order)


def read_vectors(table: Table) -> dict[str, list[int]]:
    """The deleted positions of each data file that has a vector.

    Raises:
        RefusedError: a vector breaks a rule; the message names it.
    """
    return _read(table)[1]


def _read(table: Table) -> tuple[dict[str, dict[str, Any]], dict[str, list[int]]]:
    """The entries of the live data files by path, and the positions."""
    snapshot = table.current_snapshot()
    data: dict[str, dict[str, Any]] = {}
    vectors: dict[str, dict[str, Any]] = {}
    for manifest in read_avro(snapshot.manifest_list)[1] if snapshot else ():
        for entry in read_avro(manifest["manifest_path"])[1]:
            file = entry["data_file"]
            if entry["status"] == DELETED:
                continue
            check(file["file_format"] in FORMATS, "file_format")
            file["spec"] = manifest["partition_spec_id"]
            file["sequence"] = entry["sequence_number"]
            if file["sequence"] is None:
                file["sequence"] = manifest["sequence_number"]
            if file["content"] == 0:
                data[file["file_path"]] = file
            elif file["content"] == 1 and file["file_format"] == "PUFFIN":
                path = file["referenced_data_file"]
                check(bool(path), "no referenced_data_file")
                check(path not in vectors, "two vectors of a data file")
                vectors[path] = file
    for path, file in vectors.items():
        check(path in data, "the data file is not live")
        check(data[path]["sequence"] <= file["sequence"], "the data file is newer")
        check(
            all(data[path][name] == file[name] for name in ("spec", "partition")),
            "partition of the data file",
        )
    return data, {path: _positions(file) for path, file in vectors.items()}


def _positions(file: dict[str, Any]) -> list[int]:
    """The positions of the vector that an entry names."""
    offset, size = file["content_offset"], file["content_size_in_bytes"]
    check(offset is not None and size is not None, "no offset or length")
    check(0 < size <= MAX_BYTES, "length of the entry")
    data = path_of(file["file_path"]).read_bytes()
    blobs = [blob for blob in _footer(data)["blobs"] if blob["offset"] == offset]
    check(bool(blobs), "no blob at the offset")
    blob = blobs[0]
    check(blob["length"] == size, "length of the blob")
    check(blob["type"] == "deletion-vector-v1", "type")
    check(not blob.get("compression-codec"), "compression")
    properties = blob.get("properties", {})
    check(properties.get("referenced-data-file") == file["referenced_data_file"], "referenced-data-file")
    check(properties.get("cardinality") == str(file["record_count"]), "cardinality of the footer")
    return decode_blob(data[offset : offset + size], file["record_count"])


def _footer(data: bytes) -> Any:
    """The footer of a Puffin file."""
    check(len(data) >= 20 and data[:4] == data[-4:] == MAGIC, "magic of the file")
    size, flags = struct.unpack("<iI", data[-12:-4])
    check(flags == 0, "flags")  # iceberg-go reads compressed footers, Java does not
    start = len(data) - 16 - size
    check(size >= 0 and start >= 4 and data[start : start + 4] == MAGIC, "magic of the footer")
    try:
        footer = json.loads(data[start + 4 : -12])
    except ValueError:
        footer = None
    check(isinstance(footer, dict), "JSON of the footer")
    for blob in footer["blobs"]:
        check(bool(blob["type"]), "type")
        check(4 <= blob["offset"] <= blob["offset"] + blob["length"] <= start, "place of a blob")
        if blob["type"] == "deletion-vector-v1":
            check(blob["snapshot-id"] == blob["sequence-number"] == -1, "snapshot id or sequence number")
    return footer
