"""Reads an index manifest: an Avro file, whose entries name index files and the vectors in them.

    _VERSION 1 | _KIND 0 add, 1 delete | _PARTITION | _BUCKET | _INDEX_TYPE | _FILE_NAME | _ROW_COUNT (of vectors)
    | _FILE_SIZE | _EXTERNAL_PATH? | _DELETIONS_VECTORS_RANGES { f0 data file, f1 offset, f2 length, _CARDINALITY? }*

An index file is live after an add until a delete. An entry that does not agree with itself or the ones before is
refused: without it, deleted rows would come back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from puffin_fast._io import Source
from puffin_fast.avro.file import parse_avro
from puffin_fast.errors import CorruptDataError, UnsupportedError

_FIELDS = {
    "_VERSION": "long",
    "_KIND": "long",
    "_INDEX_TYPE": "string",
    "_FILE_NAME": "string",
    "_PARTITION": "bytes",
    "_BUCKET": "long",
    "_ROW_COUNT": "long",
    "_FILE_SIZE": "long",
    "_DELETIONS_VECTORS_RANGES": "list<record>",
    **dict.fromkeys(("_EXTERNAL_PATH", "_CARDINALITY", "f0", "f1", "f2")),
}
"""The fields of an index manifest, and the types of the required ones."""

_VECTORS_INDEX = "DELETION_VECTORS"
_MANIFEST_VERSION = 1
_ADD, _DELETE = 0, 1
_BUCKETS = range(-(2**31), 2**31)
_HEAD_BYTES = 8
_FRAME_BYTES = 8


@dataclass(frozen=True, slots=True)
class VectorRange:
    """The place of a vector in an index file.

    Attributes:
        file_name: the name of the data file.
        offset: the offset of the record.
        length: the length of the record, or of its magic and bitmap.
        cardinality: None if the manifest does not state it.
    """

    file_name: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True)
class VectorsFile:
    """An index file of deletion vectors.

    Attributes:
        name: the name of the file.
        partition: in Paimon's binary form.
        bucket: the bucket of the data files.
        n_bytes: its size.
        external_path: None if the file is in the table's folder.
        ranges: the vectors.
    """

    name: str
    partition: bytes
    bucket: int
    n_bytes: int
    external_path: str | None
    ranges: tuple[VectorRange, ...]


def index_manifest_of(stated: Any, path: str) -> str | None:
    """Returns the name that a snapshot states for its index manifest; None if it has none.

    Args:
        stated: the value of ``indexManifest``, or None.
        path: the path of the snapshot, for errors.

    Raises:
        CorruptDataError: it is not a file name; without its vectors, deleted rows would come back.
    """
    if stated is not None and (not isinstance(stated, str) or not stated):
        raise CorruptDataError(
            "indexManifest of a snapshot", path=path, expected="the name of a file", found=repr(stated)
        )
    return stated


def live_files(data: bytes, path: str) -> list[VectorsFile]:
    """Returns the live index files of deletion vectors.

    Args:
        data: the bytes of the index manifest.
        path: the path of the index manifest, for errors.

    Raises:
        CorruptDataError: the file is damaged, or its entries do not agree.
        UnsupportedError: the version of the index manifest is unknown.
    """
    file = parse_avro(data, path, dict(enumerate(_FIELDS)))
    types = file.plain.value_types
    for name, expected in _FIELDS.items():
        if expected and types.get(name) != expected:
            raise CorruptDataError(
                f"type of {name} in an index manifest",
                path=path,
                expected=expected,
                found=types.get(name, "none"),
            )
    live: dict[str, VectorsFile] = {}
    for entry in file.records():
        if entry["_VERSION"] != _MANIFEST_VERSION:
            raise UnsupportedError(f"{path}: index manifest of version {entry['_VERSION']}")
        if entry["_INDEX_TYPE"] == _VECTORS_INDEX or entry["_DELETIONS_VECTORS_RANGES"]:
            _apply(entry, live, path)
    _check_once(live, path)
    return list(live.values())


def _apply(entry: dict[str, Any], live: dict[str, VectorsFile], path: str) -> None:
    """Adds an index file to the live ones, or removes it."""
    name = _of_type(entry["_FILE_NAME"], str, "_FILE_NAME", path)
    type, kind = entry["_INDEX_TYPE"], entry["_KIND"]
    ranges = entry["_DELETIONS_VECTORS_RANGES"] or ()
    if type != _VECTORS_INDEX:
        raise CorruptDataError(
            f"type of index file {name}, which has vectors", path=path, expected=_VECTORS_INDEX, found=type
        )
    if len(ranges) != entry["_ROW_COUNT"]:
        raise CorruptDataError(
            f"number of vectors of index file {name}",
            path=path,
            expected=entry["_ROW_COUNT"],
            found=len(ranges),
        )
    bucket = _of_type(entry["_BUCKET"], int, "_BUCKET", path)
    if bucket not in _BUCKETS:
        raise CorruptDataError(
            f"_BUCKET of index file {name}", path=path, expected="an integer of 32 bits", found=bucket
        )
    if kind == _ADD and name not in live:
        live[name] = VectorsFile(
            name,
            _of_type(entry["_PARTITION"], bytes, "_PARTITION", path),
            bucket,
            _of_type(entry["_FILE_SIZE"], int, "_FILE_SIZE", path),
            _of_type(entry.get("_EXTERNAL_PATH"), str | None, "_EXTERNAL_PATH", path),
            tuple(_range(item, path) for item in ranges),
        )
    elif kind == _DELETE and name in live:
        del live[name]
    else:
        known = "live" if name in live else "not live"
        raise CorruptDataError(
            f"kind of index file {name}, which is {known} before", path=path, expected="0 or 1", found=kind
        )


def _range(item: Any, path: str) -> VectorRange:
    found = _of_type(item, dict, "an item of _DELETIONS_VECTORS_RANGES", path)
    return VectorRange(
        _of_type(found.get("f0"), str, "f0", path),
        _of_type(found.get("f1"), int, "f1", path),
        _of_type(found.get("f2"), int, "f2", path),
        _of_type(found.get("_CARDINALITY"), int | None, "_CARDINALITY", path),
    )


def _of_type(value: Any, expected: Any, name: str, path: str) -> Any:
    if not isinstance(value, expected):
        raise CorruptDataError(
            f"entry of an index manifest: {name}",
            path=path,
            expected=getattr(expected, "__name__", expected),
            found=repr(value),
        )
    return value


def _check_once(live: dict[str, VectorsFile], path: str) -> None:
    """Refuses two vectors of one data file: a reader would take one of them."""
    known: set[tuple[bytes, int, str]] = set()
    for index in live.values():
        for one in index.ranges:
            key = (index.partition, index.bucket, one.file_name)
            if key in known:
                raise CorruptDataError(
                    f"vectors of data file {one.file_name}", path=path, expected=1, found="2 or more"
                )
            known.add(key)


def read_record(source: Source, offset: int, length: int, path: str) -> bytes:
    """Reads a whole record of an index file.

    Args:
        offset, length: its range in the index manifest; the length may exclude the length field and the checksum.
        path: the path of the file, for errors.

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
