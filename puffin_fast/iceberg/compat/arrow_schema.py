"""Iceberg schemas from Arrow schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException

from puffin_fast.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema

__all__ = ["schema_of_arrow"]


def schema_of_arrow(schema: pa.Schema) -> Schema:
    """An Arrow schema as an Iceberg schema of version 3, without ids (all -1).

    Raises:
        InvalidInputError: a type that Iceberg does not have.
    """
    try:
        return Catalog._convert_schema_if_needed(schema, 3)
    except (UnsupportedPyArrowTypeException, TypeError, ValueError) as error:
        raise InvalidInputError(f"schema: {error}") from error
