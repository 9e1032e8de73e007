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
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from puffin_fast._run.groups import split_by_size
from puffin_fast.dv.iceberg import FRAME_BYTES
from puffin_fast.iceberg.compat.table_properties import delete_file_size, vectors_per_file
from puffin_fast.puffin.vectors import write_vectors
from puffin_fast.rows.deletes.outcome import NewDeletes, Outcome

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.bitmap import PositionBitmap


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
