"""Reads and writes JSON Lines: one JSON object in each line, with the values that ``scan --output json`` prints.

A file whose first character is ``[`` is one JSON array of such objects.

Numbers, booleans, text, arrays and objects are JSON. Dates, times, timestamps, UUIDs, binary and fixed values are text,
as in the table specification's "JSON single-value serialization"; decimals are text or numbers, NaN and infinities the
text ``nan``, ``inf`` and ``-inf``; a map is an array of pairs.

All objects must have the keys of the first. A missing key could mean NULL or "not given", and an upsert would overwrite
a value.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import chain, islice
from typing import Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.cli._reader_errors import shape_of, without_values
from puffin_fast.cli._values import json_value, rows_of
from puffin_fast.columns.decimals import as_number
from puffin_fast.errors import InvalidInputError, LimitExceededError

LINE_BYTES = 16 << 20
"""Maximum length of a line."""

ARRAY_BYTES = 1 << 30
"""Maximum length of a JSON array, which is parsed at once."""

BATCH_ROWS = 16 << 10
"""Number of rows that are converted at once."""

_FLOATS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}

WRONG = (pa.ArrowException, ValueError, TypeError, LookupError, ArithmeticError, InvalidInputError)
"""What the conversion of a wrong value raises."""

Row = tuple[str, dict[str, object]]
"""Where an object is, and the object."""


def read_json_lines(
    file: BinaryIO, name: str, types: Mapping[str, pa.DataType], bytes_of_text: Callable[..., pa.Array]
) -> pa.RecordBatchReader:
    """Reads rows as a stream. Empty lines are skipped; a file without a row has the columns of `types`.

    Args:
        file: opened for reading; it must stay open while the rows are read.
        name: the name of the file, for errors.
        types: the types of the columns by name. Other columns have the type that their values in the first batch have.
        bytes_of_text: converts text to UUIDs and binary values, as `_files.bytes_of_text`; its arguments are the names
            of the file and of the column, the array and the type.

    Raises:
        InvalidInputError: a line is not a JSON object, has other keys than the first, or a value does not have its
            column's type. Those of later batches are raised when they are read.
        LimitExceededError: a line is longer than 16 MiB.
    """
    batches = _batches(_rows(file, name))
    first = next(batches, [])
    columns = {key: [row[key] for _, row in first] for key in (first[0][1] if first else types)}
    fields = []
    for key, values in columns.items():
        kind = types.get(key)
        fields.append(pa.field(key, _inferred(name, key, values) if kind is None else kind))
    schema = pa.schema(fields)

    def converted() -> Iterator[pa.RecordBatch]:
        for batch in chain([first] if first else [], batches):
            arrays = [_column(name, field, batch, bytes_of_text) for field in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, converted())


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
    return (json.dumps(json_value(row), ensure_ascii=False) for row in rows_of(batch))


def read_value(text: str, kind: pa.DataType, name: str, bytes_of_text: Callable[..., pa.Array]) -> pa.Scalar:
    """Reads one value of a column, as in a line of a file.

    Args:
        text: JSON.
        kind: the column's type.
        name: the name of the column, for errors.
        bytes_of_text: as for `read_json_lines`.

    Raises:
        WRONG: the value does not have the type.
    """
    return _array([_parsed(text)], kind, "value", name, bytes_of_text)[0]


def _parsed(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object, parse_float=as_number, parse_int=as_number)


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    rows = iter(rows)
    while batch := list(islice(rows, BATCH_ROWS)):
        yield batch


def _objects(file: BinaryIO, name: str) -> Iterator[tuple[str, Any]]:
    """Yields where each object is, and the object."""
    number, first = 0, True
    while line := file.readline(LINE_BYTES + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        where = f"{name}: line {number}"
        if len(line) > LINE_BYTES:
            raise LimitExceededError(f"{where}: expected at most {LINE_BYTES} bytes")
        if not line.strip():
            continue
        if first and line.lstrip().startswith(b"["):
            yield from _array_of_objects(line + file.read(ARRAY_BYTES + 1), name)
            return
        first = False
        try:
            row = _parsed(line.decode())
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"{where}: expected a JSON object: {error}") from error
        yield where, row


def _array_of_objects(text: bytes, name: str) -> Iterator[tuple[str, Any]]:
    if len(text) > ARRAY_BYTES:
        raise LimitExceededError(
            f"{name}: expected a JSON array of at most {ARRAY_BYTES} bytes; JSON Lines have no limit"
        )
    try:
        found = _parsed(text.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{name}: expected a JSON array of objects: {error}") from error
    yield from ((f"{name}: row {at}", row) for at, row in enumerate(found, 1))


def _rows(file: BinaryIO, name: str) -> Iterator[Row]:
    keys: set[str] | None = None
    for where, row in _objects(file, name):
        if not isinstance(row, dict):
            raise InvalidInputError(f"{where}: expected a JSON object, found {type(row).__name__}")
        keys = keys or set(row)
        if row.keys() != keys:
            different = ", ".join(sorted(row.keys() ^ keys))
            raise InvalidInputError(
                f"{where}: expected the keys of the first line, found a difference in {different}"
            )
        yield where, row


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    "".join(found).encode()  # half of a surrogate pair is not text
    return found


DATE, CLOCK, ZONE = (
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])",
    r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?",
    r"(Z|[+-]\d\d:?\d\d)",
)


def _inferred(name: str, key: str, values: list[object]) -> pa.DataType:
    """The type of a column that the table does not have; dates and times are recognised as in CSV."""
    texts = [value for value in values if value is not None]
    if texts and all(isinstance(value, str) for value in texts):
        return next((kind for form, kind in _TIMES if all(map(form.fullmatch, texts))), pa.string())
    try:
        return pa.infer_type([_plain(value) for value in values])
    except WRONG as error:
        raise InvalidInputError(f"{name}: column {key}: {without_values(error)}") from error


_TIMES: tuple[tuple[re.Pattern[Any], pa.DataType], ...] = tuple(
    (re.compile(form), kind)
    for form, kind in (
        (DATE, pa.date32()),
        (f"{CLOCK}", pa.time64("us")),
        (f"{DATE}[ T]{CLOCK}", pa.timestamp("us")),
        (f"{DATE}[ T]{CLOCK}{ZONE}", pa.timestamp("us", "UTC")),
    )
)
"""Forms of dates and times, and their types."""


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _column(name: str, field: pa.Field, batch: list[Row], bytes_of_text: Callable[..., pa.Array]) -> pa.Array:
    def convert(rows: list[Row]) -> pa.Array:
        return _array([row[field.name] for _, row in rows], field.type, name, field.name, bytes_of_text)

    try:
        return convert(batch)
    except WRONG:
        for where, row in batch:  # the line of the first wrong value
            try:
                convert([(where, row)])
            except WRONG as error:
                raise InvalidInputError(
                    f"{where}: column {field.name}: expected {field.type}, found {shape_of(row[field.name])}"
                ) from error
        raise


def _array(
    values: list[Any], kind: pa.DataType, name: str, key: str, bytes_of_text: Callable[..., pa.Array]
) -> pa.Array:
    """Converts values of JSON to an array; a value of another type is an error of `WRONG`."""

    def array(values: list[Any], kind: pa.DataType) -> pa.Array:
        return _array(values, kind, name, key, bytes_of_text)

    if pa.types.is_struct(kind):
        objects = _typed(values, dict)
        fields = [kind.field(i) for i in range(kind.num_fields)]
        known = {field.name for field in fields}
        if any(value is not None and value.keys() - known for value in objects):
            raise ValueError("a key that the struct does not have")
        children = [array([None if v is None else v.get(f.name) for v in objects], f.type) for f in fields]
        mask = pa.array([value is None for value in objects], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if pa.types.is_map(kind):
        pairs = [None if value is None else _typed(value, list) for value in _typed(values, list)]
        entries = [entry for value in pairs if value is not None for entry in value]
        if any(entry is None or len(entry) != 2 or entry[0] is None for entry in entries):
            raise ValueError("a map is an array of pairs")
        keys = array([entry[0] for entry in entries], kind.key_type)
        items = array([entry[1] for entry in entries], kind.item_type)
        return pa.MapArray.from_arrays(_offsets(pairs), keys, items, type=kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lists = _typed(values, list)
        flat = array([item for value in lists if value is not None for item in value], kind.value_type)
        if pa.types.is_list(kind):
            return pa.ListArray.from_arrays(_offsets(lists), flat, type=kind)
        return pa.LargeListArray.from_arrays(_offsets(lists).cast(pa.int64()), flat, type=kind)
    if pa.types.is_boolean(kind):
        return pa.array(_typed(values, bool), kind)
    if pa.types.is_integer(kind):
        return pa.array(_typed(values, int), kind)
    if pa.types.is_floating(kind):
        return pa.array([None if value is None else _float(value) for value in values], kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else _decimal(value) for value in values], kind)
    if pa.types.is_null(kind):
        return pa.array(values, kind)
    text = pa.array(_typed(values, str), pa.string())
    if pa.types.is_time(kind):  # PyArrow has no cast from text
        return pc.binary_join_element_wise("1970-01-01T", text, "").cast(pa.timestamp(kind.unit)).cast(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_temporal(kind):
        return text.cast(kind)
    return bytes_of_text(name, key, text, kind)


def _offsets(lists: list[Any]) -> pa.Array:
    """Offsets of lists; one that is null begins a list that is null."""
    offsets: list[int | None] = []
    end = 0
    for value in lists:
        offsets.append(None if value is None else end)
        end += 0 if value is None else len(value)
    return pa.array([*offsets, end], pa.int32())


def _typed(values: list[Any], kind: type) -> list[Any]:
    """The values, which all are null or of a type of JSON; a boolean does not count as a number."""
    for value in values:
        if value is not None and type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}, found {type(value).__name__}")
    return values


def _float(value: object) -> float:
    if isinstance(value, str):
        return _FLOATS[value]
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        found = float(value)
        if math.isinf(found):
            raise ValueError("expected a number in the range of floats")
        return found
    raise TypeError(f"expected a number, found {type(value).__name__}")


def _decimal(value: object) -> Decimal:
    if isinstance(value, str | int | Decimal) and not isinstance(value, bool):
        return Decimal(value)
    raise TypeError(f"expected a number, found {type(value).__name__}")
