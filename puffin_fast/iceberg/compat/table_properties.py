"""Reads values of table properties, which are text in a table's metadata.

A value that the format does not allow is refused: another engine may have meant something by it, and a default in its
place could remove files or rewrite rows that it should not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from pyiceberg.table import TableProperties

from puffin_fast.errors import InvalidInputError

if TYPE_CHECKING:
    from pyiceberg.table import Table

INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
MAX_INTEGER = (1 << 63) - 1
"""Java's largest: Iceberg reads numbers as its types int and long."""

DELETE_FILE_SIZE = "write.delete.target-file-size-bytes"
DEFAULT_DELETE_FILE_SIZE = 64 * 1024 * 1024

CARRY_SHARED_VECTORS = "puffin-fast.carry-shared-vectors"
MOST_VECTORS = 100

Default = TypeVar("Default", int, None)


def integer_property(
    properties: Mapping[str, str], name: str, default: Default, *, positive: bool = True
) -> int | Default:
    """Returns a property that is an integer.

    Args:
        default: the value if the table does not have the property.
        positive: whether zero and negative numbers are refused.

    Raises:
        InvalidInputError: it is not an integer, not positive, or above 2^63 - 1.
    """
    text = properties.get(name)
    if text is None:
        return default
    value = int(text) if INTEGER.fullmatch(text) else None
    if value is None or value > MAX_INTEGER or (positive and value < 1):
        wanted = "a positive integer" if positive else "an integer"
        raise InvalidInputError(f"property {name}: expected {wanted}, found {text!r}")
    return value


def data_folder(table: Table) -> str:
    """The folder of a table's data files, without a trailing slash."""
    return (table.properties.get("write.data.path") or f"{table.location()}/data").rstrip("/")


def target_file_size(properties: Mapping[str, str]) -> int:
    """Returns the target size of a data file in bytes.

    Raises:
        InvalidInputError: as `integer_property`.
    """
    return integer_property(
        properties,
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES,
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
    )


def delete_file_size(properties: Mapping[str, str]) -> int:
    """Returns the target size of a delete file in bytes: property ``write.delete.target-file-size-bytes``.

    Raises:
        InvalidInputError: as `integer_property`.
    """
    return integer_property(properties, DELETE_FILE_SIZE, DEFAULT_DELETE_FILE_SIZE)


def vectors_per_file(properties: Mapping[str, str]) -> int | None:
    """Returns the largest number of deletion vectors in a Puffin file; None if the size alone limits it.

    It limits what a commit copies: one that removes a vector carries the others of its file along (`carried_vectors`),
    unless property ``puffin-fast.carry-shared-vectors`` is ``false``.

    Raises:
        InvalidInputError: the property is neither ``true`` nor ``false``.
    """
    carries = choice_property(properties, CARRY_SHARED_VECTORS, ("true", "false")) == "true"
    return MOST_VECTORS if carries else None


def choice_property(properties: Mapping[str, str], name: str, choices: Sequence[str]) -> str:
    """Returns a property that is one of several words, in lower case; the case does not matter, as in Java.

    Args:
        choices: the words, in lower case; the first is the default.

    Raises:
        InvalidInputError: it has another value.
    """
    text = properties.get(name, choices[0])
    if text.lower() not in choices:
        raise InvalidInputError(f"property {name}: expected one of {', '.join(choices)}, found {text!r}")
    return text.lower()
