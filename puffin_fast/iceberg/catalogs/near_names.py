"""What a caller may have meant by the name of a table that its catalog does not have."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchNamespaceError

from puffin_fast._process.interrupt import is_from_outside

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

MOST_NAMES = 20
"""An error lists at most this many names."""


def near_names(catalog: Catalog, name: str) -> str:
    """Returns what a message says beside the name of a table that does not exist; empty if nothing is known.

    Args:
        catalog: the catalog of the table. It is not an error if a catalog does not answer or does not list its tables.
        name: ``"namespace.table"``.
    """
    try:
        return f"; {said}" if (said := _said(catalog, name)) else ""
    except Exception as error:
        if is_from_outside(error):
            raise
        return ""


def near_namespaces(catalog: Catalog, name: str) -> str:
    """As `near_names`, for a namespace that does not exist."""
    return near_names(catalog, f"{name}.")


def _said(catalog: Catalog, name: str) -> str:
    namespace = name.rpartition(".")[0]
    try:
        tables = [".".join(known) for known in catalog.list_tables(tuple(namespace.split(".")))]
    except NoSuchNamespaceError:
        spaces = [".".join(known) for known in catalog.list_namespaces()]
        if not spaces:
            return _others(catalog, name) or f"catalog {catalog.name!r} has no namespaces"
        said = f"the catalog has no namespace {namespace}, but {_near(namespace, spaces)}"
    else:
        said = f"namespace {namespace} has {_near(name, tables) if tables else 'no tables'}"
    elsewhere = _others(catalog, name)
    return f"{said}; {elsewhere}" if elsewhere else said


def _near(name: str, known: list[str]) -> str:
    """The names that are near, else the first ones."""
    near = get_close_matches(name.lower(), [other.lower() for other in known], n=3, cutoff=0.7)
    if near:
        return ", ".join(other for other in known if other.lower() in near)
    rest = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
    return ", ".join(sorted(known)[:MOST_NAMES]) + rest


def _others(catalog: Any, name: str) -> str:
    """The other catalogs in the same database that have a table of this name, or else have any: a table belongs to one
    of them."""
    if getattr(catalog, "engine", None) is None:
        return ""
    from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables
    from sqlalchemy import select

    namespace, _, table = name.rpartition(".")
    owners = select(IcebergTables.catalog_name).where(
        IcebergTables.table_namespace == namespace, IcebergTables.table_name == table
    )
    names: set[str] = set()
    with catalog.engine.connect() as connection:
        having = sorted(connection.execute(owners).scalars())
        for kind in (IcebergTables, IcebergNamespaceProperties):
            names.update(connection.execute(select(kind.catalog_name).distinct()).scalars())
    if having:
        return f"catalog {', '.join(having)} of its database has {name}"
    if catalog.name in names or not names:
        return ""
    return f"its database has no tables of catalog {catalog.name!r}, but of {', '.join(sorted(names))}"
