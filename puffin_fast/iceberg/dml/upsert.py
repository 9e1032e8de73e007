"""Rows replaced by key, and those inserted that have no row yet: vectors and new data files in one commit."""

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
    """What an upsert did.

    Attributes:
        snapshot_id: the new snapshot; None when nothing was to be changed, and so nothing was committed.
        rows_updated: given rows that replaced one or several rows.
        rows_inserted: given rows whose key no row had.
        rows_unchanged: given rows that stand in the table already, and were left as they are.
        rows_deleted: rows that were replaced; more than `rows_updated` where a key was there repeatedly.
        data_files_written: that hold the new rows.
        delete_files_written: vectors, or position-delete files in a table of format version 2.
        n_bytes: bytes of delete files written.
        seconds: wall time.
        attempts: commits tried; 1 without a race, 0 without a commit.
        repeated: the job id was in the branch's history already, and nothing was done.
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
    """Replaces the rows that have the key of a given row, and inserts the given rows that have none, in one commit.

    Afterwards each given row stands in the table once: where several rows had its key, all of them go.
    PyIceberg's own upsert, which rewrites data files, refuses such tables, and inserts rows with a null in
    their key anew each time. Rows keep their row ids through an update (version 3).

    Args:
        table: a PyIceberg table of format version 3 or 2; loaded anew first, moved to the new metadata.
        data: Arrow rows with all columns of the table: rows are replaced whole. Held in memory.
        on: the key's column or columns; by default the identifier fields of the table's schema. Keys are equal as
            `delete_keys` has it.
        update: False leaves rows that are there alone.
        insert: False leaves out the given rows whose key no row has.
        skip_unchanged: compare the other columns too, and leave a row that is the same in all of them (floats
            bit by bit); else every row with a given key is written anew.
        branch: an existing branch.
        on_conflict, job_id, snapshot_properties, threads: as `delete`. Data files with a given key that another commit
            brings meanwhile are always looked at.
        dry_run: count rows, write nothing.

    Returns:
        What was done.

    Raises:
        InvalidInputError: rows that do not fit the table's schema, a column missing, two rows with one key, a
            null in a key, or neither update nor insert.
        NotFoundError: a key column or branch that is not there.
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
    """The given rows, and where each key stands among them."""

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
                f"data: no column {', '.join(missing)}; rows are replaced whole, so all columns are needed"
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
        """The numbers of keys that are all in the set."""
        by_id = {f.field_id: column for (_, f), column in zip(self.fields, columns, strict=True)}
        found: npt.NDArray[np.int64] = (
            self.keys.set.index(by_id).to_numpy(zero_copy_only=False).astype(np.int64)
        )
        return found


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)


@dataclass
class _Matches:
    """Live rows that have a given key: one item per match in each array.

    Attributes:
        tasks: data files with matches.
        file: number of its data file.
        position: in that file.
        source: number of the given row.
        same: it is the given row already.
        row_id: -1 where it has none.
    """

    tasks: list[FileTask] = field(default_factory=list)
    file: Any = field(default_factory=lambda: np.empty(0, np.int64))
    position: Any = field(default_factory=lambda: np.empty(0, np.int64))
    source: Any = field(default_factory=lambda: np.empty(0, np.int64))
    same: Any = field(default_factory=lambda: np.empty(0, np.bool_))
    row_id: Any = field(default_factory=lambda: np.empty(0, np.int64))


def _find(table: Table, base: Snapshot, source: _Source, *, compared: bool, threads: int | None) -> _Matches:
    """Reads the rows that have a given key; all their columns where they are to be compared."""
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
        for batch in reader.read(split):
            columns = [to_key_type(column_of(batch, name), f, name)[0] for name, f in source.fields]
            places = source.places(columns)
            same = np.full(len(places), bool(given))
            for name, column in given.items():
                same &= _same(column.take(pa.array(places)), batch.column(name))
            ids = np.full(len(places), -1)
            if ROW_ID.name in batch.schema.names:
                ids = batch.column(ROW_ID.name).fill_null(-1).to_numpy(zero_copy_only=False)
            number = np.full(len(places), numbers[id(split.task)])
            yield number, batch.column("_pos").to_numpy(), places, same, ids

    splits = (split for task in tasks for split in splits_of(task, len(tasks), workers))
    found = list(in_order(splits, work, workers))
    if not found:
        return _Matches()
    return _Matches(tasks, *(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _same(left: Any, right: Any) -> Any:
    """Row by row, whether two arrays hold the same; null is the same as null, floats are by their bits."""
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
    """What becomes of the given rows.

    Attributes:
        replaced: of each match, whether the row goes.
        written: numbers of the given rows that are written.
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
        there = count > 0
        unchanged = there & (same & (count == 1) if update else True)
        updated = there & ~unchanged
        inserted = ~there if insert else np.zeros(n_rows, np.bool_)
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
    """Writes the deletes and the new rows of one commit; or counts the rows that would be deleted."""
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
    """The new rows; those that replace a row carry its id (specification, "Row Lineage")."""
    rows = source.rows.take(pa.array(done.written))
    ids = np.full(source.rows.num_rows, -1)
    ids[matches.source[::-1]] = matches.row_id[::-1]
    ids = ids[done.written]
    if not (ids >= 0).any() or ROW_ID.name in table.schema().column_names:
        return rows, []
    rows = rows.append_column(ROW_ID.name, pa.array(ids, mask=ids < 0))
    return rows, [NestedField(ROW_ID.field_id, ROW_ID.name, LongType(), required=False)]
