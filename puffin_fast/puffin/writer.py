"""Writes a Puffin file sequentially: magic, blobs, footer.

    PFA1 | blob 1 … blob n | footer

Specification, "File structure". Only the metadata of a written blob stays in memory. The sink need not be seekable.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from puffin_fast import __version__, _io
from puffin_fast._api.arguments import check_flags, check_mapping
from puffin_fast._text import counted, shown_argument
from puffin_fast.errors import InvalidInputError
from puffin_fast.puffin import compression, footer
from puffin_fast.puffin.metadata import BlobMetadata, FileMetadata, check_writable

if TYPE_CHECKING:
    from typing_extensions import Buffer

CREATED_BY = "created-by"
"""Property of a file: the application that wrote it (specification, "Common properties")."""


class PuffinWriter:
    """Writes a Puffin file. As a context manager it calls `finish`, or `abort` if an exception is raised.

    A local file is written under a temporary dot name and renamed when it is complete, so that no reader sees an
    incomplete file. On an object store the file becomes visible at the end; an abort closes the upload and then
    deletes the object. A file object of the caller is never closed; after an abort it has a file without footer.

    Args:
        sink: a local path, a URI, a path on `filesystem`, or an open binary file object at position 0.
        filesystem: a pyarrow.fs.FileSystem, an fsspec filesystem or a PyIceberg FileIO.
        properties: the properties of the file; ``created-by`` is added if it is missing.
        compress_footer: whether to compress the footer with LZ4. Java, Rust and PyIceberg cannot read such a file.
        overwrite: whether to replace an existing file.

    Raises:
        InvalidInputError: properties that are not strings, an existing file, or an invalid sink.
    """

    def __init__(
        self,
        sink: _io.Location,
        *,
        filesystem: Any = None,
        properties: Mapping[str, str] | None = None,
        compress_footer: bool = False,
        overwrite: bool = False,
    ) -> None:
        check_flags(compress_footer=compress_footer, overwrite=overwrite)
        check_mapping("properties", properties)
        self._properties = {CREATED_BY: f"puffin_fast {__version__}", **(properties or {})}
        self._compress_footer = compress_footer
        self._blobs: list[BlobMetadata] = []
        self._metadata: FileMetadata | None = None
        self._offset = 0
        self._footer_size = 0
        self._open = False
        self._failed = False
        self._sink = _io.open_sink(sink, filesystem=filesystem, overwrite=overwrite)
        self._open = True
        self._write(footer.MAGIC)

    def __repr__(self) -> str:
        state = "open" if self._open else "aborted" if self._metadata is None else "finished"
        return f"PuffinWriter({self._sink.path!r}, {counted(len(self._blobs), 'blob')}, {self._offset} bytes, {state})"

    @property
    def file_size(self) -> int:
        """The size of the file in bytes, after `finish`."""
        self._check_finished()
        return self._offset

    @property
    def footer_size(self) -> int:
        """The size of the footer in bytes, including both magics, after `finish`."""
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
            data: the bytes of the blob, contiguous.
            type: the type of the blob, such as ``deletion-vector-v1``.
            fields: the ids of the table's fields that the blob was computed for.
            snapshot_id: the snapshot that the blob was computed from.
            sequence_number: the sequence number of that snapshot.
            properties: the properties of the blob.
            compression: ``lz4``, ``zstd`` or None.

        Returns:
            the metadata of the blob in the footer, with the offset and length of the stored bytes.

        Raises:
            InvalidInputError: an argument is invalid, and nothing was written; or the writer is closed.
            LimitExceededError: the blob has more than 2^31 - 1 bytes.
        """
        self._check_open()
        view = _bytes_of(data)
        if not isinstance(fields, Iterable):
            raise InvalidInputError(f"fields: expected ids of fields, found {shown_argument(fields)}")
        check_mapping("properties", properties)
        ids, texts = tuple(fields), dict(properties or {})
        check_writable(type=type, fields=ids, snapshot_id=snapshot_id, sequence_number=sequence_number)
        stored = view if compression is None else _compress(view, compression)
        blob = BlobMetadata(
            type, ids, snapshot_id, sequence_number, self._offset, len(stored), compression, texts
        )
        self._write(stored)
        self._blobs.append(blob)
        return blob

    def add_stored(self, data: Buffer | Iterator[Buffer], blob: BlobMetadata) -> BlobMetadata:
        """Appends a blob of another file as it is stored there.

        Args:
            data: its stored bytes, as `PuffinReader.stored` returns them; or an iterator of their parts, so that a
                large blob need not be in memory. If the iterator raises an exception, the writer is aborted.
            blob: its metadata in the other file.

        Returns:
            its metadata in this file.

        Raises:
            InvalidInputError: the bytes have another length; or the writer is closed.
        """
        self._check_open()
        if not isinstance(blob, BlobMetadata):
            raise InvalidInputError(f"blob: expected its metadata, found {shown_argument(blob)}")
        added = replace(blob, offset=self._offset)
        if not isinstance(data, Iterator):
            view = _bytes_of(data)
            _check_length(len(view), blob)
            self._write(view)
        else:
            try:
                for part in data:
                    self._write(_bytes_of(part))
                _check_length(self._offset - added.offset, blob)
            except BaseException:
                self._failed = True
                self.abort()
                raise
        self._blobs.append(added)
        return added

    def finish(self) -> FileMetadata:
        """Writes the footer and makes the file visible. A second call returns the same metadata.

        Raises:
            InvalidInputError: the writer was aborted, or another file of this name was written meanwhile.
            LimitExceededError: the footer has more than 2^31 - 1 bytes.
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
        """Removes the incomplete file; does nothing after `finish`."""
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
        elif self._open or self._failed:  # also after an error that the caller caught: `finish` raises
            self.finish()

    def __del__(self) -> None:
        # remove the temporary file of a writer that was never finished
        if getattr(self, "_open", False):
            with contextlib.suppress(Exception):
                self.abort()

    def _write(self, data: Buffer) -> None:
        """Writes bytes. After a failed write the content of the sink is unknown, so the writer is aborted."""
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


def _check_length(n_bytes: int, blob: BlobMetadata) -> None:
    if n_bytes != blob.length:
        raise InvalidInputError(f"data: expected {blob.length} bytes, found {n_bytes}")


def _bytes_of(data: Buffer) -> memoryview:
    try:
        return memoryview(data).cast("B")
    except TypeError as error:
        raise InvalidInputError(f"data: expected a contiguous buffer of bytes: {error}") from None
