"""Catalogs that are a folder: Iceberg's catalogs of type ``hadoop``, which Spark reads and writes too.

    warehouse/
      shop/                       a namespace
        orders/                   a table
          metadata/
            v1.metadata.json      one file for each version: the next version is the next number
            v2.metadata.json
            version-hint.text     a version from which readers look for later ones

A commit creates the file of the next version, which must not exist. Iceberg's Java library checks that it does not
exist and then renames a file ``<uuid>.metadata.json`` to it; on a local disk that replaces a file which was created in
between. A commit therefore waits until no such file is left, and then reads its own file again.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table, TableProperties
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.typedef import EMPTY_DICT

from puffin_fast._io import open_sink, open_source
from puffin_fast._io.folder import names_in
from puffin_fast._io.location import is_local
from puffin_fast._io.sink import put_if_absent, remove, wait_for_renames
from puffin_fast.errors import (
    CorruptDataError,
    InvalidInputError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)
from puffin_fast.iceberg.compat.filesystem import filesystem
from puffin_fast.iceberg.compat.relative_paths import is_relative_path

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier, Properties

HINT = "version-hint.text"
_VERSION = re.compile(r"v(\d+)(?:\.gz)?\.metadata\.json(?:\.gz)?")
_ENDINGS = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_RENAMED = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:\.gz)?\.metadata\.json")
"""The names of files that the Java library renames to a version."""

_LOCAL_ONLY = (
    "a hadoop catalog can only be changed on a local file system, because elsewhere the Java library renames files in "
    "several steps; register the table in another catalog to change it"
)


class HadoopCatalog(MetastoreCatalog):
    """A PyIceberg catalog of the tables in a folder, as Spark's catalogs of type ``hadoop`` have them.

    Commits are safe on local file systems; elsewhere tables can only be read, because Iceberg's Java library renames
    files there in several steps. Tables cannot be renamed or dropped, and have no location of their own. PyIceberg's
    `load_catalog` and ``.pyiceberg.yaml`` accept it as ``py-catalog-impl: puffin_fast.iceberg.HadoopCatalog``.

    Args:
        name: the name of the catalog.
        properties: ``warehouse``, the folder, a local path or a URI; and the properties of PyIceberg's FileIO.

    Raises:
        InvalidInputError: ``warehouse`` is missing.

    Examples:
        >>> local = pf.iceberg.HadoopCatalog("local", warehouse=str(folder))
        >>> local.create_namespace("shop")
        >>> orders = pf.iceberg.create_table(local, "shop.orders", table.schema())
        >>> local.list_tables("shop")
        [('shop', 'orders')]
    """

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        if not isinstance(properties.get("warehouse"), str) or not properties["warehouse"]:
            raise InvalidInputError(
                f"catalog {name}: expected a property warehouse, the folder of the tables"
            )
        warehouse = properties["warehouse"]
        warehouse = os.path.abspath(warehouse) if is_relative_path(warehouse) else warehouse
        self.warehouse = warehouse.rstrip("/") or "/"

    # Tables -----------------------------------------------------------------------------------------------

    def load_table(self, identifier: str | Identifier) -> Table:
        name = self.identifier_to_tuple(identifier)
        folder = self._folder(name)
        io = self._load_file_io(location=folder)
        found = self._newest(folder, io)
        if found is None:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(name)}")
        location = found[1]
        metadata = FromInputFile.table_metadata(io.new_input(location))
        return Table(name, metadata, location, self._load_file_io(metadata.properties, location), self)

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        name = self.identifier_to_tuple(identifier)
        if not self.namespace_exists(name[:-1]):
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(name[:-1])}")
        folder = self._folder(name)
        if location is not None and location.rstrip("/") != folder:
            raise InvalidInputError(
                f"{'.'.join(name)}: its location is {folder}, found location={location!r}"
            )
        version: Any = int(
            properties.get(TableProperties.FORMAT_VERSION, TableProperties.DEFAULT_FORMAT_VERSION)
        )
        metadata = new_table_metadata(
            location=folder,
            schema=self._convert_schema_if_needed(schema, version),
            partition_spec=partition_spec,
            sort_order=sort_order,
            properties=properties,
        )
        io = self._load_file_io(properties, folder)
        if self._newest(folder, io) is not None:
            raise TableAlreadyExistsError(f"Table already exists: {'.'.join(name)}")
        try:
            written = self._write_version(metadata, io, folder, 1)
        except CommitFailedException as error:
            raise TableAlreadyExistsError(f"Table already exists: {'.'.join(name)}") from error
        return Table(name, metadata, written, io, self)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        name = table.name()
        folder = self._folder(name)
        current: Table | None
        try:
            current = self.load_table(name)
        except NoSuchTableError:
            current = None
        staged = self._update_and_stage_table(current, name, requirements, updates)
        if current is None:
            version = 1
        else:
            if staged.metadata == current.metadata:
                return _response(current.metadata, current.metadata_location)
            version = _version_of(current.metadata_location) + 1
            if staged.metadata.location != current.metadata.location:
                raise UnsupportedError(f"{'.'.join(name)}: a table of a hadoop catalog cannot be moved")
        written = self._write_version(staged.metadata, staged.io, folder, version)
        return _response(staged.metadata, written)

    def _write_version(self, metadata: TableMetadata, io: FileIO, folder: str, version: int) -> str:
        """Creates the metadata file of a version, and returns its location.

        Raises:
            CommitFailedException: another commit created it.
            UnsupportedError: commits are not safe there.
        """
        location = f"{folder}/metadata/v{version}.metadata.json"
        if not is_local(location, io):
            raise UnsupportedError(f"{folder}: {_LOCAL_ONLY}")
        if metadata.properties.get(TableProperties.WRITE_METADATA_PATH):
            raise UnsupportedError(
                f"{folder}: a table of a hadoop catalog cannot have {TableProperties.WRITE_METADATA_PATH}"
            )
        draft = f"{folder}/metadata/.{uuid4()}.v{version}.tmp"
        try:
            self._write_metadata(metadata, io, draft)
            data = _content(draft, io)
            if not put_if_absent(location, data):
                raise CommitFailedException(f"{location}: another commit created it")
        finally:
            remove(draft)
        wait_for_renames(location, theirs=_RENAMED)
        if _content(location, io) != data:
            raise CommitFailedException(f"{location}: another commit replaced it")
        with contextlib.suppress(OSError, PuffinFastError):  # readers look for later versions than the hint's
            open_sink(f"{folder}/metadata/{HINT}", overwrite=True).write_file(str(version).encode())
        return location

    def _newest(self, folder: str, io: FileIO) -> tuple[int, str] | None:
        """The version and the location of the newest metadata file, found as the Java library finds it.

        Raises:
            CorruptDataError: the version of the hint is missing.
        """
        version = self._hinted(folder, io)
        if version is None:
            names = names_in(f"{folder}/metadata", "v", filesystem=self._listing(folder))
            versions = [int(found[1]) for found in map(_VERSION.fullmatch, names) if found]
            if not versions:
                return None
            version = max(versions)
        location = _location(folder, io, version)
        if location is None:
            where = f"{folder}/metadata"
            raise CorruptDataError(
                "metadata of a table",
                path=where,
                expected=f"v{version}.metadata.json, as {HINT} says",
                found="none",
            )
        while (later := _location(folder, io, version + 1)) is not None:
            version, location = version + 1, later
        return version, location

    def _hinted(self, folder: str, io: FileIO) -> int | None:
        try:
            return int(_content(f"{folder}/metadata/{HINT}", io))
        except (NotFoundError, ValueError):
            return None

    # Namespaces ---------------------------------------------------------------------------------------------

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        space = self.identifier_to_tuple(namespace)
        return [(*space, name) for name in self._folders(space) if self._is_table((*space, name))]

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        space = self.identifier_to_tuple(namespace) if namespace else ()
        return [(*space, name) for name in self._folders(space) if not self._is_table((*space, name))]

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        space = self.identifier_to_tuple(namespace)
        found = names_in(
            self._folder(space[:-1]), space[-1], folders=True, filesystem=self._listing(self.warehouse)
        )
        return space[-1] in found and not self._is_table(space)

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        space = self.identifier_to_tuple(namespace)
        if not self.namespace_exists(space):
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(space)}")
        return {"location": self._folder(space)}

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        space = self.identifier_to_tuple(namespace)
        if properties:
            raise UnsupportedError(f"{'.'.join(space)}: a namespace of a hadoop catalog has no properties")
        if self.namespace_exists(space):
            raise NamespaceAlreadyExistsError(f"Namespace already exists: {'.'.join(space)}")
        io = self._load_file_io(location=self.warehouse)
        if not is_local(self.warehouse, io):
            raise UnsupportedError(f"{self.warehouse}: {_LOCAL_ONLY}")
        os.makedirs(filesystem(io, self._folder(space))[1])

    def _folders(self, space: Identifier) -> list[str]:
        if space and not self.namespace_exists(space):
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(space)}")
        found = names_in(self._folder(space), "", folders=True, filesystem=self._listing(self.warehouse))
        return [name for name in found if not name.startswith((".", "_"))]

    def _is_table(self, name: Identifier) -> bool:
        folder = self._folder(name)
        names = names_in(f"{folder}/metadata", "", filesystem=self._listing(folder))
        return any(name.endswith(".metadata.json") for name in names)

    def _folder(self, name: Identifier) -> str:
        for part in name:
            if not part or "/" in part or part in (".", ".."):
                raise NoSuchTableError(f"Table does not exist: {'.'.join(name)}")
        return "/".join((self.warehouse, *name))

    def _listing(self, location: str) -> Any:
        return filesystem(self._load_file_io(location=location), location)[0]

    # What a folder cannot do --------------------------------------------------------------------------------

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        return []

    def view_exists(self, identifier: str | Identifier) -> bool:
        return False

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError(f"catalog {self.name}: a hadoop catalog cannot do this")

    register_table = rename_table = drop_table = drop_namespace = _refuse
    update_namespace_properties = load_view = register_view = drop_view = _refuse


def _response(metadata: TableMetadata, location: str) -> CommitTableResponse:
    return CommitTableResponse(metadata=metadata, **{"metadata-location": location})


def _version_of(location: str) -> int:
    found = _VERSION.fullmatch(location.rpartition("/")[2])
    assert found is not None, location
    return int(found[1])


def _location(folder: str, io: FileIO, version: int) -> str | None:
    """The location of the metadata file of a version, compressed or not; None if there is none."""
    locations = (f"{folder}/metadata/v{version}{ending}" for ending in _ENDINGS)
    return next((location for location in locations if io.new_input(location).exists()), None)


def _content(location: str, io: FileIO) -> bytes:
    with open_source(location, filesystem=io) as source:
        return source.read_at(0, source.size)
