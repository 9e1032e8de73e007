"""The files that a commit adds and removes, and the summary of its snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.manifest import (
    ADDED,
    DATA,
    EQUALITY_DELETES,
    POSITION_DELETES,
    ManifestEntry,
    key_of,
)
from puffin_fast.iceberg.manifest.reader import BOUNDS
from puffin_fast.rows.shared_deletes import FILE_PATH_ID
from puffin_fast.rows.tasks import METRICS

if TYPE_CHECKING:
    from puffin_fast.puffin.vectors import DeletionVectorLocation

MANIFEST_COUNTS = ("manifests-created", "manifests-kept", "manifests-replaced")
"""Summary keys of the numbers of manifests that a snapshot has anew, that it keeps, and that it no longer has."""

MAX_DIGITS = 18
"""Digits of a count in a summary; longer ones may not fit in 64 bits, and no table has as many files or rows."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The files that one commit adds and removes.

    Attributes:
        added: new data files and delete files, with status added. Inherited fields are None.
        removed: live entries to remove, as they were read.
        required_data_files: data files that must be live, besides those that the entries refer to.
        new_files: new files, which are removed from storage if the commit does not happen.
        conflict_filter: whether a data file that another commit added is a conflict. None: no data file is.
        operation: the summary's operation. None: derived as Java does.
        bound_to_head: whether the changes are correct only on the head that they were planned on. After any other
            commit they are planned again.
        manifests: paths of manifests of the base that have all of `removed`, as far as they are known. Others are
            then read only if one of these was replaced.
        sorts_manifests: whether the entries of all manifests are sorted; nothing else changes then.
        unbounded: the ids of geometry and geography columns whose wrong bounds are removed from entries of data files.
    """

    added: tuple[ManifestEntry, ...] = ()
    removed: tuple[ManifestEntry, ...] = ()
    required_data_files: frozenset[str] = frozenset()
    new_files: tuple[str, ...] = ()
    conflict_filter: Callable[[ManifestEntry], bool] | None = None
    operation: str | None = None
    bound_to_head: bool = False
    manifests: frozenset[str] = frozenset()
    sorts_manifests: bool = False
    unbounded: frozenset[int] = frozenset()
    _touched: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        touched = set(self.required_data_files)
        for entry in self.removed:
            if entry.content == DATA:
                touched.add(entry.file_path)
            elif entry.referenced_data_file is not None:
                touched.add(entry.referenced_data_file)
        vectors: set[str] = set()
        for entry in self.added:
            if entry.content == DATA or entry.referenced_data_file is None:
                continue
            if not entry.is_vector:
                touched.add(entry.referenced_data_file)
                continue
            if entry.referenced_data_file in vectors:
                raise InvalidInputError(f"{entry.referenced_data_file}: two vectors in one commit")
            vectors.add(entry.referenced_data_file)
        object.__setattr__(self, "_touched", frozenset(touched | vectors))

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.sorts_manifests or self.unbounded)

    @property
    def touched(self) -> frozenset[str]:
        """The data files whose rows or deletes change. Changes of another commit to them are conflicts."""
        return self._touched

    def then(self, later: Changes) -> Changes:
        """Returns the net changes of two plans; the second one was made on top of the first.

        Files that the first adds and the second removes are in neither; `new_files` has the files that remain.
        """
        superseded = {key_of(entry) for entry in later.removed}
        own = {key_of(entry) for entry in self.added}
        added = (*(entry for entry in self.added if key_of(entry) not in superseded), *later.added)
        new_files = {*self.new_files, *later.new_files}
        filters = [one for one in (self.conflict_filter, later.conflict_filter) if one is not None]
        return Changes(
            added=added,
            removed=(*self.removed, *(entry for entry in later.removed if key_of(entry) not in own)),
            required_data_files=(self.touched | later.touched)
            - {entry.file_path for entry in self.added if entry.content == DATA},
            new_files=tuple(
                dict.fromkeys(entry.file_path for entry in added if entry.file_path in new_files)
            ),
            conflict_filter=(lambda entry: any(one(entry) for one in filters)) if filters else None,
            bound_to_head=self.bound_to_head or later.bound_to_head,
        )

    def with_also(self, carried: Changes) -> Changes:
        """Returns these changes with the vectors that the commit carried along."""
        return replace(self, added=(*self.added, *carried.added), removed=(*self.removed, *carried.removed))

    @property
    def has_deletes(self) -> bool:
        """Whether delete files are added or removed. Their kinds differ between format versions."""
        return any(entry.content != DATA for entry in (*self.added, *self.removed))

    @property
    def adds_data(self) -> bool:
        """Whether data files are added."""
        return any(entry.content == DATA for entry in self.added)

    @property
    def kind(self) -> str:
        """The summary's operation."""
        if self.operation is not None:
            return self.operation
        if not self.adds_data:
            return "delete"
        return "overwrite" if self.removed or any(e.content != DATA for e in self.added) else "append"


def vector_entry(
    vector: DeletionVectorLocation, data: ManifestEntry, file_size_in_bytes: int
) -> ManifestEntry:
    """The entry of a new deletion vector (table specification, "Deletion Vectors").

    The bounds of ``file_path`` keep PyIceberg from attaching the vector to every file of the partition. Its
    ``inspect.entries()`` needs the other maps of metrics: they are empty.

    Args:
        data: the live entry of its data file, whose spec and partition the new entry has.
        file_size_in_bytes: size of the whole Puffin file.
    """
    metrics: dict[str, Any] = {name: {} for name in METRICS}
    for name in BOUNDS:
        metrics[name][FILE_PATH_ID] = vector.data_file.encode()
    return ManifestEntry(
        status=ADDED,
        snapshot_id=None,
        sequence_number=None,
        file_sequence_number=None,
        content=POSITION_DELETES,
        file_path=vector.path,
        file_format="PUFFIN",
        spec_id=data.spec_id,
        partition=data.partition,
        record_count=vector.cardinality,
        file_size_in_bytes=file_size_in_bytes,
        **metrics,
        referenced_data_file=vector.data_file,
        content_offset=vector.offset,
        content_size_in_bytes=vector.length,
    )


class _Tally:
    """Counts of one side (added or removed) of a commit."""

    def __init__(self, entries: Iterable[ManifestEntry]) -> None:
        self.data_files = self.records = self.size = 0
        self.vectors = self.position_files = self.position_deletes = 0
        self.equality_files = self.equality_deletes = 0
        for entry in entries:
            if entry.is_vector and entry.content_size_in_bytes is not None:
                self.size += entry.content_size_in_bytes
            else:
                self.size += entry.file_size_in_bytes
            if entry.content == DATA:
                self.data_files += 1
                self.records += entry.record_count
            elif entry.content == EQUALITY_DELETES:
                self.equality_files += 1
                self.equality_deletes += entry.record_count
            else:
                self.vectors += entry.is_vector
                self.position_files += not entry.is_vector
                self.position_deletes += entry.record_count

    @property
    def delete_files(self) -> int:
        return self.vectors + self.position_files + self.equality_files


_ZEROS = {
    f"total-{what}": "0"
    for what in (
        "data-files",
        "delete-files",
        "records",
        "files-size",
        "position-deletes",
        "equality-deletes",
    )
}


def _counts(added: _Tally, removed: _Tally, n_partitions: int) -> dict[str, int]:
    return {
        "added-data-files": added.data_files,
        "deleted-data-files": removed.data_files,
        "added-delete-files": added.delete_files,
        "removed-delete-files": removed.delete_files,
        "added-dvs": added.vectors,
        "removed-dvs": removed.vectors,
        "added-position-delete-files": added.position_files,
        "removed-position-delete-files": removed.position_files,
        "added-equality-delete-files": added.equality_files,
        "removed-equality-delete-files": removed.equality_files,
        "added-records": added.records,
        "deleted-records": removed.records,
        "added-position-deletes": added.position_deletes,
        "removed-position-deletes": removed.position_deletes,
        "added-equality-deletes": added.equality_deletes,
        "removed-equality-deletes": removed.equality_deletes,
        "added-files-size": added.size,
        "removed-files-size": removed.size,
        "changed-partition-count": n_partitions,
    }


def summary_keys() -> frozenset[str]:
    """The keys of a snapshot's summary that a commit may write by itself."""
    return frozenset(_counts(_Tally(()), _Tally(()), 0)) | _ZEROS.keys() | {*MANIFEST_COUNTS}


def summarise(changes: Changes, previous: Mapping[str, Any] | None) -> dict[str, str]:
    """The counts of a snapshot's summary, with the keys that Java writes.

    Args:
        changes: the changes of the commit.
        previous: the parent's summary, None for a branch's first snapshot. A total that it does not
            have is not written.
    """
    added, removed = _Tally(changes.added), _Tally(changes.removed)
    partitions = {(entry.spec_id, entry.partition) for entry in (*changes.added, *changes.removed)}
    counts = _counts(added, removed, len(partitions))
    summary = {name: str(count) for name, count in counts.items() if count}
    differences = {
        "data-files": added.data_files - removed.data_files,
        "delete-files": added.delete_files - removed.delete_files,
        "records": added.records - removed.records,
        "files-size": added.size - removed.size,
        "position-deletes": added.position_deletes - removed.position_deletes,
        "equality-deletes": added.equality_deletes - removed.equality_deletes,
    }
    before = _ZEROS if previous is None else previous
    for what, difference in differences.items():
        total = stated_count(before.get(f"total-{what}"))
        if total is not None and total + difference >= 0:
            summary[f"total-{what}"] = str(total + difference)
    return summary


def stated_count(stated: object) -> int | None:
    """A count of a snapshot's summary, which is a text; None for anything else that a writer put there."""
    text = str(stated)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else None
