"""How many bytes the strings of a Parquet file become, without decoding them.

A dictionary page holds a value once, and data pages refer to it as often as they like: some kilobytes become gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from puffin_fast._io import open_source
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.errors import CorruptDataError, LimitExceededError
from puffin_fast.parquet.arrow_file import ArrowFile
from puffin_fast.parquet.footer import check_footer
from puffin_fast.parquet.page_codecs import CODEC_ERRORS
from puffin_fast.parquet.text_sizes import StoredPage, repeated_bytes, stored_pages
from puffin_fast.rows.files.parquet import dictionary_columns

_BATCH_ROWS = 1 << 16

_ITEM_BYTES = 16
"""Bytes of an item of a list or map, without its value: its two levels, its offset and its code in a dictionary."""


def check_decoded(file: pq.ParquetFile, data: bytes, columns: Sequence[str], limit: int, path: str) -> None:
    """Refuses a file in which columns are decoded to more bytes than a limit.

    A value that is in its data page takes its bytes there. Of a dictionary, the longest value is an upper bound; if the
    bound of a row group is above the limit, the values are counted. Of DELTA_BYTE_ARRAY, which repeats the beginning of
    the value before, the lengths are added up. What the footer states about sizes does not count where the headers of
    pages state more.

    Args:
        file: the open file.
        columns: paths of columns; the sizes of their leaves are added.
        limit: in bytes.
        path: the path of the file, for messages.

    Raises:
        LimitExceededError: the stored pages, or the strings, are larger than the limit.
        CorruptDataError: the footer contradicts itself.
    """
    footer = file.metadata
    check_footer(footer, open_source(pa.BufferReader(data)), path)
    paths = [footer.schema.column(at).path for at in range(footer.num_columns)]
    wanted = [
        at
        for at, leaf in enumerate(paths)
        if any(leaf == one or leaf.startswith(f"{one}.") for one in columns)
    ]
    n_bytes = 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        texts: dict[str, int] = {}
        found: dict[str, tuple[list[StoredPage], str, Any]] = {}
        for at in wanted:
            chunk, column = group.column(at), footer.schema.column(at)
            start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)), default=0)
            pages = stored_pages(memoryview(data)[start : start + chunk.total_compressed_size])
            n_values = max(chunk.num_values, sum(page.n_values for page in pages))
            n_raw = max(chunk.total_uncompressed_size, sum(page.raw_bytes for page in pages))
            n_bytes += n_raw + (_ITEM_BYTES * n_values if column.max_repetition_level else 0)
            _check(n_bytes, limit, path)
            if chunk.physical_type == "BYTE_ARRAY" and n_values * n_raw > limit:
                texts[paths[at]] = n_values
                found[paths[at]] = pages, chunk.compression, column
        coded = dictionary_columns(footer, texts)
        if coded:
            with ArrowFile(pa.BufferReader(data), path, read_dictionary=coded) as again:
                if n_bytes + _most(again, number, {leaf: texts[leaf] for leaf in coded}) > limit:
                    for n_batch in _counts(again, number, coded):
                        n_bytes += n_batch
                        _check(n_bytes, limit, path)
        for leaf in sorted(set(texts) - set(coded)):
            pages, codec, column = found[leaf]
            repeats, is_optional = column.max_repetition_level > 0, column.max_definition_level > 0
            try:
                n_bytes += repeated_bytes(pages, codec, repeats=repeats, is_optional=is_optional)
            except (ValueError, *CODEC_ERRORS) as error:
                if is_from_outside(error):
                    raise
                raise CorruptDataError(f"pages of column {leaf}: {error}", path=path) from error
            _check(n_bytes, limit, path)


def _check(n_bytes: int, limit: int, path: str) -> None:
    if n_bytes > limit:
        raise LimitExceededError(
            f"{path}: checkpoint of more than {limit} decoded bytes, the limit for its size"
        )


def _most(file: pq.ParquetFile, group: int, texts: dict[str, int]) -> float:
    """Upper bound of the bytes of a row group's strings, by leaf and number of values; infinite if it is unknown.

    The dictionary is there with the first value. One entry may be a value of a first page without dictionary, which
    says nothing about later pages.
    """
    n_bytes = 0
    for leaf, n_values in texts.items():
        for batch in file.iter_batches(1, row_groups=[group], columns=[leaf]):
            for found in _dictionaries(batch):
                if len(found.dictionary) < 2:
                    return float("inf")
                n_bytes += n_values * pc.max(pc.binary_length(found.dictionary)).as_py()
            break
    return n_bytes


def _counts(file: pq.ParquetFile, group: int, leaves: Sequence[str]) -> Iterator[int]:
    """The bytes of a row group's strings, batch by batch."""
    for leaf in leaves:
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=[leaf]):
            for found in _dictionaries(batch):
                lengths = pc.binary_length(found.dictionary).cast(pa.int64())
                yield pc.sum(lengths.take(found.indices), min_count=0).as_py()


def _dictionaries(batch: pa.RecordBatch) -> Iterator[Any]:
    """The arrays with dictionaries in a batch, at any depth."""
    arrays: list[Any] = list(batch.columns)
    while arrays:
        array = arrays.pop()
        kind = array.type
        if pa.types.is_dictionary(kind):
            yield array
        elif pa.types.is_struct(kind):
            arrays += [array.field(at) for at in range(kind.num_fields)]
        elif pa.types.is_map(kind):
            arrays += [array.keys, array.items]
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            arrays.append(array.values)
