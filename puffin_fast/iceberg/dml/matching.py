"""Rows that a caller gives, matched by key with the rows of a table: which are replaced, new, or there already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import NestedField

from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.dml.delete_keys import Keys
from puffin_fast.iceberg.dml.given_rows import RowWriterSchema
from puffin_fast.iceberg.plan.files import FileTask
from puffin_fast.iceberg.predicate.key_columns import column_of, key_fields, to_key_type
from puffin_fast.iceberg.scan.file_reader import ReaderFactory
from puffin_fast.iceberg.scan.located_rows import from_located_batches

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

__all__ = ["Counts", "Matches", "Source", "find_matches", "row_ids"]


@dataclass(frozen=True)
class Source:
    """The given rows, and their keys with row numbers."""

    rows: pa.Table
    keys: Keys
    fields: list[tuple[str, NestedField]]

    @classmethod
    def of(cls, metadata: TableMetadata, rows: pa.Table, on: str | Sequence[str] | None) -> Source:
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

    tasks: Sequence[FileTask] = ()
    file: Any = field(default_factory=lambda: np.empty(0, np.int64))
    position: Any = field(default_factory=lambda: np.empty(0, np.int64))
    source: Any = field(default_factory=lambda: np.empty(0, np.int64))
    same: Any = field(default_factory=lambda: np.empty(0, np.bool_))
    row_id: Any = field(default_factory=lambda: np.empty(0, np.int64))


def find_matches(
    tasks: Sequence[FileTask],
    source: Source,
    fields: Sequence[NestedField],
    open_reader: ReaderFactory,
    *,
    compared: bool,
    row_ids: bool,
    threads: int | None,
) -> Matches:
    """Finds the rows that have a given key; reads all their columns if they are compared.

    Args:
        tasks: the data files to search.
        source: the given rows.
        fields: the columns of the table.
        open_reader: makes the reader of the data files.
        compared: whether rows are compared with the given ones.
        row_ids: whether the data files have row ids.
        threads: number of files read at a time.
    """
    tops = {name.partition(".")[0] for name, _ in source.fields}
    fields = [f for f in fields if compared or f.name in tops or f.name in dict(source.fields)]
    given = {f.name: source.rows[f.name].combine_chunks() for f in fields} if compared else {}
    pos = len(fields)

    def match(number: int, rows: pa.RecordBatch) -> tuple[Any, ...]:
        batch = rows.select(list(range(pos)))  # not by name: a table may have a `_pos` of its own
        columns = [to_key_type(column_of(batch, name), f, name)[0] for name, f in source.fields]
        places = source.places(columns)
        same = np.full(len(places), bool(given))
        for name, column in given.items():
            same &= _same(column.take(pa.array(places)), batch.column(name))
        ids = np.full(len(places), -1)
        if row_ids:
            ids = rows.column(pos + 1).fill_null(-1).to_numpy(zero_copy_only=False)
        return np.full(len(places), number), rows.column(pos).to_numpy(), places, same, ids

    metadata = ["_row_id"] if row_ids else []
    found = list(from_located_batches(match, open_reader, fields, tasks, metadata, threads=threads))
    if not found:
        return Matches()
    return Matches(tasks, *(np.concatenate(parts) for parts in zip(*found, strict=True)))


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


@dataclass(frozen=True)
class Counts:
    """The counts of an upsert, and the rows to delete and to write.

    Attributes:
        updated, inserted, unchanged: numbers of given rows.
        replaced: mask of the matches whose row is deleted.
        written: the numbers of the given rows that are written.
    """

    updated: int = 0
    inserted: int = 0
    unchanged: int = 0
    replaced: Any = field(default_factory=lambda: np.empty(0, np.bool_))
    written: Any = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, matches: Matches, n_rows: int, *, update: bool, insert: bool) -> Counts:
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


def row_ids(source: Source, matches: Matches, counts: Counts) -> pa.Array:
    """Returns the row id of each row that is written: that of the first row it replaces, else null."""
    ids = np.full(source.rows.num_rows, -1)
    ids[matches.source[::-1]] = matches.row_id[::-1]
    ids = ids[counts.written]
    return pa.array(ids, mask=ids < 0)
