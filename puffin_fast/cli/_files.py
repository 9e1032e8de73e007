"""Files of rows that a command reads or writes: Parquet, Arrow or CSV, streamed, told by their suffix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puffin_fast.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema

__all__ = ["rows", "write"]

KNOWN = ".parquet, .arrow, .feather or .csv"


@contextmanager
def rows(path: Path, schema: Schema) -> Iterator[pa.RecordBatchReader]:
    """The rows of a file.

    Args:
        path: of the file.
        schema: of a table: a CSV file's columns of the same names are read in its types.

    Raises:
        UnsupportedError: the suffix is not known.
        InvalidInputError: the file is not what its suffix says.
    """
    import pyarrow as pa
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    try:
        match path.suffix.lower():
            case ".parquet":
                with pq.ParquetFile(path) as file:
                    yield pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
            case ".arrow" | ".feather":
                with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as ipc:
                    batches = (ipc.get_batch(number) for number in range(ipc.num_record_batches))
                    yield pa.RecordBatchReader.from_batches(ipc.schema, batches)
            case ".csv":
                convert = csv.ConvertOptions(column_types=_types(schema), strings_can_be_null=False)
                yield csv.open_csv(path, convert_options=convert)
            case suffix:
                raise UnsupportedError(f"{path}: expected {KNOWN}, found {suffix or 'no suffix'}")
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"{path}: {error}") from error


def _types(schema: Schema) -> dict[str, Any]:
    """Arrow types of the columns that a CSV file can hold, by dotted name."""
    from pyiceberg.types import PrimitiveType

    from puffin_fast.iceberg.datafile.conversion import storage_type

    names = {schema.find_column_name(field_id): schema.find_type(field_id) for field_id in schema.field_ids}
    return {
        name: storage_type(kind)
        for name, kind in names.items()
        if name is not None and isinstance(kind, PrimitiveType)
    }


def write(path: Path, reader: pa.RecordBatchReader) -> int:
    """Writes a stream of rows, and says how many there were.

    Raises:
        UnsupportedError: the suffix is not known.
        InvalidInputError: the format has no room for a column.
    """
    import pyarrow as pa
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    writers = {
        ".parquet": pq.ParquetWriter,
        ".arrow": pa.ipc.new_file,
        ".feather": pa.ipc.new_file,
        ".csv": csv.CSVWriter,
    }
    make = writers.get(path.suffix.lower())
    if make is None:
        raise UnsupportedError(f"{path}: expected {KNOWN}, found {path.suffix or 'no suffix'}")
    n_rows = 0
    try:
        with make(str(path), reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
                n_rows += batch.num_rows
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        path.unlink(missing_ok=True)
        raise InvalidInputError(f"{path}: {error}") from error
    return n_rows
