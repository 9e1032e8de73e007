"""PyIceberg's writer of Parquet files, with checksums, page indexes, Bloom filters and all logical types, for which it
has no options.

No release of PyIceberg ends this: 0.12.0 and its main branch of August 2026 have no such options.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyiceberg.io.pyarrow import (
    ParquetFormatWriter,
    _check_pyarrow_schema_compatible,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.table import TableProperties
from pyiceberg.types import BooleanType

from puffin_fast._pyiceberg.v3_types import unordered_fields
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.compat.table_properties import choice_property, integer_property
from puffin_fast.parquet.logical_types import AnnotatedStream
from puffin_fast.rows.files.annotated_columns import annotations_of

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyiceberg.io import OutputFile
    from pyiceberg.io.pyarrow import DataFileStatistics
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

    from puffin_fast.parquet.logical_types import Annotation, ColumnPath

_ENABLED = f"{TableProperties.PARQUET_BLOOM_FILTER_COLUMN_ENABLED_PREFIX}."
_FPP = "write.parquet.bloom-filter-fpp.column."
_NDV = "write.parquet.bloom-filter-ndv.column."
_MAX_BYTES = TableProperties.PARQUET_BLOOM_FILTER_MAX_BYTES
_DEFAULT_FPP = 0.01


def check_bloom_properties(properties: Mapping[str, str]) -> None:
    """Checks the properties of Bloom filters.

    Raises:
        InvalidInputError: one has a value that it cannot have.
    """
    integer_property(properties, _MAX_BYTES, None)
    for name in properties:
        if name.startswith(_ENABLED):
            choice_property(properties, name, ("true", "false"))
        elif name.startswith(_NDV):
            integer_property(properties, name, None)
        elif name.startswith(_FPP):
            _probability(properties, name)


def create_parquet(output: OutputFile, schema: Schema, properties: Mapping[str, str]) -> ParquetFormatWriter:
    """Returns a writer of one data file; each page gets a CRC-32, and each column a page index.

    Columns get the logical type that the table specification names (Appendix A, "Parquet").

    Args:
        schema: the schema of its columns.
        properties: the properties of the table, which were checked.
    """
    return _Writer(output, schema, properties)


def statistics_of(footer: pq.FileMetaData, metadata: TableMetadata) -> DataFileStatistics:
    """Returns the statistics of a file that another program wrote. Its columns are found by name.

    Raises:
        ValueError: the columns do not fit the table's schema.
    """
    schema, columns = metadata.schema(), footer.schema.to_arrow_schema()
    _check_pyarrow_schema_compatible(schema, columns, format_version=metadata.format_version)
    return data_file_statistics_from_parquet_metadata(
        parquet_metadata=footer,
        stats_columns=compute_statistics_plan(schema, metadata.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )


class _Writer(ParquetFormatWriter):
    def __init__(self, output: OutputFile, schema: Schema, properties: Mapping[str, str]) -> None:
        others = {name: value for name, value in properties.items() if "bloom-filter" not in name}
        annotations = annotations_of(schema)
        file: Any = _AnnotatedOutput(output, annotations) if annotations else output
        super().__init__(file, schema, others)
        self._of_table = properties
        self._parquet_writer_kwargs |= {"write_page_checksum": True, "write_page_index": True}

    def write(self, table: pa.Table) -> None:
        if self._writer is None:
            rows = min(table.num_rows, self._row_group_size)
            self._parquet_writer_kwargs["bloom_filter_options"] = _options(
                self._file_schema, self._of_table, rows
            )
        super().write(table)

    def close(self) -> DataFileStatistics:
        if isinstance(self._fos, AnnotatedStream):
            self._fos.hold()
        found = super().close()
        for field_id in unordered_fields(self._file_schema):
            found.column_aggregates.pop(field_id, None)
        return found


class _AnnotatedOutput:
    """A file to write, whose footer is annotated.

    Args:
        output: PyIceberg's.
        annotations: the logical types by column.
    """

    def __init__(self, output: OutputFile, annotations: Mapping[ColumnPath, Annotation]) -> None:
        self._output, self._annotations = output, annotations

    def create(self, overwrite: bool = False) -> AnnotatedStream:
        """Opens the file."""
        return AnnotatedStream(self._output.create(overwrite=overwrite), self._annotations)


def _options(schema: Schema, properties: Mapping[str, str], n_rows: int) -> dict[str, Any] | None:
    """PyArrow's options of Bloom filters: by the path of a column in the file.

    Args:
        properties: the properties of the table. Columns that the file does not have, and booleans, get no filter.
        n_rows: most rows of a row group; a filter is not made for more values.
    """
    names = [
        name.removeprefix(_ENABLED)
        for name, value in properties.items()
        if name.startswith(_ENABLED) and value.lower() == "true"
    ]
    if not names:
        return None
    paths = {field_id: path for path, field_id in parquet_path_to_id_mapping(schema).items()}
    most = integer_property(properties, _MAX_BYTES, TableProperties.PARQUET_BLOOM_FILTER_MAX_BYTES_DEFAULT)
    found = {}
    for field_id, path in paths.items():
        name = schema.find_column_name(field_id)
        if name in names and not isinstance(schema.find_type(field_id), BooleanType):
            fpp = _probability(properties, _FPP + name)
            ndv = integer_property(properties, _NDV + name, n_rows)
            found[path] = {"ndv": min(ndv, n_rows, _most_values(most, fpp)), "fpp": fpp}
    return found or None


def _most_values(n_bytes: int, fpp: float) -> int:
    """Values for which a filter takes at most a number of bytes; the writer rounds bytes up to a power of two."""
    bits = 8 * 2 ** int(math.log2(max(n_bytes, 32)))
    return max(int(-bits * math.log(1 - fpp ** (1 / 8)) / 8), 1)


def _probability(properties: Mapping[str, str], name: str) -> float:
    value = properties.get(name)
    try:
        found = _DEFAULT_FPP if value is None else float(value)
    except ValueError:
        found = math.nan
    if not 0 < found < 1:
        raise InvalidInputError(f"property {name}: expected a number between 0 and 1, found {value!r}")
    return found
