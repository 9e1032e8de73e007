"""The delete writer: writes deletion vectors or position-delete files, by the table's format version.

Deletes are written first (by `write_deletes`, or by the executors of a Spark job). `WrittenDeletes.of` then
returns the changes to commit. Both engines use it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from puffin_fast.iceberg.commit.changes import Changes, vector_entry
from puffin_fast.iceberg.compat.table_properties import delete_file_size
from puffin_fast.iceberg.delete_files.deletion_vectors import write_deletion_vectors
from puffin_fast.iceberg.delete_files.position_files import FILE, PositionFiles, granularity_of
from puffin_fast.iceberg.manifest import Key, ManifestEntry, key_of
from puffin_fast.rows.deletes.outcome import NewDeletes, Outcome

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.iceberg.plan.delete_index import FileTask


@dataclass(frozen=True)
class DeleteFiles:
    """Delete files that were written.

    Attributes:
        outcomes: at most one per data file.
        entries: manifest entries of new position-delete files, in a table of format version 2.
    """

    outcomes: tuple[Outcome, ...] = ()
    entries: tuple[ManifestEntry, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ChangeTerms:
    """What a job adds to the changes that its delete files cause.

    Attributes:
        also_removed: entries to remove, besides those that the new deletes replace.
        keeps_sequence_numbers: True when vectors are only rewritten: they keep their data sequence numbers.
        conflict_filter, operation, unbounded: as in `Changes`.
    """

    also_removed: tuple[ManifestEntry, ...] = ()
    keeps_sequence_numbers: bool = False
    conflict_filter: Callable[[ManifestEntry], bool] | None = None
    operation: str | None = None
    unbounded: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class WrittenDeletes:
    """The changes to commit for written deletes, and their counts.

    Attributes:
        changes: for `commit`; empty in a dry run.
        rows: number of newly deleted rows.
        vectors: number of deletion vectors written.
        merged: number of data files whose new deletes include earlier ones.
        position_files: number of position-delete files written, in a table of format version 2.
        by_files: number of data files that position-delete files were written for.
        dropped: number of data files removed because all their rows are deleted.
        n_bytes: size of the new delete files.
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
    def counted(cls, deletes: Iterable[NewDeletes | Outcome]) -> WrittenDeletes:
        """Returns the counts of deletes that are not written (dry run), without changes."""
        rows = dropped = by_files = 0
        for new in deletes:
            rows += new.n_new
            if new.n_new:
                dropped += new.drops
                by_files += not new.drops
        return cls(rows=rows, dropped=dropped, by_files=by_files)

    @classmethod
    def of(cls, table: Table, files: DeleteFiles, terms: ChangeTerms = ChangeTerms()) -> WrittenDeletes:
        """Returns the changes to commit for delete files that were written.

        Args:
            table: with delete granularity ``file``, new position-delete files replace earlier ones.
            terms: what the job adds.
        """
        by_files = sum(outcome.by_files for outcome in files.outcomes)
        replaces_earlier = not by_files or granularity_of(table.properties) == FILE
        added = list(files.entries)
        removed: dict[Key, ManifestEntry] = {key_of(entry): entry for entry in terms.also_removed}
        required: set[str] = set()
        sizes = {entry.file_path: entry.file_size_in_bytes for entry in files.entries}
        rows = merged = 0
        for outcome in files.outcomes:
            task, vector = cast("FileTask", outcome.task), outcome.vector
            rows += outcome.n_new
            if outcome.drops:
                removed[key_of(task.data)] = task.data
            else:
                merged += task.vector is not None or bool(task.position_deletes)
            if outcome.by_files:
                required.add(task.data.file_path)
            if vector is not None:
                sizes[vector.path] = vector.file_size
                entry = vector_entry(vector, task.data, vector.file_size)
                if terms.keeps_sequence_numbers and task.vector is not None:
                    entry.sequence_number = task.vector.sequence_number
                added.append(entry)
            if replaces_earlier or not outcome.by_files:
                removed |= {key_of(entry): entry for entry in replaced(task)}
        return cls(
            changes=Changes(
                added=tuple(added),
                removed=tuple(removed.values()),
                required_data_files=frozenset(required),
                new_files=tuple(sizes),
                conflict_filter=terms.conflict_filter,
                operation=terms.operation,
                unbounded=terms.unbounded,
            ),
            rows=rows,
            vectors=sum(outcome.vector is not None for outcome in files.outcomes),
            merged=merged,
            position_files=len(files.entries),
            by_files=by_files,
            dropped=sum(outcome.drops for outcome in files.outcomes),
            n_bytes=sum(sizes.values()),
        )


def write_deletes(table: Table, deletes: Iterable[NewDeletes]) -> DeleteFiles:
    """Writes the deletes of a job: deletion vectors, or position-delete files in a table of format version 2.

    Args:
        table: the table object of the job, which removes the files if the job fails.
        deletes: at most one per data file; those without a newly deleted row are skipped.

    Raises:
        InvalidInputError: property ``write.delete.granularity`` is neither ``file`` nor ``partition``, or a
            property names an unknown compression codec.
    """
    if table.metadata.format_version > 2:
        return DeleteFiles(tuple(write_deletion_vectors(table, deletes)))
    name = uuid.uuid4()

    def path_of(number: int) -> str:
        return table.location_provider().new_data_location(f"{name}-{number:05d}-deletes.parquet")

    files = PositionFiles(table.io, table.properties, delete_file_size(table.properties), path_of)
    outcomes = tuple(files.write(deletes))
    return DeleteFiles(outcomes, tuple(files.entries))


def replaced(task: FileTask) -> Iterator[ManifestEntry]:
    """Yields the delete files that apply to this data file alone: its new vector or its removal replaces them."""
    if task.vector is not None:
        yield task.vector
    yield from task.position_deletes.alone
