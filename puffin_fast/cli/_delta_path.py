"""Delta tables that are given by their path: the functions of `puffin_fast.delta` with Iceberg's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from puffin_fast.cli._catalog import open_catalog
from puffin_fast.cli._path_table import PathTable
from puffin_fast.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


class DeltaPath(PathTable):
    """A Delta table. A snapshot is a version; entries of the snapshot's summary are entries of ``commitInfo``."""

    format, folder = "Delta", "_delta_log"
    instead: ClassVar[Mapping[str, str]] = {
        "compact": "`rewrite` rewrites data files with many deleted rows",
        "repair": "`verify` checks the table",
        "expire_snapshots": "deltalake's `DeltaTable.vacuum` removes the files of old versions",
        "ndv": "they are statistics of Iceberg tables",
    }

    def schema(self) -> Schema:
        """The columns as a PyIceberg schema."""
        from puffin_fast.delta.scans.plan import DeltaTable

        return DeltaTable.of(delta().snapshot(self.path)).schema.schema

    def describe(self) -> dict[str, Any]:
        """Describes the newest version."""
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
        from puffin_fast.delta.log.times import CommitTimes, commit_info_of

        found = delta().snapshot(self.path)
        storage, listing = found.storage, LogListing.of(found.storage)
        times = CommitTimes(storage, listing, found.metadata)
        rows = []
        for version in listing.commits:
            path = commit_path(version)
            data = storage.read(path)
            info = commit_info_of(version, f"{storage.root}/{path}", data)
            rows.append(
                {
                    "timestamp_ms": times.time(version, data),
                    "version": version,
                    "operation": info.get("operation"),
                    "parameters": info.get("operationParameters"),
                }
            )
        return rows

    snapshots = history

    def files(self, **snapshot: Any) -> list[dict[str, Any]]:
        """The live data files; only the log is read."""
        self._refuse(snapshot, "branch", "tag")
        found = delta().scan(self.path, **snapshot).files()
        names = {"file_path": "file_path", "n_rows": "rows", "size": "bytes", "cardinality": "deleted"}
        rows: list[dict[str, Any]] = found.select(list(names)).rename_columns([*names.values()]).to_pylist()
        return rows

    def upgrade(self, *, dry_run: bool) -> bool:
        """`puffin_fast.delta.enable`; returns whether deletion vectors were enabled before."""
        return delta().enable(self.path, dry_run=dry_run) is None

    def disable(self, **options: Any) -> Any:
        """`puffin_fast.delta.disable`."""
        return delta().disable(self.path, **self._commit(options))

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

    def _commit(self, commit: Mapping[str, Any]) -> dict[str, Any]:
        self._refuse(commit, "branch")
        return {name: value for name, value in commit.items() if name != "branch"}


def delta() -> Any:
    """Imports the package for Delta tables."""
    return import_module("puffin_fast.delta")
