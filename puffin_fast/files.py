"""Deletion vectors in Puffin files: where the blob's codec and the container meet.

A vector is found in two ways: through the footer (`read_vectors`, all of a file), or by the path, offset and
length that a manifest entry names (`read_vector`, `read_ranges`), which needs no footer and also works where
the file is no Puffin file at all. Blob type, fields and properties are those of the Puffin specification,
"deletion-vector-v1 blob type".
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from puffin_fast import _runtime
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg as codec
from puffin_fast.errors import CorruptDataError, InvalidInputError, PuffinFastError
from puffin_fast.puffin import BlobMetadata, PuffinReader, PuffinWriter

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "DeletionVectorLocation",
    "Problem",
    "check_vectors",
    "read_ranges",
    "read_vector",
    "read_vectors",
    "write_vectors",
]

Path: TypeAlias = "str | os.PathLike[str] | BinaryIO"

ROW_POSITION_FIELD_ID = 2147483645
"""Field id of the reserved column ``_pos``, the only entry of a vector's ``fields``."""

REFERENCED_DATA_FILE = "referenced-data-file"
CARDINALITY = "cardinality"

_DIGITS = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class DeletionVectorLocation:
    """Where a written vector lies: what a manifest entry needs.

    Attributes:
        data_file: location of the data file whose rows it deletes.
        path: the Puffin file.
        offset: first byte of the blob (field 144, content_offset).
        length: bytes of the blob (field 145, content_size_in_bytes).
        cardinality: deleted rows (field 103, record_count).
        file_size: bytes of the whole Puffin file (field 104, file_size_in_bytes).
    """

    data_file: str
    path: str
    offset: int
    length: int
    cardinality: int
    file_size: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a Puffin file of vectors.

    Attributes:
        path: the file.
        offset: of the blob, None where the file as a whole is meant.
        data_file: whose vector it is, where that is known.
        message: what is wrong, with expected and found.
    """

    path: str
    offset: int | None
    data_file: str | None
    message: str


def write_vectors(
    path: Path,
    vectors: Mapping[str, PositionBitmap | Buffer] | Iterable[tuple[str, PositionBitmap | Buffer]],
    *,
    filesystem: Any = None,
    properties: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> list[DeletionVectorLocation]:
    """Writes one Puffin file of deletion vectors; when anything fails, none.

    Args:
        path: as `PuffinWriter` takes it.
        vectors: (location of the data file, its deleted positions) as bitmaps or as encoded
            ``deletion-vector-v1`` blobs, which are decoded to check them; consumed one by one. A mapping, as
            `read_vectors` returns it, or pairs.
        filesystem: as `PuffinWriter` takes it.
        properties: of the file, besides ``created-by``.
        overwrite: replace a file of that name.

    Returns:
        One entry per vector, in their order.

    Raises:
        InvalidInputError: two vectors for one data file, no bitmap or blob, a file that exists.
        CorruptDataError: a blob that is not a deletion vector.
    """
    name = _name_of(path)
    written: list[tuple[str, BlobMetadata, int]] = []
    seen: set[str] = set()
    with PuffinWriter(path, filesystem=filesystem, properties=properties, overwrite=overwrite) as writer:
        for data_file, vector in _pairs(vectors):
            if not isinstance(data_file, str) or not data_file:
                raise InvalidInputError(f"vectors: expected a data file's location, found {data_file!r}")
            if data_file in seen:
                raise InvalidInputError(
                    f"vectors: {data_file} twice; a data file has one vector, unite them first"
                )
            seen.add(data_file)
            if isinstance(vector, PositionBitmap):
                blob, cardinality = codec.encode(vector), len(vector)
            else:
                blob, cardinality = _checked_blob(data_file, vector)
            metadata = writer.add(
                blob,
                type=codec.BLOB_TYPE,
                fields=(ROW_POSITION_FIELD_ID,),
                properties={REFERENCED_DATA_FILE: data_file, CARDINALITY: str(cardinality)},
            )
            written.append((data_file, metadata, cardinality))
    return [
        DeletionVectorLocation(data_file, name, blob.offset, blob.length, cardinality, writer.file_size)
        for data_file, blob, cardinality in written
    ]


def _pairs(vectors: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(vectors, Mapping):
        yield from vectors.items()
        return
    if not isinstance(vectors, Iterable):
        raise InvalidInputError(f"vectors: expected a mapping or pairs, found {type(vectors).__name__}")
    for pair in vectors:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidInputError(f"vectors: expected (location of the data file, vector), found {pair!r}")
        yield pair[0], pair[1]


def _checked_blob(data_file: str, blob: Buffer) -> tuple[bytes, int]:
    try:
        data = bytes(memoryview(blob))
    except TypeError:
        raise InvalidInputError(
            f"vectors: {data_file}: expected a PositionBitmap or a blob's bytes, found {type(blob).__name__}"
        ) from None
    return data, len(codec.decode(data, path=f"vector of {data_file}"))


def read_vector(
    path: Path,
    offset: int,
    length: int,
    *,
    cardinality: int | None = None,
    filesystem: Any = None,
    file_size: int | None = None,
    decode: Callable[..., PositionBitmap] = codec.decode,
) -> PositionBitmap:
    """Reads one vector from where a manifest entry says it is; the footer is neither needed nor read.

    Args:
        path: local path, URI, path on `filesystem`, or open binary file object that can seek.
        offset: first byte of the blob, 0 in a file that is nothing but a blob.
        length: bytes of the blob.
        cardinality: what the entry says (record_count); checked.
        filesystem: a pyarrow.fs.FileSystem, an fsspec filesystem or a PyIceberg FileIO.
        file_size: bytes of the file where known.
        decode: of another format than Iceberg's: the `decode` of its codec in `dv`.

    Raises:
        NotFoundError: there is no such file.
        CorruptDataError: the range is not a whole ``deletion-vector-v1`` blob, or not of this cardinality.
    """
    ((_, vector),) = read_ranges(
        path,
        [(offset, length, cardinality)],
        filesystem=filesystem,
        file_size=file_size,
        decode=decode,
    )
    return vector


def read_ranges(
    path: Path,
    ranges: Iterable[tuple[int, int, int | None]],
    *,
    filesystem: Any = None,
    file_size: int | None = None,
    decode: Callable[..., PositionBitmap] = codec.decode,
) -> Iterator[tuple[int, PositionBitmap]]:
    """Reads several vectors of one file by their ranges, neighbours in one read, without the footer.

    Args:
        path: as `read_vector` takes it.
        ranges: (offset, length, cardinality or None) of each, in any order.
        filesystem: as `read_vector` takes it.
        file_size: bytes of the file where known.
        decode: as `read_vector` takes it.

    Yields:
        (index in `ranges`, vector), in the order of the file.

    Raises:
        As `read_vector` does.
    """
    wanted = list(ranges)
    if file_size is not None:
        _check_overlap(_name_of(path), (length for _, length, _ in wanted), file_size)
    with _runtime.open_source(path, filesystem=filesystem, size=file_size) as source:
        for index, blob in source.read_ranges([(offset, length) for offset, length, _ in wanted]):
            offset, _, cardinality = wanted[index]
            yield index, decode(blob, cardinality=cardinality, path=source.path, offset=offset)


def read_vectors(
    path: Path, *, filesystem: Any = None, file_size: int | None = None
) -> dict[str, PositionBitmap]:
    """Reads all vectors of a Puffin file, through its footer; blobs of other types are passed over.

    A table's manifest decides which vectors of a file count: where it is at hand, use `read_ranges`.

    Args:
        path: as `read_vector` takes it.
        filesystem: as `read_vector` takes it.
        file_size: bytes of the file where known.

    Returns:
        The vectors by location of their data file, in the order of the file.

    Raises:
        CorruptDataError: no Puffin file, a broken vector, a property that misses or is wrong, or two vectors
            for one data file, of which only a manifest could say which one counts.
    """
    vectors: dict[str, PositionBitmap] = {}
    with PuffinReader(path, filesystem=filesystem, file_size=file_size) as reader:
        name = _name_of(path)
        blobs = [blob for blob in reader.blobs if blob.type == codec.BLOB_TYPE]
        _check_overlap(name, (blob.length for blob in blobs), reader.file_size)
        for blob, data in reader.read_many(blobs):
            data_file = _property(blob, REFERENCED_DATA_FILE, name)
            if data_file in vectors:
                raise CorruptDataError(
                    "vectors of one data file",
                    path=name,
                    offset=blob.offset,
                    expected="one",
                    found=f"two for {data_file}",
                )
            vectors[data_file] = _decode(blob, data, name)
    return vectors


def _check_overlap(path: str, lengths: Iterable[int], file_size: int) -> None:
    """Refuses vectors that take more bytes than the file has: reading each would take time without bound."""
    total = sum(lengths)
    if total > file_size:
        expected = f"at most {file_size} bytes"
        raise CorruptDataError("vectors that overlap", path=path, expected=expected, found=total)


def check_vectors(path: Path, *, filesystem: Any = None, file_size: int | None = None) -> Iterator[Problem]:
    """Reads a Puffin file to the last byte and tells all that is wrong with it and its vectors.

    Checked: magic and footer; for each vector its range, codec (there must be none), properties, length,
    magic, CRC, containers and cardinality; ranges that overlap (only the first blob is read); two vectors for
    one data file. Other blobs are read and decompressed.

    Args:
        path: as `read_vector` takes it.
        filesystem: as `read_vector` takes it.
        file_size: what a manifest says, where known.

    Yields:
        Problems in the order of the file; none when all is right.

    Raises:
        NotFoundError: there is no such file.
    """
    name = _name_of(path)
    try:
        reader = PuffinReader(path, filesystem=filesystem, file_size=file_size)
    except CorruptDataError as error:
        yield Problem(name, error.offset, None, str(error))
        return
    except (InvalidInputError, LookupError):
        raise
    except PuffinFastError as error:
        yield Problem(name, None, None, str(error))
        return
    owners: dict[str, int] = {}
    with reader:
        for blob, end, read in _read_ahead(reader):
            data_file = blob.properties.get(REFERENCED_DATA_FILE) if blob.type == codec.BLOB_TYPE else None
            for message in _blob_problems(read, blob, name):
                yield Problem(name, blob.offset, data_file, message)
            if read is None:
                yield Problem(name, blob.offset, data_file, f"overlaps a blob before it, which ends at {end}")
            if data_file is not None:
                other = owners.setdefault(data_file, blob.offset)
                if other != blob.offset:
                    yield Problem(name, blob.offset, data_file, f"a second vector, the first is at {other}")


def _read_ahead(reader: PuffinReader) -> Iterator[tuple[BlobMetadata, int, Callable[[], bytes] | None]]:
    """All blobs in the order of the file: each with the end of those before it, and how to read it.

    Neighbours are read together as long as none is broken. A blob that overlaps one before it is not read.
    """
    ordered, end, whole = [], 0, True
    for blob in sorted(reader.blobs, key=lambda blob: (blob.offset, blob.length)):
        ordered.append((blob, end, blob.length > 0 and blob.offset < end))
        end = max(end, blob.offset + blob.length)
    ahead = reader.read_many([blob for blob, _, overlaps in ordered if not overlaps])
    for blob, end, overlaps in ordered:
        if overlaps:
            yield blob, end, None
            continue
        found: tuple[BlobMetadata, bytes] | None = None
        if whole:
            try:
                found = next(ahead, None)
            except PuffinFastError:
                whole = False
        if found is not None and found[0] is blob:
            yield blob, end, partial(bytes, found[1])
        else:
            whole = False
            yield blob, end, partial(reader.read, blob)


def _blob_problems(read: Callable[[], bytes] | None, blob: BlobMetadata, path: str) -> Iterator[str]:
    """What is wrong with a blob by itself; its bytes are left out where they are not read."""
    is_vector = blob.type == codec.BLOB_TYPE
    checks: list[Callable[[], object]] = []
    if is_vector:
        checks.append(lambda: _property(blob, REFERENCED_DATA_FILE, path))
    if read is not None:
        checks.append((lambda: _decode(blob, read(), path)) if is_vector else read)
    for check in checks:
        try:
            check()
        except PuffinFastError as error:
            yield str(error)


def _decode(blob: BlobMetadata, data: bytes, path: str) -> PositionBitmap:
    """A vector that a footer describes, with what the specification says that must be there."""
    if blob.compression_codec is not None:
        raise CorruptDataError(
            "compression-codec of a deletion vector",
            path=path,
            offset=blob.offset,
            expected="none",
            found=blob.compression_codec,
        )
    text = _property(blob, CARDINALITY, path)
    if not _DIGITS.fullmatch(text):
        raise CorruptDataError(
            f"property {CARDINALITY}",
            path=path,
            offset=blob.offset,
            expected="decimal digits",
            found=repr(text[:40]),
        )
    return codec.decode(data, cardinality=int(text), path=path, offset=blob.offset)


def _property(blob: BlobMetadata, name: str, path: str) -> str:
    value = blob.properties.get(name)
    if not value:
        raise CorruptDataError(
            f"property {name} of a deletion vector",
            path=path,
            offset=blob.offset,
            expected="a value",
            found="nothing",
        )
    return value


def _name_of(path: Path) -> str:
    if isinstance(path, (str, os.PathLike)):
        return os.fspath(path)
    name = getattr(path, "name", None)
    return name if isinstance(name, str) else repr(path)
