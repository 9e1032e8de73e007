"""Upserts rows by key: commits deletes of the old rows and data files of the new rows together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.types import LongType, NestedField

from puffin_fast._runtime.streams import in_order
from puffin_fast._runtime.threads import check_threads, on_threads
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.datafile.arrow_rows import arrow_rows
from puffin_fast.iceberg.datafile.conversion import arrow_type
from puffin_fast.iceberg.datafile.metadata_columns import METADATA_COLUMNS
from puffin_fast.iceberg.deletes.loader import DeleteLoader
from puffin_fast.iceberg.deletes.outcome import NewDeletes
from puffin_fast.iceberg.deletes.writer import ChangeTerms, WrittenDeletes, write_deletes
from puffin_fast.iceberg.dml.data_files import write_data_files
from puffin_fast.iceberg.dml.delete_job import OnConflict, start
from puffin_fast.iceberg.dml.delete_keys import Keys
from puffin_fast.iceberg.dml.given_rows import RowWriterSchema
from puffin_fast.iceberg.plan.files import FileTask, plan_snapshot
from puffin_fast.iceberg.predicate.key_columns import column_of, key_fields, to_key_type
from puffin_fast.iceberg.scan.file_reader import FileReader
from puffin_fast.iceberg.scan.splits import Split, splits_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.compat.working_table import WorkingTable

__all__ = ["UpsertResult", "upsert"]

ROW_ID = METADATA_COLUMNS["_row_id"]


@dataclass(frozen=True)
class UpsertResult:
    """The result of an upsert.

    Attributes:
        snapshot_id: the new snapshot; None when there was no change to commit.
        rows_updated: number of given rows that replaced one or several rows.
        rows_inserted: number of given rows whose key no row had.
        rows_unchanged: number of given rows that are in the table already, and were not written.
        rows_deleted: number of replaced rows; more than `rows_updated` if several rows had one key.
        data_files_written: number of data files with the new rows.
        delete_files_written: number of deletion vectors, or of position-delete files in a table of format
            version 2.
        n_bytes: size of the new delete files in bytes.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the branch's history already, and nothing was done.
    """

    snapshot_id: int | None
    rows_updated: int = 0
    rows_inserted: int = 0
    rows_unchanged: int = 0
    rows_deleted: int = 0
    data_files_written: int = 0
    delete_files_written: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False


def upsert(
    table: Table,
    data: Any,
    on: str | Sequence[str] | None = None,
    *,
    update: bool = True,
    insert: bool = True,
    skip_unchanged: bool = True,
    branch: str = MAIN_BRANCH,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
) -> UpsertResult:
    """Replaces the rows whose key is given, and inserts the given rows whose key is new, in one commit.

    Afterwards each given row is in the table once: if several rows had its key, all of them are deleted.
    PyIceberg's own upsert rewrites data files, raises for such tables, and inserts rows with a null in their
    key again each time. Updated rows keep their row ids (version 3).

    Args:
        table: a PyIceberg table of format version 3 or 2. It is refreshed first, and has the new metadata
            afterwards.
        data: Arrow rows with all columns of the table, because whole rows are replaced. Held in memory.
        on: the key column or columns; by default the identifier fields of the table's schema. Keys are
            compared as in `delete_keys`.
        update: False does not change rows that exist.
        insert: False skips the given rows whose key is new.
        skip_unchanged: compare the other columns too, and do not write a row that is equal in all of them
            (floats bit by bit); otherwise every row with a given key is written.
        branch: an existing branch.
        on_conflict, job_id, snapshot_properties, threads: as `delete`. Data files that a concurrent commit
            added are always checked for given keys.
        dry_run: count rows, write nothing.

    Returns:
        The counts.

    Raises:
        InvalidInputError: the rows do not fit the table's schema, a column is missing, two rows have one key,
            a key has a null, or both `update` and `insert` are False.
        NotFoundError: a key column or the branch does not exist.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.
    """
    check_threads(threads)
    if not (update or insert):
        raise InvalidInputError("update=False, insert=False: nothing would be done")
    rows = arrow_rows(data, "data", streamed=False)
    job = start(table, branch, job_id, oldest=2)
    table = job.table
    metadata = table.metadata
    source = _Source.of(metadata, rows, on)
    done = _Done()

    def plan(base: Snapshot | None) -> WrittenDeletes:
        nonlocal done
        matches = _Matches()
        if base is not None and rows.num_rows:
            compared = update and skip_unchanged
            matches = _find(table, base, source, compared=compared, threads=threads)
        done = _Done.of(matches, rows.num_rows, update=update, insert=insert)
        return _write(table, source, matches, done, threads, dry_run)

    result = job.run(plan, on_conflict, snapshot_properties)
    if result.repeated:
        done = _Done()
    return UpsertResult(
        snapshot_id=result.snapshot_id,
        rows_updated=done.updated,
        rows_inserted=done.inserted,
        rows_unchanged=done.unchanged,
        rows_deleted=result.rows_deleted,
        data_files_written=done.data_files,
        delete_files_written=result.vectors_written + result.position_delete_files_written,
        n_bytes=result.n_bytes,
        seconds=result.seconds,
        attempts=result.attempts,
        repeated=result.repeated,
    )


@dataclass(frozen=True)
class _Source:
    """The given rows, and their keys with row numbers."""

    rows: pa.Table
    keys: Keys
    fields: list[tuple[str, NestedField]]

    @classmethod
    def of(cls, metadata: TableMetadata, rows: pa.Table, on: str | Sequence[str] | None) -> _Source:
        schema = metadata.schema()
        fields = key_fields(schema, on)
        missing = [f.name for f in schema.fields if f.name not in rows.schema.names]
        if missing:
            raise InvalidInputError(
                f"data: no column {', '.join(missing)}; expected all columns of the table: whole rows are replaced"
            )
        rows = RowWriterSchema(schema, rows.schema).table(rows).combine_chunks()
        batch = rows.to_batches()[0] if rows.num_rows else _no_rows(rows.schema)
        columns = []
        for name, key_field in fields:
            column, _ = to_key_type(column_of(batch, name), key_field, name)
            if column.null_count:
                raise InvalidInputError(
                    f"data: null in key column {name}: expected none, found {column.null_count}"
                )
            columns.append(column)
        source = cls(rows, Keys.of(metadata, fields, columns), fields)
        if len(source.keys.set) != rows.num_rows:
            places = source.places(columns)
            twice = int(np.flatnonzero(np.bincount(places) > 1)[0])
            key = {
                name: columns[at][int(np.flatnonzero(places == twice)[0])].as_py()
                for at, (name, _) in enumerate(fields)
            }
            raise InvalidInputError(f"data: two rows with the key {key}; expected each key once")
        return source

    def places(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
        """Returns the row numbers, in `rows`, of keys that are all in the set."""
        by_id = {f.field_id: column for (_, f), column in zip(self.fields, columns, strict=True)}
        found: npt.NDArray[np.int64] = (
            self.keys.set.index(by_id).to_numpy(zero_copy_only=False).astype(np.int64)
        )
        return found


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)


@dataclass
class _Matches:
    """The live rows that have a given key; each array has one item per row.

    Attributes:
        tasks: the data files that were searched.
        file: index of the row's data file in `tasks`.
        position: position in that file.
        source: number of the given row with its key.
        same: whether the row equals the given row.
        row_id: -1 if it has none.
    """

    tasks: list[FileTask] = field(default_factory=list)
    file: Any = field(default_factory=lambda: np.empty(0, np.int64))
    position: Any = field(default_factory=lambda: np.empty(0, np.int64))
    source: Any = field(default_factory=lambda: np.empty(0, np.int64))
    same: Any = field(default_factory=lambda: np.empty(0, np.bool_))
    row_id: Any = field(default_factory=lambda: np.empty(0, np.int64))


def _find(table: Table, base: Snapshot, source: _Source, *, compared: bool, threads: int | None) -> _Matches:
    """Finds the rows that have a given key; reads all their columns if they are compared."""
    metadata, schema = table.metadata, table.schema()
    tasks = plan_snapshot(table, base, schema, source.keys, metrics=True).tasks
    tops = {name.partition(".")[0] for name, _ in source.fields}
    fields = [f for f in schema.fields if compared or f.name in tops or f.name in dict(source.fields)]
    extra = [METADATA_COLUMNS["_pos"], *([ROW_ID] if metadata.format_version > 2 else [])]
    arrow = pa.schema(
        [
            *((f.name, arrow_type(f.field_type)) for f in fields),
            *((column.name, column.type) for column in extra),
        ]
    )
    given = {f.name: source.rows[f.name].combine_chunks() for f in fields} if compared else {}
    reader = FileReader(table.io, metadata, schema, fields, extra, source.keys, arrow)
    workers = threads or pa.cpu_count()
    numbers = {id(task): number for number, task in enumerate(tasks)}

    def work(split: Split) -> Iterator[tuple[Any, ...]]:
        for read in reader.read(split):
            batch = read.select(list(range(len(fields))))  # not by name: a table may have a `_pos` of its own
            columns = [to_key_type(column_of(batch, name), f, name)[0] for name, f in source.fields]
            places = source.places(columns)
            same = np.full(len(places), bool(given))
            for name, column in given.items():
                same &= _same(column.take(pa.array(places)), batch.column(name))
            ids = np.full(len(places), -1)
            if len(extra) > 1:
                ids = read.column(len(fields) + 1).fill_null(-1).to_numpy(zero_copy_only=False)
            number = np.full(len(places), numbers[id(split.task)])
            yield number, read.column(len(fields)).to_numpy(), places, same, ids

    splits = (split for task in tasks for split in splits_of(task, len(tasks), workers))
    found = list(in_order(splits, work, workers))
    if not found:
        return _Matches()
    return _Matches(tasks, *(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _same(left: Any, right: Any) -> Any:
    """A mask of the rows where two arrays are equal; null equals null, and floats are compared by their bits."""
    if isinstance(right.type, pa.BaseExtensionType):
        left, right = left.storage, right.storage
    if pa.types.is_nested(right.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.array([a == b for a, b in pairs], np.bool_)
    if pa.types.is_floating(right.type):
        bits = pa.int32() if right.type.bit_width == 32 else pa.int64()
        left, right = left.view(bits), right.view(bits)
    equal = pc.fill_null(pc.equal(left, right), False)
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(equal, both_null).to_numpy(zero_copy_only=False)


@dataclass
class _Done:
    """The counts of an upsert, and the rows to delete and to write.

    Attributes:
        updated, inserted, unchanged: numbers of given rows.
        data_files: number of data files written.
        replaced: mask of the matches whose row is deleted.
        written: the numbers of the given rows that are written.
    """

    updated: int = 0
    inserted: int = 0
    unchanged: int = 0
    data_files: int = 0
    replaced: Any = field(default_factory=lambda: np.empty(0, np.bool_))
    written: Any = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, matches: _Matches, n_rows: int, *, update: bool, insert: bool) -> _Done:
        count = np.bincount(matches.source, minlength=n_rows)
        same = np.bincount(matches.source, weights=matches.same, minlength=n_rows) > 0
        exists = count > 0
        unchanged = exists & (same & (count == 1) if update else True)
        updated = exists & ~unchanged
        inserted = ~exists if insert else np.zeros(n_rows, np.bool_)
        return cls(
            updated=int(updated.sum()),
            inserted=int(inserted.sum()),
            unchanged=int(unchanged.sum()),
            replaced=updated[matches.source],
            written=np.flatnonzero(updated | inserted),
        )


def _write(
    table: WorkingTable,
    source: _Source,
    matches: _Matches,
    done: _Done,
    threads: int | None,
    dry_run: bool,
) -> WrittenDeletes:
    """Writes the deletes and the new rows of one commit; in a dry run counts the rows to delete."""
    current = DeleteLoader(table.io)

    def merge(number: int) -> NewDeletes:
        mine = matches.position[done.replaced & (matches.file == number)]
        return NewDeletes.merge(matches.tasks[number], PositionBitmap.from_positions(mine), current)

    numbers = [int(number) for number in np.unique(matches.file[done.replaced])]
    found = on_threads(merge, numbers, threads)
    if dry_run:
        return WrittenDeletes.counted(found)
    terms = ChangeTerms(conflict_filter=source.keys.may_match(table.schema()))
    written = WrittenDeletes.of(table, write_deletes(table, found), terms)
    if not done.written.size:
        return written
    required_data_files = {matches.tasks[number].data.file_path for number in np.unique(matches.file)}
    changes = written.changes
    rows, reserved = _rows(table, source, matches, done)
    entries = write_data_files(table, rows, reserved=reserved)
    done.data_files = len(entries)
    return replace(
        written,
        changes=replace(
            changes,
            added=(*changes.added, *entries),
            required_data_files=changes.required_data_files | required_data_files,
            new_files=(*changes.new_files, *(entry.file_path for entry in entries)),
        ),
    )


def _rows(
    table: Table, source: _Source, matches: _Matches, done: _Done
) -> tuple[pa.Table, list[NestedField]]:
    """The new rows; a row that replaces another has its row id (specification, "Row Lineage")."""
    rows = source.rows.take(pa.array(done.written))
    ids = np.full(source.rows.num_rows, -1)
    ids[matches.source[::-1]] = matches.row_id[::-1]
    ids = ids[done.written]
    if not (ids >= 0).any() or ROW_ID.name in table.schema().column_names:
        return rows, []
    rows = rows.append_column(ROW_ID.name, pa.array(ids, mask=ids < 0))
    return rows, [NestedField(ROW_ID.field_id, ROW_ID.name, LongType(), required=False)]
