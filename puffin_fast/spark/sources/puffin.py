"""The data source ``puffin``: the blobs of Puffin files as rows.

Call ``puffin_fast.spark.register(spark)``, then ``spark.read.format("puffin").load(paths)``. Only footers are
read, unless an option asks for more:

====================  =====================================================================================
option                rows
====================  =====================================================================================
(none)                a row per blob: its file, offset, length and metadata
``bytes=true``        the same, and ``blob``: the decompressed bytes
``positions=true``    a row per position of each deletion vector: path, file_path (the data file), pos
====================  =====================================================================================

A path is a file, a folder, or a glob pattern of folders and names. ``recursiveFileLookup=true`` reads the files of the
folders in a folder, too. Other options are refused.

This is the only module that imports PySpark at its top, because a data source is a subclass.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from puffin_fast._io.folder import files_below, names_in
from puffin_fast.dv import iceberg as codec
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.puffin import PuffinReader
from puffin_fast.puffin.vectors import read_vectors
from puffin_fast.spark.worker.explode import explode

BLOBS = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("index", pa.int32()),
        pa.field("type", pa.string()),
        pa.field("fields", pa.list_(pa.int32())),
        pa.field("snapshot_id", pa.int64()),
        pa.field("sequence_number", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("compression_codec", pa.string()),
        pa.field("properties", pa.map_(pa.string(), pa.string())),
    ]
)
"""``length`` is the number of compressed bytes; ids and ``fields`` are those of the footer."""

BYTES = BLOBS.append(pa.field("blob", pa.binary()))

POSITIONS = pa.schema([("path", pa.string()), ("file_path", pa.string()), ("pos", pa.int64())])

MAX_PARTITIONS = 1000
BATCH_BYTES = 4 << 20
"""Largest sum of blobs in one batch, in bytes; a larger blob is a batch of its own."""

SUFFIX = ".puffin"

OPTIONS = ("path", "paths", "bytes", "positions", "recursiveFileLookup")


class _Files(InputPartition):
    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)


class PuffinDataSource(DataSource):
    """``spark.read.format("puffin")``; options as in the table of this module, plus ``path`` or ``paths``."""

    @classmethod
    def name(cls) -> str:
        return "puffin"

    def _flag(self, name: str) -> bool:
        value = str(self.options.get(name, "false")).lower()
        if value not in ("true", "false"):
            raise InvalidInputError(f"option {name!r}: expected true or false, found {value!r}")
        return value == "true"

    def _shape(self) -> pa.Schema:
        if unknown := sorted({name.lower() for name in self.options} - {name.lower() for name in OPTIONS}):
            raise InvalidInputError(
                f"format 'puffin': expected options {', '.join(OPTIONS)}, found {', '.join(unknown)}"
            )
        as_bytes, as_positions = self._flag("bytes"), self._flag("positions")
        if as_bytes and as_positions:
            raise InvalidInputError("options 'bytes' and 'positions': expected one of them, found both")
        return POSITIONS if as_positions else BYTES if as_bytes else BLOBS

    def schema(self) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(self._shape())

    def reader(self, schema: Any) -> DataSourceReader:
        return _Reader(_locations(self.options), self._shape(), recursive=self._flag("recursiveFileLookup"))


def _locations(options: Any) -> list[str]:
    """Returns the paths given to ``load``: Spark passes one as option ``path``, several as a JSON list in ``paths``."""
    given = [options["path"]] if options.get("path") else []
    if text := options.get("paths"):
        given += json.loads(text)
    if not given:
        raise InvalidInputError("format 'puffin': expected a path, as in load('/a/file.puffin')")
    return given


def _expand(location: str, *, recursive: bool) -> list[str]:
    """The files of a location: a file, a folder (its ``.puffin`` files), or a glob pattern of folders and names.

    Args:
        location: the location of the files.
        recursive: whether the files of folders in a folder are its files, too.

    Raises:
        NotFoundError: no file matches. Whether a single file exists is known when it is read.
    """
    folder, slash, pattern = location.rpartition("/")
    if not _is_pattern(location):
        if location.endswith(SUFFIX):
            return [location]
        folder, pattern = location.rstrip("/"), f"*{SUFFIX}"
        if recursive:
            below = [f"{folder}/{file.path}" for file in files_below(folder) if file.path.endswith(SUFFIX)]
            if below:
                return sorted(below)
        if not location.endswith("/") and not names_in(location, ""):
            return [location]
        slash = "/"
    found = [
        path
        for known in _folders(folder)
        for path in (f"{known}{slash}{name}" for name in names_in(known or slash or ".", ""))
        if fnmatch.fnmatchcase(path.rpartition("/")[2], pattern)
    ]
    if not found:
        raise NotFoundError(f"{location}: no file matches {pattern}")
    return found


def _is_pattern(path: str) -> bool:
    return any(sign in path for sign in "*?[")


def _folders(pattern: str) -> list[str]:
    """The folders that a glob pattern matches; a path without signs of a pattern is itself one."""
    if not _is_pattern(pattern):
        return [pattern]
    parent, slash, name = pattern.rpartition("/")
    return [
        f"{known}{slash}{found}"
        for known in _folders(parent)
        for found in names_in(known or slash or ".", "", folders=True)
        if fnmatch.fnmatchcase(found, name)
    ]


class _Reader(DataSourceReader):
    """Lists files on the driver and reads them on executors, a few files per task."""

    def __init__(self, locations: list[str], shape: pa.Schema, *, recursive: bool) -> None:
        self._locations = locations
        self._shape = shape
        self._recursive = recursive

    def partitions(self) -> Sequence[InputPartition]:
        paths = [
            path for location in self._locations for path in _expand(location, recursive=self._recursive)
        ]
        n = min(len(paths), MAX_PARTITIONS)
        return [_Files(paths[start::n]) for start in range(n)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Files)
        for path in partition.paths:
            if self._shape.equals(POSITIONS):
                yield from _positions(path)
                continue
            with PuffinReader(path) as reader:
                if "blob" in self._shape.names:
                    yield from _with_bytes(path, reader)
                elif reader.blobs:
                    yield _footer(path, reader, range(len(reader.blobs)))


def _footer(path: str, reader: PuffinReader, indexes: Sequence[int]) -> pa.RecordBatch:
    blobs = [reader.blobs[index] for index in indexes]
    columns: dict[str, Any] = {
        "path": [path] * len(blobs),
        "index": indexes,
        "properties": [list(blob.properties.items()) for blob in blobs],
    }
    for name in BLOBS.names:
        columns.setdefault(name, [getattr(blob, name, None) for blob in blobs])
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[field.name], field.type) for field in BLOBS], schema=BLOBS
    )


def _in_order(reader: PuffinReader, indexes: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Yields (index, bytes) of some blobs in the order of the file; adjacent blobs are read together."""
    places = [(reader.blobs[index].offset, reader.blobs[index].length, index) for index in indexes]
    order = [index for _, _, index in sorted(places)]
    for index, (_, data) in zip(order, reader.read_many(order), strict=True):
        yield index, data


def _with_bytes(path: str, reader: PuffinReader) -> Iterator[pa.RecordBatch]:
    held: list[tuple[int, bytes]] = []

    def batch() -> pa.RecordBatch:
        indexes, data = zip(*held, strict=True)
        held.clear()
        columns = _footer(path, reader, indexes).columns
        return pa.RecordBatch.from_arrays([*columns, pa.array(data, pa.binary())], schema=BYTES)

    n_bytes = 0
    for index, data in _in_order(reader, range(len(reader.blobs))):
        if held and n_bytes + len(data) > BATCH_BYTES:
            yield batch()
            n_bytes = 0
        held.append((index, data))
        n_bytes += len(data)
    if held:
        yield batch()


def _positions(path: str) -> Iterator[pa.RecordBatch]:
    vectors = read_vectors(path)
    blobs = pa.array([codec.encode(vector) for vector in vectors.values()], pa.binary())
    batch = pa.RecordBatch.from_arrays([pa.array(vectors, pa.string()), blobs], ["file_path", "blob"])
    for rows in explode(iter([batch]), names=("file_path", "blob")):
        paths = pa.repeat(pa.scalar(path), rows.num_rows)
        yield pa.RecordBatch.from_arrays([paths, *rows.columns], schema=POSITIONS)
