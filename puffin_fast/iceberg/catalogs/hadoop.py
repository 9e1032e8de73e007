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
between. A commit therefore waits until no such file is left, and then reads its own file again. It also waits before it
reads the state that it builds on.

With the table property ``write.metadata.compression-codec=gzip`` the files are ``v3.gz.metadata.json``: the Java
library checks that one name only, so a commit must take the name that the library would take.

PyIceberg has no such catalog: issue 3897 of iceberg-python asks for one, and no release has it.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, StagedTable, Table, TableProperties
from pyiceberg.table.metadata import TableMetadataUtil, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.typedef import EMPTY_DICT

from puffin_fast._io import open_sink, open_source
from puffin_fast._io.folder import names_in
from puffin_fast._io.location import errors_of, is_local, split_location
from puffin_fast._io.sink import put_if_absent, remove, wait_for_renames
from puffin_fast.errors import (
    CommitUnknownError,
    CorruptDataError,
    InvalidInputError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)
from puffin_fast.iceberg.catalogs.relative_paths import is_relative_path
from puffin_fast.iceberg.compat.filesystem import filesystem
from puffin_fast.iceberg.compat.metadata_file import read_metadata_file

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier, Properties

HINT = "version-hint.text"
_HINTED = re.compile(rb"(\+?[0-9]{1,9})(?:[\r\n].*)?", re.DOTALL)
"""A hint that Java reads: the first line is a number without spaces."""
_VERSION = re.compile(r"v(0|[1-9][0-9]*)(?:\.gz)?\.metadata\.json(?:\.gz)?")
_ENDINGS = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_RENAMED = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:\.gz)?\.metadata\.json")
"""The names of files that the Java library renames to a version."""

_COMPRESSION = "write.metadata.compression-codec"

_LOCAL_ONLY = (
    "a hadoop catalog can only be changed on a local file system, because elsewhere the Java library renames files in "
    "several steps; register the table in another catalog to change it"
)


class HadoopCatalog(MetastoreCatalog):
    """A PyIceberg catalog of the tables in a folder, as Spark's catalogs of type ``hadoop`` have them.

    Commits are safe on local file systems; elsewhere tables can only be read, because Iceberg's Java library renames
    files there in several steps. Tables cannot be renamed or dropped, and have no location of their own. PyIceberg's
    `load_catalog` takes it as an argument ``py-catalog-impl``, ``puffin_fast.iceberg.HadoopCatalog``; the command line
    and ``puffin_changes`` take it from ``.pyiceberg.yaml``, too.

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
        if location.endswith(_ENDINGS[2]):  # PyIceberg does not know it
            metadata = TableMetadataUtil.parse_obj(read_metadata_file(io, location))
        else:
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
        new = self._create_staged_table(identifier, schema, location, partition_spec, sort_order, properties)
        shown, folder = ".".join(new.name()), new.metadata.location
        if self._newest(folder, new.io) is not None:
            raise TableAlreadyExistsError(f"Table already exists: {shown}")
        try:
            written = self._write_version(new.metadata, new.io, folder, 1)
        except CommitFailedException as error:
            raise TableAlreadyExistsError(f"Table already exists: {shown}") from error
        except CommitStateUnknownException as error:
            raise CommitUnknownError(f"{shown}: it is unknown whether it was created: {error}") from error
        return Table(new.name(), new.metadata, written, new.io, self)

    def _create_staged_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> StagedTable:
        name = self.identifier_to_tuple(identifier)
        folder = self._new_folder(name, location)
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
        first = f"{folder}/metadata/v1{_ending(metadata)}"
        return StagedTable(name, metadata, first, self._load_file_io(properties, folder), self)

    def _new_folder(self, name: Identifier, location: str | None) -> str:
        """The folder of a table that is to be created.

        Raises:
            NoSuchNamespaceError: there is no such namespace.
            InvalidInputError: `location` is another folder.
        """
        if not self.namespace_exists(name[:-1]):
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(name[:-1])}")
        folder = self._folder(name)
        if location is not None and location.rstrip("/") != folder:
            raise InvalidInputError(
                f"{'.'.join(name)}: its location is {folder}, found location={location!r}"
            )
        return folder

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        name = table.name()
        folder = self._folder(name)
        if is_local(folder, table.io):
            # a rename after this would replace the version that this commit builds on
            with contextlib.suppress(FileNotFoundError):  # of a new table
                wait_for_renames(f"{folder}/metadata/{HINT}", theirs=_RENAMED)
        current: Table | None
        try:
            current = self.load_table(name)
        except NoSuchTableError:
            current = None
        staged = self._update_and_stage_table(current, name, requirements, updates)
        if current is None:
            version = 1
            self._new_folder(name, staged.metadata.location)
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
            CommitStateUnknownException: it was created, and cannot be read again.
            UnsupportedError: commits are not safe there.
            PuffinFastError: it could not be written. Nothing happened.
        """
        location = f"{folder}/metadata/v{version}{_ending(metadata)}"
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
        finally:
            _discard(draft)
        if location.endswith(_ENDINGS[1]):
            data = gzip.compress(data)
        _discard(_checksum(location))  # Hadoop's, of an earlier file
        self._put(folder, io, version, location, data)
        try:
            wait_for_renames(location, theirs=_RENAMED)
            is_replaced = _content(location, io) != data
            seen = _location(folder, io, version)
        except (OSError, PuffinFastError) as error:
            raise CommitStateUnknownException(f"{location}: it was created, and then: {error}") from error
        if is_replaced or seen != location:
            raise CommitFailedException(f"{location}: another commit replaced it")
        hint = f"{folder}/metadata/{HINT}"
        with contextlib.suppress(OSError, PuffinFastError):  # readers look for later versions than the hint's
            if (self._hinted(folder, io) or 0) < version:  # later commits may have removed this version
                open_sink(hint, overwrite=True).write_file(str(version).encode())
                _discard(_checksum(hint))
        return location

    def _put(self, folder: str, io: FileIO, version: int, location: str, data: bytes) -> None:
        """Creates the file of a version; raises as `_write_version`."""
        taken = f"{location}: another commit created version {version}"
        if _location(folder, io, version) is not None:
            raise CommitFailedException(taken)
        try:
            is_ours = put_if_absent(location, data)
        except (OSError, PuffinFastError) as error:  # perhaps after the file got its name
            try:
                is_ours = _content(location, io) == data
            except NotFoundError:
                raise PuffinFastError(f"{location}: it could not be written: {error}") from error
            except (OSError, PuffinFastError) as trouble:
                raise CommitStateUnknownException(f"{location}: {error}; and then: {trouble}") from error
        if not is_ours:
            raise CommitFailedException(taken)

    def _newest(self, folder: str, io: FileIO) -> tuple[int, str] | None:
        """The version and the location of the newest metadata file, found as the Java library finds it.

        Raises:
            CorruptDataError: the version of the hint is missing, and there is no later one.
        """
        version = hinted = self._hinted(folder, io)
        location = None if version is None else _location(folder, io, version)
        if location is None:
            names = names_in(f"{folder}/metadata", "v", filesystem=self._listing(folder))
            version = max((int(found[1]) for found in map(_VERSION.fullmatch, names) if found), default=0)
            if version > (hinted or 0):
                location = _location(folder, io, version)
        if version is None or location is None:
            if hinted is None:
                return None
            raise CorruptDataError(
                "metadata of a table",
                path=f"{folder}/metadata",
                expected=f"v{hinted}.metadata.json, as {HINT} says, or a later version",
                found="none",
            )
        while (later := _location(folder, io, version + 1)) is not None:
            version, location = version + 1, later
        return version, location

    def _hinted(self, folder: str, io: FileIO) -> int | None:
        """The version in the hint; None without a hint that Java can read."""
        try:
            found = _HINTED.fullmatch(_content(f"{folder}/metadata/{HINT}", io))
        except NotFoundError:
            return None
        return None if found is None else int(found[1])

    # Namespaces ---------------------------------------------------------------------------------------------

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        space = self.identifier_to_tuple(namespace)
        return [(*space, name) for name in self._folders(space) if self._is_table((*space, name))]

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        space = self.identifier_to_tuple(namespace) if namespace else ()
        return [(*space, name) for name in self._folders(space) if not self._is_table((*space, name))]

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        space = self.identifier_to_tuple(namespace)
        if not space or not _is_valid(space):
            return False
        return space[-1] in self._names_in(space[:-1]) and not self._is_table(space)

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        space = self.identifier_to_tuple(namespace)
        if not self.namespace_exists(space):
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(space)}")
        return {"location": self._folder(space)}

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        space = self.identifier_to_tuple(namespace)
        shown = ".".join(space)
        if properties:
            raise UnsupportedError(f"{shown}: a namespace of a hadoop catalog has no properties")
        if not space or not _is_valid(space):
            raise InvalidInputError(f"namespace: expected names of folders, found {shown!r}")
        if self.namespace_exists(space):
            raise NamespaceAlreadyExistsError(f"Namespace already exists: {shown}")
        folder, io = self._folder(space), self._load_file_io(location=self.warehouse)
        if not is_local(self.warehouse, io):
            raise UnsupportedError(f"{self.warehouse}: {_LOCAL_ONLY}")
        try:
            with errors_of(folder):
                os.makedirs(split_location(folder)[2])
        except InvalidInputError as error:
            if isinstance(error.__cause__, FileExistsError):
                raise NamespaceAlreadyExistsError(
                    f"{folder}: exists already, as a namespace, a table or a file"
                ) from error
            raise

    def _folders(self, space: Identifier) -> list[str]:
        if space and not self.namespace_exists(space):
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(space)}")
        return self._names_in(space)

    def _names_in(self, space: Identifier) -> list[str]:
        """The names of the folders in a namespace's folder; none if there is no such folder."""
        folder = self._folder(space)
        if not is_local(folder, self._load_file_io(location=folder)):
            return names_in(folder, "", folders=True, filesystem=self._listing(folder))
        with errors_of(folder):
            try:
                return sorted(entry.name for entry in os.scandir(split_location(folder)[2]) if entry.is_dir())
            except (FileNotFoundError, NotADirectoryError):
                return []

    def _is_table(self, name: Identifier) -> bool:
        folder = self._folder(name)
        names = names_in(f"{folder}/metadata", "", filesystem=self._listing(folder))
        return any(name.endswith(".metadata.json") for name in names)

    def _folder(self, name: Identifier) -> str:
        if not _is_valid(name):
            raise NoSuchTableError(f"Table does not exist: {'.'.join(name)}")
        folder = "/".join((self.warehouse, *name)) if self.warehouse != "/" else "/" + "/".join(name)
        scheme, _, key = split_location(folder)
        has_host = folder.startswith("file://") and not folder.startswith("file:///")
        if has_host or (scheme and ("?" in key or "#" in key)):
            raise InvalidInputError(
                f"{folder}: PyIceberg does not open a URI with ?, # or a host of a file; use a local path"
            )
        return folder

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


def _is_valid(name: Identifier) -> bool:
    """Whether all parts of a name can be names of folders."""
    return all(part and "/" not in part and "\0" not in part and part not in (".", "..") for part in name)


def _ending(metadata: TableMetadata) -> str:
    """The end of the name of a new metadata file."""
    codec = metadata.properties.get(_COMPRESSION, "none")
    if codec.lower() not in ("none", "gzip"):
        raise InvalidInputError(f"{_COMPRESSION}: expected none or gzip, found {codec!r}")
    return _ENDINGS[codec.lower() == "gzip"]


def _checksum(location: str) -> str:
    """The file in which Hadoop has the checksum of a local file: with one of earlier content, Java does not read it."""
    folder, _, name = location.rpartition("/")
    return f"{folder}/.{name}.crc"


def _discard(location: str) -> None:
    with contextlib.suppress(OSError, PuffinFastError):
        remove(location)


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
