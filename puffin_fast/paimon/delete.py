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

from puffin_fast._runtime.html import HtmlFields
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import paimon as codec
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.paimon.compat import DataFile, IndexFile, Key, StoredVector, WorkingTable
from puffin_fast.paimon.predicates import columns_of, expression_of

__all__ = ["DeleteResult", "convert_vectors", "delete", "delete_positions"]

_POSITION = "__position"


@dataclass(frozen=True)
class DeleteResult(HtmlFields):
    """The result of a delete or a conversion.

    Attributes:
        snapshot_id: the new snapshot; None if there was nothing to do, and nothing was committed.
        rows_deleted: number of newly deleted rows.
        data_files: number of data files with newly deleted rows.
        vectors_written: number of deletion vectors written.
        vectors_merged: number of data files whose new deletes include earlier ones.
        n_bytes: size of the new index files.
        seconds: wall time.
    """

    snapshot_id: int | None
    rows_deleted: int = 0
    data_files: int = 0
    vectors_written: int = 0
    vectors_merged: int = 0
    n_bytes: int = 0
    seconds: float = 0.0


def delete(table: Any, row_filter: Any, *, dry_run: bool = False) -> DeleteResult:
    """Deletes the rows of an append table for which a filter is true, in one commit.

    Rows for which the filter is unknown, such as a comparison with NULL, are not deleted. Data files whose statistics
    exclude a match are not read.

    Args:
        table: of pypaimon, or the path of a table in a warehouse.
        row_filter: a predicate of pypaimon's `PredicateBuilder`, or text in pypaimon's SQL.
        dry_run: count rows and data files, write nothing.

    Returns:
        The counts; `snapshot_id` is None if no row matched.

    Raises:
        NotFoundError: the table, a column or a data file does not exist.
        InvalidInputError: the filter cannot be parsed or does not fit its columns, or the permission to write is
        missing.
        UnsupportedError: a primary-key table, a table without deletion vectors, or an unknown method of a predicate.
        CorruptDataError: a file is damaged.
        ConflictError: another commit changed the same data files or vectors; the table is unchanged.
        CommitUnknownError: it is unknown whether the commit happened; no file was removed.
    """
    started, working = time.perf_counter(), WorkingTable(table)
    predicate = working.parse(row_filter) if isinstance(row_filter, str) else row_filter
    if not hasattr(predicate, "method"):
        raise InvalidInputError(
            f"row_filter: expected a predicate of pypaimon or text, found {type(predicate).__name__}"
        )
    expression, columns = expression_of(predicate, working.schema), sorted(columns_of(predicate))
    found = {}
    for file in working.files(predicate):
        rows = working.rows(file, columns).append_column(_POSITION, pa.array(np.arange(file.n_rows)))
        try:
            matches = rows.filter(expression)[_POSITION]
        except pa.ArrowException as error:
            raise InvalidInputError(f"row_filter on {', '.join(columns)}: {error}") from error
        if len(matches):
            found[file.key] = file, PositionBitmap.from_positions(matches)
    return _delete(working, found, started, dry_run=dry_run)


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
    """
    started, working = time.perf_counter(), WorkingTable(table)
    files = {file.key[2]: file for file in working.files()}
    found: dict[Key, tuple[DataFile, PositionBitmap]] = {}
    for path, given in deletes.items():
        positions = given if isinstance(given, PositionBitmap) else PositionBitmap.from_positions(given)
        file = files.get(os.path.basename(path))
        if file is None:
            raise NotFoundError(f"{path}: expected a live data file of {working.path}, found none")
        if positions and positions.max() >= file.n_rows:
            raise InvalidInputError(
                f"{path}: expected positions below {file.n_rows} (rows), found {positions.max()}"
            )
        known = found.get(file.key)
        found[file.key] = file, positions if known is None else known[1] | positions
    return _delete(working, found, started, dry_run=dry_run)


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
        if any(codec.version_of(vector.record) != version for vector in vectors.values()):
            changes.replace(index, vectors)
            for name, vector in vectors.items():
                if codec.version_of(vector.record) != version:
                    changes.put(
                        (index.partition, index.bucket, name), index.entry.partition, vector.positions
                    )
    written = changes.n_vectors
    snapshot, n_bytes = (None, 0) if dry_run else changes.commit()
    return DeleteResult(
        snapshot, vectors_written=written, n_bytes=n_bytes, seconds=time.perf_counter() - started
    )


def _delete(
    working: WorkingTable,
    found: Mapping[Key, tuple[DataFile, PositionBitmap]],
    started: float,
    *,
    dry_run: bool,
) -> DeleteResult:
    indexes = {
        (index.partition, index.bucket, name): index for index in working.index_files for name in index.ranges
    }
    elsewhere: dict[str, list[Key]] = {}
    for key in indexes:
        elsewhere.setdefault(key[2], []).append(key)
    changes, rows, merged = _Changes(working), 0, 0
    for key, (file, positions) in found.items():
        index = indexes.get(key)
        if index is None and (others := elsewhere.get(key[2])):
            _check_live(working, others, key)
        if index is not None:
            (before,) = working.vectors(index, [key[2]]).values()
            if before.positions and before.positions.max() >= file.n_rows:
                raise CorruptDataError(
                    "deletion vector",
                    path=index.path,
                    expected=f"positions below {file.n_rows} (rows of {file.path})",
                    found=before.positions.max(),
                )
            n_before = len(before.positions)
            positions = before.positions | positions
        else:
            n_before = 0
        if len(positions) == n_before:
            continue
        rows += len(positions) - n_before
        merged += index is not None
        if index is not None:
            changes.replace(index)
        changes.put(key, file.split.partition, positions)
    written, (snapshot, n_bytes) = changes.n_vectors, (None, 0) if dry_run else changes.commit()
    return DeleteResult(snapshot, rows, written, written, merged, n_bytes, time.perf_counter() - started)


def _check_live(working: WorkingTable, others: list[Key], key: Key) -> None:
    """Refuses vectors for a data file's name in partitions and buckets without such a file: they are the file's."""
    live = {file.key for file in working.files()}
    for other in others:
        if other not in live:
            raise CorruptDataError(
                f"partition and bucket of the vector of {key[2]}",
                path=working.path,
                expected=key[:2],
                found=other[:2],
            )


class _Changes:
    """New vectors of one commit, and the index files that they replace."""

    def __init__(self, working: WorkingTable) -> None:
        self._working = working
        self._put: dict[tuple[Any, ...], dict[str, PositionBitmap]] = {}
        self._partitions: dict[tuple[Any, ...], Any] = {}
        self._replaced: dict[str, tuple[IndexFile, Mapping[str, StoredVector] | None]] = {}
        self.n_vectors = 0

    def put(self, key: Key, partition: Any, positions: PositionBitmap) -> None:
        """Adds the new vector of a data file."""
        self._working.check_partition(partition)
        self._put.setdefault(key[:2], {})[key[2]] = positions
        self._partitions[key[:2]] = partition
        self.n_vectors += 1

    def replace(self, index: IndexFile, vectors: Mapping[str, StoredVector] | None = None) -> None:
        """Replaces an index file; the vectors of its other data files are copied."""
        self._replaced.setdefault(index.path, (index, vectors))

    def commit(self) -> tuple[int | None, int]:
        """Commits; returns the new snapshot (None if there is nothing to do) and the size of its index files."""
        if not self._put:
            return None, 0
        working = self._working
        added: list[IndexFile] = []
        try:
            for group, vectors in self._put.items():
                records = {
                    name: (codec.encode(positions, version=working.version), len(positions))
                    for name, positions in vectors.items()
                }
                for index, known in self._replaced.values():
                    if (index.partition, index.bucket) == group:
                        stay = [name for name in index.ranges if name not in vectors]
                        stored = working.vectors(index, stay) if known is None else known
                        for name in stay:
                            records[name] = stored[name].record, len(stored[name].positions)
                added.append(working.write_index(self._partitions[group], group[1], records))
        except BaseException:
            working.discard(added)
            raise
        snapshot = working.commit(added, [index for index, _ in self._replaced.values()])
        return snapshot, sum(index.entry.index_file.file_size for index in added)
