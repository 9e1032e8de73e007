"""What the tasks of a job report to the driver. It is pickled, in rows of one binary column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from puffin_fast.rows.deletes.outcome import FileDeleted
from puffin_fast.rows.match.duplicate_keys import DuplicateKeys
from puffin_fast.rows.scan.explain import Reads

if TYPE_CHECKING:
    from puffin_fast.iceberg.maintenance.convert import SupersededPositions
    from puffin_fast.iceberg.maintenance.rewritten_groups import RewrittenGroup
    from puffin_fast.iceberg.manifest import ManifestEntry


class FileWritten(NamedTuple):
    """A file with its description for the commit: a manifest entry, or an action of Delta's log."""

    path: str
    entry: Any


class MatchedFile(NamedTuple):
    """A data file with rows that have a given key.

    Attributes:
        path: the path of the data file.
        n_updated, n_unchanged, n_deleted: numbers of given rows.
        several: for each key that several rows of the table have, whether a row of this file is updated; these keys are
            not in the numbers above.
        duplicates: keys with several rows that one given row replaces, if the first of these rows is in this file.
    """

    path: str
    n_updated: int = 0
    n_unchanged: int = 0
    n_deleted: int = 0
    several: Mapping[int, bool] = {}
    duplicates: DuplicateKeys = DuplicateKeys()


class SavedRows(NamedTuple):
    """Rows of one task.

    Attributes:
        path: the file of the rows. None if `data` has them, or in a dry run if nothing has.
        file_size: its size in bytes.
        n_rows: number of rows.
        n_bytes: their bytes in memory.
        data: the content of the file, if there is no file.
    """

    path: str | None
    file_size: int
    n_rows: int
    n_bytes: int
    data: bytes | None = None


@dataclass
class Report:
    """What a task did, or a part of it; those of the tasks of a job are added.

    Attributes:
        deleted: the deletes of data files, each data file once.
        delete_files: position-delete files.
        superseded: data files that stay as they are, and whose vectors supersede positions that they do not have.
        data_files: new data files, except those of `groups`.
        groups: groups of data files that were rewritten.
        matched: data files with rows that have a given key.
        saved: rows that the job reads again.
        n_inserted: number of given rows whose key is new.
        n_dangling: number of rows that name no data file of the table.
        n_nan: number of rows with NaN in a column of the condition.
        reads: counts what was read of data files that were searched.
    """

    deleted: list[FileDeleted] = field(default_factory=list)
    delete_files: list[ManifestEntry] = field(default_factory=list)
    superseded: list[SupersededPositions] = field(default_factory=list)
    data_files: list[FileWritten] = field(default_factory=list)
    groups: list[RewrittenGroup] = field(default_factory=list)
    matched: list[MatchedFile] = field(default_factory=list)
    saved: list[SavedRows] = field(default_factory=list)
    n_inserted: int = 0
    n_dangling: int = 0
    n_nan: int = 0
    reads: Reads = field(default_factory=Reads)

    @classmethod
    def sum(cls, reports: Iterable[Report]) -> Report:
        """Returns the sum of reports."""
        found = cls()
        for one in reports:
            found += one
        return found

    def __iadd__(self, other: Report) -> Report:
        for one in fields(self):
            mine: Any = getattr(self, one.name)
            mine += getattr(other, one.name)
            setattr(self, one.name, mine)
        return self

    def __bool__(self) -> bool:
        return any(getattr(self, one.name) for one in fields(self))

    @property
    def entries(self) -> list[Any]:
        """What a commit says of the new data files: manifest entries, or actions of Delta's log."""
        return [one.entry for one in self.data_files]

    def changed(self) -> list[str]:
        """Returns the paths of the data files whose deletes were decided."""
        return [*(one.data_file for one in self.deleted), *(one.path for one in self.superseded)]

    def files(self) -> set[str]:
        """Returns the paths of all files that were written."""
        vectors = (one.vector.path for one in self.deleted if one.vector is not None)
        groups = (new.entry.file_path for group in self.groups for new in group.new)
        saved = (one.path for one in self.saved if one.path is not None)
        deletes = (entry.file_path for entry in self.delete_files)
        return {*vectors, *deletes, *(one.path for one in self.data_files), *groups, *saved}
