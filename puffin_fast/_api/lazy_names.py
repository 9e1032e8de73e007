"""Public names of a package, each loaded from its module when it is first used."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from puffin_fast._api.keywords import named_keywords, no_attribute
from puffin_fast._api.packages import TABLE_PACKAGES, imports_of_extra
from puffin_fast.errors import MissingExtraError


def lazy_names(package: str, homes: Mapping[str, str], extra: str) -> Callable[[str], Any]:
    """Returns the ``__getattr__`` of a package. What it loads is stored in the package.

    Args:
        homes: by public name the module that defines it, without ``puffin_fast.``. Functions are wrapped by
            `named_keywords`, unless they are functions of ``puffin_fast``.
        extra: the extra that the modules need.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise no_attribute(package, name, homes)
        with imports_of_extra(extra):
            value = getattr(import_module(f"puffin_fast.{homes[name]}"), name)
        if inspect.isfunction(value) and value.__module__ != "puffin_fast":
            value = named_keywords(value, package)
        return vars(sys.modules[package]).setdefault(name, value)

    return load


def need_table_packages(extra: str) -> None:
    """Checks that the packages are installed which all table formats need, without importing them.

    Raises:
        MissingExtraError: one is not.
    """
    for package in sorted(TABLE_PACKAGES):
        if find_spec(package) is None:
            raise MissingExtraError(package, extra)
