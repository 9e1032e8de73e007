"""Types of columns that some engines cannot read. `tests/interop` compares the list with the engines.

Spark and DuckDB refuse the whole table, also where a query does not name the column.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Collection
from typing import TYPE_CHECKING

from puffin_fast.errors import EngineSupportWarning

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

UNREADABLE: dict[str, tuple[str, ...]] = {
    "timestamp_ns": ("Spark",),
    "timestamptz_ns": ("DuckDB", "Spark"),
    "time": ("Spark",),
    "variant": ("Polars", "PyIceberg"),
    "unknown": ("DuckDB",),
    "geometry": ("Polars", "PyIceberg"),
    "geography": ("DuckDB", "Polars", "PyIceberg"),
}
"""By the name of a type: the engines that cannot read a table with such a column. Polars opens no Parquet file with a
column that is annotated as VARIANT, GEOMETRY or GEOGRAPHY."""


def warn_of_types(
    schema: Schema, shown: str, *, readers: Collection[str] | None = None, stacklevel: int
) -> None:
    """Warns once of all columns of a new table that some engines cannot read.

    Args:
        shown: its name.
        readers: the engines that read tables of its format; all by default.
        stacklevel: the stack level of the warning: 1 is the caller of this function.
    """
    found: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for field_id in sorted(schema.field_ids):
        name = str(schema.find_type(field_id)).partition("(")[0]
        engines = tuple(one for one in UNREADABLE.get(name, ()) if readers is None or one in readers)
        if engines:
            found[name, engines].append(str(schema.find_column_name(field_id)))
    if found:
        said = "; ".join(
            f"{' and '.join(engines)} cannot read tables with a column of type {name} ({', '.join(columns)})"
            for (name, engines), columns in found.items()
        )
        warnings.warn(f"table {shown}: {said}", EngineSupportWarning, stacklevel=stacklevel + 1)
