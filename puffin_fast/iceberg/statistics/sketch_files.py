"""Makes sketches of the live rows of data files: one per column and thread, which are united at the end.

Data files without deletes are read column by column: only the dictionary page where it holds all values of a chunk (see
`dictionary_pages`), and byte arrays as dictionaries where that is how they are stored. All others, and columns inside
lists and maps, are read as a scan reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.transforms import IdentityTransform

from puffin_fast._concurrency.threads import on_threads
from puffin_fast._concurrency.workers import Workers
from puffin_fast._io import open_source
from puffin_fast.columns.plain_types import plain
from puffin_fast.errors import CorruptDataError
from puffin_fast.parquet.dictionary_pages import DictionaryPages
from puffin_fast.parquet.footer import check_footer
from puffin_fast.rows.files.files import BATCH_ROWS, reading
from puffin_fast.rows.files.parquet import dictionary_columns, open_parquet
from puffin_fast.rows.files.projection import FileSchema
from puffin_fast.rows.scan.splits import Split, data_bytes, parts_of, row_groups_of
from puffin_fast.theta import ThetaSketch, ThetaSketchBuilder

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

    from puffin_fast.iceberg.plan.delete_index import FileTask
    from puffin_fast.iceberg.statistics.columns import SketchedColumn
    from puffin_fast.rows.scan.file_reader import FileReader

READ_BYTES = 32 << 20
"""Uncompressed bytes of the column chunks that are read together, and decoded in batches that stay in the caches."""

PLAIN_BYTES = 4
"""Minimum size of a byte array that is not dictionary-encoded: its length field."""

BUILDER_BYTES = 220_000
"""Memory of one sketch while it is built."""

BUILDERS_MOST_BYTES = 2 << 30

Builders = Mapping[int, ThetaSketchBuilder]
Share = tuple["FileTask", int, int]


@dataclass(frozen=True)
class SketchReader:
    """Makes sketches from data files of a snapshot. It can be pickled.

    Args:
        io: PyIceberg's file access.
        metadata: the metadata of the table; its history is not used.
        columns: to sketch.
        reader: makes the reader of a scan of these columns, for rows whose deletes must be applied.
    """

    io: FileIO
    metadata: TableMetadata
    columns: Sequence[SketchedColumn]
    reader: Callable[[], FileReader]

    def sketches(self, tasks: Sequence[FileTask], threads: int) -> dict[int, ThetaSketch]:
        """Returns the sketches of the live rows of data files, by field id of the column.

        Raises:
            As `sketches_of_shares`.
        """
        most = max(1, BUILDERS_MOST_BYTES // (BUILDER_BYTES * len(self.columns)))
        threads = max(1, min(threads, most))
        return self.sketches_of_shares(list(_shares(tasks, threads)), threads)

    def sketches_of_shares(self, shares: Sequence[Share], threads: int) -> dict[int, ThetaSketch]:
        """As `sketches`, for shares of data files: part `number` of `count` parts of their row groups.

        Raises:
            UnsupportedError: a data file that a scan cannot read.
            CorruptDataError: a file does not agree with the metadata.
            NotFoundError: a file does not exist.
        """
        idle: SimpleQueue[Builders] = SimpleQueue()
        reader = self.reader()

        def run(share: Share) -> None:
            try:
                builders = idle.get_nowait()
            except Empty:
                builders = {column.field_id: ThetaSketchBuilder(column.type) for column in self.columns}
            self._add(builders, reader, *share)
            idle.put(builders)

        for _ in on_threads(run, shares, threads, label="counting values"):
            pass
        found: list[Mapping[int, ThetaSketch]] = []
        while not idle.empty():
            found.append({field_id: builder.sketch() for field_id, builder in idle.get().items()})
        return self._united(found)

    def sketches_by(self, workers: Workers, tasks: Sequence[FileTask]) -> Mapping[int, ThetaSketch]:
        """As `sketches`, by workers that are not threads."""
        limit = workers.bin_bytes(sum(map(data_bytes, tasks)))
        shares = [share for task in tasks for share in _shares_of(task, limit)]
        return workers.united(self._sketches, shares, _share_bytes, ThetaSketch.union_all, "counting values")

    def _united(self, parts: Sequence[Mapping[int, ThetaSketch]]) -> dict[int, ThetaSketch]:
        ids = [column.field_id for column in self.columns]
        return {field_id: ThetaSketch.union_all([part[field_id] for part in parts]) for field_id in ids}

    def _sketches(self, shares: Sequence[Share]) -> dict[int, ThetaSketch]:
        return self.sketches_of_shares(shares, 1)

    def _add(self, builders: Builders, reader: FileReader, task: FileTask, number: int, count: int) -> None:
        if task.deletes or task.data.file_format != "PARQUET" or task.data.key_metadata is not None:
            self._add_live_rows(builders, reader, task, number, count, self.columns)
            return
        self._add_chunks(builders, task, number, count)
        if repeated := [column for column in self.columns if column.repeats]:
            self._add_live_rows(builders, reader, task, number, count, repeated)

    def _add_live_rows(
        self,
        builders: Builders,
        reader: FileReader,
        task: FileTask,
        number: int,
        count: int,
        columns: Sequence[SketchedColumn],
    ) -> None:
        for batch in reader.read(Split.of(task, number, count)):
            for column in columns:
                builders[column.field_id].update(column.values(batch.column(column.top)))

    def _add_chunks(self, builders: Builders, task: FileTask, number: int, count: int) -> None:
        data = task.data
        file = open_parquet(self.io, data.file_path)
        footer = file.metadata
        if footer.num_rows != data.record_count:
            raise CorruptDataError(
                "rows of a data file",
                path=data.file_path,
                expected=f"{data.record_count} (manifest)",
                found=footer.num_rows,
            )
        known = FileSchema(file.schema_arrow, self.metadata.name_mapping(), path=data.file_path)
        constants = self._constants(task)
        columns = [column for column in self.columns if not column.repeats]
        types = file.schema_arrow

        def add(found: Iterable[tuple[str, pa.Array]]) -> None:
            for name, values in found:
                for field_id in names[name]:
                    builders[field_id].update(_values(values, leaves[field_id][1], constants))

        with reading(data.file_path):
            with open_source(data.file_path, filesystem=self.io) as source:
                check_footer(footer, source, data.file_path)
            leaves = {column.field_id: known.leaf(column.field, column.structs) for column in columns}
            sizes = _chunk_sizes(footer)
            names: dict[str, list[int]] = {}
            for field_id, (name, get) in leaves.items():
                if name is not None:
                    names.setdefault(name, []).append(field_id)
                elif footer.num_rows:
                    builders[field_id].update(get(pa.nulls(1), constants))  # the same value in each row
            small = {name for name in names if sizes.get(name, 0) < PLAIN_BYTES * footer.num_rows}
            as_dictionaries = dictionary_columns(footer, small)
            if as_dictionaries or count > 1:
                file = open_parquet(self.io, data.file_path, dictionaries=as_dictionaries, footer=footer)
            leaf_columns = (footer.schema.column(at) for at in range(footer.num_columns))
            places = {
                column.name: (at, types.field(column.name).type)
                for at, column in enumerate(leaf_columns)
                if column.name == column.path and column.name in names
            }
            first, last = (footer.num_row_groups * at // count for at in (number, number + 1))
            with closing(open_source(data.file_path, filesystem=self.io)) as source:
                pages = DictionaryPages(source, footer)
                for row_group in range(first, last):
                    chunks = footer.row_group(row_group)
                    whole = _dictionaries(pages, row_group, places)
                    add(whole.items())
                    rest = [name for name in names if name not in whole]
                    for together in _groups(rest, chunks):
                        for batch in file.iter_batches(
                            BATCH_ROWS, row_groups=[row_group], columns=together, use_threads=False
                        ):
                            add((name, batch[name]) for name in together)

    def _constants(self, task: FileTask) -> dict[int, Any]:
        spec = self.metadata.specs()[task.data.spec_id]
        return {
            field.source_id: value
            for field, value in zip(spec.fields, task.data.partition, strict=True)
            if isinstance(field.transform, IdentityTransform)
        }


def _dictionaries(
    pages: DictionaryPages, row_group: int, places: Mapping[str, tuple[int, pa.DataType]]
) -> dict[str, pa.Array]:
    """Returns the values of the top-level columns whose dictionary page is sufficient, by name."""
    found = {name: pages.values(row_group, at, kind) for name, (at, kind) in places.items()}
    return {name: values for name, values in found.items() if values is not None}


def _values(
    chunk: pa.Array, get: Callable[[pa.Array, Mapping[int, Any]], pa.Array], constants: Any
) -> pa.Array:
    """Returns the values of a leaf; the entries of a dictionary are converted to the table's type."""
    if pa.types.is_dictionary(chunk.type):
        return pa.DictionaryArray.from_arrays(
            chunk.indices, get(plain(chunk.dictionary), constants), safe=False
        )
    return get(plain(chunk), constants)


def _shares_of(task: FileTask, limit: int) -> list[Share]:
    """Divides a data file into shares of about `limit` bytes, at row groups."""
    size = task.data.file_size_in_bytes
    count = max(1, min(row_groups_of(task), -(-size // limit)))
    return [(task, number, count) for number in range(count)]


def _share_bytes(share: Share) -> int:
    task, _, count = share
    return task.data.file_size_in_bytes // count


def _shares(tasks: Sequence[FileTask], threads: int) -> Iterator[Share]:
    for task in tasks:
        count = parts_of(task, len(tasks), threads)
        yield from ((task, number, count) for number in range(count))


def _chunk_sizes(footer: pq.FileMetaData) -> dict[str, int]:
    """Returns the uncompressed bytes of each leaf's column chunks, by path."""
    found: dict[str, int] = {}
    for number in range(footer.num_row_groups):
        row_group = footer.row_group(number)
        for at in range(row_group.num_columns):
            chunk = row_group.column(at)
            path = chunk.path_in_schema
            found[path] = found.get(path, 0) + chunk.total_uncompressed_size
    return found


def _groups(names: list[str], row_group: pq.RowGroupMetaData) -> Iterator[list[str]]:
    """Groups the columns to decode together: many small chunks, or one large chunk."""
    sizes: dict[str, int] = {}
    for at in range(row_group.num_columns):
        chunk = row_group.column(at)
        top = chunk.path_in_schema.partition(".")[0]
        sizes[top] = sizes.get(top, 0) + chunk.total_uncompressed_size
    group: list[str] = []
    n_bytes = 0
    for name in names:
        size = sizes.get(name, READ_BYTES)
        if group and n_bytes + size > READ_BYTES:
            yield group
            group, n_bytes = [], 0
        group.append(name)
        n_bytes += size
    if group:
        yield group
