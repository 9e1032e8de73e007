"""Sets some columns of the rows that have a given key: the others keep their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from puffin_fast.columns.plain_types import one_array
from puffin_fast.iceberg.dml.replacement import Replacement
from puffin_fast.iceberg.plan.files import FileTask, plan_snapshot
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.outcome import merge_rows, paths_of_rows
from puffin_fast.rows.keys.key_columns import column_of, to_key_type
from puffin_fast.rows.match.given_rows import RowWriterSchema
from puffin_fast.rows.match.matching import Counts, Source
from puffin_fast.rows.match.same_values import same_values
from puffin_fast.rows.scan.file_reader import reader_factory
from puffin_fast.rows.scan.located_rows import LocatedRows

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.compat.working_table import WorkingTable

__all__ = ["update_columns"]


def update_columns(
    table: WorkingTable,
    base: Snapshot | None,
    source: Source,
    columns: Sequence[str],
    *,
    insert: bool,
    skip_unchanged: bool,
    threads: int | None,
) -> tuple[Counts, Replacement]:
    """Returns the counts of given rows, and the rows to delete and to write. The rows with a given key are in memory.

    Args:
        table: of the job.
        base: the head of the branch.
        source: the given rows. Each row of the table with a key of theirs is changed, also if several have one key.
        columns: the names of the columns to set.
        insert: whether given rows with a new key are written; they then have all columns.
        skip_unchanged: whether rows that have the given values already are left as they are.
        threads: number of files read at a time.
    """
    schema, tasks = table.schema(), list[FileTask]()
    if base is not None:
        tasks = plan_snapshot(table, base, schema, source.keys, metrics=True).tasks
    lineage = ["_row_id"] if table.metadata.format_version > 2 else []
    found = LocatedRows.read(
        reader_factory(table, source.keys), schema.fields, tasks, lineage, threads=threads
    )
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
    if len(counts.written):
        written.append(source.take(counts.written))
    if not written:
        written = [RowWriterSchema(schema, found.rows.schema).table(found.rows)]
    row_ids = pa.nulls(int(changes.sum()), pa.int64())
    if lineage:
        row_ids = found.metadata["_row_id"].combine_chunks().filter(pa.array(changes))
    return counts, Replacement(
        merge_rows(
            tasks,
            found.file[counts.replaced],
            found.position[counts.replaced],
            DeleteLoader(table.io),
            threads,
        ),
        pa.concat_tables(written),
        pa.concat_arrays([row_ids, pa.nulls(len(counts.written), pa.int64())]),
        paths_of_rows(tasks, found.file),
        source.keys.may_match(schema),
    )


def _empty(kind: Any) -> Any:
    return np.empty(0, kind)


def _counts(places: Any, changes: Any, n_rows: int, n_keys: int, *, insert: bool) -> Counts:
    """The counts; `written` are the given rows with a new key.

    Args:
        places: for each row of the table the number of the given row.
        changes: mask of those that get other values.
        n_rows: number of the given rows that are written.
        n_keys: number of all given rows: those after `n_rows` delete their key.
        insert: as `update_columns`.
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
