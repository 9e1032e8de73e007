"""Reads a Puffin file by ranges: first its end, then only the requested blobs.

PFA1 | blob 1 … blob n | footer
                ^------ first read ------^ end of the file
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from puffin_fast import _io, limits
from puffin_fast._api.arguments import check_integer
from puffin_fast._text import counted, shown_argument
from puffin_fast.errors import InvalidInputError, LimitExceededError
from puffin_fast.puffin import compression, footer
from puffin_fast.puffin.metadata import BlobMetadata, FileMetadata

TAIL_SIZE = 64 << 10
"""Size of the first read, at the end of the file: enough for the footer of about 250 vectors, or a small file."""


FOOTER_RATIO = 20
"""Maximum ratio of decompressed to stored bytes of a footer, unless `max_blob_bytes` is given. The Python objects of a
footer take another 25 times as many bytes."""


class PuffinReader:
    """Reads a Puffin file. The footer is read and checked at once; blobs are read when they are requested.

    The first read takes the last 64 KiB; a larger footer needs a second read. Blobs in these bytes need no further
    read. The magic at the start of the file is checked if this costs no request: for local files, for small files,
    and together with the first blob.

    Args:
        source: a local path, a URI, a path on `filesystem`, or an open, seekable binary file object.
        filesystem: a pyarrow.fs.FileSystem, an fsspec filesystem or a PyIceberg FileIO.
        file_size: the size of the file in bytes, if known (from a manifest): saves a request on object stores.
        max_blob_bytes: the maximum size of a blob or footer, both stored and decompressed. By default, the maximum
            is 2^31 - 1 stored bytes, and the larger of 1 MiB and 100 times the stored bytes when decompressed.

    Raises:
        NotFoundError: there is no such file.
        CorruptDataError: the file is not a valid Puffin file.
        UnsupportedError: a reserved flag is set, or a codec is not in the specification.
    """

    def __init__(
        self,
        source: _io.Location,
        *,
        filesystem: Any = None,
        file_size: int | None = None,
        max_blob_bytes: int | None = None,
    ) -> None:
        check_integer("file_size", file_size, least=0)
        check_integer("max_blob_bytes", max_blob_bytes, least=0)
        self._max_blob_bytes, self._filesystem = max_blob_bytes, filesystem
        self._source: _io.Source | None = None
        opened = _io.open_source(source, filesystem=filesystem, size=file_size)
        try:
            self._head_checked = False
            self._trailer, self._metadata = self._read_footer(opened)
        except BaseException:
            opened.close()
            raise
        self._source = opened
        self._path = opened.path

    def __repr__(self) -> str:
        closed = "" if self._source is not None else ", closed"
        return f"PuffinReader({self._path!r}, {counted(len(self.blobs), 'blob')}, {self.file_size} bytes{closed})"

    def _read_footer(self, source: _io.Source) -> tuple[footer.Trailer, FileMetadata]:
        tail = source.read_tail(TAIL_SIZE)
        tail_offset = source.size - len(tail)
        trailer = footer.read_trailer(tail, source.size, path=source.path)
        if tail_offset == 0 or source.is_local:
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
        """The content of the footer."""
        return self._metadata

    @property
    def blobs(self) -> tuple[BlobMetadata, ...]:
        """The blobs, in the order of the footer."""
        return self._metadata.blobs

    @property
    def file_size(self) -> int:
        """The size of the file in bytes."""
        return self._trailer.footer_offset + self._trailer.footer_size

    @property
    def footer_size(self) -> int:
        """The size of the footer in bytes, including both magics."""
        return self._trailer.footer_size

    def read(self, blob: BlobMetadata | int) -> bytes:
        """Reads and decompresses one blob.

        Args:
            blob: its metadata, or its index in `blobs`.

        Raises:
            CorruptDataError: its frame is invalid, or its range is outside of the blobs' part of the file.
            LimitExceededError: the blob has more than `max_blob_bytes` bytes.
            InvalidInputError: there is no such index, or the reader is closed.
        """
        return next(self.read_many((blob,)))[1]

    def read_many(
        self, blobs: Iterable[BlobMetadata | int] | None = None
    ) -> Iterator[tuple[BlobMetadata, bytes]]:
        """Reads and decompresses several blobs. Near blobs are joined to one read.

        Args:
            blobs: metadata or indexes, in any order; all blobs by default.

        Returns:
            an iterator of (metadata, decompressed bytes) in the order of the file. It holds one read at a time: at
            most 16 MiB, unless a single blob is larger.

        Raises:
            The errors of `read`: for invalid arguments at once, for the bytes when they are read.
        """
        if not isinstance(blobs, Iterable | None):
            raise InvalidInputError(f"blobs: expected metadata or indexes, found {shown_argument(blobs)}")
        chosen = [self._find(blob) for blob in (self.blobs if blobs is None else blobs)]
        return self._read_chosen(self._check_source(), chosen)

    def _read_chosen(
        self, source: _io.Source, chosen: list[BlobMetadata]
    ) -> Iterator[tuple[BlobMetadata, bytes]]:
        ranges = [(blob.offset, blob.length) for blob in chosen]
        if not self._head_checked and any(offset == footer.MAGIC_SIZE for offset, _ in ranges):
            ranges.append((0, footer.MAGIC_SIZE))  # adjacent to the first blob, so part of the same read
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

    def stored(self, blob: BlobMetadata | int) -> bytes:
        """Reads one blob as it is stored, without decompressing it.

        Raises:
            CorruptDataError, LimitExceededError, InvalidInputError: as `read`.
        """
        blob = self._find(blob)
        return self._check_source().read_at(blob.offset, blob.length)

    def ranges_of(
        self, blob: BlobMetadata | int
    ) -> Callable[[Iterable[tuple[int, int]]], Iterator[tuple[int, bytes]]]:
        """Returns a function that reads ranges of one blob as it is stored; near ranges are joined to one read.

        Args:
            blob: its metadata, or its index in `blobs`.

        Returns:
            a function of ranges (offset in the blob, length), which yields the index of each range, and its bytes.

        Raises:
            CorruptDataError, LimitExceededError, InvalidInputError: as `read`.
        """
        found = self._find(blob)

        def read(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
            wanted = list(ranges)
            for offset, length in wanted:
                if offset < 0 or length < 0 or offset + length > found.length:
                    raise InvalidInputError(
                        f"range of a blob: expected at most {found.length} bytes, found {length} from {offset} on"
                    )
            return self._check_source().read_ranges(
                [(found.offset + offset, length) for offset, length in wanted]
            )

        return read

    def close(self) -> None:
        """Closes the file. A file object of the caller stays open, and the metadata stays available."""
        if self._source is not None:
            self._source.close()
            self._source = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_head(self, head: bytes, path: str | None) -> None:
        footer.check_magic(head, "magic at the start of the file", path=path, offset=0)
        self._head_checked = True

    def _check_source(self) -> _io.Source:
        if self._source is None:
            raise InvalidInputError("this PuffinReader is closed")
        return self._source

    def _find(self, blob: BlobMetadata | int) -> BlobMetadata:
        """Returns the metadata of a blob, after checks of its range and size: it may be of another file."""
        path = self._check_source().path
        if isinstance(blob, int) and not isinstance(blob, bool):
            if not 0 <= blob < len(self.blobs):
                raise InvalidInputError(
                    f"{path}: expected the index of a blob below {len(self.blobs)}, found {blob}"
                )
            blob = self.blobs[blob]
        elif not isinstance(blob, BlobMetadata):
            raise InvalidInputError(f"blob: expected its metadata or index, found {blob!r}")
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
        """The maximum number of bytes after decompression of `n_bytes` stored bytes."""
        return self._max_blob_bytes or min(
            limits.most_inflated(n_bytes, self._filesystem), compression.MAX_CONTENT_BYTES
        )
