"""Upserts rows by key in one commit: vectors for the replaced rows, data files for the given ones."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from puffin_fast._runtime.arguments import check_flags, check_texts
from puffin_fast._runtime.html import HtmlFields
from puffin_fast._runtime.threads import check_threads
from puffin_fast.columns.arrow_rows import arrow_rows
from puffin_fast.delta.dml.changes import allowed, write_vectors
from puffin_fast.delta.dml.replacement import Replaced, Replacement
from puffin_fast.delta.log.commit import Changes, Job, OnConflict, commit
from puffin_fast.delta.log.protocol import CHANGE_DATA_FEED, check_committable, check_rows_writable, is_set
from puffin_fast.delta.log.snapshot import Snapshot, snapshot
from puffin_fast.delta.log.storage import storage_of
from puffin_fast.delta.read.plan import DeltaPlan, DeltaTable, plan_files
from puffin_fast.dv import delta as codec
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.outcome import merge_rows
from puffin_fast.rows.match.duplicate_keys import OnDuplicateKeys, refuses_duplicates
from puffin_fast.rows.match.matching import Counts, Matches, Source, check_clauses, find_matches, row_ids

__all__ = ["UpsertResult", "upsert"]


@dataclass(frozen=True)
class UpsertResult(HtmlFields):
    """The result of an upsert.

    Attributes:
        version: the new version; None if there was no change to commit.
        rows_updated: number of given rows that replaced one or several rows.
        rows_inserted: number of given rows whose key was new.
        rows_unchanged: number of given rows that were not written although the table has their key: it has equal
            rows, or `when_matched_update_all` is off.
        rows_deleted: number of replaced rows; more than `rows_updated` if several rows had one key.
        data_files_written: number of data files with the given rows.
        vectors_written: number of deletion vectors written.
        n_bytes: size of the files of vectors.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the log already, and nothing was done.
    """

    version: int | None
    rows_updated: int = 0
    rows_inserted: int = 0
    rows_unchanged: int = 0
    rows_deleted: int = 0
    data_files_written: int = 0
    vectors_written: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False


def upsert(
    table: Any,
    data: Any,
    join_cols: str | Sequence[str],
    *,
    when_matched_update_all: bool = True,
    when_not_matched_insert_all: bool = True,
    skip_unchanged: bool = True,
    duplicate_keys: OnDuplicateKeys = "refuse",
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
) -> UpsertResult:
    """Replaces the rows whose key is given, and inserts the given rows whose key is new, in one commit.

    Afterwards each given row is in the table once. Replaced rows get deletion vectors; the new rows keep their row ids.
    Files that concurrent commits add are always searched for the given keys.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        data: Arrow rows with all columns of the table, because whole rows are replaced. Held in memory.
        join_cols: the key column or columns, compared as in `delete_keys`.
        when_matched_update_all: whether existing rows are replaced.
        when_not_matched_insert_all: whether given rows with a new key are inserted.
        skip_unchanged: whether the other columns are compared, and equal rows are not written.
        duplicate_keys: as `puffin_fast.iceberg.upsert`.
        on_conflict, job_id, snapshot_properties, threads, filesystem: as `delete`.
        dry_run: count rows, write nothing.

    Returns:
        The counts; `version` is None if there was nothing to change.

    Raises:
        InvalidInputError: the rows do not fit the table's schema, a column is missing, two rows have one key, a key
            has a null, a given row would replace several rows (see `duplicate_keys`), or both
            `when_matched_update_all` and `when_not_matched_insert_all` are False.
        NotFoundError: the table or a key column does not exist.
        UnsupportedError: the table has CHECK constraints, generated or identity columns; also as `delete`.
        CorruptDataError, ConflictError, CommitUnknownError: as `delete`.
    """
    check_threads(threads)
    check_flags(skip_unchanged=skip_unchanged, dry_run=dry_run)
    refused = refuses_duplicates(duplicate_keys)
    update, insert = when_matched_update_all, when_not_matched_insert_all
    check_clauses(update, insert)
    started = time.perf_counter()
    storage = storage_of(table, filesystem)
    names = [join_cols] if isinstance(join_cols, str) else check_texts("join_cols", join_cols)
    first = snapshot(storage)
    check_committable(first.protocol, first.configuration, first.root)
    source = Source.of(DeltaTable.of(first).metadata, arrow_rows(data, "data", streamed=False), names)
    n_rows = source.rows.num_rows

    def plan(base: Snapshot) -> _Planned:
        current = DeltaTable.of(base)
        check_rows_writable(base.configuration, base.delta_schema["fields"], base.root)
        files = plan_files(current, source.keys)
        matches = Matches()
        if n_rows:
            matches = _find(current, files, source, compared=update and skip_unchanged, threads=threads)
        counts = Counts.of(matches, n_rows, update=update, insert=insert)
        if refused:
            counts.duplicates.refuse(names)
        chosen, loader = counts.replaced, DeleteLoader(storage, codec.decode)
        deletes = merge_rows(files.tasks, matches.file[chosen], matches.position[chosen], loader, threads)
        if dry_run:
            write_vectors(storage, allowed(base, deletes), dry_run=True)
            return _Planned(counts)
        feed = {}
        if is_set(base.configuration, CHANGE_DATA_FEED):
            feed = _feed(current, files, source, matches, counts, threads)
        replacement = Replacement(
            deletes,
            source.take(counts.written),
            row_ids(source, matches, counts),
            feed,
        )
        replaced = replacement.write(
            current,
            "MERGE",
            parameters={"predicate": json.dumps(names)},
            metrics={"numTargetRowsUpdated": counts.updated, "numTargetRowsInserted": counts.inserted},
            looks_at_appends=True,
        )
        return _Planned(counts, replaced)

    planned, committed = commit(
        storage,
        plan,
        on_conflict=on_conflict,
        job=Job("upsert", job_id),
        snapshot_properties=snapshot_properties,
    )
    planned = planned or _Planned()
    counts, written = planned.counts, planned.replaced.written
    return UpsertResult(
        committed.version,
        counts.updated,
        counts.inserted,
        counts.unchanged,
        int(counts.replaced.sum()),
        planned.replaced.data_files,
        written.vectors,
        written.n_bytes,
        time.perf_counter() - started,
        committed.attempts,
        committed.repeated,
    )


@dataclass(frozen=True)
class _Planned:
    """An upsert planned on one version: the counts of given rows, and what was written."""

    counts: Counts = field(default_factory=Counts)
    replaced: Replaced = field(default_factory=Replaced)

    @property
    def changes(self) -> Changes | None:
        return self.replaced.changes


def _find(
    table: DeltaTable, files: DeltaPlan, source: Source, *, compared: bool, threads: int | None
) -> Matches:
    return find_matches(
        files.tasks,
        source,
        table.schema.schema.fields,
        table.reader_factory(source.keys),
        compared=compared,
        row_ids=True,
        threads=threads,
    )


def _feed(
    table: DeltaTable,
    files: DeltaPlan,
    source: Source,
    matches: Matches,
    counts: Counts,
    threads: int | None,
) -> dict[str, pa.Table]:
    """Returns the rows of the change data feed; all columns of the old rows are read for it."""
    is_update = np.isin(counts.written, matches.source)
    before = table.rows(files.tasks, source.keys, threads=threads).rows
    return {
        "update_preimage": before.filter(pa.array(counts.replaced)),
        "update_postimage": source.take(counts.written[is_update]),
        "insert": source.take(counts.written[~is_update]),
    }
