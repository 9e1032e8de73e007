"""Reads a Puffin file by ranges: its end first, then only the blobs that are asked for.

PFA1 | blob 1 … blob n | footer
                ^------ first read ------^ end of the file
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

from puffin_fast import _runtime, limits
from puffin_fast.errors import InvalidInputError, LimitExceededError
from puffin_fast.puffin import compression, footer
from puffin_fast.puffin.metadata import BlobMetadata, FileMetadata

__all__ = ["PuffinReader"]

TAIL_SIZE = 64 << 10
"""First read, from the end: the footer of some 250 vectors, and a small file as a whole."""


FOOTER_RATIO = 20
"""Bytes that one stored byte of a footer may become, where `max_blob_bytes` says nothing: as Python objects they
take 25 times as many again."""


class PuffinReader:
    """A Puffin file, its footer read and checked; blobs are read when they are asked for.

    The first read takes the last 64 KiB, a larger footer a second one. Blobs inside those bytes cost no
    further read; no other blob is touched before it is asked for. The magic at the head is checked where that
    costs no request: on local files, on small ones, and when the first blob is read.

    Args:
        source: local path, URI, path on `filesystem`, or open binary file object that can seek.
        filesystem: a pyarrow.fs.FileSystem, an fsspec filesystem or a PyIceberg FileIO.
        file_size: bytes of the file where known (a manifest says it): saves a request on object stores.
        max_blob_bytes: a blob or footer with more bytes, stored or decompressed, is refused. By default one that
            is stored in more than 2^31 - 1 bytes, or decompressed is more than 100 times what is stored, and more
            than 1 MiB.

    Raises:
        NotFoundError: there is no such file.
        CorruptDataError: it is no Puffin file, or a broken one.
        UnsupportedError: reserved flags, or a codec that the specification does not have.
    """

    def __init__(
        self,
        source: _runtime.Location,
        *,
        filesystem: Any = None,
        file_size: int | None = None,
        max_blob_bytes: int | None = None,
    ) -> None:
        self._max_blob_bytes, self._filesystem = max_blob_bytes, filesystem
        self._source: _runtime.Source | None = None
        opened = _runtime.open_source(source, filesystem=filesystem, size=file_size)
        try:
            self._head_checked = False
            self._trailer, self._metadata = self._read_footer(opened)
        except BaseException:
            opened.close()
            raise
        self._source = opened

    def _read_footer(self, source: _runtime.Source) -> tuple[footer.Trailer, FileMetadata]:
        tail = source.read_tail(TAIL_SIZE)
        tail_offset = source.size - len(tail)
        trailer = footer.read_trailer(tail, source.size, path=source.path)
        if tail_offset == 0 or source.nearby:
            self._check_head(source.read_at(0, footer.MAGIC_SIZE), source.path)
        most = min(
            self._most(trailer.payload_size), max(FOOTER_RATIO * trailer.payload_size, limits.LEAST_INFLATED)
        )
        if trailer.footer_offset >= tail_offset:
            whole = tail[trailer.footer_offset - tail_offset :]
        else:
            whole = source.read_at(trailer.footer_offset, tail_offset - trailer.footer_offset) + tail
        return trailer, footer.decode(whole, trailer, limit=most, path=source.path)

    @property
    def metadata(self) -> FileMetadata:
        """What the footer says."""
        return self._metadata

    @property
    def blobs(self) -> tuple[BlobMetadata, ...]:
        """The footer's blobs, in its order."""
        return self._metadata.blobs

    @property
    def file_size(self) -> int:
        """Bytes of the file."""
        return self._trailer.footer_offset + self._trailer.footer_size

    @property
    def footer_size(self) -> int:
        """Bytes of the whole footer, both magics counted."""
        return self._trailer.footer_size

    def read(self, blob: BlobMetadata | int) -> bytes:
        """One blob, decompressed.

        Args:
            blob: its metadata, or its index in `blobs`.

        Raises:
            CorruptDataError: its frame is broken, or its range is not one of this file's blobs' part.
            LimitExceededError: more than `max_blob_bytes`.
            InvalidInputError: no such index, or the reader is closed.
        """
        return next(self.read_many((blob,)))[1]

    def read_many(
        self, blobs: Iterable[BlobMetadata | int] | None = None
    ) -> Iterator[tuple[BlobMetadata, bytes]]:
        """Several blobs, neighbours in one read.

        Args:
            blobs: metadata or indexes, in any order; all of the file by default.

        Returns:
            An iterator of (metadata, decompressed bytes) in the order of the file; it holds one read at a
            time, 16 MiB at most unless a single blob is larger.

        Raises:
            As `read` does: for the arguments at once, for the bytes when they are reached.
        """
        chosen = [self._find(blob) for blob in (self.blobs if blobs is None else blobs)]
        return self._read_chosen(self._check_source(), chosen)

    def _read_chosen(
        self, source: _runtime.Source, chosen: list[BlobMetadata]
    ) -> Iterator[tuple[BlobMetadata, bytes]]:
        ranges = [(blob.offset, blob.length) for blob in chosen]
        if not self._head_checked and any(offset == footer.MAGIC_SIZE for offset, _ in ranges):
            ranges.append((0, footer.MAGIC_SIZE))  # right before the first blob: part of the same read
        for index, data in source.read_ranges(ranges):
            if index == len(chosen):
                self._check_head(data, source.path)
                continue
            blob = chosen[index]
            if blob.compression_codec is not None:
                data = compression.decompress(
                    data,
                    blob.compression_codec,
                    limit=self._most(blob.length),
                    path=source.path,
                    offset=blob.offset,
                )
            yield blob, data

    def close(self) -> None:
        """Closes the file; a caller's file object stays open. The metadata stays readable."""
        if self._source is not None:
            self._source.close()
            self._source = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_head(self, head: bytes, path: str | None) -> None:
        footer.check_magic(head, "magic at the head of the file", path=path, offset=0)
        self._head_checked = True

    def _check_source(self) -> _runtime.Source:
        if self._source is None:
            raise InvalidInputError("this PuffinReader is closed")
        return self._source

    def _find(self, blob: BlobMetadata | int) -> BlobMetadata:
        """The metadata meant, with a range that this file can have: it may come from elsewhere."""
        path = self._check_source().path
        if isinstance(blob, int) and not isinstance(blob, bool):
            if not 0 <= blob < len(self.blobs):
                raise InvalidInputError(f"{path}: blob {blob} of {len(self.blobs)}")
            blob = self.blobs[blob]
        elif not isinstance(blob, BlobMetadata):
            raise InvalidInputError(f"expected a blob's metadata or index, found {blob!r}")
        elif (
            blob.offset < footer.MAGIC_SIZE
            or blob.length < 0
            or blob.offset + blob.length > self._trailer.footer_offset
        ):
            raise footer.range_error("range of a blob", blob, self._trailer, path)
        limit = compression.MAX_CONTENT_BYTES if self._max_blob_bytes is None else self._max_blob_bytes
        if blob.length > limit:
            raise LimitExceededError(
                f"{path}: offset {blob.offset}: a blob of {blob.length} bytes, the limit is {limit}"
            )
        return blob

    def _most(self, n_bytes: int) -> int:
        """The most bytes that `n_bytes` compressed ones may become."""
        return self._max_blob_bytes or min(
            limits.most_inflated(n_bytes, self._filesystem), compression.MAX_CONTENT_BYTES
        )
