"""Writes new deletion vectors to Puffin files.

A new deletion vector contains all positions of its data file that were deleted before. The same commit
removes the
delete files that it replaces: a deletion vector supersedes all position-delete files of its data file. A
position-delete file that applies to other data files too stays in the table.

A data file whose last row is deleted is removed from the table together with its deletion vector.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from puffin_fast._concurrency.groups import split_by_size
from puffin_fast._concurrency.workers import Threads, Workers
from puffin_fast.dv.iceberg import FRAME_BYTES
from puffin_fast.iceberg.catalogs.run_table import run_table
from puffin_fast.iceberg.compat.table_properties import delete_file_size, vectors_per_file
from puffin_fast.puffin.vectors import write_vectors
from puffin_fast.rows.deletes.outcome import FileDeleted, NewDeletes, Outcome

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.bitmap import PositionBitmap
    from puffin_fast.iceberg.catalogs.working_table import WorkingTable
    from puffin_fast.iceberg.plan.delete_index import FileTask

Item = TypeVar("Item")
Other = TypeVar("Other")


def size_of(vector: PositionBitmap | bytes) -> int:
    """The size of a deletion vector's blob in bytes, given as a bitmap or as the blob."""
    return len(vector) if isinstance(vector, bytes) else vector.n_bytes + FRAME_BYTES


def write_deletion_vectors(
    table: Table,
    deletes: Iterable[NewDeletes],
    *,
    only_new: bool = True,
    dry_run: bool = False,
    limit: int | None = None,
) -> Iterator[Outcome]:
    """Writes deletion vectors to Puffin files of the target size, each for data files of one partition spec.

    DuckDB 1.5.5 may confuse two vectors of a Puffin file if their order is not that of the manifest entries, or if a
    shorter one follows a longer one. Each spec has its own manifest, so Puffin files are not shared between specs,
    and the shortest vector of a file is its first.

    Args:
        table: its location provider names the files, its properties limit their vectors.
        deletes: at most one per data file; adjacent data files of one partition spec share Puffin files.
        only_new: skip data files without a newly deleted row.
        dry_run: write each file to memory and discard it.
        limit: target size of a Puffin file in bytes; by default that of the table.

    Yields:
        One outcome per data file, when its Puffin file is complete.
    """
    dropped: list[Outcome] = []
    waiting: dict[str, NewDeletes] = {}

    def vectors() -> Iterator[tuple[NewDeletes, PositionBitmap]]:
        for new in deletes:
            if only_new and new.n_new == 0:
                continue
            if new.drops or new.positions is None:
                dropped.append(Outcome(new.task, new.n_new))
                continue
            waiting[new.task.data.file_path] = new
            yield new, new.positions

    groups = split_by_size(
        vectors(),
        delete_file_size(table.properties) if limit is None else limit,
        lambda item: size_of(item[1]),
        kind=lambda item: item[0].task.data.spec_id,
        most=vectors_per_file(table.properties),
    )
    name = uuid.uuid4()
    for number, group in enumerate(groups):
        path = table.location_provider().new_data_location(f"{name}-{number:05d}-deletes.puffin")
        shortest_first = sorted(group, key=lambda item: size_of(item[1]))
        pairs = ((new.task.data.file_path, positions) for new, positions in shortest_first)
        if dry_run:
            made = [replace(vector, path=path) for vector in write_vectors(io.BytesIO(), pairs)]
        else:
            made = write_vectors(path, pairs, filesystem=table.io)
        for vector in made:
            new = waiting.pop(vector.data_file)
            yield Outcome(new.task, new.n_new, vector)
    yield from dropped


def write_where_read(
    workers: Workers,
    table: WorkingTable,
    finder: Callable[[Sequence[Item]], Callable[[Item], Iterable[NewDeletes | Other]]],
    bins: Sequence[Sequence[Item]],
    n_bytes: Callable[[Item], int],
    tasks: Iterable[FileTask],
    label: str,
    run: str,
    *,
    only_new: bool = True,
    dry_run: bool = False,
    limit: int | None = None,
) -> tuple[list[Outcome], list[Other]]:
    """Finds deletes and writes their vectors: threads find, and the caller writes; other workers do both.

    Args:
        workers: who does the work.
        table: the table of the job.
        finder: returns, for items, what finds the deletes of one of them. It can be pickled, as the items.
        bins: the items; the vectors of a bin are written by one worker, unless threads find them.
        n_bytes: returns the bytes of files that are read for an item.
        tasks: the data files.
        label: as `progress` takes it.
        run: the name of the run.
        only_new, dry_run, limit: as `write_deletion_vectors`.

    Returns:
        What was written, and what else was found.
    """
    options: dict[str, Any] = {"only_new": only_new, "dry_run": dry_run, "limit": limit}
    others: list[Other] = []
    if isinstance(workers, Threads):
        items = [*chain.from_iterable(bins)]
        find = finder(items)
        found = workers.each(lambda item: [*find(item)], items, n_bytes, label)
        deletes = _split(chain.from_iterable(found), others)
        return [*write_deletion_vectors(table, deletes, **options)], others
    outcomes: list[FileDeleted] = []
    with run_table(table, run) as (there, kept):
        write = partial(_write_bin, there, finder, options)
        for some, more in workers.each(write, bins, lambda some: sum(map(n_bytes, some)), label, run=run):
            outcomes += some
            others += more
        kept += {one.vector.path for one in outcomes if one.vector is not None}
    known = {task.data.file_path: task for task in tasks}
    return [Outcome(known[one.data_file], one.n_new, one.vector) for one in outcomes], others


def _write_bin(
    table: Table,
    finder: Callable[[Sequence[Item]], Callable[[Item], Iterable[NewDeletes | Other]]],
    options: Mapping[str, Any],
    items: Sequence[Item],
) -> tuple[list[FileDeleted], list[Other]]:
    others: list[Other] = []
    deletes = _split(chain.from_iterable(map(finder(items), items)), others)
    return [*map(FileDeleted.of, write_deletion_vectors(table, deletes, **options))], others


def _split(found: Iterable[NewDeletes | Other], others: list[Other]) -> Iterator[NewDeletes]:
    for one in found:
        if isinstance(one, NewDeletes):
            yield one
        else:
            others.append(one)
