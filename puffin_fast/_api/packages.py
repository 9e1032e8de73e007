"""Packages that only some functions need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from puffin_fast.errors import MissingExtraError

TABLE_PACKAGES = frozenset({"pyiceberg", "fastavro", "tenacity", "msgspec"})
"""The packages that each extra for a table format installs."""


@contextmanager
def imports_of_extra(extra: str) -> Iterator[None]:
    """For the imports of a package of this library: a missing package is reported with the extra that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in TABLE_PACKAGES:
            raise
        raise MissingExtraError(package, extra) from error


def import_optional(name: str, extra: str | None = None) -> Any:
    """Imports a module of an optional package.

    Args:
        name: the name of the module.
        extra: the extra that installs the package, if there is one.

    Raises:
        MissingExtraError: the package is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or name, extra) from error
