"""Rows replaced in one commit: deletes of the old rows, data files of the new ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.types import LongType, NestedField

from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.deletes.writer import ChangeTerms, WrittenDeletes, write_deletes
from puffin_fast.iceberg.dml.data_files import write_data_files
from puffin_fast.iceberg.dml.delete_job import ConflictFilter, DeleteResult
from puffin_fast.rows.deletes.outcome import NewDeletes, united
from puffin_fast.rows.files.metadata_columns import METADATA_COLUMNS

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.iceberg.manifest import ManifestEntry

__all__ = ["Replaced", "Replacement", "write_new_rows", "write_parts"]

ROW_ID = METADATA_COLUMNS["_row_id"]


@dataclass(frozen=True)
class Replaced:
    """What a replacement wrote: the deletes with the changes to commit, and the number of new data files."""

    written: WrittenDeletes = field(default_factory=WrittenDeletes)
    data_files: int = 0

    @property
    def changes(self) -> Changes:
        return self.written.changes

    def facts(self, result: DeleteResult) -> dict[str, Any]:
        """The attributes that the results of all verbs share that replace rows.

        Args:
            result: the result of the delete that is a part of the replacement.
        """
        return {
            "snapshot_id": result.snapshot_id,
            "data_files_written": self.data_files,
            "delete_files_written": result.vectors_written + result.position_delete_files_written,
            "n_bytes": result.n_bytes,
            "seconds": result.seconds,
            "attempts": result.attempts,
            "repeated": result.repeated,
        }

    @classmethod
    def of(
        cls, written: WrittenDeletes, entries: Sequence[ManifestEntry], required_data_files: frozenset[str]
    ) -> Replaced:
        """Joins the deletes of old rows and the data files of new ones to the changes of one commit.

        Args:
            written: the deletes.
            entries: the new data files.
            required_data_files: the data files that the new rows were computed from.
        """
        if not entries:
            return cls(written)
        changes = written.changes
        changes = replace(
            changes,
            added=(*changes.added, *entries),
            required_data_files=changes.required_data_files | required_data_files,
            new_files=(*changes.new_files, *(entry.file_path for entry in entries)),
        )
        return cls(replace(written, changes=changes), len(entries))


@dataclass(frozen=True)
class Replacement:
    """Rows to replace.

    Attributes:
        deletes: of the old rows.
        rows: the new rows.
        row_ids: for each new row the id of the row that it replaces, else null (specification, "Row Lineage").
        required_data_files: the data files that the new rows were computed from.
        conflict_filter: as in `Changes`.
    """

    deletes: Iterable[NewDeletes]
    rows: pa.Table
    row_ids: pa.Array | pa.ChunkedArray
    required_data_files: frozenset[str] = frozenset()
    conflict_filter: ConflictFilter = None

    def write(self, table: Table, *, dry_run: bool = False) -> Replaced:
        """Writes the deletes and the data files; in a dry run only counts the rows to delete."""
        if dry_run:
            return Replaced(WrittenDeletes.counted(self.deletes))
        terms = ChangeTerms(conflict_filter=self.conflict_filter)
        written = WrittenDeletes.of(table, write_deletes(table, self.deletes), terms)
        return Replaced.of(written, write_new_rows(table, self.rows, self.row_ids), self.required_data_files)


def write_parts(
    table: Table, parts: Iterable[Replacement], conflict_filter: ConflictFilter, *, dry_run: bool = False
) -> Replaced:
    """Writes a replacement in parts: the rows of each part, then the deletes of all parts, one for each data file.

    Args:
        table: of the job.
        parts: made one after another; their conflict filters are ignored.
        conflict_filter: as in `Changes`.
        dry_run: as in `Replacement.write`.
    """
    entries: list[ManifestEntry] = []
    required: set[str] = set()

    def deletes() -> Iterator[Iterable[NewDeletes]]:
        for part in parts:
            yield part.deletes
            required.update(part.required_data_files)
            if not dry_run:
                entries.extend(write_new_rows(table, part.rows, part.row_ids))
            del part  # the next part needs the memory

    found = united(deletes())
    if dry_run:
        return Replaced(WrittenDeletes.counted(found))
    terms = ChangeTerms(conflict_filter=conflict_filter)
    written = WrittenDeletes.of(table, write_deletes(table, found), terms)
    return Replaced.of(written, entries, frozenset(required))


def write_new_rows(table: Table, rows: pa.Table, row_ids: pa.Array | pa.ChunkedArray) -> list[ManifestEntry]:
    """Writes the data files of new rows.

    Args:
        table: of the job.
        rows: all columns of the table.
        row_ids: as in `Replacement`.
    """
    if not rows.num_rows:
        return []
    reserved = []
    if row_ids.null_count < len(row_ids) and ROW_ID.name not in rows.column_names:
        rows = rows.append_column(ROW_ID.name, row_ids)
        reserved = [NestedField(ROW_ID.field_id, ROW_ID.name, LongType(), required=False)]
    return write_data_files(table, rows, reserved=reserved)
