"""Deletes rows of Paimon's append tables without rewriting data files, and converts the version of vectors.

snapshot N  ->  positions of each data file  ->  index files  ->  one commit of pypaimon on N
                                                                     | done
                                                                     | another commit changed the same: ConflictError
                                                                     | no answer: CommitUnknownError, nothing is removed

An index file is replaced as a whole: the bytes of its unchanged vectors are copied.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from puffin_fast._process.outcome import note_outcome, nothing_committed, until_commit
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import paimon as codec
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.paimon.compat import DataFile, Group, IndexFile, StoredVector, WorkingTable
from puffin_fast.paimon.predicates import columns_of, expression_of, without_floats
from puffin_fast.verbs.results import Commit, DeleteResult

_POSITION = "__position"

_Found = list[tuple[DataFile, PositionBitmap]]
"""The positions to delete, by data file."""


@until_commit()
def delete(table: Any, row_filter: Any, *, dry_run: bool = False) -> DeleteResult:
    """Deletes the rows of an append table for which a filter is true, in one commit.

    Rows for which the filter is unknown, such as a comparison with NULL, are not deleted. Data files whose statistics
    exclude a match are not read.

    Args:
        table: a table of pypaimon, or the path of a table in a warehouse.
        row_filter: a predicate of pypaimon's ``PredicateBuilder``, or text in pypaimon's SQL.
        dry_run: count rows and data files, write nothing.

    Returns:
        The counts; `commit` has no id if no row matched.

    Raises:
        NotFoundError: the table, a column or a data file does not exist.
        InvalidInputError: the filter cannot be parsed or does not fit its columns, or the permission to write is
        missing.
        UnsupportedError: a primary-key table, a table without deletion vectors, one that pypaimon opened at an older
            state, or an unknown method of a predicate.
        CorruptDataError: a file is damaged.
        ConflictError: another commit changed the same data files or vectors; the table is unchanged.
        CommitUnknownError: it is unknown whether the commit happened; no file was removed.

    Examples:
        >>> pf.paimon.delete(table, "id < 10").rows_deleted
        10
    """
    started, working = time.perf_counter(), WorkingTable(table)
    predicate = working.parse(row_filter) if isinstance(row_filter, str) else row_filter
    if not hasattr(predicate, "method"):
        raise InvalidInputError(
            f"row_filter: expected a predicate of pypaimon or text, found {type(predicate).__name__}"
        )
    expression, columns = expression_of(predicate, working.schema), sorted(columns_of(predicate))
    found: _Found = []
    for file in working.files(without_floats(predicate, working.schema)):
        rows = working.rows(file, columns).append_column(_POSITION, pa.array(np.arange(file.n_rows)))
        try:
            matches = rows.filter(expression)[_POSITION]
        except pa.ArrowException as error:
            raise InvalidInputError(f"row_filter on {', '.join(columns)}: {error}") from error
        if len(matches):
            found.append((file, PositionBitmap.from_positions(matches)))
    return _delete(working, found, started, dry_run=dry_run)


@until_commit()
def delete_positions(table: Any, deletes: Mapping[str, Any], *, dry_run: bool = False) -> DeleteResult:
    """Deletes rows of an append table by data file and position, in one commit.

    Args:
        table: as for `delete`.
        deletes: maps names (or paths) of data files to positions: a `PositionBitmap`, or an argument of
            `PositionBitmap.from_positions`. Repeated and deleted positions are ignored.
        dry_run: as for `delete`.

    Raises:
        NotFoundError: a name is not a live data file.
        InvalidInputError: a position is not less than the row count of its data file.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> result = pf.paimon.delete(table, "id < 10")
        >>> name = pf.paimon.vectors(table)["file_name"][0].as_py()
        >>> pf.paimon.delete_positions(table, {name: [9, 10]}).rows_deleted
        1
    """
    started, working = time.perf_counter(), WorkingTable(table)
    files = {file.name: file for file in working.files()}
    found: dict[str, PositionBitmap] = {}
    for path, given in deletes.items():
        positions = given if isinstance(given, PositionBitmap) else PositionBitmap.from_positions(given)
        file = files.get(os.path.basename(path))
        if file is None:
            raise NotFoundError(f"{path}: expected a live data file of {working.path}, found none")
        if positions and positions.max() >= file.n_rows:
            raise InvalidInputError(
                f"{path}: expected positions below {file.n_rows} (rows), found {positions.max()}"
            )
        known = found.get(file.name)
        found[file.name] = positions if known is None else known | positions
    pairs = [(files[name], positions) for name, positions in found.items()]
    return _delete(working, pairs, started, dry_run=dry_run)


@until_commit()
def convert_vectors(table: Any, *, version: int = 2, dry_run: bool = False) -> DeleteResult:
    """Rewrites the deletion vectors of an append table that are of another version, in one commit.

    Paimon in Java only merges into vectors of the version that the table option `deletion-vectors.bitmap64` selects.
    After this function, all vectors have this version.

    Args:
        table: as for `delete`.
        version: 2 if `deletion-vectors.bitmap64` is true, else 1.
        dry_run: count vectors, write nothing.

    Raises:
        InvalidInputError: the version is not 1 or 2.
        UnsupportedError: the table option selects the other version; or as `delete`.
        LimitExceededError: a position above 2^31 - 1 for version 1.
        CorruptDataError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> pf.paimon.convert_vectors(table).commit.id is None  # the table has none
        True
    """
    if version not in (1, 2):
        raise InvalidInputError(f"version: expected 1 or 2, found {version!r}")
    started, working = time.perf_counter(), WorkingTable(table)
    if working.version != version:
        raise UnsupportedError(
            f"{working.path}: its vectors are of version {working.version}: set 'deletion-vectors.bitmap64' = "
            f"'{str(version == 2).lower()}' first"
        )
    changes = _Changes(working)
    for index in working.index_files:
        vectors = working.vectors(index, index.ranges)
        for name, vector in vectors.items():
            if codec.version_of(vector.record) != version:
                changes.put(index, name, vector.positions, index, vectors)
    written = changes.n_vectors
    snapshot, n_bytes = (None, 0) if dry_run else changes.commit()
    return DeleteResult(_commit(snapshot, n_bytes, started), vectors_written=written)


def _delete(working: WorkingTable, found: _Found, started: float, *, dry_run: bool) -> DeleteResult:
    indexes: dict[str, list[IndexFile]] = {}
    for index in working.index_files:
        for name in index.ranges:
            indexes.setdefault(name, []).append(index)
    changes, rows, merged = _Changes(working), 0, 0
    for file, positions in found:
        known = _index_of(file, indexes.get(file.name, []), working)
        n_before = 0
        if known is not None:
            (before,) = working.vectors(known, [file.name]).values()
            if before.positions and before.positions.max() >= file.n_rows:
                raise CorruptDataError(
                    "deletion vector",
                    path=known.path,
                    expected=f"positions below {file.n_rows} (rows of {file.path})",
                    found=before.positions.max(),
                )
            n_before = len(before.positions)
            positions = before.positions | positions
        if len(positions) == n_before:
            continue
        rows += len(positions) - n_before
        merged += known is not None
        changes.put(file, file.name, positions, known)
    written, (snapshot, n_bytes) = changes.n_vectors, (None, 0) if dry_run else changes.commit()
    return DeleteResult(
        _commit(snapshot, n_bytes, started),
        rows_deleted=rows,
        data_files=written,
        vectors_written=written,
        vectors_merged=merged,
    )


def _commit(snapshot: int | None, n_bytes: int, started: float) -> Commit:
    attempts = int(snapshot is not None)
    return Commit(snapshot, attempts, n_bytes=n_bytes, seconds=time.perf_counter() - started)


def _index_of(file: DataFile, known: list[IndexFile], working: WorkingTable) -> IndexFile | None:
    """Returns the index file with the vector of a data file, None without one.

    pypaimon finds it by the values of the partition, Java by the bytes.
    """
    same = [
        index
        for index in known
        if index.group == file.group or (index.values, index.bucket) == (file.values, file.bucket)
    ]
    if len(same) > 1:
        raise CorruptDataError(
            f"vectors of data file {file.name}", path=working.path, expected=1, found=len(same)
        )
    others = {index.group: index for index in known if index not in same}
    for live in working.files() if others else ():
        if live.name == file.name:
            others.pop(live.group, None)
    for other in others.values():
        raise CorruptDataError(
            f"partition and bucket of the vector of {file.name}",
            path=working.path,
            expected=(file.values, file.bucket),
            found=(other.values, other.bucket),
        )
    return same[0] if same else None


@dataclass
class _Replaced:
    """An index file that is replaced.

    Attributes:
        index: the index file.
        names: the data files that get another vector.
        vectors: its vectors, if they were read.
    """

    index: IndexFile
    names: set[str]
    vectors: Mapping[str, StoredVector] | None


class _Changes:
    """New vectors of one commit, and the index files that they replace."""

    def __init__(self, working: WorkingTable) -> None:
        self._working = working
        self._put: dict[Group, dict[str, PositionBitmap]] = {}
        self._partitions: dict[Group, Any] = {}
        self._replaced: dict[str, _Replaced] = {}
        self.n_vectors = 0

    def put(
        self,
        place: DataFile | IndexFile,
        name: str,
        positions: PositionBitmap,
        old: IndexFile | None,
        vectors: Mapping[str, StoredVector] | None = None,
    ) -> None:
        """Adds the new vector of a data file.

        Args:
            place: has the partition and bucket of the new index file.
            name: the name of the data file.
            positions: all deleted ones.
            old: the index file with its vector so far.
            vectors: those of `old`, if they were read.

        Raises:
            UnsupportedError: a partition value is NaN: pypaimon does not find the data file when it commits.
        """
        if any(value != value for value in place.values):
            raise UnsupportedError(
                f"{self._working.path}: deletes in the partition {place.values}: pypaimon does not find its files"
            )
        self._put.setdefault(place.group, {})[name] = positions
        self._partitions[place.group] = place.partition
        self.n_vectors += 1
        if old is not None:
            self._replaced.setdefault(old.path, _Replaced(old, set(), vectors)).names.add(name)
            self._partitions.setdefault(old.group, old.partition)

    def _records(self, group: Group) -> dict[str, tuple[bytes, int]]:
        """Record and cardinality of each vector of a new index file: the new ones, and those of replaced files."""
        version = self._working.version
        records = {
            name: (codec.encode(positions, version=version), len(positions))
            for name, positions in self._put.get(group, {}).items()
        }
        for old in self._replaced.values():
            if old.index.group == group:
                stay = [name for name in old.index.ranges if name not in old.names]
                stored = old.vectors or self._working.vectors(old.index, stay)
                for name in stay:
                    records[name] = stored[name].record, len(stored[name].positions)
        return records

    def commit(self) -> tuple[int | None, int]:
        """Commits; returns the new snapshot (None if there is nothing to do) and the size of its index files."""
        if not self._put:
            return None, 0
        added: list[IndexFile] = []
        try:
            for group, partition in self._partitions.items():
                if records := self._records(group):
                    added.append(self._working.write_index(partition, group[1], records))
        except BaseException as error:
            self._working.discard(added)
            note_outcome(error, nothing_committed(len(added)))
            raise
        snapshot = self._working.commit(added, [old.index for old in self._replaced.values()])
        return snapshot, sum(index.meta.file_size for index in added)
