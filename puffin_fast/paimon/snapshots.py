"""The snapshots of a Paimon table: JSON files ``snapshot/snapshot-N``, and its schemas ``schema/schema-N``."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import Any

import pyarrow.fs

from puffin_fast._io import open_source
from puffin_fast._io.folder import names_in
from puffin_fast._io.location import folder_of
from puffin_fast._io.table_formats import other_format
from puffin_fast.errors import CorruptDataError, InvalidInputError, LimitExceededError, NotFoundError
from puffin_fast.limits import check_metadata_size
from puffin_fast.paimon.compat import opened_snapshot

_SNAPSHOT = re.compile(r"snapshot-(\d+)", re.ASCII)


@dataclass(frozen=True)
class TableFiles:
    """Where the files of a table are.

    Attributes:
        root: the table's folder.
        snapshots: the folder of the snapshots.
        filesystem: the filesystem of both folders; None: it follows from their URIs.
        table: the table of pypaimon; None: it is given by its folder.
    """

    root: str
    snapshots: str
    filesystem: Any
    table: Any = None

    @classmethod
    def of(cls, table: Any, filesystem: Any) -> TableFiles:
        """The files of a table.

        Args:
            table: the table's folder, a path or a URI; or a table of pypaimon, of whose branch the snapshots are.
            filesystem: the pyarrow.fs.FileSystem or fsspec filesystem of the path.

        Raises:
            InvalidInputError: the table is neither a path nor a table of pypaimon.
        """
        if isinstance(table, str | os.PathLike):
            root = folder_of(table)
            return cls(root, f"{root}/snapshot", filesystem)
        if not hasattr(table, "table_path") or not hasattr(table, "snapshot_manager"):
            raise InvalidInputError(
                f"table: expected the path of a table or a table of pypaimon, found {type(table).__name__}"
            )
        own = getattr(table.file_io, "filesystem", None)  # that of local files has no class of PyArrow
        if filesystem is None and isinstance(own, pyarrow.fs.FileSystem):
            filesystem = own
        root = str(table.table_path).rstrip("/")
        return cls(root, str(table.snapshot_manager().snapshot_dir), filesystem, table)

    def numbers(self) -> list[int]:
        """The numbers of the snapshots, ascending.

        Raises:
            NotFoundError: there are none.
        """
        names = names_in(self.snapshots, "snapshot-", filesystem=self.filesystem)
        known = [int(match[1]) for name in names if (match := _SNAPSHOT.fullmatch(name)) is not None]
        if not known:
            hint = other_format(self.root, filesystem=self.filesystem)
            raise NotFoundError(f"{self.snapshots}: no snapshots of a Paimon table{hint}")
        return sorted(known)

    def snapshot(self, number: int | None = None) -> tuple[dict[str, Any], str]:
        """A snapshot and the path of its file, which errors name.

        Without a number, it is the one at which pypaimon opened the table, or the newest.

        Raises:
            NotFoundError: there is no such snapshot.
            CorruptDataError: it is not a JSON object.
            InvalidInputError, UnsupportedError: pypaimon opened the table with scan options that select no snapshot.
        """
        if number is None and self.table is not None and (opened := opened_snapshot(self.table)) is not None:
            return opened
        known = self.numbers()
        if number is not None and number not in known:
            raise NotFoundError(
                f"{self.snapshots}: expected a snapshot from {known[0]} to {known[-1]}, found {number}"
            )
        path = f"{self.snapshots}/snapshot-{known[-1] if number is None else number}"
        return self._document(path, "snapshot of a Paimon table"), path

    def schema(self, snapshot: dict[str, Any], path: str) -> dict[str, Any]:
        """The schema of a snapshot: a JSON object with ``fields``, ``partitionKeys``, ``primaryKeys`` and ``options``.

        Raises:
            NotFoundError: its file does not exist.
            CorruptDataError: it is damaged.
        """
        number = snapshot.get("schemaId")
        if not isinstance(number, int):
            raise CorruptDataError("schemaId of a snapshot", path=path, expected="a number", found=number)
        file = f"{self.snapshots.removesuffix('/snapshot')}/schema/schema-{number}"  # those of its branch
        schema = self._document(file, "schema of a Paimon table")
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(
            isinstance(one, dict) and {"id", "name", "type"} <= one.keys() for one in fields
        ):
            raise CorruptDataError(
                "fields of a schema", path=file, expected="a list of fields", found=type(fields)
            )
        return schema

    def read(self, path: str) -> bytes:
        """The bytes of a file of metadata."""
        with open_source(path, filesystem=self.filesystem) as source:
            check_metadata_size(path, source.size, self.filesystem)
            return source.read_at(0, source.size)

    def _document(self, path: str, what: str) -> dict[str, Any]:
        try:
            found = json.loads(self.read(path))
        except (ValueError, RecursionError) as error:
            if isinstance(error, LimitExceededError):
                raise
            raise CorruptDataError(what, path=path, expected="a JSON object", found=error) from error
        if not isinstance(found, dict):
            raise CorruptDataError(what, path=path, expected="a JSON object", found=type(found).__name__)
        return found
