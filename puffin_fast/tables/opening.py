"""Opens a table of any format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from puffin_fast._api.keywords import public
from puffin_fast._io.folder import missing_folder, names_in
from puffin_fast._io.location import folder_of, resolve
from puffin_fast._io.storage_options import filesystem_of
from puffin_fast._io.table_formats import METADATA_FILE, SIGNS, Sign
from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyiceberg.table import Table as PyIcebergTable

    from puffin_fast.tables.table import Table

TableLike: TypeAlias = "Table | PyIcebergTable | DeltaTable | str | os.PathLike[str]"
"""What `open_table` opens."""


class Format(NamedTuple):
    """A table format.

    Attributes:
        name: its name.
        home: the module and the class of its tables.
        packages: the packages, each with a dot, whose objects are tables of this format.
        sign: what tables of it have in their folder.
    """

    name: str
    home: str
    packages: tuple[str, ...]
    sign: Sign

    def kind(self) -> type[Table]:
        """The class of its tables."""
        module, _, name = self.home.partition(":")
        found: type[Table] = getattr(import_module(module), name)
        return found


FORMATS = [
    Format(name, f"puffin_fast.tables.{name.lower()}:{name}Table", packages, SIGNS[name])
    for name, packages in (
        ("Iceberg", ("pyiceberg.",)),
        ("Delta", ("deltalake.", "puffin_fast.delta.")),
        ("Paimon", ("pypaimon.",)),
        ("Lance", ("lance.",)),
    )
]
"""The formats that `open_table` knows; another one is an entry more."""


@public
def open_table(
    table: Any,
    name: str | tuple[str, ...] | None = None,
    *,
    format: str | None = None,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> Table:
    """Opens a table of Iceberg, Delta, Paimon or Lance. All functions that take a table open it by this function.

    Args:
        table: a table of PyIceberg, a PyIceberg catalog with `name`, deltalake's `DeltaTable`, a dataset of pylance, a
            table of pypaimon, a table that is opened already, or a path or URI: the format is told by the folders of
            metadata that lie there. An Iceberg table in a folder can be changed if it is one of a hadoop catalog on a
            local disk, else read only.
        name: the name of the table in a catalog, ``"namespace.table"``.
        format: the format of the table at a path, if the folder has tables of several: ``"Iceberg"``, ``"Delta"``,
            ``"Paimon"`` or ``"Lance"``.
        filesystem: the pyarrow.fs.FileSystem or fsspec filesystem of a path. Commits to Delta tables on an object store
            need an fsspec filesystem with conditional writes (s3fs, gcsfs, adlfs).
        storage_options: instead of it, the options that deltalake takes, such as ``AWS_ACCESS_KEY_ID``. By default,
            those of a given `DeltaTable`.

    Returns:
        The table; its methods are the functions of this package.

    Raises:
        NotFoundError: there is no table.
        InvalidInputError: an object that is no table, a path with tables of several formats, or an argument that this
            kind of table does not have.
        UnsupportedError: storage options without a counterpart.

    Examples:
        >>> pf.open_table(path).format
        'Delta'
        >>> pf.open_table(catalog, "shop.orders").scan("id < 10").count()
        10
    """
    from puffin_fast.tables.table import Table

    if isinstance(table, Table):
        _refuse(table.name, name=name, format=format, filesystem=filesystem, storage_options=storage_options)
        return table
    if isinstance(table, str | os.PathLike):
        _refuse(os.fspath(table), name=name)
        return _at(os.fspath(table), format, filesystem_of(table, filesystem, storage_options))
    _refuse(shown_argument(table), format=format)
    for kind in type(table).__mro__:
        for known in FORMATS:
            if f"{kind.__module__}.".startswith(known.packages):
                return known.kind().of(table, name, filesystem_of(table, filesystem, storage_options))
    raise InvalidInputError(
        "table: expected a table or dataset, a catalog and a name, a path or a URI, found "
        f"{shown_argument(table)}"
    )


def _at(path: str, format: str | None, filesystem: Any) -> Table:
    """Opens the table in a folder, or with a metadata file of Iceberg."""
    path = folder_of(path) or "/"
    names = {one.name for one in FORMATS}
    if format is not None and format not in names:
        raise InvalidInputError(
            f"format: expected {', '.join(sorted(names))}, found {shown_argument(format)}"
        )
    folders = _folders(path, filesystem)
    known = [one for one in FORMATS if one.sign.folder in folders and format in (None, one.name)]
    if METADATA_FILE in path.rpartition("/")[2]:
        known = [one for one in FORMATS if one.name == "Iceberg"]
    if len(known) > 1:
        known = [one for one in known if one.sign.is_in(path, filesystem)] or known
    if len(known) > 1:
        formats = " and ".join(one.name for one in known)
        raise InvalidInputError(
            f"{path}: expected a table of one format, found folders of {formats}; open_table(path, format=…) "
            "opens one of them"
        )
    if not known and any(METADATA_FILE in name for name in names_in(path, "", filesystem=filesystem)):
        known = [one for one in FORMATS if one.name == "Iceberg" and format in (None, one.name)]
    if not known:
        signs = ", ".join(f"{one.sign.folder} ({one.name})" for one in FORMATS if format in (None, one.name))
        hint = missing_folder(path, filesystem=filesystem)
        if hint and "/" not in path and "." in path.strip("."):
            raise InvalidInputError(
                f"table: expected a table or a path (see catalog.load_table), found {path!r}; open_table(catalog, "
                "name) opens a table by its name"
            )
        raise NotFoundError(
            f"{path}: expected a table, a folder with {signs}; {hint or 'found none of them'}; create_table(path, "
            "schema) creates one"
        )
    return known[0].kind().at(path, filesystem)


def check_no_other(path: str, format: str, filesystem: Any) -> None:
    """Raises InvalidInputError if a folder has a table of another format."""
    folders = _folders(path, filesystem)
    for one in FORMATS:
        if one.name != format and one.sign.folder in folders and one.sign.is_in(path, filesystem):
            raise InvalidInputError(f"{path}: expected a new folder, found a table of {one.name}")


def _folders(path: str, filesystem: Any) -> set[str]:
    """The folders of metadata in a folder."""
    kind, _, key = resolve(path, filesystem)
    if kind == "local":
        return {one.sign.folder for one in FORMATS if os.path.isdir(os.path.join(key, one.sign.folder))}
    return {*names_in(path, "", folders=True, filesystem=filesystem)}


def _refuse(shown: str, **options: Any) -> None:
    """Refuses arguments that this kind of table does not have."""
    for option, value in options.items():
        if value is not None:
            raise InvalidInputError(f"{shown}: open_table has no {option} for this kind of table")
