"""Lance datasets that are given by their path: the functions of `puffin_fast.lance` with Iceberg's arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from puffin_fast.cli._path_table import PathTable

if TYPE_CHECKING:
    pass


class LancePath(PathTable):
    """A Lance dataset."""

    format, folder = "Lance", "_versions"

    def describe(self) -> dict[str, Any]:
        """Describes the newest version."""
        from puffin_fast.lance.dataset import describe

        return {"format": "Lance", "location": self.root(), **describe(self.path)}

    def columns(self) -> list[dict[str, object]]:
        """The columns, with Arrow's types."""
        from puffin_fast.lance.deletions import opened

        schema = opened(self.path).schema
        return [
            {"id": at, "column": field.name, "type": str(field.type), "required": not field.nullable}
            for at, field in enumerate(schema)
        ]

    def history(self) -> list[dict[str, Any]]:
        """The versions that are stored."""
        from puffin_fast.lance.dataset import versions

        return versions(self.path)

    snapshots = history

    def files(self, **snapshot: Any) -> list[dict[str, Any]]:
        """The data files of the fragments. Those of one fragment have its rows, in other columns."""
        from puffin_fast.lance.dataset import data_files

        self._refuse(snapshot, "snapshot_id", "branch", "tag", "as_of")
        return [
            {
                "file_path": file.path,
                "fragment": file.fragment,
                "rows": file.n_rows,
                "bytes": file.n_bytes,
                "deleted": file.deleted,
            }
            for file in data_files(self.path)
        ]
