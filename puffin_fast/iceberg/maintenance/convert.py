"""Converts position-delete files and equality-delete files of a table to deletion vectors.

The rows of the table do not change. Readers then load one deletion vector per data file instead of several
delete files. A delete file is removed only when no live data file needs it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast._concurrency.workers import OPEN_BYTES, Threads, Workers, workers_of
from puffin_fast._io.run_folder import run_name
from puffin_fast._pyiceberg.metadata import without_history
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.columns.row_selection import LiveRows, mask_of
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.delete_files.deletion_vectors import write_where_read
from puffin_fast.iceberg.delete_files.writer import ChangeTerms
from puffin_fast.iceberg.index.lookup import narrowed
from puffin_fast.iceberg.index.stored import indexed
from puffin_fast.iceberg.maintenance.rewrite import REPLACE, Rewritten, older_than, rewrite
from puffin_fast.iceberg.manifest import EQUALITY_DELETES, Key, ManifestEntry, key_of
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.iceberg.plan.files import snapshot_of
from puffin_fast.rows.deletes.equality import EqualityDeletes
from puffin_fast.rows.deletes.loader import DeleteLoader, within
from puffin_fast.rows.deletes.outcome import NewDeletes
from puffin_fast.rows.files.reader import DataFiles
from puffin_fast.rows.scan.bins import bins_of_tasks
from puffin_fast.rows.scan.splits import data_bytes
from puffin_fast.rows.shared_deletes import NO_DELETES, distinct
from puffin_fast.verbs.maintenance import RewriteResult

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyspark.sql import SparkSession

    from puffin_fast.iceberg.catalogs.working_table import WorkingTable
    from puffin_fast.iceberg.plan.inventory import DeleteInventory, FileDeletes
    from puffin_fast.key_index import ChunkPages
    from puffin_fast.rows.deletes.equality import DeletedKeys

LOOK_UP_BYTES = 32 << 20
"""Bytes of equality deletes whose keys are looked up in key indexes here, before workers read the data files."""


def convert_position_deletes(
    table: Table,
    *,
    branch: str = MAIN_BRANCH,
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | SparkSession | None = None,
    dry_run: bool = False,
) -> RewriteResult:
    """Converts all position-delete files of a branch to deletion vectors, in one commit.

    The position deletes that apply to a data file become one vector, or none if they contain no position of
    it. A data file without live rows is removed. All position-delete files are removed, dangling ones
    included, with one exception: if a vector supersedes positions that it does not contain (a writer violated
    the specification and lost these deletes), the file with these positions stays, for `repair`.

    Args:
        table: a PyIceberg table of format version 3 (see `upgrade`). It is refreshed first, and has the new
            metadata afterwards.
        branch: an existing branch.
        job_id: recorded in the snapshot's summary. A job whose id is in the branch's history is not repeated.
        snapshot_properties: additional entries of the snapshot's summary.
        threads: number of delete files read at a time; the number of processors by default.
        workers: an executor of ``concurrent.futures`` or a SparkSession, which reads delete files and writes
            vectors instead of threads. Each worker reads the delete files that its data files share.
        dry_run: read and encode everything, write and commit nothing.

    Raises:
        UnsupportedError: the table is not of format version 3, or the format of a delete file is not
            supported.
        CorruptDataError: a delete file does not agree with the table's metadata, a position is outside of its
            data file, or a data file has two vectors (see `repair`).
        NotFoundError: the branch or a delete file does not exist.
        ConflictError: all retries after concurrent commits failed; the table is unchanged.
        CommitUnknownError: it is unknown whether the commit happened. No file was removed.

    Examples:
        >>> pf.iceberg.convert_position_deletes(table).commit.id is None  # the table has none
        True
    """
    request = Request(
        verb="convert_position_deletes", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties
    )
    who, run = workers_of(workers, threads), run_name(job_id, "convert")

    def work(table: WorkingTable, inventory: DeleteInventory) -> Rewritten:
        conversion = PositionConversion.of(inventory)
        files = sorted(conversion.files.values(), key=lambda file: file.data.spec_id)
        outcomes, not_rewritten = write_where_read(
            who,
            table,
            partial(_PositionConverter, table.io),
            _bins_of_positions(files, who),
            _delete_bytes,
            [file.task for file in files],
            "converting deletes",
            run,
            only_new=False,
            dry_run=dry_run,
        )
        return Rewritten.of(
            table, outcomes, conversion.terms(not_rewritten), conversion.reasons(not_rewritten)
        )

    return rewrite(table, work, request, dry_run=dry_run)


def _bins_of_positions(files: Sequence[FileDeletes], workers: Workers) -> list[list[FileDeletes]]:
    """Groups data files with the same position-delete files, which each worker reads whole."""
    if isinstance(workers, Threads):
        return [[*files]]

    def lists(file: FileDeletes) -> tuple[int, list[int]]:
        shared = [id(one) for one, _ in file.position_deletes.parts if not one.of_one]
        return file.data.spec_id, shared

    lean = [replace(file, equality_deletes=NO_DELETES) for file in sorted(files, key=lists)]
    limit = workers.bin_bytes(sum(map(_delete_bytes, lean)))
    return bins_of_tasks(lean, lambda file: (file,), limit, lambda file: OPEN_BYTES)


@dataclass(frozen=True)
class SupersededPositions:
    """A data file whose vector supersedes positions that it does not contain, and their number."""

    path: str
    n_positions: int


def convert_positions(
    file: FileDeletes, positions: PositionBitmap, current: DeleteLoader
) -> NewDeletes | SupersededPositions | None:
    """Converts the position deletes of one data file.

    Args:
        file: the data file and its delete files.
        positions: those of its position-delete files.
        current: loads its deletion vector, if it has one.

    Returns:
        Its new deletes; None if nothing has to be written; or the reason not to convert its files.
    """
    if not file.vectors:
        checked = within(positions, file.data, file.position_deletes)
        return NewDeletes(file.task, checked, 0) if positions else None
    lost = positions - current.of(file.task)
    return SupersededPositions(file.data.file_path, len(lost)) if lost else None


class _PositionConverter:
    """Converts the position deletes of data files. Safe to use from several threads.

    Args:
        io: opens the files.
        files: all data files that it is called for.
    """

    def __init__(self, io: FileIO, files: Iterable[FileDeletes]) -> None:
        self._current = DeleteLoader(io, only={file.data.file_path for file in files})

    def __call__(self, file: FileDeletes) -> Iterator[NewDeletes | SupersededPositions]:
        positions = self._current.by_files(file.data.file_path, file.position_deletes)
        if (found := convert_positions(file, positions, self._current)) is not None:
            yield found


def _delete_bytes(file: FileDeletes) -> int:
    return sum(entry.file_size_in_bytes for entry in file.position_deletes)


@dataclass(frozen=True)
class PositionConversion:
    """The position-delete files of an inventory.

    Attributes:
        files: the data files that they apply to, by path.
    """

    files: dict[str, FileDeletes]
    _entries: dict[Key, ManifestEntry]

    @classmethod
    def of(cls, inventory: DeleteInventory) -> PositionConversion:
        files = {file.data.file_path: file for file in inventory.files if file.position_deletes}
        entries = {
            key_of(entry): entry for entry in distinct(file.position_deletes for file in files.values())
        }
        for entry in inventory.dangling:
            if not entry.is_vector and entry.content != EQUALITY_DELETES:
                entries[key_of(entry)] = entry
        return cls(files, entries)

    def reasons(self, not_rewritten: Iterable[SupersededPositions]) -> tuple[str, ...]:
        """Returns why some files are not converted, one sentence each."""
        return tuple(
            f"{one.path}: its deletion vector supersedes {one.n_positions} deleted positions that it does not "
            "contain; puffin_fast.iceberg.repair adds them"
            for one in not_rewritten
        )

    def terms(self, not_rewritten: Iterable[SupersededPositions]) -> ChangeTerms:
        """Returns the terms that remove all position-delete files except those needed by `repair`."""
        needed = {key_of(entry) for one in not_rewritten for entry in self.files[one.path].superseded}
        return ChangeTerms(
            also_removed=tuple(entry for key, entry in self._entries.items() if key not in needed),
            operation=REPLACE,
            conflict_filter=older_than(self._entries.values(), same=True),
        )


def convert_equality_deletes(
    table: Table,
    *,
    branch: str = MAIN_BRANCH,
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | SparkSession | None = None,
    dry_run: bool = False,
) -> RewriteResult:
    """Converts all equality-delete files of a branch to deletion vectors, in one commit.

    The key columns of each data file that is older than an equality delete of its partition are read; of a data file
    that a key index covers, only the rows that may have a key. The rows found and the positions that are deleted
    already become one vector. All equality-delete files are removed then, because no older data file needs them.

    Args:
        table, branch, job_id, snapshot_properties, dry_run: as `convert_position_deletes`.
        threads: number of data files read at a time; the number of processors by default.
        workers: an executor of ``concurrent.futures`` or a SparkSession, which reads data files and writes
            vectors instead of threads.

    Raises:
        PuffinFastError: as `convert_position_deletes`.

    Examples:
        >>> pf.iceberg.convert_equality_deletes(table).commit.id is None  # the table has none
        True
    """
    request = Request(
        verb="convert_equality_deletes", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties
    )
    who, run = workers_of(workers, threads), run_name(job_id, "convert")

    def work(table: WorkingTable, inventory: DeleteInventory) -> Rewritten:
        files, terms = equality_conversion(inventory)
        converter = EqualityConverter(table.io, table.metadata)
        deletes = distinct(file.equality_deletes for file in files)
        if isinstance(who, Threads) or sum(entry.file_size_in_bytes for entry in deletes) <= LOOK_UP_BYTES:
            converter.look_up(snapshot_of(table.metadata, branch), files)
        searched = [*converter.narrowed(files)]
        outcomes, _ = write_where_read(
            who,
            table,
            converter.finder,
            _bins_by_keys(searched, who),
            _searched_bytes,
            [file.task for file, _ in searched],
            "converting deletes",
            run,
            dry_run=dry_run,
        )
        return Rewritten.of(table, outcomes, terms)

    return rewrite(table, work, request, dry_run=dry_run)


_Searched: TypeAlias = "tuple[FileDeletes, Candidates | None]"
"""A data file, and the rows that may have a deleted key."""


def _bins_by_keys(files: Sequence[_Searched], workers: Workers) -> list[list[_Searched]]:
    """Groups data files with the same equality deletes, which each worker reads."""
    if isinstance(workers, Threads):
        return [[*files]]

    def keys(item: _Searched) -> list[tuple[int, int]]:
        return [(id(shared), start) for shared, start in item[0].equality_deletes.parts]

    limit = workers.bin_bytes(sum(map(_searched_bytes, files)))
    return bins_of_tasks(sorted(files, key=keys), lambda item: (item[0],), limit, _searched_bytes)


def _searched_bytes(item: _Searched) -> int:
    file, found = item
    return data_bytes(file, None if found is None else found.positions) + OPEN_BYTES


def equality_conversion(inventory: DeleteInventory) -> tuple[list[FileDeletes], ChangeTerms]:
    """Returns the data files that equality deletes apply to, and the terms of their conversion."""
    files = [file for file in inventory.files if file.equality_deletes]
    entries = {entry.file_path: entry for entry in distinct(file.equality_deletes for file in files)}
    entries.update((e.file_path, e) for e in inventory.dangling if e.content == EQUALITY_DELETES)
    return files, ChangeTerms(
        also_removed=tuple(entries.values()),
        operation=REPLACE,
        conflict_filter=older_than(entries.values(), same=False),
    )


class Candidates(NamedTuple):
    """What key indexes say of the rows of a data file that equality deletes remove.

    Attributes:
        positions: the rows that may have a deleted key.
        exact: whether each of them has one, so that the data file is not read.
        pages: where the pages of key columns are, as far as this is known.
    """

    positions: PositionBitmap
    exact: bool = True
    pages: Sequence[ChunkPages] = ()

    def with_others(self, task: FileTask, key: DeletedKeys) -> Candidates:
        """Adds the rows that an index finds for keys in some columns.

        Args:
            task: the data file, with candidates.
            key: the keys, of which some may be in delete files that are older than the data file.
        """
        assert task.candidates is not None
        positions, exact = task.candidates, task.candidates_match
        if exact and key.start is not None and (exact := task.candidate_keys is not None):
            (field,) = key.fields
            keep = key.contains({field.field_id: task.candidate_keys})
            positions = PositionBitmap.from_positions(positions.to_numpy()[keep])
        return Candidates(
            self.positions | positions, self.exact and exact, (*self.pages, *task.candidate_pages)
        )


class EqualityConverter:
    """Finds the rows of data files that equality deletes remove. Safe to use from several threads; can be pickled."""

    def __init__(self, io: FileIO, metadata: TableMetadata) -> None:
        self._io, self._metadata = io, metadata
        self._current = DeleteLoader(io)
        self._equality = EqualityDeletes(io, metadata)
        self._files = DataFiles(io, metadata, metadata.schema())
        self._candidates: dict[str, Candidates] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """The converter without candidates."""
        return EqualityConverter, (self._io, without_history(self._metadata))

    def finder(self, files: object) -> Callable[[_Searched], Iterator[NewDeletes]]:
        """Returns what finds the deletes of a data file."""
        return self.found

    def found(self, item: _Searched) -> Iterator[NewDeletes]:
        """Yields the deletes of a data file."""
        yield self.deletes(*item)

    def look_up(self, snapshot: Snapshot | None, files: Sequence[FileDeletes]) -> None:
        """Looks up the deleted keys in the table's key indexes, so that only rows that may have one are read.

        Args:
            snapshot: the head; its statistics files and those of its ancestors are used.
        """
        if snapshot is None or next(indexed(self._metadata, snapshot), None) is None:
            return
        groups: dict[tuple[int, ...], list[tuple[FileTask, list[DeletedKeys]]]] = {}
        for file in files:
            deleted = self._equality.of(file.equality_deletes)
            columns = tuple(id(column) for key in deleted for column in key.rows.values())
            groups.setdefault(columns, []).append((file.task, deleted))
        for group in groups.values():
            self._candidates |= self._candidates_of(snapshot, group)

    def _candidates_of(
        self, snapshot: Snapshot, group: Sequence[tuple[FileTask, list[DeletedKeys]]]
    ) -> dict[str, Candidates]:
        """The rows that may have one of the keys, by data file; without the data files that must be read.

        Args:
            snapshot: the head.
            group: data files with equality deletes in the same delete files, of which some may be older than a data
                file.
        """
        keys = {task.data.file_path: deleted for task, deleted in group}
        found = {path: Candidates(PositionBitmap()) for path in keys}
        tasks, (_, some) = [task for task, _ in group], group[0]
        for at, every in enumerate(some):
            whole = {field_id: column.combine_chunks() for field_id, column in every.rows.items()}
            for task in narrowed(self._io, self._metadata, snapshot, [whole], tasks, exact=True):
                path = task.data.file_path
                if task.candidates is None:
                    found.pop(path, None)
                elif path in found:
                    found[path] = found[path].with_others(task, keys[path][at])
        return found

    def narrowed(self, files: Iterable[FileDeletes]) -> Iterator[tuple[FileDeletes, Candidates | None]]:
        """Yields the data files that may have a deleted key, each with the rows that may; None: with all of them."""
        for file in files:
            found = self._candidates.get(file.data.file_path)
            if found is None or found.positions:
                yield file, found

    def deletes(self, file: FileDeletes, found: Candidates | None) -> NewDeletes:
        """Returns the deletes of a data file.

        Args:
            file: the data file.
            found: the rows that may have a key; None: all.
        """
        if found is not None and (found.exact or not found.positions):
            return NewDeletes.merge(file.task, found.positions, self._current)
        n_rows = file.data.record_count
        mask = np.zeros(n_rows, np.bool_)
        keys = self._equality.of(file.equality_deletes)
        fields = {field.field_id: field for key in keys for field in key.fields}
        live = None if found is None else LiveRows(found.positions, n_rows, chosen=True)
        pages = () if found is None else found.pages
        for batch in self._files.open(file.data, fields.values(), live, pages).batches():
            wanted = np.zeros(batch.n_rows, np.bool_)
            for key in keys:
                wanted |= key.contains(batch.key_values)
            if live is None:
                mask[batch.first : batch.first + batch.n_rows] = wanted
            elif (rows := batch.select(mask_of(wanted))) is not None:
                mask[rows.positions().to_numpy()] = True
        return NewDeletes.merge(file.task, PositionBitmap.from_mask(mask), self._current)
