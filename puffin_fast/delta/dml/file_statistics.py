"""Computes the statistics of a new data file for `stats` in the log (protocol, "Per-file Statistics").

Text bounds are truncated to 32 characters; the highest character is appended to an upper bound. Time bounds are rounded
to milliseconds, outward. There are no bounds for binary and boolean columns, NaN and infinity.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.delta.dml.stored_types import is_variant
from puffin_fast.delta.log.action_types import as_json
from puffin_fast.delta.log.protocol import integer_of
from puffin_fast.delta.scans.statistics import around_zeros
from puffin_fast.errors import CorruptDataError

if TYPE_CHECKING:
    from pyiceberg.table.name_mapping import MappedField

Path: TypeAlias = tuple[str, ...]
"""The names of the fields from a column to a field in it."""

MAX_TEXT = 32
"""Maximum number of characters of a bound."""
INDEXED = "delta.dataSkippingNumIndexedCols"
CHOSEN = "delta.dataSkippingStatsColumns"
DEFAULT_INDEXED = 32
_HIGHEST_CHARACTER = "\U0010ffff"


def indexed_columns(
    fields: Sequence[Mapping[str, Any]],
    names: Iterable[MappedField],
    partition: Container[str],
    configuration: Mapping[str, str],
    root: str,
) -> frozenset[Path]:
    """Returns the physical paths of the columns with statistics in new files: fields that are no structs.

    Args:
        fields: the fields of the schema in the log.
        names: their physical names, in the same order.
        partition: the physical names of the partition columns, which have none.
        configuration: the table properties. The one with the columns has logical names, and precedes the one with their
            number, as for Spark.
        root: the table, for errors.

    Raises:
        CorruptDataError: a property has no such value.
    """
    tops = [
        (field, name) for field, name in zip(fields, names, strict=True) if name.names[0] not in partition
    ]
    leaves = [leaf for field, name in tops for leaf in _leaf_paths(field, name, (), ())]
    text = configuration.get(CHOSEN)
    if text is None:
        most = integer_of(configuration, INDEXED, DEFAULT_INDEXED, root)
        return frozenset(physical for _, physical in (leaves if most < 0 else leaves[:most]))
    chosen = column_paths(text)
    if chosen is None:
        raise CorruptDataError(f"property {CHOSEN}", path=root, expected=COLUMN_PATHS, found=text)
    return frozenset(
        physical
        for logical, physical in leaves
        if any(logical[:depth] in chosen for depth in range(1, len(logical) + 1))
    )


def _leaf_paths(
    field: Mapping[str, Any], mapped: MappedField, logical: Path, physical: Path
) -> Iterator[tuple[Path, Path]]:
    """Yields the logical path in lower case and the physical path of each leaf of structs."""
    logical, physical = (*logical, field["name"].lower()), (*physical, mapped.names[0])
    kind = field["type"]
    if isinstance(kind, str) or kind["type"] != "struct":
        yield logical, physical
        return
    for inner, name in zip(kind["fields"], mapped.fields, strict=True):
        yield from _leaf_paths(inner, name, logical, physical)


_PART = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`.,\s]+))\s*([.,]|$)")
COLUMN_PATHS = "names of columns divided by commas, those with other characters than letters in backticks"


def column_paths(text: str) -> list[Path] | None:
    """Parses a list of columns as SQL has it, such as ``id, s.x, `a.b```.

    Returns:
        The names of each column, from the outermost field, in lower case; None if the text is no such list.
    """
    found, parts, at = list[Path](), list[str](), 0
    end = "," if text.strip() else ""
    while end:
        match = _PART.match(text, at)
        if match is None:
            return None
        quoted, plain, end = match.groups()
        parts.append((plain or quoted.replace("``", "`")).lower())
        at = match.end()
        if end != ".":
            found.append(tuple(parts))
            parts = []
    return found


def statistics_of(rows: pa.Table, columns: Collection[Path]) -> str:
    """Returns the statistics of rows by physical names.

    Args:
        rows: the columns of the file.
        columns: those of `indexed_columns`.
    """
    found: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    tops = {path[0] for path in columns}
    for column_name in rows.column_names:
        if column_name not in tops:
            continue
        chunks = rows[column_name]  # Arrow does not combine an array of empty maps that was cast
        column = chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()
        for path, values, n_hidden in _leaves((column_name,), column, 0):
            if path not in columns:
                continue
            _put(found["nullCount"], path, values.null_count + n_hidden)
            low, high = _bounds(values)
            if low is not None and high is not None:
                _put(found["minValues"], path, low)
                _put(found["maxValues"], path, high)
    return _text({"numRecords": rows.num_rows, **found, "tightBounds": True})


def _leaves(path: tuple[str, ...], array: Any, n_hidden: int) -> Iterator[tuple[tuple[str, ...], Any, int]]:
    """Yields the leaves of structs: path, values, and the rows in which a struct is null."""
    if not pa.types.is_struct(array.type) or is_variant(array.type):
        yield path, array, n_hidden
        return
    valid = array.filter(array.is_valid()) if array.null_count else array
    for at, field in enumerate(array.type):
        yield from _leaves((*path, field.name), valid.field(at), n_hidden + array.null_count)


def _put(found: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        found = found.setdefault(name, {})
    found[path[-1]] = value


def _bounds(values: Any) -> tuple[Any, Any]:
    kind = values.type
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind) or pa.types.is_binary(kind):
        return None, None
    if pa.types.is_floating(kind) and not pc.all(pc.is_finite(values), min_count=0).as_py():
        return None, None
    ends = pc.min_max(values)
    low, high = ends["min"], ends["max"]
    if not low.is_valid:
        return None, None
    if pa.types.is_floating(kind):
        low, high = around_zeros(low, high)
    if pa.types.is_timestamp(kind):
        return _millisecond(low, "floor"), _millisecond(high, "ceil")
    if pa.types.is_date(kind):
        return str(low.cast(pa.string())), str(high.cast(pa.string()))
    if pa.types.is_string(kind):
        low, high = low.as_py(), high.as_py()
        if len(high) > MAX_TEXT:
            cut = high[:MAX_TEXT] + _HIGHEST_CHARACTER
            high = cut if cut >= high else None
        return low[:MAX_TEXT], high
    return low.as_py(), high.as_py()


def _millisecond(value: Any, way: str) -> str:
    micros = value.cast(pa.int64()).as_py()
    millis = micros // 1000 if way == "floor" else -(-micros // 1000)
    text = str(pa.scalar(millis, pa.timestamp("ms")).cast(pa.string()))
    return text.replace(" ", "T") + ("" if value.type.tz is None else "Z")


def _text(value: Any) -> str:
    """Converts to JSON without changing the digits of decimals."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{as_json(name)}:{_text(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, Decimal):
        return format(value, "f")
    return as_json(value)
