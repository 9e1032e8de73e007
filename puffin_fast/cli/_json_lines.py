"""Reads and writes JSON Lines: one JSON object in each line. A file whose first character is ``[`` is one JSON array.

PyArrow's JSON reader reads the values, in the types of the columns. Dates, times, timestamps, UUIDs, binary and fixed
values are text and a map is an object of ``keys`` and ``values``, as in the table specification's "JSON single-value
serialization"; decimals are text or numbers. NaN and infinities are the tokens ``NaN``, ``Infinity`` and ``-Infinity``,
which Python's, Spark's and PyArrow's readers know.

PyArrow alone is not enough: it takes a missing key for a null, long integers for infinities, and not each line has to
be an object. So Python parses each line first: all lines are objects with the keys of the first. A missing key could
mean NULL or "not given", and an upsert would overwrite a value.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from puffin_fast.cli._reader_errors import shape_of, without_values
from puffin_fast.cli._values import converted, json_value, read_type, rows_of
from puffin_fast.errors import InvalidInputError, LimitExceededError

LINE_BYTES = 16 << 20
"""Maximum length of a line."""

ARRAY_BYTES = 1 << 30
"""Maximum length of a JSON array, which is parsed at once."""

BATCH_ROWS = 16 << 10
"""Number of rows that are converted at once."""

WRONG = (pa.ArrowException, ValueError, TypeError, LookupError, ArithmeticError, InvalidInputError)
"""What the conversion of a wrong value raises."""

Row = tuple[str, str, dict[str, object]]
"""Where an object is, its text, and its values."""


def read_json_lines(file: BinaryIO, name: str, types: Mapping[str, pa.DataType]) -> pa.RecordBatchReader:
    """Reads rows as a stream. Empty lines are skipped; a file without a row has the columns of `types`.

    Args:
        file: opened for reading; it must stay open while the rows are read.
        name: the name of the file, for errors.
        types: the types of the columns by name. Other columns have the type that their values in the first batch have.

    Raises:
        InvalidInputError: a line is not a JSON object, has other keys than the first, or a value does not have its
            column's type. Those of later batches are raised when they are read.
        LimitExceededError: a line is longer than 16 MiB.
    """
    rows = _rows(file, name)
    first = list(islice(rows, BATCH_ROWS))
    columns = {key: [row[key] for _, _, row in first] for key in (first[0][2] if first else types)}
    schema = pa.schema(
        [
            (key, types[key] if key in types else _inferred(name, key, values))
            for key, values in columns.items()
        ]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        batch = first
        while batch:
            try:
                yield _read([text for _, text, _ in batch], schema)
            except WRONG as error:
                raise _first_wrong(batch, schema) or error from error
            batch = list(islice(rows, BATCH_ROWS))

    return pa.RecordBatchReader.from_batches(schema, batches())


def read_value(text: str, kind: pa.DataType) -> pa.Scalar:
    """Reads one value of a column, as in a line of a file.

    Args:
        text: JSON.
        kind: the column's type.

    Raises:
        WRONG: the value does not have the type.
    """
    line = f'{{"value": {text}}}'.replace("\n", " ")
    _DECODER.decode(line)
    return _read([line], pa.schema([("value", kind)])).column(0)[0]


class JsonLinesWriter:
    """Writes batches to a file, as PyArrow's writers of other formats.

    Args:
        file: open for writing.
        schema: the schema of the batches.
    """

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._file = file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the document."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Writes a line for each row."""
        self._file.write("".join(f"{line}\n" for line in _lines(batch)).encode())


class JsonArrayWriter(JsonLinesWriter):
    """Writes batches to a file as one JSON array, with a line for each row; the arguments of `JsonLinesWriter`."""

    _before = "[\n"

    def __exit__(self, *error: object) -> None:
        """Ends the array, unless the rows ended with an error."""
        if error[:1] == (None,):
            self._file.write(b"[]\n" if self._before == "[\n" else b"\n]\n")

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Writes a line for each row."""
        if batch.num_rows:
            self._file.write((self._before + ",\n".join(_lines(batch))).encode())
            self._before = ",\n"


def _lines(batch: pa.RecordBatch) -> Iterator[str]:
    return (json.dumps(json_value(row, nan=True), ensure_ascii=False) for row in rows_of(batch))


# The text ----------------------------------------------------------------------------------------------------


def _fraction(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("expected a number in the range of floats")
    return number


def _integer(text: str) -> int:
    if len(text) > sys.float_info.max_10_exp:  # PyArrow reads it as an infinity
        raise ValueError("expected a number in the range of floats")
    return int(text)


_DECODER = json.JSONDecoder(parse_float=_fraction, parse_int=_integer)


def _rows(file: BinaryIO, name: str) -> Iterator[Row]:
    keys: set[str] | None = None
    for where, text, row in _objects(file, name):
        if not isinstance(row, dict):
            raise InvalidInputError(f"{where}: expected a JSON object, found {shape_of(row)}")
        keys = keys or set(row)
        if row.keys() != keys:
            different = ", ".join(sorted(row.keys() ^ keys))
            raise InvalidInputError(
                f"{where}: expected the keys of the first line, found a difference in {different}"
            )
        yield where, text, row


def _objects(file: BinaryIO, name: str) -> Iterator[tuple[str, str, Any]]:
    """Yields where each object is, its text and its value."""
    first = True
    for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES + 1), b""), 1):
        where = f"{name}: line {number}"
        if len(line) > LINE_BYTES:
            raise LimitExceededError(f"{where}: expected at most {LINE_BYTES} bytes")
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line.strip():
            continue
        try:
            if first and line.lstrip().startswith(b"["):
                where = name
                for at, (text, row) in enumerate(_items(line + file.read(ARRAY_BYTES + 1), name), 1):
                    yield f"{name}: row {at}", text, row
                return
            first = False
            text = line.decode().strip()
            row = _DECODER.decode(text)
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(
                f"{where}: expected {'a JSON array of objects' if where == name else 'a JSON object'}: {error}"
            ) from error
        yield where, text, row


def _items(data: bytes, name: str) -> Iterator[tuple[str, Any]]:
    """Yields the texts, without ends of lines, and the values of the items of an array."""
    if len(data) > ARRAY_BYTES:
        raise LimitExceededError(
            f"{name}: expected a JSON array of at most {ARRAY_BYTES} bytes; JSON Lines have no limit"
        )
    text = data.decode().strip()
    if re.fullmatch(r"\[\s*\]", text):
        return
    at, mark = 0, ","
    while mark == ",":  # at the bracket or at a comma
        begin = _begin_of_item(text, at + 1)
        item, end = _DECODER.raw_decode(text, begin)
        yield text[begin:end].replace("\n", " "), item
        at = _begin_of_item(text, end)
        mark = text[at : at + 1]
    if mark != "]" or at + 1 < len(text):
        raise json.JSONDecodeError("expected a comma or the end", text, at)


def _begin_of_item(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


_TIMES = (pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"))


def _inferred(name: str, key: str, values: list[Any]) -> pa.DataType:
    """The type of a column that the table does not have; dates and times are recognised as in CSV."""
    texts = [value for value in values if value is not None]
    try:
        key.encode()
        if not texts or not all(isinstance(value, str) for value in texts):
            return pa.infer_type(values)
        array = pa.array(texts, pa.string())
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{name}: expected text, found half of a surrogate pair") from error
    except WRONG as error:
        raise InvalidInputError(f"{name}: column {key}: {without_values(error)}") from error
    for kind in _TIMES:
        with suppress(*WRONG):
            converted(array, kind)
            return kind
    return pa.string()


# The values --------------------------------------------------------------------------------------------------


def _read(texts: list[str], schema: pa.Schema) -> pa.RecordBatch:
    """Reads objects that have the keys of a schema."""
    data = "\n".join(texts).encode()
    table = pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema([(field.name, _read_type(field.type)) for field in schema]),
            unexpected_field_behavior="error",
        ),
    )
    arrays = [_converted(table[field.name].combine_chunks(), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _read_type(kind: pa.DataType) -> pa.DataType:
    """The type in which PyArrow's reader reads the values of a type."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _read_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        keys, values = pa.list_(_read_type(kind.key_type)), pa.list_(_read_type(kind.item_type))
        return pa.struct([("keys", keys), ("values", values)])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_read_type(kind.value_type))
    return pa.string() if pa.types.is_temporal(kind) else read_type(kind)


def _converted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Converts values from the type in which they were read; a value of another type is an error of `WRONG`."""
    if pa.types.is_struct(kind):
        fields = list(kind)
        children = [_converted(array.field(field.name), field.type) for field in fields]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    if pa.types.is_map(kind):
        keys, values = array.field("keys"), array.field("values")
        n_null = array.null_count
        if not keys.offsets.equals(values.offsets) or (keys.null_count, values.null_count) != (
            n_null,
            n_null,
        ):
            raise ValueError("expected as many keys as values")
        keys, values = _converted(keys.values, kind.key_type), _converted(values.values, kind.item_type)
        if keys.null_count:
            raise ValueError("expected keys that are not null")
        return pa.MapArray.from_arrays(_offsets(array.field("keys")), keys, values, type=kind)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(_offsets(array), _converted(array.values, kind.value_type), type=kind)
    if pa.types.is_large_list(kind):
        offsets = _offsets(array).cast(pa.int64())
        return pa.LargeListArray.from_arrays(offsets, _converted(array.values, kind.value_type), type=kind)
    return converted(array, kind)


def _offsets(lists: pa.ListArray) -> pa.Array:
    """Offsets of lists; one that is null begins a list that is null."""
    missing = pa.concat_arrays([lists.is_null(), pa.array([False])])
    return pc.if_else(missing, pa.scalar(None, pa.int32()), lists.offsets)


def _first_wrong(batch: list[Row], schema: pa.Schema) -> InvalidInputError | None:
    """The error for the first wrong value of a batch: where it is, what was expected and what was found."""
    for where, text, row in batch:
        try:
            _read([text], schema)
        except WRONG:
            for field in schema:
                part = json.dumps({field.name: row[field.name]})
                try:
                    _read([part], pa.schema([field]))
                except WRONG:
                    message = f"expected {field.type}, found {shape_of(row[field.name])}"
                    return InvalidInputError(f"{where}: column {field.name}: {message}")
            return InvalidInputError(f"{where}: expected a JSON object: a key is repeated")
    return None
