"""Compares Puffin files of deletion vectors with the manifest entries of these vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from puffin_fast._io import open_source
from puffin_fast.dv.iceberg import BLOB_TYPE
from puffin_fast.errors import NotFoundError, PuffinFastError
from puffin_fast.puffin import PuffinReader
from puffin_fast.puffin.finding import MISMATCH, MISSING, STALE, Finding, kind_of
from puffin_fast.puffin.footer import MAGIC, check_magic
from puffin_fast.puffin.vectors import CARDINALITY, REFERENCED_DATA_FILE, check_vectors

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from puffin_fast.iceberg.manifest import ManifestEntry
    from puffin_fast.puffin import BlobMetadata


def check_puffin(io: FileIO, vectors: list[ManifestEntry]) -> list[Finding]:
    """Checks a Puffin file and its vectors against their manifest entries; of other files, the ranges only."""
    try:
        if not _is_puffin(io, vectors[0].file_path):
            return list(_check_overlap(vectors))
    except PuffinFastError as error:
        return _unreadable(vectors, error)
    found, n_vectors = _checked(io, vectors)
    return found if found else list(_check_shared(vectors, n_vectors))


def check_frame(io: FileIO, vectors: list[ManifestEntry]) -> list[Finding]:
    """Checks what other readers need to read vectors of a file: its size and footer, ranges without overlap, the blobs.

    Args:
        vectors: all of one file. A file that is not a Puffin file is a finding.
    """
    return _checked(io, vectors)[0]


def _checked(io: FileIO, vectors: list[ManifestEntry]) -> tuple[list[Finding], int]:
    """Returns the findings of `check_frame`, and the number of vectors in the footer."""
    path = vectors[0].file_path
    found = list(_check_overlap(vectors))
    try:
        with open_source(path, filesystem=io) as source:
            size = source.size
            head = source.read_at(0, min(size, len(MAGIC)))
        found += [
            Finding(MISMATCH, None, path, None, f"{path}: expected {stated} bytes (manifest), found {size}")
            for stated in {vector.file_size_in_bytes for vector in vectors}
            if stated != size
        ]
        check_magic(head, "magic at the start of the file", path=path, offset=0)
        with PuffinReader(path, filesystem=io) as reader:
            blobs = {blob.offset: blob for blob in reader.blobs}
        of_vectors = list(check_vectors(path, filesystem=io))
    except PuffinFastError as error:
        return found + _unreadable(vectors, error), 0
    wanted = {vector.content_offset for vector in vectors}
    found += [finding for finding in of_vectors if finding.offset in wanted]
    found += [finding for vector in vectors for finding in _check_footer(vector, blobs)]
    return found, sum(blob.type == BLOB_TYPE for blob in blobs.values())


def _unreadable(vectors: list[ManifestEntry], error: PuffinFastError) -> list[Finding]:
    path = vectors[0].file_path
    if not isinstance(error, NotFoundError):
        return [Finding(kind_of(error), None, path, None, str(error))]
    message = f"{path}: no such file"
    return [
        Finding(MISSING, vector.referenced_data_file, path, vector.content_offset, message)
        for vector in vectors
    ]


def _check_overlap(vectors: list[ManifestEntry]) -> Iterator[Finding]:
    """Compares the ranges of a file's vectors: no two of them share bytes."""
    end = 0
    for vector in sorted(vectors, key=lambda vector: vector.content_offset or 0):
        path, owner, at = vector.file_path, vector.referenced_data_file, vector.content_offset or 0
        if at < end:
            message = f"{path}: offset {at}: expected a vector at {end} or later (manifest), found an overlap"
            yield Finding(MISMATCH, owner, path, at, message)
        end = max(end, at + (vector.content_size_in_bytes or 0))


def _check_shared(vectors: list[ManifestEntry], n_vectors: int) -> Iterator[Finding]:
    """Compares the number of vectors of a sound Puffin file with that of its live ones."""
    path, n_live = vectors[0].file_path, len({vector.content_offset for vector in vectors})
    if n_vectors > n_live:
        message = (
            f"{path}: {n_vectors - n_live} of {n_vectors} vectors were superseded; Java's Table.expireSnapshots() may "
            "delete the file with the live ones; puffin_fast.iceberg.compact moves these to another file"
        )
        yield Finding(STALE, None, path, None, message)


def _is_puffin(io: FileIO, path: str) -> bool:
    """Whether a file is checked as a Puffin file: by its name, since it may be damaged, or by its magic.

    A manifest entry may also reference a range of a file that consists of blobs without a footer.
    """
    if path.endswith(".puffin"):
        return True
    with open_source(path, filesystem=io) as source:
        return source.read_at(0, min(source.size, len(MAGIC))) == MAGIC


def _check_footer(vector: ManifestEntry, blobs: dict[int, BlobMetadata]) -> Iterator[Finding]:
    path, owner, at = vector.file_path, vector.referenced_data_file, vector.content_offset
    blob = blobs.get(-1 if at is None else at)
    if blob is None:
        yield Finding(
            MISMATCH,
            owner,
            path,
            at,
            f"{path}: offset {at}: expected a blob (manifest), found none (footer)",
        )
        return
    named = {
        "bytes": (vector.content_size_in_bytes, blob.length),
        REFERENCED_DATA_FILE: (owner, blob.properties.get(REFERENCED_DATA_FILE)),
        CARDINALITY: (str(vector.record_count), blob.properties.get(CARDINALITY)),
    }
    for what, (manifest, footer) in named.items():
        if manifest != footer:
            message = f"{path}: offset {at}: {what}: expected {manifest} (manifest), found {footer} (footer)"
            yield Finding(MISMATCH, owner, path, at, message)
