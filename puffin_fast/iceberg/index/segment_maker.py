"""Makes segments of a key index from the key columns of data files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from puffin_fast._concurrency.streams import in_order
from puffin_fast._pyiceberg.metadata import without_history
from puffin_fast.columns.plain_types import plain
from puffin_fast.key_index import (
    ChunkPages,
    CoveredFile,
    KeyWords,
    encode_words,
    kind_of,
)
from puffin_fast.rows.files.conversion import storage_type
from puffin_fast.rows.files.metadata_columns import METADATA_COLUMNS
from puffin_fast.rows.files.reader import DataFiles

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

    from puffin_fast.iceberg.manifest import ManifestEntry


@dataclass(frozen=True)
class SegmentMaker:
    """Makes segments of data files; may be pickled.

    Attributes:
        io: PyIceberg's file access.
        metadata: the metadata of the table; its history may be removed.
        field_ids: the field ids of the key columns.
    """

    io: FileIO
    metadata: TableMetadata
    field_ids: tuple[int, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The canonical forms of the key columns."""
        schema = self.metadata.schema()
        return tuple(kind_of(storage_type(schema.find_field(id).field_type)) for id in self.field_ids)

    def without_history(self) -> SegmentMaker:
        """Returns a maker that is sent to workers."""
        return replace(self, metadata=without_history(self.metadata))

    def segments(self, new: Sequence[ManifestEntry], most_rows: int, threads: int) -> Iterator[bytes]:
        """Yields segments of data files; none has a data file whose keys cannot be indexed.

        Args:
            new: the data files.
            most_rows: the maximum number of rows of a segment, if it has several data files.
            threads: number of data files read at a time.
        """
        kinds = self.kinds
        files: list[CoveredFile] = []
        words: list[KeyWords] = []
        stored_row_ids: list[int] = []
        pages: list[Sequence[ChunkPages]] = []
        n_rows = 0
        reader = DataFiles(self.io, self.metadata, self.metadata.schema(), self.field_ids)

        def read(job: Sequence[ManifestEntry]) -> Iterator[FileKeys | None]:
            return (key_words(reader, data, self.field_ids) for data in job)

        jobs = [[data] for data in new]
        for data, found in zip(new, in_order(jobs, read, threads, label="reading keys"), strict=True):
            if found is None:
                continue
            if files and n_rows + data.record_count > most_rows:
                yield encode_words(
                    kinds, words, files, self.field_ids, stored_row_ids=stored_row_ids, pages=pages
                )
                files, words, stored_row_ids, pages, n_rows = [], [], [], [], 0
            if found.has_row_ids:
                stored_row_ids.append(len(files))
            files.append(covered(data))
            words += found.words
            pages.append(found.pages)
            n_rows += data.record_count
        if files:
            yield encode_words(
                kinds, words, files, self.field_ids, stored_row_ids=stored_row_ids, pages=pages
            )


Encode: TypeAlias = "Callable[[SegmentMaker, Sequence[ManifestEntry], int], Iterable[bytes]]"
"""Makes segments of data files, each with at most a number of rows; see `SegmentMaker.segments`."""


def covered(data: ManifestEntry) -> CoveredFile:
    """Returns a data file as a segment names it."""
    return CoveredFile(data.file_path, data.file_size_in_bytes, data.record_count)


class FileKeys(NamedTuple):
    """The keys of a data file.

    Attributes:
        words: the words of consecutive rows, deleted ones included.
        has_row_ids: whether the file has a column of row ids.
        pages: where the pages of the columns are, as far as this is known.
    """

    words: list[KeyWords]
    has_row_ids: bool
    pages: Sequence[ChunkPages]


def key_words(
    reader: DataFiles, data: ManifestEntry, field_ids: Sequence[int], kinds: Sequence[str] | None = None
) -> FileKeys | None:
    """Reads the keys of all rows of a data file.

    Args:
        reader: opens data files, with the key columns as fields of its filter.
        data: the data file.
        field_ids: the field ids of the key columns, in the order of the index.
        kinds: the canonical forms of the keys; by default those of the table's types.

    Returns:
        the keys; None if a column is found by a name mapping, which may change, or is not in the
        file but a value of its partition, which another manifest may state otherwise.
    """
    file = reader.open(data)
    if file.schema.by_names or any(id in file.constants and id not in file.schema for id in field_ids):
        return None
    pages: list[ChunkPages] = []
    words = [
        KeyWords.of([plain(batch.filter_values[field_id]) for field_id in field_ids], kinds)
        for batch in file.batches(places=pages)
    ]
    return FileKeys(words, METADATA_COLUMNS["_row_id"].field_id in file.schema, pages)
