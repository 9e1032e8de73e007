"""Makes catalogs of PyIceberg write table metadata of format version 3, which they refuse by themselves.

PyIceberg 0.12 reads format version 3 and refuses to write it. Catalogs that write their metadata in this process (SQL,
Hive, Glue, DynamoDB, BigQuery) do so through the functions in `METADATA_WRITERS`. These are replaced on one catalog
object (`v3_metadata`) or on a copy of it (`catalog_for_commit`). The server of a REST catalog writes its own metadata.
"""

from __future__ import annotations

import json
import os
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyiceberg
from pydantic import PrivateAttr
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1, TableMetadataV3
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import IcebergBaseModel

from puffin_fast._pyiceberg.versions import check_version
from puffin_fast._run.fork import lock_across_fork
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


_hook_lock = lock_across_fork()
_hooks: list[tuple[int, MetastoreCatalog]] = []
"""The thread and the catalog of each open `v3_metadata` context."""


def _metadata_writer(
    write: Callable[..., None],
    begun: Callable[[str], object] = lambda path: None,
    written: Callable[[], object] = lambda: None,
) -> Callable[..., None]:
    """Returns a function that writes version 3 metadata in place of a catalog's own.

    Args:
        write: the catalog's function.
        begun: called with the path before the file is written.
        written: called when the file is complete.
    """

    def write_v3(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        previous = _previous_document(metadata, io)
        begun(metadata_path)
        metadata = _monotone(metadata)
        if isinstance(metadata, TableMetadataV3):
            metadata = _WritableV3.of(metadata, previous)
        write(metadata, io, metadata_path)
        written()

    return write_v3


_write = MetastoreCatalog._write_metadata
_write_v3 = _metadata_writer(_write)


def write_new_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
    """Replaces `MetastoreCatalog._write_metadata`, so that PyIceberg's own requests write format version 3."""
    # inside of `v3_metadata` and `catalog_for_commit` the metadata can be serialised already
    (_write_v3 if type(metadata) is TableMetadataV3 else _write)(metadata, io, metadata_path)


def writes_metadata(catalog: Catalog) -> bool:
    """Returns whether a catalog object writes table metadata in this process."""
    return isinstance(catalog, MetastoreCatalog) and bool(_writers_of(catalog))


def _writers_of(catalog: Catalog) -> list[str]:
    return [name for name in METADATA_WRITERS if hasattr(catalog, name)]


def _is_hooked(catalog: Catalog) -> bool:
    return any(hooked is catalog for _, hooked in _hooks)


def _unhook(catalog: MetastoreCatalog) -> None:
    if not _is_hooked(catalog):
        for name in METADATA_WRITERS:
            catalog.__dict__.pop(name, None)


def _after_fork() -> None:
    """Closes the contexts of other threads: a child process has only the thread that forked."""
    closed = [catalog for thread, catalog in _hooks if thread != threading.get_ident()]
    _hooks[:] = [hook for hook in _hooks if hook[0] == threading.get_ident()]
    for catalog in closed:
        _unhook(catalog)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


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
    """Within this context the catalog object writes table metadata of format version 3.

    Only this object changes, and only until the context ends. `create_table`, `append`, `delete` and the other
    functions of `puffin_fast.iceberg` do not need it. Changes through PyIceberg of a version 3 table do, in a
    catalog that writes its metadata in this process:

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
    if not isinstance(catalog, MetastoreCatalog):
        yield
        return
    hook = (threading.get_ident(), catalog)
    try:  # an exception from outside may come between any two steps
        with _hook_lock:
            if not _is_hooked(catalog):
                for name in _writers_of(catalog):
                    catalog.__dict__[name] = _metadata_writer(getattr(catalog, name))
            _hooks.append(hook)
        yield
    finally:
        with _hook_lock:
            _hooks[:] = [other for other in _hooks if other is not hook]
            _unhook(catalog)


def catalog_for_commit(
    catalog: Catalog, begun: Callable[[str], object], written: Callable[[], object]
) -> Catalog:
    """Returns a catalog that writes version 3 metadata and calls `begun` and `written` when it does.

    It shares the state of the given catalog, which does not change: other threads may use it.
    """
    if not isinstance(catalog, MetastoreCatalog):
        return catalog
    kind = type(catalog)

    def writer(name: str) -> property:
        write = _metadata_writer(getattr(catalog, name), begun, written)
        return property(lambda _: write)

    body: dict[str, Any] = {name: writer(name) for name in _writers_of(catalog)}
    derived: Catalog = object.__new__(
        types.new_class(kind.__name__, (kind,), exec_body=lambda namespace: namespace.update(body))
    )
    derived.__dict__ = catalog.__dict__
    return derived
