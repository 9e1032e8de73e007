"""On executors, before the shuffle: rows of deletes are checked against the data files of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.spark.worker.combine import combine
from puffin_fast.spark.worker.marked import partial_rows, report_row
from puffin_fast.spark.worker.reports import Report


def pack_files(paths: Sequence[str], n_rows: Sequence[int]) -> bytes:
    """Packs the paths and row counts of a table's data files into compressed bytes."""
    table = pa.table({"file_path": pa.array(paths, pa.string()), "n_rows": pa.array(n_rows, pa.int64())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


class _Known:
    """A `Screen` that removes rows of unknown data files and raises for positions past the end of a file."""

    def __init__(self, files: bytes, strict: bool, names: tuple[str, str]) -> None:
        table = pa.ipc.open_stream(files).read_all().combine_chunks()
        self._paths = table["file_path"].combine_chunks()
        self._n_rows = table["n_rows"].combine_chunks()
        self._strict = strict
        self._names = names
        self.dangling = 0

    def __call__(
        self, paths: pa.DictionaryArray, positions: pa.Int64Array
    ) -> tuple[pa.DictionaryArray, pa.Int64Array]:
        found = pc.index_in(paths.dictionary, value_set=self._paths)
        if found.null_count:
            if self._strict:
                path = paths.dictionary.filter(found.is_null())[0]
                raise NotFoundError(f"column {self._names[0]!r}: {path} is no data file of the table")
            known = found.take(paths.indices).is_valid()
            n_rows = len(paths)
            paths, positions = paths.filter(known), positions.filter(known)
            self.dangling += n_rows - len(paths)
        limits = self._n_rows.take(found).take(paths.indices)
        beyond = pc.index(pc.greater_equal(positions, limits), True).as_py()
        if beyond >= 0:
            raise InvalidInputError(
                f"column {self._names[1]!r}: position {positions[beyond]}, but {paths[beyond]} has "
                f"{limits[beyond]} rows"
            )
        return paths, positions


def mark(
    batches: Iterator[pa.RecordBatch], *, names: tuple[str, str], memory: int, files: bytes, strict: bool
) -> Iterator[pa.RecordBatch]:
    """`combine` for rows that must belong to the data files of one table.

    Args:
        batches, names, memory: as for `combine`. A third column, if there is one, says whether a row has NaN in a
            column of the condition that selected it.
        files: the result of `pack_files`.
        strict: whether rows of other files are an error; otherwise they are counted.

    Yields:
        rows of `MARKED`.

    Raises:
        NotFoundError: ``strict``, and a path is not a data file of the table.
        InvalidInputError: as `combine`, or a position past the end of its data file.
    """
    known = _Known(files, strict, names)
    n_nan = 0

    def places() -> Iterator[pa.RecordBatch]:
        nonlocal n_nan
        for batch in batches:
            if batch.num_columns > 2:
                n_nan += pc.sum(batch.column(2)).as_py() or 0
            yield batch.select([0, 1])

    for batch in combine(places(), names=names, memory=memory, screen=known):
        yield partial_rows(batch)
    if counts := Report(n_dangling=known.dangling, n_nan=n_nan):
        yield report_row(counts)
