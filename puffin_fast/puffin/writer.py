"""Writes a Puffin file front to back: head magic, blobs as they come, footer.

    PFA1 | blob 1 … blob n | footer

Specification, "File structure". Nothing of a blob is kept after it is written, and the sink need not seek.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from puffin_fast import __version__, _runtime
from puffin_fast.errors import InvalidInputError
from puffin_fast.puffin import compression, footer
from puffin_fast.puffin.metadata import BlobMetadata, FileMetadata, check_properties, check_writable

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["PuffinWriter"]

CREATED_BY = "created-by"
"""Common property of a file: the application that wrote it (specification, "Common properties")."""


class PuffinWriter:
    """A Puffin file in the making; as a context manager it finishes, or aborts when an exception leaves.

    A local file is written under a hidden temporary name and gets its own when it is whole, so nobody ever
    sees half of one. On an object store nothing shows before the end; an abort there has to close the upload
    and then deletes the object. A caller's file object is never closed; after an abort it holds a file
    without footer.

    Args:
        sink: local path, URI, path on `filesystem`, or open binary file object that stands at its start.
        filesystem: a pyarrow.fs.FileSystem, an fsspec filesystem or a PyIceberg FileIO.
        properties: of the file; ``created-by`` is added unless it is among them.
        compress_footer: as an LZ4 frame; peers (Java, Rust, PyIceberg) cannot read such a file.
        overwrite: replace a file of that name; without it, one that exists is refused.

    Raises:
        InvalidInputError: properties that are not text, a sink that exists or is not one.
    """

    def __init__(
        self,
        sink: _runtime.Location,
        *,
        filesystem: Any = None,
        properties: Mapping[str, str] | None = None,
        compress_footer: bool = False,
        overwrite: bool = False,
    ) -> None:
        self._properties = {CREATED_BY: f"puffin_fast {__version__}", **(properties or {})}
        check_properties(self._properties)
        self._compress_footer = compress_footer
        self._blobs: list[BlobMetadata] = []
        self._metadata: FileMetadata | None = None
        self._offset = 0
        self._footer_size = 0
        self._open = False
        self._failed = False
        self._sink = _runtime.open_sink(sink, filesystem=filesystem, overwrite=overwrite)
        self._open = True
        self._write(footer.MAGIC)

    @property
    def file_size(self) -> int:
        """Bytes of the file, after `finish`."""
        self._check_finished()
        return self._offset

    @property
    def footer_size(self) -> int:
        """Bytes of the whole footer, both magics counted, after `finish`."""
        self._check_finished()
        return self._footer_size

    def add(
        self,
        data: Buffer,
        *,
        type: str,
        fields: Iterable[int] = (),
        snapshot_id: int = -1,
        sequence_number: int = -1,
        properties: Mapping[str, str] | None = None,
        compression: str | None = None,
    ) -> BlobMetadata:
        """Appends one blob.

        Args:
            data: its bytes, contiguous.
            type: kind of the blob, such as ``deletion-vector-v1``.
            fields: ids of the table's fields that it was computed for.
            snapshot_id: the snapshot that it was computed from.
            sequence_number: that snapshot's.
            properties: text by name.
            compression: ``lz4``, ``zstd`` or None.

        Returns:
            What the footer will say of it: offset and length are those of the stored bytes.

        Raises:
            InvalidInputError: a wrong argument, and nothing was written; or the writer is closed.
            LimitExceededError: more than 2^31 - 1 bytes.
        """
        self._check_open()
        view = _bytes_of(data)
        ids = tuple(fields)
        texts = dict(properties or {})
        check_writable(
            type=type, fields=ids, snapshot_id=snapshot_id, sequence_number=sequence_number, properties=texts
        )
        stored = view if compression is None else _compress(view, compression)
        blob = BlobMetadata(
            type, ids, snapshot_id, sequence_number, self._offset, len(stored), compression, texts
        )
        self._write(stored)
        self._blobs.append(blob)
        return blob

    def finish(self) -> FileMetadata:
        """Writes the footer and makes the file visible; a second call returns the same.

        Raises:
            InvalidInputError: the writer was aborted, or the file's name was taken meanwhile.
            LimitExceededError: a footer of more than 2^31 - 1 bytes.
        """
        if self._metadata is not None:
            return self._metadata
        self._check_open()
        metadata = FileMetadata(tuple(self._blobs), self._properties)
        try:
            encoded = footer.encode(metadata, compress=self._compress_footer)
            self._write(encoded)
            self._sink.commit()
        except BaseException:
            self.abort()
            raise
        self._open = False
        self._footer_size = len(encoded)
        self._metadata = metadata
        return metadata

    def abort(self) -> None:
        """Gives the file up and leaves none behind; does nothing after `finish`."""
        if self._open:
            self._open = False
            self._sink.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.abort()
        elif self._open or self._failed:  # a failure that the caller swallowed must not pass for a file
            self.finish()

    def __del__(self) -> None:
        # a writer that was dropped: its temporary file must not stay
        if getattr(self, "_open", False):
            with contextlib.suppress(Exception):
                self.abort()

    def _write(self, data: Buffer) -> None:
        """After a failed write nobody knows what the sink holds: no footer may follow."""
        try:
            self._sink.write(data)
        except BaseException:
            self._failed = True
            self.abort()
            raise
        self._offset += len(memoryview(data))

    def _check_open(self) -> None:
        if not self._open:
            done = "finished" if self._metadata is not None else "aborted"
            raise InvalidInputError(f"{self._sink.path or 'sink'}: this PuffinWriter is {done}")

    def _check_finished(self) -> None:
        if self._metadata is None:
            raise InvalidInputError(f"{self._sink.path or 'sink'}: sizes are known after finish()")


def _compress(data: memoryview, codec: str) -> bytes:
    return compression.compress(data, codec)


def _bytes_of(data: Buffer) -> memoryview:
    try:
        return memoryview(data).cast("B")
    except TypeError as error:
        raise InvalidInputError(f"data: expected a contiguous buffer of bytes: {error}") from None
