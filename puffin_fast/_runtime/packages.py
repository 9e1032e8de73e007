"""Packages that only some functions need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from puffin_fast.errors import MissingExtraError

__all__ = ["import_optional"]


def import_optional(name: str, extra: str | None = None) -> Any:
    """Imports a module of an optional package.

    Args:
        name: of the module.
        extra: the extra that installs the package, if there is one.

    Raises:
        MissingExtraError: the package is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or name, extra) from error
