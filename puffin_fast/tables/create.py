"""Creates a table in a folder, with nothing to set up."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from puffin_fast._api.keywords import public
from puffin_fast._io.storage_options import filesystem_of
from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError
from puffin_fast.tables.opening import FORMATS

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

    from puffin_fast.tables.table import Table


@public
def create_table(
    path: str | os.PathLike[str],
    schema: Any,
    *,
    format: Literal["Iceberg", "Delta"] = "Iceberg",
    types: Mapping[str, str | IcebergType] | None = None,
    partition_spec: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    if_not_exists: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> Table:
    """Creates an empty table in a folder.

    A table of Iceberg has format version 3. It is one of a catalog of type ``hadoop`` with the folder above as its
    namespace: Spark and `pf.iceberg.HadoopCatalog` find it there. `pf.iceberg.create_table` creates tables in other
    catalogs.

    Args:
        path: the folder of the table: a local path; for Delta also a URI.
        schema: as `pf.iceberg.create_table` takes it: a schema, types by column, or rows, which are not appended.
        format: ``"Iceberg"`` or ``"Delta"``.
        types: other types for some columns, of PyIceberg or as text: ``{"time": "timestamp_ns"}``.
        partition_spec: names of columns; for Iceberg also transforms such as ``"day(time)"``.
        properties: properties of the table.
        if_not_exists: return the table that exists, whatever its schema is, instead of an error.
        filesystem, storage_options: for Delta, as `open_table`.

    Returns:
        The table.

    Raises:
        InvalidInputError: there is a table, or an argument is not allowed.
        NotFoundError, UnsupportedError, PuffinFastError, EngineSupportWarning: as `pf.iceberg.create_table` and
            `pf.delta.create_table`.

    Examples:
        >>> orders = pf.create_table(folder / "orders", {"id": "long", "state": "string"})
        >>> orders.append([{"id": 1, "state": "new"}, {"id": 2, "state": "void"}]).rows_appended
        2
        >>> orders.delete("state = 'void'").rows_deleted
        1
    """
    kinds = {one.name: one.kind() for one in FORMATS if one.name in ("Iceberg", "Delta")}
    if not isinstance(format, str) or format not in kinds:
        raise InvalidInputError(f"format: expected 'Iceberg' or 'Delta', found {shown_argument(format)}")
    return kinds[format].create(
        os.fspath(path),
        schema,
        filesystem_of(path, filesystem, storage_options),
        types=types,
        partition_spec=partition_spec,
        properties=properties,
        if_not_exists=if_not_exists,
    )
