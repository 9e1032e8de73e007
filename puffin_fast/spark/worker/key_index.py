"""On executors: segments of key indexes are made from data files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from puffin_fast._io import open_sink
from puffin_fast.spark.worker.rows import SAVED, ReportRow, report_rows
from puffin_fast.spark.worker.tasks import items_of, unpack

if TYPE_CHECKING:
    from puffin_fast.iceberg.index.segment_maker import SegmentMaker
    from puffin_fast.spark.worker.pack import Place

Batches = Iterator[pa.RecordBatch]


def segments(batches: Batches, *, maker: bytes, place: bytes, most_rows: int) -> Batches:
    """Writes segments for the data files of one task, each to a file of its own.

    Args:
        batches: one binary column: packed lists of data files.
        maker: packed `SegmentMaker`.
        place: packed `Place`.
        most_rows: maximum rows of a segment.

    Yields:
        rows of `REPORT`.
    """
    made: SegmentMaker = unpack(maker)
    where: Place = unpack(place)
    path_of = where.paths(".segment")
    for number, blob in enumerate(made.segments([*items_of(batches)], most_rows, 1)):
        path = path_of(number)
        open_sink(path, filesystem=made.io).write_file(blob)
        yield from report_rows([ReportRow(SAVED, path=path, file_size=len(blob), n_rows=0, length=0)])
