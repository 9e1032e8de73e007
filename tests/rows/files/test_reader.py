"""Filters and keys find the same rows whatever the reader leaves out: row groups, pages, values of texts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

import puffin_fast as pf
from puffin_fast.parquet import column_chunks, page_index
from puffin_fast.parquet.footer import Footer
from puffin_fast.rows.files import joined_groups, parquet
from puffin_fast.rows.files.parquet import ParquetReader
from puffin_fast.rows.files.projection import FileSchema
from puffin_fast.rows.files.reader import OpenedFile
from tests.kit.seeds import seeds
from tests.kit.tables import table_of_files
from tests.rows.files.random_files import N, random_rows, row_filter, write


@contextmanager
def all_pages(*, are_read: bool) -> Iterator[None]:
    """Reads all pages, row group by row group; or as little as indexes, filters and dictionaries allow."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LEAST_PICKED", "LEAST_REQUESTED"):
            patch.setattr(column_chunks, name, 1 << 60 if are_read else 0)
        if are_read:
            patch.setattr(Footer, "has_bloom_filters", False)
            patch.setattr(ParquetReader, "has_dictionaries", False)
            patch.setattr(FileSchema, "text_column", lambda *_: None)
            patch.setattr(joined_groups, "_MOST_GROUPS", 1)
        yield


def same(one: pa.Table, other: pa.Table) -> bool:
    return one.equals(other) or str(one.to_pylist()) == str(other.to_pylist())  # with NaN


@pytest.mark.parametrize("seed", seeds(24))
def test_filters_find_the_rows_of_all_pages(
    seed: int, tmp_path: Path, catalog: InMemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, path = random.Random(seed), tmp_path / f"f{seed}.parquet"
    rows = write(rng, path, random_rows(rng))
    table, is_live = table_of_files(catalog, path), np.ones(N, np.bool_)
    if seed % 4 == 3:  # pages are requested of an object store, for few rows at a time
        monkeypatch.setattr(parquet, "is_remote", lambda *_: True)
        monkeypatch.setattr(page_index, "_SMALL", 0)
        monkeypatch.setattr(column_chunks, "AHEAD_BYTES", [0, 1 << 14, 1 << 20][seed // 4 % 3])
        options = {**(OpenedFile.batches.__kwdefaults__ or {}), "batch_rows": 300}
        monkeypatch.setattr(OpenedFile.batches, "__kwdefaults__", options)
    for number in range(14):
        text, matches = row_filter(rng, rows)
        wanted = pc.fill_null(matches, False).to_numpy(zero_copy_only=False) & is_live
        expected, scan = np.flatnonzero(wanted).tolist(), pf.iceberg.scan(table, row_filter=text)
        with all_pages(are_read=True):
            whole = scan.to_arrow()
        some = [*dict.fromkeys(["id", rng.choice(rows.column_names)]), "_pos"]
        with all_pages(are_read=False):
            assert same(scan.to_arrow(), whole), text
            assert scan.count() == len(expected), text
            part = pf.iceberg.scan(table, row_filter=text, selected_fields=some, string_views=True).to_arrow()
        assert whole["id"].to_pylist() == part["_pos"].to_pylist() == expected, text
        assert same(part.select(some[:-1]).cast(whole.select(some[:-1]).schema), whole.select(some[:-1])), (
            text
        )
        if number in (5, 10):
            gone = wanted & (np.arange(N) % 3 != 1)
            assert pf.iceberg.delete(table, f"({text}) and id % 3 <> 1").rows_deleted == gone.sum()
            is_live &= ~gone
            assert pf.iceberg.scan(table).count() == is_live.sum()


@pytest.mark.parametrize("seed", seeds(3))
def test_deletes_by_keys_and_filters_hit_the_same_rows(
    seed: int, tmp_path: Path, catalog: InMemoryCatalog
) -> None:
    rng, found = random.Random(seed), list[Any]()
    rows = random_rows(rng)
    name = rng.choice(["i", "t", "b", "n", "day", "at", "d"])
    known = pc.unique(rows[name].drop_null()).to_pylist()
    keys = pa.array(rng.sample(known, min(3, len(known))), rows[name].type)
    text, given = row_filter(rng, rows.drop_columns(["x", "s", "l", "m"]))[0], rows.slice(rng.randrange(N), 2)
    for are_read in (False, True):
        with all_pages(are_read=are_read):
            path = tmp_path / f"{are_read}.parquet"
            stored = write(random.Random(seed), path, rows)
            table = table_of_files(catalog, path)
            pf.iceberg.delete(table, text)
            pf.iceberg.delete_keys(table, keys, name)
            if not given["i"].null_count and given["i"][0] != given["i"][1]:
                pf.iceberg.upsert(table, given.select(stored.column_names), "i", duplicate_keys="replace")
            found.append(sorted(map(str, pf.iceberg.scan(table).to_arrow().to_pylist())))
    assert found[0] == found[1], (name, keys, text)
