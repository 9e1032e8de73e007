"""PyIceberg's writer of Parquet files, which has no option for the CRC-32 of pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyiceberg.io.pyarrow import ParquetFormatWriter

if TYPE_CHECKING:
    from pyiceberg.io import OutputFile
    from pyiceberg.schema import Schema


def create_parquet(output: OutputFile, schema: Schema, properties: Mapping[str, str]) -> ParquetFormatWriter:
    """Returns a writer of one data file; each page gets a CRC-32.

    Args:
        output: the file.
        schema: of its columns.
        properties: of the table.
    """
    writer = ParquetFormatWriter(output, schema, dict(properties))
    writer._parquet_writer_kwargs["write_page_checksum"] = True
    return writer
