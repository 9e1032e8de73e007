"""Loads equality-delete files as key sets, which find the deleted rows of a data file.

A row is deleted when all columns of ``equality_ids`` are equal; null equals null, and NaN equals NaN (table
specification, "Equality Delete Files"). Columns that were renamed, promoted or dropped later are found by
their field ids. Files with different sets of ids are independent of each other.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from puffin_fast._process.cached import cached_property
from puffin_fast.columns.row_selection import RowSelection, mask_of
from puffin_fast.errors import CorruptDataError
from puffin_fast.rows.files.conversion import storage_type
from puffin_fast.rows.files.files import BATCH_ROWS, reading
from puffin_fast.rows.files.projection import FileSchema
from puffin_fast.rows.files.reader import Batch, columns_of, open_format
from puffin_fast.rows.filters.struct_path import newest_schema
from puffin_fast.rows.keys.key_columns import normalize_nan
from puffin_fast.rows.keys.key_set import KeySet

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField

    from puffin_fast.rows.filters.filters import Matcher
    from puffin_fast.rows.shared_deletes import DeleteFiles, SharedDeletes
    from puffin_fast.rows.tasks import DeleteFile

MOST_HASHED = 1 << 10
"""Up to this number of keys, a hash table may be built again for each batch: a table may have many small data files."""


def field_of(metadata: TableMetadata, field_id: int) -> NestedField:
    """Returns a field from the current schema, or from the newest schema that has it if it was dropped.

    Raises:
        CorruptDataError: no schema of the table has the field.
    """
    schema = newest_schema(metadata, field_id)
    if schema is not None:
        return schema.find_field(field_id)
    raise CorruptDataError(
        "field id of equality deletes",
        path=metadata.location,
        expected="a field of one of the table's schemas",
        found=field_id,
    )


def live_matches(matcher: Matcher, keys: Sequence[DeletedKeys], batch: Batch) -> np.ndarray | None:
    """Returns which rows of a batch match and are not deleted by equality; None if all of them.

    A matcher that may fail is not evaluated for rows that are deleted by equality.

    Args:
        matcher: its columns are the `filter_values` of the batch.
        keys: the keys of the equality deletes that apply; their columns are the `key_values` of the batch.
        batch: rows of a data file.

    Raises:
        InvalidInputError: the matcher fails.
    """
    live: np.ndarray | None = None
    for key in keys:
        left = ~key.contains(batch.key_values)
        live = left if live is None else live & left
    if matcher.always_true:
        return live
    if live is None or not matcher.may_fail:
        found = matcher.mask(batch.filter_values, batch.n_rows)
        return found if live is None else found & live
    rows = RowSelection(mask_of(live))
    if rows.n_rows:
        columns = rows.of([*batch.filter_values.values()])
        live[live] = matcher.mask(dict(zip(batch.filter_values, columns, strict=True)), rows.n_rows)
    return live


class _Keys:
    """The keys of equality-delete files of equal columns, ordered by data sequence number.

    Args:
        fields: the columns.
        files: the key columns of each delete file.
        places: the index of each delete file in its list.
    """

    def __init__(
        self, fields: Sequence[NestedField], files: Sequence[list[pa.ChunkedArray]], places: Sequence[int]
    ) -> None:
        self.columns = [
            normalize_nan(
                pa.chunked_array(
                    [c for file in files for c in file[at].chunks], storage_type(field.field_type)
                )
            )
            for at, field in enumerate(fields)
        ]
        self.set = KeySet.of(fields, self.columns, most_hashed=MOST_HASHED)
        self._places = np.repeat(places, [len(file[0]) for file in files])

    @cached_property
    def newest(self) -> np.ndarray:
        """The index of the newest delete file that has each key."""
        columns = [column.combine_chunks() for column in self.columns]
        numbers = self.set.index({f.field_id: c for f, c in zip(self.set.fields, columns, strict=True)})
        found = np.full(len(self.set), -1)
        np.maximum.at(found, numbers.to_numpy(), self._places)
        return found


@dataclass(frozen=True)
class DeletedKeys:
    """The keys of the equality deletes that apply to a data file, in some columns.

    Attributes:
        start: index of the first delete file that applies; None if all of the keys apply.
    """

    start: int | None
    _keys: _Keys

    @property
    def fields(self) -> tuple[NestedField, ...]:
        """The columns."""
        return self._keys.set.fields

    @property
    def rows(self) -> Mapping[int, pa.ChunkedArray]:
        """The keys of all delete files, also of those that do not apply, as rows of their columns by field id."""
        return {field.field_id: c for field, c in zip(self.fields, self._keys.columns, strict=True)}

    def contains(self, columns: Mapping[int, pa.Array]) -> np.ndarray:
        """Tests which rows are deleted; see `KeySet.contains`. As in Java, any NaN is the same, -0.0 is not 0.0."""
        columns = {field_id: normalize_nan(column) for field_id, column in columns.items()}
        if self.start is None:
            return self._keys.set.contains(columns)
        numbers = self._keys.set.index(columns).fill_null(-1).to_numpy()
        found: np.ndarray = np.append(self._keys.newest >= self.start, False)[numbers]
        return found


class EqualityDeletes:
    """Loads equality-delete files, each once, to key sets that data files share.

    Data files of different ages share a set: it has the newest delete file of each key.

    Safe to use from several threads.
    """

    def __init__(self, io: FileIO, metadata: TableMetadata) -> None:
        self._io = io
        self._metadata = metadata
        self._lock = threading.Lock()
        self._sets: weakref.WeakKeyDictionary[SharedDeletes, tuple[int, list[tuple[int, _Keys]]]] = (
            weakref.WeakKeyDictionary()
        )

    def of(self, deletes: DeleteFiles) -> list[DeletedKeys]:
        """Returns the keys of equality-delete files, by list of them and set of columns.

        Args:
            deletes: the files that apply to one data file.

        Raises:
            CorruptDataError: a delete file lacks a column of its ``equality_ids``, or cannot be read.
            UnsupportedError: the format of a delete file is not supported.
            NotFoundError: a delete file does not exist.
        """
        found = []
        with self._lock:
            for shared, start in deletes.parts:
                first, sets = self._sets.get(shared, (len(shared.entries), []))
                if start < first:
                    first = min(start, shared.first or 0)
                    sets = [*self._sets_of(shared, first)]
                    self._sets[shared] = first, sets
                applies = None if start == first else start
                found += [DeletedKeys(applies, keys) for last, keys in sets if last >= start]
        return found

    def _sets_of(self, shared: SharedDeletes, first: int) -> Iterator[tuple[int, _Keys]]:
        """Yields the index of the newest delete file of each set of columns, and the keys."""
        by_ids: dict[tuple[int, ...], list[int]] = {}
        for at in range(first, len(shared.entries)):
            by_ids.setdefault(tuple(sorted(set(shared.entries[at].equality_ids or ()))), []).append(at)
        for ids, places in by_ids.items():
            fields = [field_of(self._metadata, field_id) for field_id in ids]
            files = [self._read(shared.entries[at], fields) for at in places]
            yield places[-1], _Keys(fields, files, places)

    def _read(self, entry: DeleteFile, fields: Sequence[NestedField]) -> list[pa.ChunkedArray]:
        path = entry.file_path
        file = open_format(self._io, entry)
        with reading(path, entry.file_format):
            found = FileSchema(file.schema, self._metadata.name_mapping(), path=path)
            steps = [found.leaf(field) for field in fields]
        names = []
        for field, (top, _) in zip(fields, steps, strict=True):
            if top is None or field.field_id not in found:
                raise CorruptDataError(
                    "columns of equality deletes", path=path, expected=f"field {field.field_id}", found="none"
                )
            names.append(top)
        parts: list[list[pa.Array]] = [[] for _ in fields]
        with reading(path, entry.file_format):
            for batch in columns_of(file, sorted(set(names)), BATCH_ROWS):
                for part, name, (_, get) in zip(parts, names, steps, strict=True):
                    part.append(get(batch[name], {}))
        return [
            pa.chunked_array(part, storage_type(field.field_type))
            for field, part in zip(fields, parts, strict=True)
        ]
