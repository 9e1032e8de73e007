"""Paimon tables that are given by their path: the functions of `puffin_fast.paimon` with Iceberg's arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from puffin_fast.cli._path_table import PathTable
from puffin_fast.errors import UnsupportedError

if TYPE_CHECKING:
    import pyarrow as pa

    from puffin_fast.paimon.data_files import LiveFile
    from puffin_fast.paimon.snapshots import TableFiles


class PaimonPath(PathTable):
    """A Paimon table; deletes and conversions use pypaimon."""

    format, folder = "Paimon", "snapshot"
    instead: ClassVar[Mapping[str, str]] = {
        "upgrade": "`convert --to paimon-v2` writes its vectors in the newer version",
    }

    def describe(self) -> dict[str, Any]:
        """Describes the newest snapshot."""
        files, snapshot, path = self._snapshot(None)
        schema, live = files.schema(snapshot, path), self._live(files, snapshot, path)
        vectors = self._vectors({"snapshot_id": None})["cardinality"].to_pylist()
        return {
            "format": "Paimon",
            "location": self.root(),
            "current snapshot": snapshot["id"],
            "primary key": ", ".join(schema.get("primaryKeys") or ()),
            "partition columns": ", ".join(schema.get("partitionKeys") or ()),
            "records": sum(file.n_rows for file in live),
            "data files": len(live),
            "position deletes": sum(vectors),
            "properties": schema.get("options") or {},
        }

    def columns(self) -> list[dict[str, object]]:
        """The columns of the newest snapshot, with Paimon's types."""
        files, snapshot, path = self._snapshot(None)
        rows = []
        for field in files.schema(snapshot, path)["fields"]:
            text = field["type"] if isinstance(field["type"], str) else json.dumps(field["type"])
            required = " NOT NULL" in text if text.startswith("{") else text.endswith(" NOT NULL")
            rows.append(
                {
                    "id": field["id"],
                    "column": field["name"],
                    "type": text.removesuffix(" NOT NULL"),
                    "required": required,
                }
            )
        return rows

    def history(self) -> list[dict[str, Any]]:
        """The snapshots that are stored."""
        files = self._files()
        rows = []
        for number in files.numbers():
            snapshot, _ = files.snapshot(number)
            rows.append(
                {
                    "timestamp_ms": snapshot.get("timeMillis", 0),
                    "snapshot_id": number,
                    "operation": snapshot.get("commitKind"),
                    "rows": snapshot.get("totalRecordCount"),
                    "added": snapshot.get("deltaRecordCount"),
                }
            )
        return rows

    snapshots = history

    def files(self, **snapshot: Any) -> list[dict[str, Any]]:
        """The live data files, and the cardinality of their vectors."""
        self._refuse(snapshot, "branch", "tag", "as_of")
        files, found, path = self._snapshot(snapshot["snapshot_id"])
        deleted = {
            row["file_name"]: row["cardinality"] for row in self._vectors(snapshot).to_pylist()
        }  # names are unique: each has a UUID
        return [
            {
                "file_path": file.external_path or file.place,
                "rows": file.n_rows,
                "bytes": file.n_bytes,
                "deleted": deleted.get(file.name, 0),
            }
            for file in self._live(files, found, path)
        ]

    def _files(self) -> TableFiles:
        from puffin_fast.paimon.snapshots import TableFiles

        return TableFiles.of(self.path, None)

    def _snapshot(self, number: int | None) -> tuple[TableFiles, dict[str, Any], str]:
        files = self._files()
        return files, *files.snapshot(number)

    @staticmethod
    def _live(files: TableFiles, snapshot: dict[str, Any], path: str) -> list[LiveFile]:
        from puffin_fast.paimon.data_files import live_data_files

        return live_data_files(files, snapshot, path)

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

    def _vectors(self, snapshot: Mapping[str, Any]) -> pa.Table:
        from puffin_fast import paimon

        self._refuse(snapshot, "branch", "tag", "as_of", "threads")
        return paimon.vectors(self.path, snapshot_id=snapshot["snapshot_id"])
