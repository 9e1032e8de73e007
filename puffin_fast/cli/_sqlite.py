"""Where a catalog in SQLite has the metadata of a table, without a client of catalogs.

PyIceberg reads the same row through SQLAlchemy, whose import takes longer than a scan of a small table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

PREFIX = "sqlite:///"

_QUERY = (
    "SELECT metadata_location FROM iceberg_tables "
    "WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
)


def metadata_in_sqlite(catalog: str, properties: Mapping[str, Any], identifier: str) -> str | None:
    """Returns the metadata file of a table.

    Args:
        catalog: the name of the catalog.
        properties: the properties of the catalog.
        identifier: ``namespace.name``.

    Returns:
        Its location; None if the catalog is not a file of SQLite, or does not have the table: its client says why.
    """
    uri, (namespace, _, name) = str(properties.get("uri")), identifier.rpartition(".")
    path = Path(uri.removeprefix(PREFIX))
    is_file = uri.startswith(PREFIX) and "?" not in uri and path.is_file()
    if not is_file or properties.get("type") not in (None, "sql") or "py-catalog-impl" in properties:
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            row = connection.execute(_QUERY, (catalog, namespace, name)).fetchone()
    except sqlite3.Error:
        return None
    return row[0] if row else None
