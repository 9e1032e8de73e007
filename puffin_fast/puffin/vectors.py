"""Reads and writes deletion vectors in Puffin files.

There are two ways to read vectors. `read_vectors` reads the footer and all vectors of a file. `read_vector` and
`read_ranges` read vectors by the path, offset and length of a manifest entry; they do not need a footer, so the file
may have another format. Type, fields and properties follow the Puffin specification, "deletion-vector-v1 blob type".
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from puffin_fast import _io
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg as codec
from puffin_fast.errors import CorruptDataError, InvalidInputError, PuffinFastError
from puffin_fast.puffin import BlobMetadata, PuffinReader, PuffinWriter
from puffin_fast.puffin.finding import CORRUPT, DUPLICATE, Finding, kind_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

Path: TypeAlias = "str | os.PathLike[str] | BinaryIO"

REFERENCED_DATA_FILE = "referenced-data-file"
CARDINALITY = "cardinality"

_DIGITS = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class DeletionVectorLocation:
    """The location of a deletion vector, as in a manifest entry.

    Attributes:
        data_file: the location of the referenced data file.
        path: the Puffin file.
        offset: the offset of the blob (field 144, content_offset).
        length: the length of the blob in bytes (field 145, content_size_in_bytes).
        cardinality: the number of deleted rows (field 103, record_count).
        file_size: the size of the Puffin file in bytes (field 104, file_size_in_bytes).
    """

    data_file: str
    path: str
    offset: int
    length: int
    cardinality: int
    file_size: int = 0


def write_vectors(
    path: Path,
    vectors: Mapping[str, PositionBitmap | Buffer] | Iterable[tuple[str, PositionBitmap | Buffer]],
    *,
    filesystem: Any = None,
    properties: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> list[DeletionVectorLocation]:
    """Writes a Puffin file of deletion vectors. If an error is raised, no file is left.

    Args:
        path: as for `PuffinWriter`.
        vectors: a mapping (such as the result of `read_vectors`) or pairs of data file location and deleted
            positions. The positions are a bitmap or an encoded ``deletion-vector-v1`` blob, which is decoded to
            check it. Pairs are consumed one by one.
        filesystem: as for `PuffinWriter`.
        properties: properties of the file; ``created-by`` is added.
        overwrite: whether to replace an existing file.

    Returns:
        the location of each vector, in the given order.

    Raises:
        InvalidInputError: a data file has two vectors, a value is neither bitmap nor blob, or the file exists.
        CorruptDataError: a blob is not a deletion vector.

    Examples:
        >>> vectors = {"orders.parquet": pf.PositionBitmap([3, 1])}
        >>> (place,) = pf.write_vectors("deletes.puffin", vectors, overwrite=True)
        >>> place.offset, place.length, place.cardinality
        (4, 44, 2)
    """
    return write_blobs(
        path, _encoded(vectors), filesystem=filesystem, properties=properties, overwrite=overwrite
    )


def write_blobs(
    path: Path, blobs: Iterable[tuple[str, Buffer, int]], *, overwrite: bool = False, **options: Any
) -> list[DeletionVectorLocation]:
    """`write_vectors` for encoded vectors, which are not decoded: (location of the data file, blob, cardinality)."""
    name = _name_of(path)
    written: list[tuple[str, BlobMetadata, int]] = []
    with PuffinWriter(path, overwrite=overwrite, **options) as writer:
        for data_file, blob, cardinality in blobs:
            metadata = writer.add(
                blob,
                type=codec.BLOB_TYPE,
                fields=codec.FIELDS,
                properties={REFERENCED_DATA_FILE: data_file, CARDINALITY: str(cardinality)},
            )
            written.append((data_file, metadata, cardinality))
    return [
        DeletionVectorLocation(data_file, name, blob.offset, blob.length, cardinality, writer.file_size)
        for data_file, blob, cardinality in written
    ]


def _encoded(vectors: Any) -> Iterator[tuple[str, bytes, int]]:
    """Yields checked vectors: location of the data file, blob, cardinality."""
    seen: set[str] = set()
    for data_file, vector in _pairs(vectors):
        if not isinstance(data_file, str) or not data_file:
            raise InvalidInputError(f"vectors: expected the location of a data file, found {data_file!r}")
        if data_file in seen:
            raise InvalidInputError(
                f"vectors: expected one vector per data file, found two for {data_file}; unite them first"
            )
        seen.add(data_file)
        if isinstance(vector, PositionBitmap):
            yield data_file, codec.encode(vector), len(vector)
        else:
            yield data_file, *_checked_blob(data_file, vector)


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
            f"vectors: {data_file}: expected a PositionBitmap or the bytes of a blob, found {type(blob).__name__}"
        ) from None
    return data, len(codec.decode(data, path=f"vector of {data_file}"))


def read_vector(
    path: Path | DeletionVectorLocation,
    offset: int | None = None,
    length: int | None = None,
    *,
    cardinality: int | None = None,
    filesystem: Any = None,
    file_size: int | None = None,
    decode: Callable[..., PositionBitmap] = codec.decode,
) -> PositionBitmap:
    """Reads one vector by the range in a manifest entry, or by a location that `write_vectors` returned. The footer is
    not read.

    Args:
        path: a local path, a URI, a path on `filesystem`, an open, seekable binary file object, or the location of a
            vector, which has the range, the cardinality and the size of the file.
        offset: the offset of the blob; 0 if the file is only a blob.
        length: the length of the blob in bytes.
        cardinality: record_count of the entry, compared with the vector's.
        filesystem: a pyarrow.fs.FileSystem, an fsspec filesystem or a PyIceberg FileIO.
        file_size: the size of the file in bytes, if known.
        decode: the `decode` of a codec in `dv`, for other formats than Iceberg's.

    Raises:
        InvalidInputError: a path without an offset and a length, or a location with them.
        NotFoundError: there is no such file.
        CorruptDataError: the range is not a complete ``deletion-vector-v1`` blob, or has another cardinality.

    Examples:
        >>> vectors = {"orders.parquet": pf.PositionBitmap([3, 1])}
        >>> (place,) = pf.write_vectors("deletes.puffin", vectors, overwrite=True)
        >>> pf.read_vector(place)
        PositionBitmap([1, 3])
        >>> pf.read_vector("deletes.puffin", place.offset, place.length)
        PositionBitmap([1, 3])
    """
    if isinstance(path, DeletionVectorLocation):
        if offset is not None or length is not None:
            raise InvalidInputError("offset, length: expected none beside a location, which has them")
        place = path
        path, offset, length = place.path, place.offset, place.length
        cardinality = place.cardinality if cardinality is None else cardinality
        file_size = (place.file_size or None) if file_size is None else file_size
    elif offset is None or length is None:
        raise InvalidInputError(
            "offset, length: expected both for a path; a location needs neither, read_vectors reads all of a file"
        )
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
    """Reads several vectors of one file by their ranges. Near ranges are joined to one read; the footer is not read.

    Args:
        path: as for `read_vector`.
        ranges: (offset, length, cardinality or None) of each vector, in any order.
        filesystem: as for `read_vector`.
        file_size: the size of the file in bytes, if known.
        decode: as for `read_vector`.

    Yields:
        (index in `ranges`, vector), in the order of the file.

    Raises:
        As `read_vector` does.
    """
    wanted = list(ranges)
    if file_size is not None and (total := sum(length for _, length, _ in wanted)) > file_size:
        raise CorruptDataError("bytes of all vectors", path=_name_of(path), expected=file_size, found=total)
    with _io.open_source(path, filesystem=filesystem, size=file_size) as source:
        for index, blob in source.read_ranges([(offset, length) for offset, length, _ in wanted]):
            offset, _, cardinality = wanted[index]
            yield index, decode(blob, cardinality=cardinality, path=source.path, offset=offset)


def read_vectors(
    path: Path, *, filesystem: Any = None, file_size: int | None = None
) -> dict[str, PositionBitmap]:
    """Reads the footer and all vectors of a Puffin file; blobs of other types are skipped.

    A file may have vectors that no manifest references. If there is a manifest, use `read_vector` with its entries.

    Args:
        path: as for `read_vector`.
        filesystem: as for `read_vector`.
        file_size: the size of the file in bytes, if known.

    Returns:
        the vectors by location of the referenced data file, in the order of the file.

    Raises:
        CorruptDataError: the file is not a Puffin file, a vector is damaged, a property is missing or wrong, or a
            data file has two vectors.

    Examples:
        >>> vectors = {"orders.parquet": pf.PositionBitmap([3, 1])}
        >>> places = pf.write_vectors("deletes.puffin", vectors, overwrite=True)
        >>> pf.read_vectors("deletes.puffin")
        {'orders.parquet': PositionBitmap([1, 3])}
    """
    vectors: dict[str, PositionBitmap] = {}
    with PuffinReader(path, filesystem=filesystem, file_size=file_size) as reader:
        name = _name_of(path)
        blobs = [blob for blob in reader.blobs if blob.type == codec.BLOB_TYPE]
        end = 0
        for blob in sorted(blobs, key=lambda blob: blob.offset):
            if blob.offset < end:
                expected = f"an offset of {end} or more, the end of another vector"
                raise CorruptDataError(
                    "vector", path=name, offset=blob.offset, expected=expected, found="less"
                )
            end = blob.offset + blob.length
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


def check_vectors(path: Path, *, filesystem: Any = None, file_size: int | None = None) -> Iterator[Finding]:
    """Reads all blobs of a Puffin file and yields the findings of the file and its vectors.

    The checks: magic and footer; the range, codec (none is allowed), properties, length, magic, CRC, containers and
    cardinality of each vector; overlapping ranges (only the first blob is read); two vectors of one data file. Other
    blobs are read and decompressed.

    Args:
        path: as for `read_vector`.
        filesystem: as for `read_vector`.
        file_size: the size of the file in a manifest, if known.

    Yields:
        the findings, in the order of the file.

    Raises:
        NotFoundError: there is no such file.
    """
    name = _name_of(path)
    try:
        reader = PuffinReader(path, filesystem=filesystem, file_size=file_size)
    except CorruptDataError as error:
        yield Finding(CORRUPT, None, name, error.offset, str(error))
        return
    except (InvalidInputError, LookupError):
        raise
    except PuffinFastError as error:
        yield Finding(kind_of(error), None, name, None, str(error))
        return
    owners: dict[str, int] = {}
    with reader:
        for blob, end, read in _read_ahead(reader):
            data_file = blob.properties.get(REFERENCED_DATA_FILE) if blob.type == codec.BLOB_TYPE else None
            for wrong in _blob_errors(read, blob, name):
                yield Finding(kind_of(wrong), data_file, name, blob.offset, str(wrong))
            if read is None:
                message = f"overlaps the previous blob, its end is {end}"
                yield Finding(CORRUPT, data_file, name, blob.offset, message)
            if data_file is not None:
                other = owners.setdefault(data_file, blob.offset)
                if other != blob.offset:
                    message = f"a second vector, the first is at {other}"
                    yield Finding(DUPLICATE, data_file, name, blob.offset, message)


def _read_ahead(reader: PuffinReader) -> Iterator[tuple[BlobMetadata, int, Callable[[], bytes] | None]]:
    """Yields each blob in the order of the file, with the end of all blobs before it and a function that reads it.

    Near blobs are read together until one of them fails. A blob that overlaps a previous one gets no function.
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


def _blob_errors(
    read: Callable[[], bytes] | None, blob: BlobMetadata, path: str
) -> Iterator[PuffinFastError]:
    """Yields the errors of one blob; `read` is None if its bytes are not to be read."""
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
            yield error


def _decode(blob: BlobMetadata, data: bytes, path: str) -> PositionBitmap:
    """Decodes a vector of a footer, and checks its codec and properties."""
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
