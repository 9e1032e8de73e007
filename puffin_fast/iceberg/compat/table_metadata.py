"""Makes catalogs of PyIceberg write table metadata of format version 3, which they refuse by themselves.

PyIceberg 0.12 reads format version 3 and refuses to write it. Catalogs that write their metadata in this process (SQL,
Hive, Glue, DynamoDB, BigQuery) do so through the functions in `METADATA_WRITERS`. The first use replaces these in the
catalog's class for good. Only within `v3_metadata`, `metadata_writing` and `accelerate` they write version 3; else they
do what they did. The server of a REST catalog writes its own metadata.

No release of PyIceberg ends this: 0.12.0 and its main branch of August 2026 raise NotImplementedError in
`TableMetadataV3.model_dump_json` (issue 3619 of iceberg-python).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import pyiceberg
from pydantic import PrivateAttr
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1, TableMetadataV3
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import IcebergBaseModel

from puffin_fast._pyiceberg.versions import check_version
from puffin_fast.errors import CorruptDataError, InvalidInputError, UnsupportedError
from puffin_fast.iceberg.compat.metadata_file import read_metadata_file
from puffin_fast.iceberg.compat.sql_catalog import roll_back_returned_connections

METADATA_WRITERS = ("_write_metadata", "_write_metadata_no_exist_check")
METADATA_KEYS = frozenset(
    str(field.alias or name)
    for version in (TableMetadataV1, TableMetadataV3)
    for name, field in version.model_fields.items()
)
SNAPSHOT_KEYS = frozenset(str(field.alias or name) for name, field in Snapshot.model_fields.items())


class _WritableV3(TableMetadataV3):
    """Metadata of format version 3 that can be serialised: PyIceberg's class raises NotImplementedError."""

    _previous: dict[str, Any] = PrivateAttr(default_factory=dict)

    @classmethod
    def of(cls, metadata: TableMetadataV3, previous: dict[str, Any]) -> _WritableV3:
        """The same metadata. Version 3 requires next-row-id, which starts at 0.

        Args:
            metadata: the metadata to write.
            previous: the document that it replaces; empty for a new table.
        """
        fields = dict(metadata)
        if metadata.next_row_id is None:
            if metadata.snapshots:
                raise CorruptDataError(
                    "table metadata",
                    path=metadata.location,
                    expected="next-row-id in format version 3",
                    found="none",
                )
            fields["next_row_id"] = 0
        writable = cls.model_construct(**fields)
        writable._previous = previous
        return writable

    def model_dump_json(  # type: ignore[override]
        self, exclude_none: bool = True, exclude: Any | None = None, by_alias: bool = True, **kwargs: Any
    ) -> str:
        """The document, with the schemas, specs and orders of the previous one in the words of their writer.

        PyIceberg does not know all that they may have: of an unknown transform it writes ``unknown``.
        """

        def dump(**options: Any) -> str:
            return IcebergBaseModel.model_dump_json(
                self, exclude_none=exclude_none, by_alias=by_alias, **options, **kwargs
            )

        kept = {}
        if self._previous.get("format-version") in (2, 3):
            found = json.loads(dump(include=set(_WITH_IDS)))
            for name, (key, id_key) in _WITH_IDS.items():
                earlier = {item.get(id_key): item for item in self._previous.get(key) or []}
                items = zip(getattr(self, name), found.get(key, []), strict=True)
                kept[key] = [_in_words_of(earlier.get(item[id_key]), model, item) for model, item in items]
            if all(found.get(key, []) == items for key, items in kept.items()):
                kept = {}
        if not kept:
            return dump(exclude=exclude)
        text = dump(exclude={*(exclude or ()), *_WITH_IDS})
        added = ",".join(
            f"{json.dumps(key)}:{json.dumps(items, ensure_ascii=False)}" for key, items in kept.items()
        )
        return f"{text[:-1]},{added}}}"


_WITH_IDS = {
    "schemas": ("schemas", "schema-id"),
    "partition_specs": ("partition-specs", "spec-id"),
    "sort_orders": ("sort-orders", "order-id"),
    "statistics": ("statistics", "snapshot-id"),
    "partition_statistics": ("partition-statistics", "snapshot-id"),
}
"""The fields of metadata with items that have ids, and the keys of the fields and of the ids."""


def _in_words_of(
    earlier: dict[str, Any] | None, model: IcebergBaseModel, item: dict[str, Any]
) -> dict[str, Any]:
    """Returns the earlier writer's document of a schema, spec or order, if it is the same one; else the given one."""
    if earlier is None or earlier == item:
        return item
    return earlier if type(model).model_validate(earlier) == model else item


def _monotone(metadata: TableMetadata) -> TableMetadata:
    """The same metadata with an update time that is not before its last snapshot, even if the clock was set back."""
    last = max((entry.timestamp_ms for entry in metadata.snapshot_log), default=0)
    if metadata.last_updated_ms >= last:
        return metadata
    return metadata.model_copy(update={"last_updated_ms": last})


def _previous_document(metadata: TableMetadata, io: FileIO) -> dict[str, Any]:
    """The document that metadata replaces; empty for a new table.

    Raises:
        UnsupportedError: it has keys that PyIceberg does not know (as encryption-keys): it would drop them.
        CorruptDataError: a value of a snapshot's summary is not a string.
    """
    if not metadata.metadata_log:
        return {}
    previous = metadata.metadata_log[-1].metadata_file
    document = read_metadata_file(io, previous)
    unknown = {key for key, value in document.items() if value not in (None, [], {})} - METADATA_KEYS
    for snapshot in document.get("snapshots") or []:
        unknown |= {f"snapshots.{key}" for key in snapshot.keys() - SNAPSHOT_KEYS}
        for name, value in (snapshot.get("summary") or {}).items():
            if not isinstance(value, str):
                what = f"summary of snapshot {snapshot.get('snapshot-id')}: {name}"
                raise CorruptDataError(what, path=previous, expected="a text", found=repr(value))
    if unknown:
        raise UnsupportedError(
            f"{previous}: expected keys that PyIceberg {pyiceberg.__version__} knows, "
            f"found {', '.join(sorted(unknown))}, which a commit would drop"
        )
    return document


class _Calls(NamedTuple):
    """What is called when a metadata file is written: before, with its path, and when it is complete."""

    begun: Callable[[str], object] = lambda path: None
    written: Callable[[], object] = lambda: None


_calls: ContextVar[_Calls | None] = ContextVar("calls", default=None)
"""Set where this thread or task writes version 3."""

_accelerations: set[object] = set()
"""The running `accelerate`: within them PyIceberg's own requests write version 3, too."""


def _is_v3_writer(function: object) -> bool:
    return hasattr(function, "writes_v3")


def _v3_writer(write: Callable[..., None]) -> Callable[..., None]:
    """Returns a function that writes version 3 metadata in place of a catalog's own."""

    def write_v3(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        calls = _calls.get()
        if calls is None and _accelerations and isinstance(metadata, TableMetadataV3):
            calls = _Calls()
        if calls is None or isinstance(metadata, _WritableV3):
            write(metadata, io, metadata_path)
            return
        previous = _previous_document(metadata, io)
        calls.begun(metadata_path)
        metadata = _monotone(metadata)
        if isinstance(metadata, TableMetadataV3):
            metadata = _WritableV3.of(metadata, previous)
        write(metadata, io, metadata_path)
        calls.written()

    write_v3.writes_v3 = True  # type: ignore[attr-defined]
    return write_v3


def _replace_writers(kind: type) -> None:
    """Replaces the writers of a class of catalogs, where they are defined."""
    check_version()
    for owner in kind.__mro__:
        for name in METADATA_WRITERS:
            if name in vars(owner) and not _is_v3_writer(getattr(owner, name)):
                setattr(owner, name, staticmethod(_v3_writer(getattr(owner, name))))


def begin_v3_writes() -> Callable[[], None]:
    """Makes all catalogs write version 3 in all threads, until the returned function is called."""
    _replace_writers(MetastoreCatalog)
    acceleration = object()
    _accelerations.add(acceleration)
    return lambda: _accelerations.discard(acceleration)


def writes_metadata(catalog: Catalog) -> bool:
    """Returns whether a catalog object writes table metadata in this process."""
    return isinstance(catalog, MetastoreCatalog) and any(hasattr(catalog, name) for name in METADATA_WRITERS)


@contextmanager
def metadata_writing(
    catalog: Catalog,
    begun: Callable[[str], object] = lambda path: None,
    written: Callable[[], object] = lambda: None,
) -> Iterator[None]:
    """Within this context this thread writes version 3 metadata, if the catalog writes its metadata in this process.

    Args:
        begun: called with the path before a file is written.
        written: called when the file is complete.
    """
    if isinstance(catalog, MetastoreCatalog):
        _replace_writers(type(catalog))
    before = _calls.get()
    try:  # an exception from outside may come between any two steps
        _calls.set(_Calls(begun, written))
        yield
    finally:
        _calls.set(before)


def check_catalog(catalog: object) -> None:
    """Checks the argument `catalog`.

    Raises:
        InvalidInputError: it is not a catalog of PyIceberg.
    """
    if not isinstance(catalog, Catalog):
        raise InvalidInputError(
            "catalog: expected a PyIceberg catalog (see pyiceberg.catalog.load_catalog), found "
            f"{type(catalog).__name__}"
        )


@contextmanager
def v3_metadata(catalog: Catalog) -> Iterator[None]:
    """Within this context PyIceberg writes table metadata of format version 3.

    It applies to the thread (or the task of asyncio) that opened the context. `create_table`, `append`, `delete` and
    the other functions of `puffin_fast.iceberg` do not need it. Changes through PyIceberg of a version 3 table do, in
    a catalog that writes its metadata in this process:

        with v3_metadata(catalog), table.update_schema() as update:
            update.add_column("note", StringType())

    Args:
        catalog: any PyIceberg catalog; on one whose server writes the metadata (REST) this does nothing.

    Raises:
        UnsupportedError: a version of PyIceberg that this package does not know.

    Examples:
        >>> from pyiceberg.types import StringType
        >>> with pf.iceberg.v3_metadata(catalog), table.update_schema() as update:
        ...     update = update.add_column("note", StringType())
        >>> table.schema().column_names
        ['id', 'customer', 'price', 'note']
    """
    check_version()
    check_catalog(catalog)
    roll_back_returned_connections(catalog)
    with metadata_writing(catalog):
        yield
