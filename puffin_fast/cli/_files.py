"""Reads and writes files of rows as streams: Parquet, Arrow, CSV or JSON Lines, chosen by the suffix.

The path ``-`` is standard input. It is copied to a temporary file first: readers of Parquet need the end first. So are
files of object stores, which are given by URIs.

A CSV file has a header. An empty field is NULL, and ``""`` is empty text; UUIDs are text, binary and fixed values
hexadecimal digits, as in the table specification's "JSON single-value serialization". Lists, maps and structs cannot be
written to CSV.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from uuid import UUID

from puffin_fast._concurrency.progress import is_watched, progress
from puffin_fast._io import open_sink, open_source, split_location
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.cli._json_lines import JsonArrayWriter, JsonLinesWriter, read_json_lines
from puffin_fast.cli._reader_errors import csv_error, without_values
from puffin_fast.cli._values import converted, is_bytes, is_uuid, read_type
from puffin_fast.errors import InvalidInputError, PuffinFastError, UnsupportedError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema

KNOWN = ".parquet, .arrow, .feather, .csv, .jsonl or .json"

FORMATS = ("parquet", "arrow", "csv", "jsonl", "json")
"""The formats that are read."""

STDIN = "-"

CHUNK_BYTES = 8 << 20
"""Number of bytes of a remote file that are copied at once."""

FIRST_YEAR, LAST_YEAR = "0001", "9999"
"""Years that the CSV reader accepts."""

BLOCK_BYTES = 16 << 20
"""Maximum bytes of a CSV file that are read at once, and maximum length of a row."""

HEADER_BYTES = 1 << 20
"""Maximum length of a header without an end of line."""


@contextmanager
def rows(path: str | Path, schema: Schema, form: str | None = None) -> Iterator[pa.RecordBatchReader]:
    """Reads the rows of a file.

    Args:
        path: the path or URI of the file, or ``-`` for standard input.
        schema: the schema of a table. Columns of CSV and JSON Lines are read in the types of the columns with their
            names.
        form: one of `FORMATS`; by default what the suffix says, JSON Lines for standard input.

    Raises:
        UnsupportedError: the suffix is not known.
        InvalidInputError: the file does not have its format.
    """
    name, (scheme, _, key) = str(path), split_location(str(path))
    if name != STDIN and not is_remote_scheme(scheme):
        with _opened(Path(key), name, schema, form) as reader:
            yield _watched(reader)
        return
    with TemporaryDirectory(prefix="puffin-fast-") as folder:
        copy = Path(folder, "rows").with_suffix(Path(key).suffix)
        with copy.open("wb") as file:
            if name == STDIN:
                name, form = "standard input", form or "jsonl"
                shutil.copyfileobj(sys.stdin.buffer, file)
            else:
                with open_source(name) as source:
                    for at in range(0, source.size, CHUNK_BYTES):
                        file.write(source.read_at(at, min(CHUNK_BYTES, source.size - at)))
        with _opened(copy, name, schema, form) as reader:
            yield _watched(reader)


def _watched(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The rows; on a terminal, how many were read is shown."""
    if not is_watched():
        return reader
    import pyarrow as pa

    return pa.RecordBatchReader.from_batches(reader.schema, progress(reader, "reading rows", counted=len))


def is_remote_scheme(scheme: str) -> bool:
    """Whether a location with this scheme is not a file of this machine."""
    return scheme not in ("", "file")


@contextmanager
def _opened(path: Path, name: str, schema: Schema, form: str | None) -> Iterator[pa.RecordBatchReader]:
    """As `rows`, for a file that errors call `name`."""
    import pyarrow as pa

    from puffin_fast.parquet.arrow_file import ArrowFile

    try:
        match f".{form}" if form is not None else path.suffix.lower():
            case ".parquet":
                with ArrowFile(path, name) as file:
                    batches = _named(name, file.iter_batches())
                    yield pa.RecordBatchReader.from_batches(file.schema_arrow, batches)
            case ".arrow" | ".feather":
                with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as ipc:
                    numbers = range(ipc.num_record_batches)
                    batches = _named(name, (ipc.get_batch(number) for number in numbers))
                    yield pa.RecordBatchReader.from_batches(ipc.schema, batches)
            case ".csv":
                try:
                    yield _read_csv(path, name, schema)
                except pa.ArrowInvalid as error:
                    raise csv_error(name, error, partial(_names, path), partial(_texts, path)) from error
            case ".jsonl" | ".ndjson" | ".json":
                with path.open("rb") as lines:
                    yield read_json_lines(lines, name, _types(schema, nested=True))
            case suffix:
                raise UnsupportedError(f"{name}: expected {KNOWN}, found {suffix or 'no suffix'}")
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{name}: {without_values(error)}") from error


def _named(name: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches; what PyArrow reports of the file names it, and not the file that is written of them."""
    try:
        yield from batches
    except PuffinFastError:
        raise
    except (ValueError, OSError, NotImplementedError) as error:
        if is_from_outside(error):
            raise
        raise InvalidInputError(f"{name}: {error}") from error


class _Stream(io.RawIOBase):
    """A sink or file object for writers of PyArrow, which close it."""

    def __init__(self, write: Callable[[Any], object]) -> None:
        self._write = write

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._write(data)
        return len(data)


def suffix_of(path: str) -> str:
    """The suffix of a file of rows.

    Raises:
        UnsupportedError: it is not known.
    """
    suffix = Path(split_location(path)[2]).suffix.lower()
    if suffix not in (".parquet", ".arrow", ".feather", ".csv", ".jsonl", ".ndjson", ".json"):
        raise UnsupportedError(f"{path}: expected {KNOWN}, found {suffix or 'no suffix'}")
    return suffix


def write(path: str | Path, reader: pa.RecordBatchReader) -> int:
    """Writes a stream of rows; an existing file is replaced when all rows are written.

    Args:
        path: a path or URI.

    Returns:
        The number of rows.

    Raises:
        UnsupportedError: the suffix is not known.
        InvalidInputError: the format cannot hold a column; no file is written.
    """
    path = str(path)
    suffix = suffix_of(path)
    sink = open_sink(path, overwrite=True)
    try:
        n_rows = write_stream(sink.write, suffix, reader, path)
        sink.commit()
    except BaseException:
        sink.abort()
        raise
    return n_rows


def write_stream(write: Callable[[Any], object], suffix: str, reader: pa.RecordBatchReader, name: str) -> int:
    """Writes a stream of rows in the format of a suffix.

    Args:
        write: takes the bytes, in order.
        suffix: the suffix of the format.
        name: the name of the output, for errors.

    Returns:
        The number of rows.

    Raises:
        InvalidInputError: the format cannot hold a column.
    """
    import pyarrow as pa
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    writers: dict[str, Callable[..., Any]] = {
        ".parquet": partial(pq.ParquetWriter, write_page_checksum=True),
        ".arrow": pa.ipc.new_file,
        ".feather": pa.ipc.new_file,
        ".csv": csv.CSVWriter,
        ".jsonl": JsonLinesWriter,
        ".ndjson": JsonLinesWriter,
        ".json": JsonArrayWriter,
    }
    if suffix == ".csv":
        reader = _for_csv(name, reader)
    n_rows = 0
    try:
        with writers[suffix](_Stream(write), reader.schema) as writer:
            for batch in progress(reader, "writing rows", counted=len):
                writer.write_batch(batch)
                n_rows += batch.num_rows
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"{name}: {error}") from error
    return n_rows


# CSV ---------------------------------------------------------------------------------------------------------


def _read_csv(path: Path, name: str, schema: Schema) -> pa.RecordBatchReader:
    import pyarrow as pa
    import pyarrow.csv as csv

    wanted = _types(schema)
    read = {name: read_type(kind) for name, kind in wanted.items()}
    convert = csv.ConvertOptions(
        column_types=read, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )

    source: Any = path
    n_bytes = path.stat().st_size
    if n_bytes < HEADER_BYTES:
        text = path.read_bytes()
        if text and b"\n" not in text and b"\r" not in text:
            source = pa.py_buffer(text + b"\n")  # only a header: the CSV reader needs the end of the line

    def opened(**options: Any) -> pa.RecordBatchReader:
        parse = csv.ParseOptions(newlines_in_values=True, **options)
        read = csv.ReadOptions(block_size=min(max(n_bytes, HEADER_BYTES), BLOCK_BYTES))
        file = source if source is path else pa.BufferReader(source)
        return csv.open_csv(file, read_options=read, parse_options=parse, convert_options=convert)

    reader = opened()
    if len(reader.schema) == 1:  # an empty line is a row: NULL
        reader.close()
        reader = opened(ignore_empty_lines=False)
    found = pa.schema([field.with_type(wanted.get(field.name, field.type)) for field in reader.schema])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = []
            for field, column in zip(found, batch.columns, strict=True):
                try:
                    columns.append(converted(column, field.type))
                except (pa.ArrowInvalid, InvalidInputError) as error:
                    raise InvalidInputError(
                        f"{name}: column {field.name}: {without_values(error)}"
                    ) from error
            yield pa.RecordBatch.from_arrays(columns, schema=found)

    return pa.RecordBatchReader.from_batches(found, batches())


def _names(path: Path) -> list[str]:
    """The columns of a CSV file."""
    import pyarrow.csv as csv

    return list(csv.open_csv(path, read_options=csv.ReadOptions(block_size=BLOCK_BYTES)).schema.names)


def _texts(path: Path, column: str) -> Iterator[pa.Array]:
    """A column of a CSV file as texts, as far as its rows can be read."""
    import pyarrow as pa
    import pyarrow.csv as csv

    convert = csv.ConvertOptions(
        include_columns=[column],
        column_types={column: pa.string()},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = csv.ParseOptions(newlines_in_values=True)
    read = csv.ReadOptions(block_size=BLOCK_BYTES)
    for batch in csv.open_csv(path, read_options=read, parse_options=parse, convert_options=convert):
        yield batch.column(0)


def _types(schema: Schema, *, nested: bool = False) -> dict[str, Any]:
    """The Arrow types of the columns: of all, or of those that a CSV file can have, by dotted name."""
    from pyiceberg.types import PrimitiveType

    from puffin_fast.rows.files.conversion import arrow_type

    if nested:
        return {field.name: arrow_type(field.field_type) for field in schema.fields}
    names = {schema.find_column_name(field_id): schema.find_type(field_id) for field_id in schema.field_ids}
    return {
        name: arrow_type(kind)
        for name, kind in names.items()
        if name is not None and isinstance(kind, PrimitiveType)
    }


def _for_csv(path: str, reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Converts UUIDs and binary values of the rows to text.

    Raises:
        InvalidInputError: CSV cannot represent a column, or a value when the rows are read.
    """
    import pyarrow as pa

    for field in reader.schema:
        if pa.types.is_nested(field.type):
            raise InvalidInputError(
                f"{path}: column {field.name} ({field.type}) cannot be written as CSV: select other columns, "
                "or write .parquet, .arrow or .jsonl"
            )
    schema = pa.schema(
        [field.with_type(pa.string()) if is_bytes(field.type) else field for field in reader.schema]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = [
                _as_text(path, name, column)
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _as_text(path: str, name: str, column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if is_bytes(column.type):
        uuids = is_uuid(column.type)
        values = (column.storage if uuids else column).to_pylist()
        form: Callable[[bytes], str] = (lambda value: str(UUID(bytes=value))) if uuids else bytes.hex
        return pa.array([None if value is None else form(value) for value in values], pa.string())
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        ends = pc.min_max(column)
        for end in ends.values():
            year = str(end.cast(pa.string())).partition("-")[0] if end.is_valid else FIRST_YEAR
            if len(year) != 4 or not FIRST_YEAR <= year <= LAST_YEAR:
                raise InvalidInputError(
                    f"{path}: CSV has no form for {end.cast(pa.string())} in column {name}: years from "
                    f"{FIRST_YEAR} to {LAST_YEAR} have one; write .parquet, .arrow or .jsonl"
                )
    return column
