"""A table that is given by its path instead of its name in a catalog: what all formats have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from puffin_fast.errors import UnsupportedError

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


class PathTable:
    """A table that is given by its path.

    Attributes:
        path: its folder, without a slash at the end.
        catalog: options of a catalog.
    """

    instead: ClassVar[Mapping[str, str]] = {}
    """What to use instead of commands that the format has not."""

    format: ClassVar[str]
    folder: ClassVar[str]
    """The folder inside the table by which the format is recognised."""

    def __init__(self, path: str, catalog: Mapping[str, str | None]) -> None:
        self.path, self.catalog = path, catalog

    def root(self) -> str:
        """The folder as the table's own paths name it."""
        return os.path.abspath(self.path) if "://" not in self.path else self.path

    def columns(self) -> list[dict[str, object]]:
        """The columns as rows: id, name, type, and whether values are required."""
        return columns_of(self.schema())

    def schema(self) -> Schema:
        """The columns as a PyIceberg schema.

        Raises:
            UnsupportedError: they are not read as such.
        """
        raise UnsupportedError(f"{self.path}: rows are not written to tables of {self.format}")

    def convert(self, target: str, name: str | None) -> dict[str, object]:
        """Converts the table or its vectors to another format.

        Raises:
            UnsupportedError: this conversion is not supported.
        """
        raise UnsupportedError(f"{self.path}: tables of {self.format} cannot be converted")

    def _refuse(self, options: Mapping[str, object], *names: str) -> None:
        """Refuses options that have no meaning for this format.

        Raises:
            UnsupportedError: such an option is given; the message names the first.
        """
        for name in names:
            if options.get(name) not in (None, False, "main"):
                option = name.replace("_", "-")
                raise UnsupportedError(f"{self.path}: tables of {self.format} have no --{option}")


def columns_of(schema: Schema) -> list[dict[str, object]]:
    """The columns of a schema as rows."""
    return [
        {
            "id": field.field_id,
            "column": field.name,
            "type": str(field.field_type),
            "required": field.required,
            **({"doc": field.doc} if any(other.doc for other in schema.fields) else {}),
        }
        for field in schema.fields
    ]
