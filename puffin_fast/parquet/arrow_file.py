"""A Parquet file that PyArrow reads; errors say which page is damaged, and that a file is encrypted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from puffin_fast._io import open_source
from puffin_fast._kernels.parquet.pages import check_pages
from puffin_fast.errors import UnsupportedError
from puffin_fast.parquet.footer import AFTER_FOOTER, check_footer, footer_bytes

ENCRYPTED_MAGIC = b"PARE"
"""The end of a file whose footer is encrypted (Parquet's Encryption.md, "Encrypted footer mode")."""


ARROW_SCHEMA = b"ARROW:schema"
"""The key of the Arrow schema that Arrow's writers store."""


class ArrowFile(pq.ParquetFile):  # type: ignore[misc]  # PyArrow has no types
    """PyArrow's `ParquetFile`. Each page that is decoded is compared with its CRC-32, if it has one.

    Args:
        source: a path, or an open file.
        path: of the file, for messages.
        options: as PyArrow's.

    Raises:
        UnsupportedError: the file is encrypted.
    """

    def __init__(self, source: Any, path: str, **options: Any) -> None:
        self._opened, self._path = source, path
        try:
            super().__init__(source, page_checksum_verification=True, **options)
            if self._has_unread_dictionaries():
                options["metadata"] = self._without_arrow_schema()
                super().__init__(source, page_checksum_verification=True, **options)
        except OSError as error:
            with suppress(OSError, ValueError), open_source(source) as file:
                if file.read_tail(len(ENCRYPTED_MAGIC)) == ENCRYPTED_MAGIC:
                    raise UnsupportedError(
                        f"{path}: Parquet, encrypted; expected an unencrypted file"
                    ) from error
            raise

    def _has_unread_dictionaries(self) -> bool:
        """Whether the stored Arrow schema has dictionaries of columns that PyArrow decodes to plain arrays only."""
        footer = self.metadata
        if ARROW_SCHEMA not in (footer.metadata or {}) or not any(
            map(_has_dictionary, self.schema_arrow.types)
        ):
            return False
        with open_source(self._opened) as source:
            check_footer(footer, source, self._path)
        groups = map(footer.row_group, range(footer.num_row_groups))
        chunks = (group.column(at) for group in groups for at in range(group.num_columns))
        return any(encoding.startswith("DELTA_") for chunk in chunks for encoding in chunk.encodings)

    def _without_arrow_schema(self) -> pq.FileMetaData:
        """The footer under which PyArrow takes the types from Parquet's schema."""
        with open_source(self._opened) as source:
            footer = footer_bytes(source, self.metadata.serialized_size + AFTER_FOOTER)
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
        with self._explained(row_groups, columns):
            yield from super().iter_batches(batch_size, row_groups, columns, **options)

    def read_row_groups(
        self, row_groups: Sequence[int], columns: Sequence[str] | None = None, **options: Any
    ) -> pa.Table:
        """Reads row groups, as PyArrow's does; raises what `iter_batches` does."""
        with self._explained(row_groups, columns):
            return super().read_row_groups(row_groups, columns, **options)

    def read_row_group(self, i: int, columns: Sequence[str] | None = None, **options: Any) -> pa.Table:
        """Reads a row group, as PyArrow's does; raises what `iter_batches` does."""
        return self.read_row_groups([i], columns, **options)

    @contextmanager
    def _explained(self, row_groups: Sequence[int] | None, columns: Sequence[str] | None) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if "decrypt" in str(error):
                raise UnsupportedError(f"{self._path}: columns are encrypted") from error
            if "CRC" in str(error):
                self._check_pages(row_groups, columns)
            raise

    def _check_pages(self, row_groups: Sequence[int] | None, columns: Sequence[str] | None) -> None:
        """Raises CorruptDataError for the first page that has another CRC-32 than its header states."""
        footer = self.metadata
        with open_source(self._opened) as source:
            check_footer(footer, source, self._path)
            for number in range(footer.num_row_groups) if row_groups is None else row_groups:
                group = footer.row_group(number)
                for chunk in map(group.column, range(group.num_columns)):
                    leaf = chunk.path_in_schema
                    if columns is None or any(f"{leaf}.".startswith(f"{name}.") for name in columns):
                        start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
                        data = source.read_at(start, chunk.total_compressed_size)
                        check_pages(data, path=self._path, column=leaf, start=start)


def _has_dictionary(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or any(
        _has_dictionary(kind.field(at).type) for at in range(kind.num_fields)
    )
