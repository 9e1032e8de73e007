"""Loads equality-delete files as key sets, which find the deleted rows of a data file.

A row is deleted when all columns of ``equality_ids`` are equal; null equals null, and NaN equals NaN (table
specification, "Equality Delete Files"). Columns that were renamed, promoted or dropped later are found by
their field ids. Files with different sets of ids are independent of each other.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from puffin_fast.columns.plain_types import plain
from puffin_fast.columns.row_selection import RowSelection, mask_of
from puffin_fast.errors import CorruptDataError
from puffin_fast.rows.files.conversion import storage_type
from puffin_fast.rows.files.files import BATCH_ROWS, reading
from puffin_fast.rows.files.projection import FileSchema
from puffin_fast.rows.files.reader import Batch, open_format
from puffin_fast.rows.keys.key_set import KeySet

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField

    from puffin_fast.rows.filters.filters import Matcher
    from puffin_fast.rows.tasks import DeleteFile

__all__ = ["EqualityDeletes", "KeySet", "field_of", "live_matches"]


def field_of(metadata: TableMetadata, field_id: int) -> NestedField:
    """Returns a field from the current schema, or from the newest schema that has it if it was dropped.

    Raises:
        CorruptDataError: no schema of the table has the field.
    """
    for schema in (metadata.schema(), *sorted(metadata.schemas, key=lambda schema: -schema.schema_id)):
        if field_id in schema.field_ids:
            return schema.find_field(field_id)
    raise CorruptDataError("field id of equality deletes", path=metadata.location, found=field_id)


def live_matches(matcher: Matcher, keys: Sequence[KeySet], batch: Batch) -> np.ndarray | None:
    """Returns which rows of a batch match and are not deleted by equality; None if all of them.

    A matcher that may fail is not evaluated for rows that are deleted by equality.

    Args:
        matcher: its columns are the `filter_values` of the batch.
        keys: of the equality deletes that apply; their columns are the `key_values` of the batch.
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


class EqualityDeletes:
    """Loads equality-delete files, each once, and unites them to the key sets that apply to data files.

    Safe to use from several threads.
    """

    def __init__(self, io: FileIO, metadata: TableMetadata) -> None:
        self._io = io
        self._metadata = metadata
        self._lock = threading.Lock()
        self._files: dict[str, list[pa.ChunkedArray]] = {}
        self._sets: dict[tuple[str, ...], KeySet] = {}

    def of(self, entries: Sequence[DeleteFile]) -> list[KeySet]:
        """Returns the key sets of equality-delete files, one per set of columns.

        Args:
            entries: the files that apply to one data file.

        Raises:
            CorruptDataError: a delete file lacks a column of its ``equality_ids``, or cannot be read.
            UnsupportedError: the format of a delete file is not supported.
            NotFoundError: a delete file does not exist.
        """
        by_ids: dict[tuple[int, ...], list[DeleteFile]] = {}
        for entry in entries:
            by_ids.setdefault(tuple(sorted(set(entry.equality_ids or ()))), []).append(entry)
        with self._lock:
            return [self._set(ids, files) for ids, files in by_ids.items()]

    def _set(self, ids: tuple[int, ...], entries: Sequence[DeleteFile]) -> KeySet:
        paths = tuple(sorted(entry.file_path for entry in entries))
        found = self._sets.get(paths)
        if found is None:
            fields = [field_of(self._metadata, field_id) for field_id in ids]
            parts = [self._read(entry, fields) for entry in entries]
            chunks = [
                pa.chunked_array(
                    [c for part in parts for c in part[at].chunks], storage_type(field.field_type)
                )
                for at, field in enumerate(fields)
            ]
            found = self._sets[paths] = KeySet.of(fields, chunks)
        return found

    def _read(self, entry: DeleteFile, fields: Sequence[NestedField]) -> list[pa.ChunkedArray]:
        known = self._files.get(entry.file_path)
        if known is not None:
            return known
        path = entry.file_path
        file = open_format(self._io, entry)
        with reading(path, entry.file_format):
            found = FileSchema(file.schema, self._metadata.name_mapping(), path=path)
            steps = [found.leaf(field) for field in fields]
        names = []
        for field, (top, _) in zip(fields, steps, strict=True):
            if top is None:
                raise CorruptDataError(
                    "columns of equality deletes", path=path, expected=f"field {field.field_id}", found="none"
                )
            names.append(top)
        parts: list[list[pa.Array]] = [[] for _ in fields]
        with reading(path, entry.file_format):
            for group in range(len(file.group_rows)):
                for batch in file.batches(group, sorted(set(names)), BATCH_ROWS, use_threads=False):
                    for part, name, (_, get) in zip(parts, names, steps, strict=True):
                        part.append(get(plain(batch.column(name)), {}))
        result = [
            pa.chunked_array(part, storage_type(field.field_type))
            for field, part in zip(fields, parts, strict=True)
        ]
        self._files[entry.file_path] = result
        return result
