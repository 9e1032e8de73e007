"""Sets some columns of the rows that have a given key; other columns keep their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from puffin_fast.columns.plain_types import one_array
from puffin_fast.rows.deletes.outcome import NewDeletes, merge_rows, paths_of_rows
from puffin_fast.rows.keys.key_columns import column_of, to_key_type
from puffin_fast.rows.match.given_rows import RowWriterSchema
from puffin_fast.rows.match.matching import Counts, Source
from puffin_fast.rows.match.same_values import same_values
from puffin_fast.rows.scan.located_rows import LocatedRows
from puffin_fast.rows.tasks import Task
from puffin_fast.verbs.attempt import Attempt


@dataclass(frozen=True)
class ReplacedRows:
    """Rows that replace others.

    Attributes:
        deletes: the deletes of the old rows.
        rows: the new rows.
        row_ids: for each new row the id of the row that it replaces, else null.
        sources: the data files that the new rows were computed from.
        feed: rows of the change data feed, by type of change.
    """

    deletes: Iterable[NewDeletes]
    rows: pa.Table
    row_ids: pa.Array
    sources: frozenset[str]
    feed: Mapping[str, pa.Table] = field(default_factory=dict)


def updated_columns(
    attempt: Attempt,
    tasks: Sequence[Task],
    found: LocatedRows,
    source: Source,
    columns: Sequence[str],
    *,
    insert: bool,
    skip_unchanged: bool,
    feed: bool,
) -> tuple[Counts, ReplacedRows]:
    """Returns the counts of given rows, and the rows to delete and to write.

    Args:
        attempt: the attempt of the upsert.
        found: the rows of these files that have a given key. All of them are changed, also if several have the same
            key.
        source: the given rows.
        columns: the names of the columns to set.
        insert: whether given rows with a new key are written; they then have all columns.
        skip_unchanged: whether rows that already have the given values are left as they are.
        feed: whether the rows of the change data feed are needed.
    """
    schema, lineage = attempt.schema, attempt.lineage
    given = {name: one_array(source.rows[name]) for name in columns}
    places, changes, batches = _empty(np.int64), _empty(np.bool_), []
    for batch in found.rows.to_batches():
        keys = [to_key_type(column_of(batch, name), field, name)[0] for name, field in source.fields]
        of_batch = source.places(keys)
        deletes = of_batch >= source.rows.num_rows
        same, new = (
            np.ones(batch.num_rows, np.bool_),
            dict(zip(batch.schema.names, batch.columns, strict=True)),
        )
        for name, values in given.items():
            new[name] = values.take(pa.array(of_batch, mask=deletes))
            same &= same_values(new[name], batch.column(name))
        changed = ~deletes & ~(same & skip_unchanged)
        batches.append(pa.table(new).filter(pa.array(changed)))
        places, changes = np.append(places, of_batch), np.append(changes, changed)
    n_rows = source.rows.num_rows
    counts = _counts(places, changes, n_rows, source.n_keys, insert=insert)
    written = [RowWriterSchema(schema, rows.schema).table(rows) for rows in batches]
    if not written:
        written = [RowWriterSchema(schema, found.rows.schema).table(found.rows)]
    recorded = {}
    if feed:
        recorded = {
            "update_preimage": found.rows.filter(pa.array(changes)),
            "update_postimage": pa.concat_tables(written),
            "insert": source.take(counts.written) if len(counts.written) else written[0].slice(0, 0),
            "delete": found.rows.filter(pa.array(counts.replaced & ~changes)),
        }
    if len(counts.written):
        written.append(source.take(counts.written))
    row_ids = pa.nulls(int(changes.sum()), pa.int64())
    if lineage:
        row_ids = found.metadata["_row_id"].combine_chunks().filter(pa.array(changes))
    file, position = found.file[counts.replaced], found.position[counts.replaced]
    return counts, ReplacedRows(
        merge_rows(tasks, file, position, attempt.loader(), attempt.threads),
        pa.concat_tables(written),
        pa.concat_arrays([row_ids, pa.nulls(len(counts.written), pa.int64())]),
        paths_of_rows(tasks, found.file),
        recorded,
    )


def _empty(kind: Any) -> Any:
    return np.empty(0, kind)


def _counts(places: Any, changes: Any, n_rows: int, n_keys: int, *, insert: bool) -> Counts:
    """Returns the counts; `written` are the given rows with a new key.

    Args:
        places: for each row of the table, the index of the given row with its key.
        changes: mask of the rows of the table whose values change.
        n_rows: number of given rows that are written.
        n_keys: number of all given rows: those after the first `n_rows` delete their key.
        insert: as in `updated_columns`.
    """
    exists = np.bincount(places, minlength=n_keys) > 0
    updated = np.bincount(places, weights=changes, minlength=n_keys) > 0
    deletes = np.arange(n_keys) >= n_rows
    inserted = ~exists & ~deletes & insert
    return Counts(
        updated=int(updated.sum()),
        inserted=int(inserted.sum()),
        unchanged=int((exists & ~updated & ~deletes).sum()),
        deleted=int((exists & deletes).sum()),
        replaced=changes | deletes[places],
        written=np.flatnonzero(inserted),
    )
