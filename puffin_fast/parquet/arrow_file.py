"""A Parquet file that PyArrow reads; errors say which page is damaged, and that a file is encrypted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from inspect import signature
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from puffin_fast._io import Source, open_source
from puffin_fast.errors import UnsupportedError
from puffin_fast.parquet.checked_file import CheckedFile
from puffin_fast.parquet.footer import AFTER_FOOTER, ChunkPlaces, check_footer, footer_bytes

ENCRYPTED_MAGIC = b"PARE"
"""The end of a file whose footer is encrypted (Parquet's Encryption.md, "Encrypted footer mode")."""


ARROW_SCHEMA = b"ARROW:schema"
"""The key of the Arrow schema that Arrow's writers store."""


_NO_EXTENSIONS = (
    {"arrow_extensions_enabled": False}
    if "arrow_extensions_enabled" in signature(pq.ParquetFile.__init__).parameters
    else {}
)
"""Logical types are read by their storage: geoarrow-pyarrow refuses some of Parquet's coordinate reference systems."""


class ArrowFile(pq.ParquetFile):  # type: ignore[misc]  # PyArrow has no types
    """PyArrow's `ParquetFile`. Each page of a column chunk that is read is compared with its CRC-32, if it has one.

    Args:
        source: a path, an open file, or a `Source`.
        path: the path of the file, for messages.
        is_remote: whether the column chunks of a call of `iter_batches` are read at once, near ones together.
        places: where the column chunks are, if that is known; else it is read from the footer.
        options: as PyArrow's.

    Raises:
        UnsupportedError: the file is encrypted.
    """

    def __init__(
        self,
        source: Any,
        path: str,
        *,
        is_remote: bool = False,
        places: ChunkPlaces | None = None,
        **options: Any,
    ) -> None:
        self._opened, self._path, self._is_remote, self.places = source, path, is_remote, places
        self._native, self._is_prepared = _native(source), False
        self._source = source if isinstance(source, Source) else open_source(self._native)
        self._checked = CheckedFile(self._native, path)
        self._options = {"pre_buffer": False, **_NO_EXTENSIONS, **options}
        try:
            self._open(pa.PythonFile(self._checked, mode="r"))
            if self._has_unread_dictionaries():
                self._options["metadata"] = self._without_arrow_schema()
                self._open(pa.PythonFile(self._checked, mode="r"))
        except OSError as error:
            with suppress(OSError, ValueError):
                if self._source.read_tail(len(ENCRYPTED_MAGIC)) == ENCRYPTED_MAGIC:
                    raise UnsupportedError(
                        f"{path}: Parquet, encrypted; expected an unencrypted file"
                    ) from error
            raise

    def _open(self, file: pa.NativeFile, **options: Any) -> None:
        super().__init__(file, **self._options, **options)

    def close(self, force: bool = False) -> None:
        """Closes the file, if it was given by its path or `force` is set."""
        is_path = isinstance(self._opened, str | os.PathLike)
        super().close(force or is_path)
        if force or is_path:
            self._native.close()

    def _has_unread_dictionaries(self) -> bool:
        """Whether the stored Arrow schema has dictionaries of columns that PyArrow decodes to plain arrays only."""
        footer = self.metadata
        if ARROW_SCHEMA not in (footer.metadata or {}) or not any(
            map(_has_dictionary, self.schema_arrow.types)
        ):
            return False
        check_footer(footer, self._source, self._path)
        groups = map(footer.row_group, range(footer.num_row_groups))
        chunks = (group.column(at) for group in groups for at in range(group.num_columns))
        return any(encoding.startswith("DELTA_") for chunk in chunks for encoding in chunk.encodings)

    def _without_arrow_schema(self) -> pq.FileMetaData:
        """The footer under which PyArrow takes the types from Parquet's schema."""
        footer = footer_bytes(self._source, self.metadata.serialized_size + AFTER_FOOTER)
        changed = footer.replace(ARROW_SCHEMA, ARROW_SCHEMA.lower())
        length = len(changed).to_bytes(4, "little")
        return pq.read_metadata(pa.BufferReader(b"PAR1" + changed + length + b"PAR1"))

    def iter_batches(
        self,
        batch_size: int = 1 << 16,
        row_groups: Sequence[int] | None = None,
        columns: Sequence[str] | None = None,
        **options: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Yields rows, as PyArrow's does.

        Raises:
            CorruptDataError: a page has another CRC-32 than its header states.
            UnsupportedError: a column is encrypted.
        """
        with self._read(row_groups, columns):
            yield from super().iter_batches(batch_size, row_groups, columns, **options)

    def read_row_groups(
        self, row_groups: Sequence[int], columns: Sequence[str] | None = None, **options: Any
    ) -> pa.Table:
        """Reads row groups, as PyArrow's does; raises what `iter_batches` does."""
        with self._read(row_groups, columns):
            return super().read_row_groups(row_groups, columns, **options)

    def read_row_group(self, i: int, columns: Sequence[str] | None = None, **options: Any) -> pa.Table:
        """Reads a row group, as PyArrow's does; raises what `iter_batches` does."""
        return self.read_row_groups([i], columns, **options)

    def read(self, columns: Sequence[str] | None = None, **options: Any) -> pa.Table:
        """Reads all row groups, as PyArrow's does; raises what `iter_batches` does."""
        return self.read_row_groups(range(self.num_row_groups), columns, **options)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if "decrypt" in str(error):
                raise UnsupportedError(f"{self._path}: columns are encrypted") from error
            raise

    @contextmanager
    def _read(self, row_groups: Sequence[int] | None, columns: Sequence[str] | None) -> Iterator[None]:
        """What a call that reads columns does before and after; the pages of contradictory ones compares PyArrow."""
        with self._explained():
            if not self._is_prepared:
                self._is_prepared = True
                if self.places is None:
                    self.places = ChunkPlaces.of(self.metadata, self._source, self._path)
                self._checked.places, self._checked.schema = self.places, self.schema
                if self.places is None:
                    self._options["metadata"] = self.metadata
                    self._open(self._native, page_checksum_verification=True)
            if not self._is_remote or self.places is None:
                yield
                return
            groups = range(self.num_row_groups) if row_groups is None else row_groups
            ranges = self.places.ranges(groups, self._get_column_indices(columns))
            with self._checked.holding(self._source, ranges):
                yield


def _native(source: Any) -> pa.NativeFile:
    """The file in PyArrow."""
    if isinstance(source, Source):
        return source.for_arrow()
    if isinstance(source, str | os.PathLike):
        return pa.OSFile(os.fspath(source))
    return source if isinstance(source, pa.NativeFile) else pa.PythonFile(source, mode="r")


def _has_dictionary(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or any(
        _has_dictionary(kind.field(at).type) for at in range(kind.num_fields)
    )
