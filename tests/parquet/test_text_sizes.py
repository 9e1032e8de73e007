"""Sizes of texts are those that PyArrow decodes: exact for DELTA_BYTE_ARRAY, an upper bound for dictionaries."""

from __future__ import annotations

import io
import itertools
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast.parquet.text_sizes import repeated_bytes, stored_pages

TEXTS = st.lists(st.none() | st.text("ab", max_size=300) | st.just("long " * 100), max_size=400)
CODECS = ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]


def size_of(rows: pa.Table, **options: Any) -> tuple[int, int]:
    """Bytes that repeat, and bytes of all pages without compression."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, data_page_size=500, write_batch_size=50, **options)
    footer = pq.read_metadata(sink)
    data, repeated, raw = memoryview(sink.getvalue()), 0, 0
    for number in range(footer.num_row_groups):
        chunk, column = footer.row_group(number).column(0), footer.schema.column(0)
        start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)), default=0)
        pages = stored_pages(data[start : start + chunk.total_compressed_size])
        assert sum(page.n_values for page in pages if page.kind != 2) == chunk.num_values
        levels = {"repeats": column.max_repetition_level > 0, "is_optional": column.max_definition_level > 0}
        repeated += repeated_bytes(pages, chunk.compression, **levels)
        raw += sum(page.raw_bytes for page in pages)
    return repeated, raw


def saved_by_prefixes(texts: list[str]) -> int:
    """What the texts of one page share with the one before."""
    shared = 0
    for before, text in itertools.pairwise(texts):
        n = min(len(before), len(text))
        shared += next((at for at in range(n) if before[at] != text[at]), n)
    return shared


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", CODECS)
@given(texts=TEXTS)
def test_common_beginnings_are_added_up(codec: str, version: str, texts: list[str | None]) -> None:
    options = {
        "compression": codec,
        "use_dictionary": False,
        "data_page_version": version,
        "column_encoding": {"a": "DELTA_BYTE_ARRAY"},
    }
    page = texts[:50]  # no writer ends a page within a batch
    found, _ = size_of(pa.table({"a": pa.array(page, pa.string())}), **options)
    assert found == saved_by_prefixes([text for text in page if text is not None])
    options["column_encoding"] = {"a.list.element": "DELTA_BYTE_ARRAY"}
    found, _ = size_of(pa.table({"a": pa.array([None, [], page], pa.list_(pa.string()))}), **options)
    assert found == saved_by_prefixes([text for text in page if text is not None])


@pytest.mark.parametrize("encoding", [None, "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
@given(texts=TEXTS)
def test_no_text_is_longer_than_counted(encoding: str | None, texts: list[str | None]) -> None:
    options: dict[str, Any] = {"use_dictionary": encoding is None}
    if encoding is not None:
        options["column_encoding"] = {"a": encoding}
    repeated, raw = size_of(pa.table({"a": pa.array(texts, pa.string())}), **options)
    assert repeated + raw >= sum(len(text) for text in texts if text is not None)


def test_a_dictionary_counts_where_another_encoding_follows_it() -> None:
    texts = [f"{n:0100d}" for n in range(20)] * 100 + [f"{n:0100d}" for n in range(3000)]
    options = {"dictionary_pagesize_limit": 3000, "data_page_version": "2.0", "compression": "zstd"}
    repeated, raw = size_of(pa.table({"a": texts}), **options)
    assert repeated + raw >= sum(map(len, texts))


@pytest.mark.parametrize("at", range(0, 60, 3))
def test_damaged_lengths_are_a_value_error_or_other_lengths(at: int) -> None:
    sink = io.BytesIO()
    rows = pa.table({"a": [f"common {n}" for n in range(300)]})
    pq.write_table(
        rows, sink, compression="none", use_dictionary=False, column_encoding={"a": "DELTA_BYTE_ARRAY"}
    )
    chunk = pq.read_metadata(sink).row_group(0).column(0)
    first = chunk.data_page_offset
    data = bytearray(sink.getvalue()[first : first + chunk.total_compressed_size])
    for byte in (0, 1, 0x7F, 0xFF):
        changed = bytearray(data)
        changed[at + 20] = byte
        for size in (len(changed), at + 30):
            try:
                pages = stored_pages(memoryview(changed[:size]))
                repeated_bytes(pages, "UNCOMPRESSED", repeats=False, is_optional=True)
            except ValueError:
                pass
