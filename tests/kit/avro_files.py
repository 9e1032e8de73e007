"""Reads Avro files of Iceberg's metadata, and changes them so that they stay valid."""

from __future__ import annotations

import copy
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro

from tests.kit.tables import path_of

__all__ = ["read_avro", "rewrite_avro"]


def read_avro(location: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The header and the records of a file, by its location."""
    with path_of(location).open("rb") as file:
        reader = fastavro.reader(file)
        return dict(reader.metadata), [dict(record) for record in reader]  # type: ignore[arg-type]


def rewrite_avro(path: Path, change: Callable[[list[Any], Any], Any]) -> None:
    """Changes the records and the schema of a manifest or of a manifest list; the header's other values stay.

    Args:
        path: of the file.
        change: is called with the records and the schema, which it changes in place; a schema that it returns takes
            the place of the file's.
    """
    with path.open("rb") as stream:
        reader: Any = fastavro.reader(stream)
        schema, metadata, records = copy.deepcopy(reader.writer_schema), reader.metadata, list(reader)
    schema = change(records, schema) or schema
    metadata = {name: value for name, value in metadata.items() if not name.startswith("avro.")}
    changed = BytesIO()
    fastavro.writer(changed, fastavro.parse_schema(schema), records, codec="deflate", metadata=metadata)
    path.write_bytes(changed.getvalue())
