"""Deletes of rows without rewriting data files: by a filter, by data file and position, or by keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from puffin_fast import arrow
from puffin_fast._api.arguments import check_flags
from puffin_fast._concurrency.threads import on_threads
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.columns.arrow_rows import arrow_rows, position_rows
from puffin_fast.dv import iceberg as codec
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.rows.deletes.outcome import NewDeletes
from puffin_fast.rows.filters.filters import Filter, RowFilter
from puffin_fast.rows.match.key_parts import key_parts, search_parts
from puffin_fast.rows.tasks import Task
from puffin_fast.verbs.attempt import Attempt, Purpose
from puffin_fast.verbs.counts import Counts


@dataclass(frozen=True, eq=False)
class Delete:
    """Deletes the rows for which a filter is true."""

    row_filter: Filter
    case_sensitive: bool = True

    def __post_init__(self) -> None:
        check_flags(case_sensitive=self.case_sensitive)

    def on(self, attempt: Attempt) -> Counts:
        matcher = RowFilter.bind(self.row_filter, attempt.schema, case_sensitive=self.case_sensitive)
        writer = attempt.writer(Purpose("DELETE", [str(self.row_filter)], matcher))
        writer.delete(attempt.finder(matcher).search(attempt.plan(matcher), attempt.threads, attempt.workers))
        return writer.stage()


@dataclass(frozen=True, eq=False)
class DeletePositions:
    """Deletes rows given by data file and position.

    Attributes:
        wanted: the positions of each data file, by `group_positions`.
    """

    wanted: dict[str, PositionBitmap]

    def on(self, attempt: Attempt) -> Counts:
        writer, find = attempt.writer(Purpose("DELETE")), attempt.find(self.wanted)
        found: dict[str, tuple[Task, PositionBitmap]] = {}
        for path, positions in self.wanted.items():
            task = find(path)
            if task is None:
                raise NotFoundError(f"{path}: expected a data file of {attempt.head}, found none")
            n_rows = task.data.record_count
            if positions.max() >= n_rows:
                raise InvalidInputError(
                    f"{path}: expected positions below {n_rows} (rows), found {positions.max()}"
                )
            location = task.data.file_path  # a file may be given under several paths
            known = found.get(location)
            found[location] = task, positions if known is None else known[1] | positions
        current = attempt.loader()

        def merge(new: tuple[Task, PositionBitmap]) -> NewDeletes:
            return NewDeletes.merge(*new, current)

        writer.delete(on_threads(merge, list(found.values()), attempt.threads, label="merging deletes"))
        return writer.stage()


@dataclass(frozen=True, eq=False)
class DeleteKeys:
    """Deletes the rows whose key is in a table of keys."""

    keys: Any
    join_cols: str | Sequence[str] | None
    null_safe: bool = False

    def __post_init__(self) -> None:
        check_flags(null_safe=self.null_safe)

    def on(self, attempt: Attempt) -> Counts:
        given = attempt.once(
            self,
            lambda: key_parts(
                attempt.io, attempt.metadata, self.keys, self.join_cols, null_safe=self.null_safe
            ),
        )
        names = [self.join_cols] if isinstance(self.join_cols, str) else self.join_cols or ()
        writer = attempt.writer(Purpose("DELETE", [f"key ({', '.join(names)}) in keys"], given.bounds))
        tasks = attempt.plan(given.bounds)
        writer.delete(search_parts(given.parts, tasks, attempt.finder, attempt.threads, attempt.workers))
        return writer.stage()


def group_positions(deletes: Any) -> dict[str, PositionBitmap]:
    """Returns one bitmap per path; a stream is read batch by batch, and the blobs are united at the end.

    Args:
        deletes: Arrow rows with the columns ``file_path`` and ``pos``.

    Raises:
        InvalidInputError: a column is missing, or has a null or a negative position.
    """
    blobs: dict[str, list[bytes]] = {}
    for rows in _batches(deletes):
        grouped = arrow.encode_grouped(rows["file_path"], rows["pos"])
        for path, blob in zip(grouped["file_path"].to_pylist(), grouped["blob"].to_pylist(), strict=True):
            blobs.setdefault(path, []).append(blob)
    if all(len(parts) == 1 for parts in blobs.values()):
        return {path: codec.decode(parts[0]) for path, parts in blobs.items()}
    united = arrow.union(pa.array(list(blobs.values()), pa.list_(pa.binary())))
    return {path: codec.decode(blob) for path, blob in zip(blobs, united.to_pylist(), strict=True)}


def _batches(deletes: Any) -> Iterable[pa.Table]:
    deletes = arrow_rows(position_rows(deletes), "deletes", streamed=True)
    missing = {"file_path", "pos"} - set(deletes.schema.names)
    if missing:
        raise InvalidInputError(
            f"deletes: expected columns file_path and pos, found {', '.join(deletes.schema.names)}"
        )
    for name in ("file_path", "pos"):
        if (found := len(deletes.schema.get_all_field_indices(name))) > 1:
            raise InvalidInputError(f"deletes: column {name}: expected once, found {found}")
    if isinstance(deletes, pa.Table):
        return [deletes] if deletes.num_rows else []
    return (pa.Table.from_batches([batch]) for batch in deletes if batch.num_rows)
