"""New deletion vectors of a table: merged with the deletes that apply already, written, turned into changes.

A new vector holds every position that was deleted before, whatever held it, and replaces what held it in the
same commit: a vector hides all position-delete files of its data file. A position-delete file that is about
other data files too stays.

A data file whose last row goes is dropped with its vector: no reader needs to open it any more, and the rows
are the same as under a vector of all positions.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.files import DeletionVectorLocation, write_vectors
from puffin_fast.iceberg.commit.changes import Changes, key_of, vector_entry
from puffin_fast.iceberg.compat.working_table import remove_files
from puffin_fast.iceberg.plan.files import only_path

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.iceberg.manifest import ManifestEntry
    from puffin_fast.iceberg.plan.files import FileTask

__all__ = ["NewDeletes", "Outcome", "VectorChanges", "replaced", "target_file_size", "write_changes"]

TARGET_FILE_SIZE = "write.delete.target-file-size-bytes"
DEFAULT_TARGET_FILE_SIZE = 64 * 1024 * 1024


class _Merges(Protocol):
    def of(self, task: FileTask) -> PositionBitmap: ...


@dataclass(frozen=True)
class NewDeletes:
    """What becomes of one data file.

    Attributes:
        task: the data file and the deletes that apply to it.
        positions: all positions deleted afterwards; None: every row is, and nobody needed to say which.
        n_new: how many of them were not deleted by position before.
        before: those that were; None: none.
    """

    task: FileTask
    positions: PositionBitmap | None
    n_new: int
    before: PositionBitmap | None = None

    @classmethod
    def merge(cls, task: FileTask, positions: PositionBitmap, current: _Merges) -> NewDeletes:
        """Adds positions to those that are deleted already."""
        if task.vector is None and not task.position_deletes:
            return cls(task, positions, len(positions))
        before = current.of(task)
        after = before | positions
        return cls(task, after, len(after) - len(before), before)

    @property
    def drops(self) -> bool:
        """No row of the data file is left."""
        return self.positions is None or len(self.positions) == self.task.data.record_count


@dataclass(frozen=True)
class Outcome:
    """What became of one data file, its deletes written by whomever.

    Attributes:
        task: the data file and the deletes that applied to it.
        n_new: rows newly deleted, above 0.
        vector: where its new vector stands.
        by_files: position-delete files hold its deletes instead, in a table of format version 2.
    """

    task: FileTask
    n_new: int
    vector: DeletionVectorLocation | None = None
    by_files: bool = False

    @property
    def drops(self) -> bool:
        """No row of the data file is left."""
        return self.vector is None and not self.by_files


@dataclass
class VectorChanges:
    """Counts of what `write_changes` did, beside the changes to commit.

    Attributes:
        changes: for `commit`.
        rows: rows newly deleted.
        vectors: vectors written.
        merged: those of them that replaced or absorbed earlier deletes.
        position_files: position-delete files written instead, in a table of format version 2.
        by_files: data files that those are about.
        dropped: data files of which no row is left.
        n_bytes: size of the files.
    """

    changes: Changes = field(default_factory=Changes)
    rows: int = 0
    vectors: int = 0
    merged: int = 0
    position_files: int = 0
    by_files: int = 0
    dropped: int = 0
    n_bytes: int = 0

    @classmethod
    def of(
        cls,
        outcomes: Iterable[Outcome],
        *,
        also_removed: Iterable[ManifestEntry] = (),
        same_age: bool = False,
        **changes: Any,
    ) -> VectorChanges:
        """The changes to commit for vectors that are written.

        Args:
            outcomes: at most one per data file.
            also_removed: entries that go besides those that the vectors replace.
            same_age: a vector that only moves keeps its data sequence number.
            changes: `required_data_files`, `conflict_filter` and `operation` of `Changes`.
        """
        result = cls()
        added: list[ManifestEntry] = []
        removed = {key_of(entry): entry for entry in also_removed}
        sizes: dict[str, int] = {}
        for outcome in outcomes:
            task, vector = outcome.task, outcome.vector
            result.rows += outcome.n_new
            for entry in replaced(task):
                removed[key_of(entry)] = entry
            if vector is None:
                result.dropped += 1
                removed[key_of(task.data)] = task.data
                continue
            result.vectors += 1
            result.merged += task.vector is not None or bool(task.position_deletes)
            sizes[vector.path] = vector.file_size
            entry = vector_entry(vector, task.data, vector.file_size)
            if same_age and task.vector is not None:
                entry.sequence_number = task.vector.sequence_number
            added.append(entry)
        result.n_bytes = sum(sizes.values())
        result.changes = Changes(
            added=tuple(added), removed=tuple(removed.values()), new_files=tuple(sizes), **changes
        )
        return result


def write_changes(
    table: Table,
    deletes: Iterable[NewDeletes],
    *,
    only_new: bool = True,
    dry_run: bool = False,
    limit: int | None = None,
    **changes: Any,
) -> VectorChanges:
    """Writes the vectors of one commit into as few Puffin files as target size and partition specs allow.

    Args:
        table: its location provider names the files; property ``write.delete.target-file-size-bytes``.
        deletes: at most one per data file; those of one partition spec one after the other make the fewest files.
        only_new: pass over those without a new position.
        dry_run: write into memory, one file after the other, and forget it.
        limit: bytes of blobs after which another Puffin file is begun, other than the table's property.
        changes: what `VectorChanges.of` takes.

    Returns:
        The changes, empty when no position was new.
    """
    outcomes: list[Outcome] = []
    written: list[str] = []
    limit = target_file_size(table) if limit is None else limit
    waiting: dict[str, NewDeletes] = {}

    def vectors() -> Iterator[NewDeletes]:
        for new in deletes:
            if only_new and new.n_new == 0:
                continue
            if new.drops:
                outcomes.append(Outcome(new.task, new.n_new))
                continue
            waiting[new.task.data.file_path] = new
            yield new

    try:
        for path, chunk in _files(table, vectors(), limit):
            if dry_run:
                made = [replace(v, path=path) for v in write_vectors(io.BytesIO(), chunk)]
            else:
                written.append(path)
                made = write_vectors(path, chunk, filesystem=table.io)
            for vector in made:
                new = waiting.pop(vector.data_file)
                outcomes.append(Outcome(new.task, new.n_new, vector))
    except BaseException:
        remove_files(table.io, written)
        raise
    return VectorChanges.of(outcomes, **changes)


def replaced(task: FileTask) -> Iterator[ManifestEntry]:
    """The delete files that a new vector (or the file's end) makes void: its own, not those it shares."""
    if task.vector is not None:
        yield task.vector
    for entry in task.position_deletes:
        if only_path(entry) == task.data.file_path:
            yield entry


def target_file_size(table: Table) -> int:
    """Bytes of blobs after which another Puffin file is begun, as the table wants it."""
    return int(table.properties.get(TARGET_FILE_SIZE, DEFAULT_TARGET_FILE_SIZE))


def _files(
    table: Table, vectors: Iterator[NewDeletes], limit: int
) -> Iterator[tuple[str, Iterator[tuple[str, PositionBitmap]]]]:
    """Cuts a stream of vectors into files of about the target size, each about data files of one partition spec.

    No file is without a vector. DuckDB 1.5.5 may take one vector for another where the order of a file's
    vectors is not that of their manifest entries, and each spec has a manifest of its own.
    """
    name, number = uuid.uuid4(), 0
    ahead = next(vectors, None)

    def chunk(spec_id: int) -> Iterator[tuple[str, PositionBitmap]]:
        nonlocal ahead
        n_bytes = 0
        while ahead is not None and n_bytes < limit and ahead.task.data.spec_id == spec_id:
            assert ahead.positions is not None
            n_bytes += ahead.positions.n_bytes
            yield ahead.task.data.file_path, ahead.positions
            ahead = next(vectors, None)

    while ahead is not None:
        path = table.location_provider().new_data_location(f"{name}-{number:05d}-deletes.puffin")
        number += 1
        yield path, chunk(ahead.task.data.spec_id)
