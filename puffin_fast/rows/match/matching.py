"""Rows that a caller gives, matched by key with the rows of a table: which are replaced, new, or there already."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, NestedField

from puffin_fast._api.arguments import check_flags
from puffin_fast.columns.plain_types import one_array, plain_rows
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.filters.struct_path import top_names
from puffin_fast.rows.keys.key_columns import column_of, key_fields, to_key_type
from puffin_fast.rows.keys.keys import Keys
from puffin_fast.rows.match.change_feed import ChangeFeed
from puffin_fast.rows.match.duplicate_keys import DuplicateKeys
from puffin_fast.rows.match.given_rows import RowWriterSchema
from puffin_fast.rows.match.same_values import same_values
from puffin_fast.rows.scan.file_reader import ReaderFactory
from puffin_fast.rows.scan.located_rows import joined, located_groups
from puffin_fast.rows.tasks import Task

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.table.metadata import TableMetadata


def check_clauses(
    when_matched_update_all: object, when_not_matched_insert_all: object, delete_column: str | None = None
) -> None:
    """Checks that an upsert has something to do.

    Raises:
        InvalidInputError: a flag is not one, or no clause is on.
    """
    flags = {
        "when_matched_update_all": when_matched_update_all,
        "when_not_matched_insert_all": when_not_matched_insert_all,
    }
    check_flags(**flags)
    if not any(flags.values()) and delete_column is None:
        raise InvalidInputError(f"{', '.join(flags)}: expected at least one of them to be True, found False")


@dataclass(frozen=True)
class Source:
    """The given rows, and their keys with row numbers.

    Attributes:
        rows: the rows to write, in the types of the table.
        keys: the keys of these rows, and after them of the rows that delete their key.
        fields: the key columns.
        n_superseded: number of given rows that are not the last of their key.
    """

    rows: pa.Table
    keys: Keys
    fields: list[tuple[str, NestedField]]
    n_superseded: int = 0

    @property
    def n_keys(self) -> int:
        """The number of distinct keys."""
        return len(self.keys.set)

    @classmethod
    def of(
        cls,
        metadata: TableMetadata,
        rows: pa.Table,
        join_cols: str | Sequence[str] | None,
        *,
        columns: Collection[str] | None = None,
        feed: ChangeFeed = ChangeFeed(),  # noqa: B008
    ) -> Source:
        """Converts given rows.

        Args:
            metadata: the metadata of the table.
            rows: the caller's rows.
            join_cols: the key columns.
            columns: top-level columns that are written, besides the key columns; by default all of the table.
            feed: the columns of the rows that say which delete their key, and which is the last of its key.

        Raises:
            NotFoundError: the table has no such key column.
            InvalidInputError: the rows do not fit, a key has a null, or two rows have one key.
        """
        schema = metadata.schema()
        fields = key_fields(schema, join_cols)
        wanted = written_schema(schema, fields, columns)
        n_superseded, deleted = 0, None
        if feed:
            rows = plain_rows(rows)
            given = given_keys(schema, rows, fields, feed)
            by_id = {f.field_id: column for (_, f), column in zip(fields, given, strict=True)}
            numbers = Keys.of(metadata, fields, given).set.index(by_id).to_numpy(zero_copy_only=False)
            last = feed.last(rows, numbers.astype(np.int64))
            deletes = feed.deletes(rows)[last]
            n_superseded = rows.num_rows - len(last)
            deleted = [column.take(pa.array(last[deletes])) for column in given]
            rows = feed.without(rows, schema).take(pa.array(last[~deletes]))
        rows = fit(wanted, schema, rows, all_columns=rows.num_rows > 0 or feed.delete_column is None)
        keys = _key_arrays(rows, fields)
        if deleted is not None:
            keys = [pa.concat_arrays(parts) for parts in zip(keys, deleted, strict=True)]
        source = cls(rows, Keys.of(metadata, fields, keys), fields, n_superseded)
        if source.n_keys != len(keys[0]):
            names = ", ".join(name for name, _ in fields)
            raise InvalidInputError(f"data: two rows with one key ({names}); expected each key once")
        return source

    def take(self, numbers: npt.NDArray[np.int64]) -> pa.Table:
        """Returns the rows to write with some ascending, distinct numbers."""
        return self.rows if len(numbers) == self.rows.num_rows else self.rows.take(pa.array(numbers))

    def places(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.int32]:
        """Returns the row numbers, in `rows`, of keys that are all in the set."""
        by_id = {f.field_id: column for (_, f), column in zip(self.fields, columns, strict=True)}
        found: npt.NDArray[np.int32] = self.keys.set.index(by_id).to_numpy(zero_copy_only=False)
        return found


def written_schema(
    schema: Schema, keys: Sequence[tuple[str, NestedField]], columns: Collection[str] | None
) -> Schema:
    """Returns the columns that given rows must have: the key columns, and `columns` (None for all of the table)."""
    if columns is None:
        return schema
    names = top_names(schema, (field.field_id for _, field in keys)).union(columns)
    return Schema(*(field for field in schema.fields if field.name in names), schema_id=schema.schema_id)


def check_columns(wanted: Schema, schema: Schema, names: Collection[str]) -> None:
    """Checks that given rows have the wanted columns.

    Raises:
        InvalidInputError: one is missing.
    """
    given = set(names)
    missing = [field.name for field in wanted.fields if field.name not in given]
    if missing:
        what = "all columns of the table: whole rows are replaced (update_columns sets some columns of existing rows)"
        if wanted is not schema:
            what = f"the columns {', '.join(field.name for field in wanted.fields)}"
        raise InvalidInputError(f"data: no column {', '.join(missing)}; expected {what}")


def fit(wanted: Schema, schema: Schema, rows: pa.Table, *, all_columns: bool = True) -> pa.Table:
    """The wanted columns of given rows in the types of the table; each column is one chunk.

    Args:
        wanted: the result of `written_schema`.
        rows: the caller's rows.
        all_columns: whether a missing column is an error; otherwise it is null.
    """
    if all_columns:
        check_columns(wanted, schema, rows.schema.names)
    else:
        given = set(rows.schema.names)
        for name in (field.name for field in wanted.fields if field.name not in given):
            rows = rows.append_column(name, pa.nulls(rows.num_rows))
    others = {field.name for field in schema.fields} - {field.name for field in wanted.fields}
    rows = rows.select([at for at, name in enumerate(rows.schema.names) if name not in others])
    return RowWriterSchema(wanted, rows.schema).table(rows).combine_chunks()


def _key_arrays(rows: pa.Table, fields: Sequence[tuple[str, NestedField]]) -> list[pa.Array]:
    """The key columns of fitted rows, in the types that keys are compared in."""
    batch = rows.to_batches()[0] if rows.num_rows else _no_rows(rows.schema)
    columns = []
    for name, key_field in fields:
        column, _ = to_key_type(column_of(batch, name), key_field, name)
        if column.null_count:
            raise InvalidInputError(
                f"data: null in key column {name}: expected none, found {column.null_count}"
            )
        columns.append(column)
    return columns


def given_keys(
    schema: Schema, rows: pa.Table, fields: Sequence[tuple[str, NestedField]], feed: ChangeFeed
) -> list[pa.Array]:
    """Returns the keys of given rows, a column each, in the types that keys are compared in.

    Args:
        rows: the caller's rows.
        fields: the key columns.
        feed: columns of the rows that are not written as data.

    Raises:
        InvalidInputError: the rows do not fit, or a key has a null.
    """
    return _key_arrays(fit(written_schema(schema, fields, ()), schema, feed.without(rows, schema)), fields)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)


@dataclass
class Matches:
    """The live rows that have a given key; each array has one item per row.

    Attributes:
        tasks: the data files that were searched.
        file: index of the row's data file in `tasks`.
        position: position in that file.
        source: number of the given row with its key.
        same: whether the row equals the given row.
        row_id: -1 if it has none.
    """

    tasks: Sequence[Task] = ()
    file: Any = field(default_factory=lambda: np.empty(0, np.int32))
    position: Any = field(default_factory=lambda: np.empty(0, np.int64))
    source: Any = field(default_factory=lambda: np.empty(0, np.int32))
    same: Any = field(default_factory=lambda: np.empty(0, np.bool_))
    row_id: Any = field(default_factory=lambda: np.empty(0, np.int64))


def find_matches(
    tasks: Sequence[Task],
    source: Source,
    fields: Sequence[NestedField],
    open_reader: ReaderFactory,
    *,
    compared: bool,
    row_ids: bool,
    threads: int | None,
    workers: Executor | None = None,
    current: DeleteLoader,
) -> Matches:
    """Finds the rows that have a given key; reads all their columns if they are compared.

    Rows whose key an index has are not read, unless they are compared.

    Args:
        tasks: the data files to search.
        source: the given rows.
        fields: the columns of the table.
        open_reader: makes the reader of the data files.
        compared: whether rows are compared with the given ones.
        row_ids: whether the data files have row ids.
        threads: number of files read at a time.
        workers: reads the data files instead of threads.
        current: loads the positions that are deleted already.
    """
    known: list[int] = []
    if not compared:
        known = [at for at, task in enumerate(tasks) if _are_known(task)]
        names = top_names(Schema(*fields), (field.field_id for _, field in source.fields))
        fields = [f for f in fields if f.name in names]
    exact = {name for name, f in source.fields if not isinstance(f.field_type, FloatType | DoubleType)}
    others = [f.name for f in fields if f.name not in exact] if compared else []
    given = {name: one_array(source.rows[name]) for name in others}
    pos = len(fields)

    def match(file: Any, rows: pa.RecordBatch) -> tuple[Any, ...]:
        batch = rows.select(list(range(pos)))  # not by name: a table may have a `_pos` of its own
        columns = [to_key_type(column_of(batch, name), f, name)[0] for name, f in source.fields]
        places = source.places(columns)
        deletes = places >= source.rows.num_rows
        same = ~deletes & compared
        taken = pa.array(places, mask=deletes if deletes.any() else None)
        for name, column in given.items():
            same &= same_values(column.take(taken), batch.column(name))
        ids = np.full(len(places), -1)
        if row_ids:
            ids = rows.column(pos + 1).fill_null(-1).to_numpy(zero_copy_only=False)
        return file.astype(np.int32), rows.column(pos).to_numpy(), places, same, ids

    metadata = ["_row_id"] if row_ids else []
    left = np.delete(np.arange(len(tasks)), known)
    groups = located_groups(
        lambda group: [match(left[file], rows) for file, rows in joined(group)],
        open_reader,
        fields,
        [tasks[at] for at in left.tolist()],
        metadata,
        threads=threads,
        workers=workers,
    )
    found = [part for group in groups for part in group]
    found += [_known_matches(tasks, known, source, current, row_ids=row_ids)] if known else []
    if not found:
        return Matches()
    columns = list(zip(*found, strict=True))[::-1]
    del found
    arrays = [np.concatenate(columns.pop()) for _ in range(len(columns))]
    if known and len(left):
        order = np.argsort(arrays[0], kind="stable")
        arrays = [array[order] for array in arrays]
    return Matches(tasks, *arrays)


def _are_known(task: Task) -> bool:
    """Whether an index has the keys of the matching rows of a data file."""
    return task.candidates_match and task.candidate_keys is not None and not task.equality_deletes


def _known_matches(
    tasks: Sequence[Task], known: Sequence[int], source: Source, current: DeleteLoader, *, row_ids: bool
) -> tuple[Any, ...]:
    """The live rows of some data files whose keys an index has; no data file is read."""
    files, positions, keys, ids = [], [], [], []
    for at in known:
        task = tasks[at]
        assert task.candidates is not None
        assert task.candidate_keys is not None
        places, found = task.candidates.to_numpy().astype(np.int64), task.candidate_keys
        if task.vector is not None or task.position_deletes:
            live = ~current.of(task).contains(places)
            places, found = places[live], found.filter(pa.array(live))
        first = task.data.first_row_id if row_ids else None
        files.append(np.full(len(places), at, np.int32))
        positions.append(places)
        keys.append(found)
        ids.append(np.full(len(places), -1) if first is None else places + first)
    matched = source.places([pa.concat_arrays(keys)])
    parts = (np.concatenate(part) for part in (files, positions))
    return (*parts, matched, np.zeros(len(matched), np.bool_), np.concatenate(ids))


@dataclass(frozen=True)
class Counts:
    """The counts of an upsert, and the rows to delete and to write.

    Attributes:
        updated, inserted, unchanged, deleted: numbers of given rows.
        replaced: mask of the matches whose row is deleted.
        written: the numbers of the given rows that are written.
        duplicates: the keys with several rows, which one given row replaces.
    """

    updated: int = 0
    inserted: int = 0
    unchanged: int = 0
    deleted: int = 0
    replaced: Any = field(default_factory=lambda: np.empty(0, np.bool_))
    written: Any = field(default_factory=lambda: np.empty(0, np.int64))
    duplicates: DuplicateKeys = field(default_factory=DuplicateKeys)

    @classmethod
    def of(cls, matches: Matches, n_rows: int, *, update: bool, insert: bool, n_deletes: int = 0) -> Counts:
        """Decides what happens to each given row.

        Args:
            matches: the matches of the given rows.
            n_rows: number of given rows.
            update, insert: as `upsert`.
            n_deletes: number of the last given rows, which delete their key.
        """
        count = np.bincount(matches.source, minlength=n_rows)
        same = np.zeros(n_rows, np.bool_)
        same[matches.source[matches.same]] = True
        deletes = np.arange(n_rows) >= n_rows - n_deletes
        exists = count > 0
        unchanged = exists & ~deletes & (same & (count == 1) if update else True)
        updated = exists & ~deletes & ~unchanged
        inserted = ~exists & ~deletes & insert
        return cls(
            updated=int(updated.sum()),
            inserted=int(inserted.sum()),
            unchanged=int(unchanged.sum()),
            deleted=int((exists & deletes).sum()),
            replaced=(updated | (exists & deletes))[matches.source],
            written=np.flatnonzero(updated | inserted),
            duplicates=DuplicateKeys.of(count[updated]),
        )


def row_ids(source: Source, matches: Matches, counts: Counts) -> pa.Array:
    """Returns the row id of each row that is written: that of the first row it replaces, else null."""
    ids = np.full(source.n_keys, -1)
    ids[matches.source[::-1]] = matches.row_id[::-1]
    ids = ids[counts.written]
    return pa.array(ids, mask=ids < 0)
