"""Reads columns of an Avro file as lists, with Polars if it is installed and the file is large, else with fastavro.

Polars decodes manifests ten times as fast as fastavro, and skips columns at no cost. It receives all blocks of a file
as one block, because each block has a cost, and a schema of types that Polars and fastavro read alike. It only reads
files for which `avro.fits` has checked that the records of each block take exactly the bytes of the block: on other
files Polars panics, prints a message, or shifts all later values. Other files are read by fastavro, which reports the
errors.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Collection, Iterator
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from puffin_fast._kernels.avro import records as avro
from puffin_fast._run.interrupt import PARSE_ERRORS, is_from_outside
from puffin_fast.avro.file import AvroFile, one_block
from puffin_fast.avro.programs import program, shared_type
from puffin_fast.errors import CorruptDataError

if TYPE_CHECKING:
    import polars

MIN_POLARS_BYTES = 1 << 14
"""Bytes of records from which Polars is faster: about 40 entries with metrics. It takes 0.7 to 3 ms for any file."""

_TO_IMPORT = 16
"""Polars is imported for this many times as many bytes."""


class Nested:
    """A Polars column of lists or maps, one per record, that are converted to Python when they are read."""

    def __init__(self, column: polars.Series) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __iter__(self) -> Iterator[Any]:
        return iter(_values(self._column))

    def where(self, mask: np.ndarray) -> list[Any]:
        """The values of the records that a mask selects."""
        return _values(self._column.filter(mask))

    def bounds(self, field_id: int) -> tuple[np.ndarray, polars.Series] | None:
        """Reads one key of a column of maps from field id to bytes.

        Returns:
            the numbers of the records that have the key, and its values; None if the column is of another type.
        """
        import polars

        if self._column.dtype != polars.List(polars.Struct({"key": polars.Int64, "value": polars.Binary})):
            return None
        sizes = self._column.list.len().fill_null(0)
        pairs = self._column.filter(sizes > 0).explode()
        found = (pairs.struct.field("key") == field_id).fill_null(False)
        rows = np.repeat(np.arange(len(sizes)), sizes.to_numpy())
        return rows[found.to_numpy()], pairs.struct.field("value").filter(found)


def read_columns(file: AvroFile, names: Collection[str], *, lazy: bool = False) -> dict[str, Any]:
    """Reads the values of some fields, each as a list with an item per record.

    Iceberg stores a map as an Avro array of records of ``key`` and ``value``; it becomes a dict.

    Args:
        file: an Avro file.
        names: the fields to read; fields that the file does not have are omitted.
        lazy: whether lists and maps are `Nested` if Polars reads them.

    Raises:
        CorruptDataError: the bytes are not records of the schema.
        UnsupportedError: the codec is not supported.
    """
    names = {*names, *file.plain.branches}
    wanted = {field["name"]: field["type"] for field in file.schema["fields"] if field["name"] in names}
    found = _read_with_polars(file, wanted, lazy)
    if found is None:
        records = list(file.records(wanted))
        found = {name: [record[name] for record in records] for name in wanted}
        for name, kind in wanted.items():
            if _is_map(kind):
                found[name] = [_dict(pairs) for pairs in found[name]]
    for name, branch in file.plain.branches.items():
        if not {branch}.issuperset(found.pop(name)):
            raise CorruptDataError(
                "data_file of a manifest entry", path=file.path, expected="a record", found="null"
            )
    constants = {
        name: [value] * file.n_records for name, value in file.plain.constants.items() if name in names
    }
    return found | constants


def _dict(pairs: list[dict[str, Any]] | None) -> dict[Any, Any] | None:
    return None if pairs is None else {pair["key"]: pair["value"] for pair in pairs}


def _is_map(kind: Any) -> bool:
    for part in kind if isinstance(kind, list) else [kind]:
        if isinstance(part, dict) and part["type"] == "array":
            items = part["items"] if isinstance(part["items"], list) else [part["items"]]
            records = [item for item in items if isinstance(item, dict)]
            return any(
                {f["name"] for f in record.get("fields", ())} == {"key", "value"} for record in records
            )
    return False


# Polars ----------------------------------------------------------------------------------------------------


@cache
def _polars() -> ModuleType | None:
    try:
        import polars
    except ImportError:  # fastavro has the same result, but is slower
        return None
    return polars


def _read_with_polars(file: AvroFile, names: Collection[str], lazy: bool = False) -> dict[str, Any] | None:
    """Reads columns with Polars; None if fastavro must read the file."""
    least = MIN_POLARS_BYTES if "polars" in sys.modules else MIN_POLARS_BYTES * _TO_IMPORT
    if sum(len(block.data) for block in file.blocks) < least:
        return None
    if (polars := _polars()) is None:
        return None
    fields = [{"name": field["name"], "type": shared_type(field["type"])} for field in file.schema["fields"]]
    columns = [field["name"] for field in fields if field["name"] in names]
    if not columns or any(field["type"] is None for field in fields):
        return None
    schema, n_records = {**file.schema, "fields": fields}, file.n_records
    words = array("q", [word for field in fields for word in program(field["type"])])
    if not all(avro.fits(data, n, words) for n, data in file.blocks):
        return None
    try:
        frame = polars.read_avro(
            one_block(schema, n_records, [data for _, data in file.blocks]), columns=columns
        )
        if frame.height != n_records:
            return None
        result: dict[str, Any] = {
            column.name: Nested(column) if lazy and _is_nested(column) else _values(column)
            for column in frame.get_columns()
        }
    except (polars.exceptions.PolarsError, *PARSE_ERRORS) as error:
        if is_from_outside(error):
            raise
        return None
    return {name: result.get(name, [None] * n_records) for name in names}


def _values(column: polars.Series) -> list[Any]:
    """Converts a column to Python values."""
    if column.null_count() == len(column):
        return [None] * len(column)
    if not _is_nested(column):
        return column.to_list()
    lengths = column.list.len()
    sizes = lengths.to_list()
    items = column.filter(lengths > 0).explode()
    if {field.name for field in getattr(items.dtype, "fields", ())} != {"key", "value"}:
        return _split(items.to_list(), sizes)
    keys, values = (items.struct.field(name).to_list() for name in ("key", "value"))
    pairs = _split(list(zip(keys, values, strict=True)), sizes)
    return [None if some is None else dict(some) for some in pairs]


def _is_nested(column: polars.Series) -> bool:
    return hasattr(column.dtype, "inner") and column.null_count() < len(column)


def _split(items: list[Any], sizes: list[int | None]) -> list[Any]:
    """Splits items into lists of the given sizes; None for a size of None."""
    found: list[Any] = []
    at = 0
    for size in sizes:
        if size is None:
            found.append(None)
        else:
            found.append(items[at : at + size])
            at += size
    return found
