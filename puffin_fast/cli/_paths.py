"""Tables that are given by a path instead of a catalog: the functions of their format, with Iceberg's arguments.

A command calls the function that `verb` returns. If the format of a table has no such function, `verb` raises.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import click

from puffin_fast._io.folder import names_in
from puffin_fast._text import printable
from puffin_fast.cli._catalog import open_catalog
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.rows.findings import Findings, Level, unchecked_at

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from puffin_fast.iceberg.maintenance.finding import Finding

METADATA = ".metadata.json"
"""In the names of Iceberg's metadata files."""


def is_path(text: str) -> bool:
    """Whether TABLE is a path or a URI: it has a slash, is ``.`` or ``..``, a metadata file of Iceberg, or a folder
    without a dot in its name. Names of tables in a catalog have a dot and no slash."""
    return "/" in text or text in (".", "..") or METADATA in text or ("." not in text and os.path.isdir(text))


def name_of(table: Table | PathTable) -> str:
    """The name of a table in the output of a command."""
    if isinstance(table, PathTable):
        return table.path
    name = ".".join(table.name())
    return name.rpartition("/metadata/")[0] or name if METADATA in name else name


def verb(table: Table | PathTable, name: str) -> Callable[..., Any]:
    """Returns the function of a command for a table, with the arguments of Iceberg's function after the table.

    Raises:
        UnsupportedError: the format of the table has no such function.
    """
    if isinstance(table, PathTable):
        found: Callable[..., Any] | None = getattr(table, name, None)
        if found is None:
            raise UnsupportedError(
                f"{table.path}: {name.replace('_', '-')} is not supported for tables of {table.format}"
            )
        return found
    from puffin_fast import iceberg

    return partial(getattr(iceberg, name), table)


def open_path(path: str, catalog: Mapping[str, str | None] | None = None) -> Table | PathTable:
    """Returns the table in a folder. One of Iceberg is opened by its newest metadata file, and can be read only.

    Args:
        path: of the folder, or of a metadata file of Iceberg.
        catalog: options of the catalog in which `convert` registers a table.

    Raises:
        NotFoundError: the folder has no table of a known format.
    """
    path = path.rstrip("/") or "/"
    found = [
        kind(path, catalog or {})
        for kind in (DeltaPath, PaimonPath, LancePath)
        if METADATA not in path and names_in(f"{path}/{kind.folder}", "")
    ]
    if not found:
        if METADATA in path or any(METADATA in name for name in names_in(f"{path}/metadata", "")):
            return _iceberg(path)
        known = "_delta_log (Delta), metadata (Iceberg), snapshot (Paimon) or _versions (Lance)"
        raise NotFoundError(f"{path}: expected a table: a folder {known} with files in it, found none")
    if len(found) > 1:
        formats = " and ".join(table.format for table in found)
        raise InvalidInputError(f"{path}: expected a table of one format, found folders of {formats}")
    return found[0]


def _iceberg(path: str) -> Table:
    """The table of Iceberg at a path; a note says which metadata file was read."""
    from puffin_fast.iceberg.compat.path_table import as_table

    table = as_table(path if "/" in path else f"./{path}")
    name = table.metadata_location.rpartition("/")[2]
    click.echo(f"puffin-fast: note: {printable(path)}: read only, as of {printable(name)}", err=True)
    return table


class PathTable:
    """A table that is given by its path.

    Attributes:
        path: its folder, without a slash at the end.
        catalog: options of a catalog.
    """

    format: ClassVar[str]
    folder: ClassVar[str]
    """The folder inside the table by which the format is recognised."""

    def __init__(self, path: str, catalog: Mapping[str, str | None]) -> None:
        self.path, self.catalog = path, catalog

    def root(self) -> str:
        """The folder as the table's own paths name it."""
        return os.path.abspath(self.path) if "://" not in self.path else self.path

    def schema(self) -> Schema:
        """The columns as a PyIceberg schema.

        Raises:
            UnsupportedError: they are not read.
        """
        raise UnsupportedError(f"{self.path}: the schema of tables of {self.format} is not read")

    def convert(self, target: str, name: str | None) -> dict[str, object]:
        """Converts the table or its vectors to another format.

        Raises:
            UnsupportedError: this conversion is not supported.
        """
        raise UnsupportedError(f"{self.path}: tables of {self.format} cannot be converted")

    def _refuse(self, options: Mapping[str, object], *names: str) -> None:
        """Refuses options that have no meaning for this format.

        Raises:
            UnsupportedError: such an option is given; the message names the first.
        """
        for name in names:
            if options.get(name) not in (None, False, "main"):
                option = name.replace("_", "-")
                raise UnsupportedError(f"{self.path}: tables of {self.format} have no --{option}")


class DeltaPath(PathTable):
    """A Delta table. A snapshot is a version; entries of the snapshot's summary are entries of ``commitInfo``."""

    format, folder = "Delta", "_delta_log"

    def schema(self) -> Schema:
        """The columns as a PyIceberg schema."""
        from puffin_fast.delta.read.plan import DeltaTable

        return DeltaTable.of(delta().snapshot(self.path)).schema.schema

    def describe(self) -> dict[str, Any]:
        """What is known of the newest version."""
        found = delta().snapshot(self.path)
        protocol, metadata, scan = found.protocol, found.metadata, delta().scan(found)
        deleted = sum(filter(None, scan.files()["cardinality"].to_pylist()))
        return {
            "format": "Delta",
            "location": found.root,
            "version": found.version,
            "protocol": f"reader {protocol.reader}, writer {protocol.writer}",
            "features": ", ".join(sorted(protocol.reader_features | protocol.writer_features)),
            "id": metadata.get("id"),
            "partition columns": ", ".join(metadata.get("partitionColumns") or ()),
            "records": scan.count() + deleted,
            "data files": found.files.num_rows,
            "position deletes": deleted,
            "properties": found.configuration,
        }

    def history(self) -> list[dict[str, Any]]:
        """The versions whose commits are in the log, with their ``commitInfo``."""
        from puffin_fast.delta.log.segment import LogListing, commit_path
        from puffin_fast.delta.log.snapshot import commit_info_of, commit_time

        storage = delta().snapshot(self.path).storage
        versions = LogListing.of(storage).commits
        modified = storage.modified(commit_path(version) for version in versions)
        rows = []
        for version in versions:
            path = commit_path(version)
            data = storage.read(path)
            info = commit_info_of(version, f"{storage.root}/{path}", data)
            rows.append(
                {
                    "timestamp_ms": commit_time(storage, version, modified, data),
                    "version": version,
                    "operation": info.get("operation"),
                    "parameters": info.get("operationParameters"),
                }
            )
        return rows

    snapshots = history

    def files(self, **snapshot: Any) -> list[dict[str, Any]]:
        """The live data files; only the log is read."""
        found = delta().scan(delta().snapshot(self.path, **self._version(snapshot))).files()
        names = {"file_path": "file_path", "n_rows": "rows", "size": "bytes", "cardinality": "deleted"}
        rows: list[dict[str, Any]] = found.select(list(names)).rename_columns([*names.values()]).to_pylist()
        return rows

    def delete(self, row_filter: Any, **commit: Any) -> Any:
        """`puffin_fast.delta.delete`."""
        return delta().delete(self.path, row_filter, **self._commit(commit))

    def delete_keys(self, keys: Any, join_cols: Any, **commit: Any) -> Any:
        """`puffin_fast.delta.delete_keys`."""
        if join_cols is None:
            raise InvalidInputError(
                f"{self.path}: tables of Delta have no identifier fields: expected --join-col"
            )
        return delta().delete_keys(self.path, keys, join_cols, **self._commit(commit))

    def delete_positions(self, deletes: Any, **commit: Any) -> Any:
        """`puffin_fast.delta.delete_positions`."""
        return delta().delete_positions(self.path, deletes, **self._commit(commit))

    def scan(
        self,
        row_filter: Any,
        selected_fields: Any,
        *,
        case_sensitive: bool,
        limit: int | None,
        threads: int | None,
        **snapshot: Any,
    ) -> Any:
        """`puffin_fast.delta.scan`."""
        return delta().scan(
            self.path,
            row_filter,
            selected_fields,
            case_sensitive=case_sensitive,
            limit=limit,
            threads=threads,
            **self._version(snapshot),
        )

    def changes(
        self,
        before: int | None,
        after: int | None,
        *,
        from_timestamp_exclusive: int | str | None,
        to_timestamp_inclusive: int | str | None,
        **options: Any,
    ) -> Any:
        """`puffin_fast.delta.changes`, whose first version is the one after the state before."""
        from puffin_fast.iceberg.plan.times import milliseconds_of

        if before is not None and before < 0:
            raise InvalidInputError(f"{self.path}: expected a version of 0 or more, found {before}")
        self._refuse(options, "branch", "tag")
        time = from_timestamp_exclusive
        return delta().changes(
            self.path,
            None if before is None else before + 1,
            after,
            starting_timestamp=None if time is None else milliseconds_of(time, "--from-timestamp") + 1,
            ending_timestamp=to_timestamp_inclusive,
            **{name: value for name, value in options.items() if name not in ("branch", "tag")},
        )

    def deletes(self, **snapshot: Any) -> pa.Table:
        """The columns of `puffin_fast.iceberg.deletes`; only the log is read."""
        files = delta().scan(delta().snapshot(self.path, **self._version(snapshot))).files()
        files = files.filter(files["vector_path"].is_valid())
        names = "file_path", "n_rows", "vector_path", "offset", "length", "cardinality"
        return _deletes(zip(*(files[name].to_pylist() for name in names), strict=True))

    def verify(self, *, level: Level | None, threads: int | None, **snapshot: Any) -> Findings[Finding]:
        """`puffin_fast.delta.verify`."""
        from puffin_fast.iceberg.maintenance.finding import CORRUPT, Finding

        chosen = level or "files"
        done = delta().verify(self.path, level=chosen, threads=threads, **self._version(snapshot))
        found = [Finding(CORRUPT, one.data_file, one.path, one.offset, one.message) for one in done]
        return Findings(found, level=chosen, data_files=done.data_files, unchecked=done.unchecked)

    def report(self, *, share: float, **snapshot: Any) -> Any:
        """`puffin_fast.delta.report`."""
        return delta().report(self.path, share=share, **self._version(snapshot))

    def upgrade(self, *, dry_run: bool) -> bool:
        """`puffin_fast.delta.enable`; returns whether deletion vectors were enabled before."""
        return delta().enable(self.path, dry_run=dry_run) is None

    def update(self, row_filter: Any, values: Mapping[str, Any], **commit: Any) -> Any:
        """`puffin_fast.delta.update`."""
        return delta().update(self.path, row_filter, values, **self._commit(commit))

    def upsert(self, data: Any, join_cols: Any, **options: Any) -> Any:
        """`puffin_fast.delta.upsert`."""
        if join_cols is None:
            raise InvalidInputError(
                f"{self.path}: tables of Delta have no identifier fields: expected --join-col"
            )
        return delta().upsert(self.path, data, join_cols, **self._commit(options))

    def append(self, data: Any, **commit: Any) -> Any:
        """`puffin_fast.delta.append`."""
        return delta().append(self.path, data, **self._commit(commit))

    def overwrite(self, data: Any, row_filter: Any, **commit: Any) -> Any:
        """`puffin_fast.delta.overwrite`."""
        return delta().overwrite(self.path, data, row_filter, **self._commit(commit))

    def dynamic_partition_overwrite(self, data: Any, **commit: Any) -> Any:
        """`puffin_fast.delta.dynamic_partition_overwrite`."""
        return delta().dynamic_partition_overwrite(self.path, data, **self._commit(commit))

    def convert(self, target: str, name: str | None) -> dict[str, object]:
        """`puffin_fast.delta.to_iceberg`."""
        if target != "iceberg":
            raise UnsupportedError(
                f"{self.path}: a table of Delta: expected --to iceberg, found --to {target}"
            )
        if name is None:
            raise InvalidInputError("--to iceberg: expected the --name of the new table: namespace.name")
        made = delta().to_iceberg(self.path, open_catalog(self.catalog), name)
        return {"table": self.path, "to": target, "name": name, "metadata": made.metadata_location}

    def orphan_files(self, *, older_than: timedelta, keep: object, threads: int | None) -> pa.Table:
        """`puffin_fast.delta.orphan_files`."""
        self._refuse({"heads_only": keep is not None, "threads": threads}, "heads_only", "threads")
        return delta().orphan_files(self.path, older_than=older_than)

    def _version(self, snapshot: Mapping[str, Any]) -> dict[str, Any]:
        self._refuse(snapshot, "branch", "tag")
        return {"version": snapshot["snapshot_id"], "as_of": snapshot["as_of"]}

    def _commit(self, commit: Mapping[str, Any]) -> dict[str, Any]:
        self._refuse(commit, "branch")
        return {name: value for name, value in commit.items() if name != "branch"}


class PaimonPath(PathTable):
    """A Paimon table; deletes and conversions use pypaimon."""

    format, folder = "Paimon", "snapshot"

    def delete(self, row_filter: str, *, dry_run: bool, **commit: Any) -> Any:
        """`puffin_fast.paimon.delete`; the filter is pypaimon's SQL."""
        from puffin_fast import paimon

        if commit["on_conflict"] != "refuse" or not commit["case_sensitive"]:
            raise UnsupportedError(
                f"{self.path}: tables of Paimon have no --on-conflict merge and no --case-insensitive"
            )
        self._refuse(commit, "branch", "job_id", "snapshot_properties", "threads")
        return paimon.delete(self.path, row_filter, dry_run=dry_run)

    def convert(self, target: str, name: str | None) -> dict[str, object]:
        """`puffin_fast.paimon.convert_vectors`."""
        from puffin_fast import paimon

        versions = {"paimon-v1": 1, "paimon-v2": 2}
        if target not in versions:
            raise UnsupportedError(
                f"{self.path}: a table of Paimon: expected --to {' or '.join(versions)}, found --to {target}"
            )
        done = paimon.convert_vectors(self.path, version=versions[target])
        return {"table": self.path, "to": target, **asdict(done)}

    def deletes(self, **snapshot: Any) -> pa.Table:
        """The columns of `puffin_fast.iceberg.deletes`; ``rows`` is not in the metadata of vectors."""
        found = self._vectors(snapshot)
        return _deletes(
            (row["file_name"], None, row["index_file"], None, len(row["blob"]), row["cardinality"])
            for row in found.to_pylist()
        )

    def verify(self, *, level: str | None, **snapshot: Any) -> Findings[Finding]:
        """The first error in the vectors of a snapshot: reading ends there."""
        self._refuse({"level": level}, "level")
        return _first_finding(partial(self._vectors, snapshot))

    def _vectors(self, snapshot: Mapping[str, Any]) -> pa.Table:
        from puffin_fast import paimon

        self._refuse(snapshot, "branch", "tag", "as_of", "threads")
        return paimon.vectors(self.path, snapshot_id=snapshot["snapshot_id"])


class LancePath(PathTable):
    """A Lance dataset."""

    format, folder = "Lance", "_versions"

    def deletes(self, **snapshot: Any) -> pa.Table:
        """The columns of `puffin_fast.iceberg.deletes`; a data file is a fragment."""
        return _deletes(
            (str(row["fragment"]), row["n_rows"], row["deletion_file"], None, None, row["cardinality"])
            for row in self._vectors(snapshot).to_pylist()
        )

    def verify(self, *, level: str | None, **snapshot: Any) -> Findings[Finding]:
        """The first error in the deletion files of a version: reading ends there."""
        self._refuse({"level": level}, "level")
        return _first_finding(partial(self._vectors, snapshot))

    def _vectors(self, snapshot: Mapping[str, Any]) -> pa.Table:
        from puffin_fast import lance

        self._refuse(snapshot, "snapshot_id", "branch", "tag", "as_of", "threads")
        return lance.vectors(self.path)


def delta() -> Any:
    """Imports the package for Delta tables."""
    return import_module("puffin_fast.delta")


def _deletes(rows: Iterator[tuple[Any, ...]]) -> pa.Table:
    """Converts rows (data file, its rows, path, offset, n_bytes, deleted) to the columns of
    `puffin_fast.iceberg.deletes`."""
    import pyarrow as pa

    from puffin_fast.iceberg.maintenance.list_deletes import APPLIES, SCHEMA, VECTOR

    full = [
        (data_file, n_rows, VECTOR, APPLIES, *where, deleted, deleted / n_rows if n_rows else None, None)
        for data_file, n_rows, *where, deleted in rows
    ]
    columns = list(zip(*full, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


def _first_finding(read: Callable[[], object]) -> Findings[Finding]:
    """What a function raises that reads all vectors; data files are not checked."""
    from puffin_fast.iceberg.maintenance.finding import CORRUPT, MISSING, Finding

    found = []
    try:
        read()
    except CorruptDataError as error:
        found = [Finding(CORRUPT, None, error.path or "", error.offset, str(error))]
    except NotFoundError as error:
        found = [Finding(MISSING, None, "", None, str(error))]
    return Findings(found, level="metadata", data_files=0, unchecked=unchecked_at("metadata"))
