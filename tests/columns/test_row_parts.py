"""Rows in parts that fit in memory: each row once, all rows of a key in one part, errors that name the files."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from puffin_fast.columns.even_tables import even_tables
from puffin_fast.columns.plain_types import plain_rows
from puffin_fast.columns.row_parts import Division, RowParts, in_parts
from puffin_fast.errors import PuffinFastError

MIXER = np.uint64(0x9E3779B97F4A7C15)


def mixed(rows: pa.Table) -> np.ndarray:
    return rows["key"].to_numpy().astype(np.uint64) * MIXER


def alike(rows: pa.Table) -> np.ndarray:
    """Hashes whose upper 15 bits are equal."""
    return mixed(rows) >> np.uint64(15)


def tables(keys: np.ndarray, n_rows: int = 1000) -> Iterator[pa.Table]:
    rows = pa.table({"key": keys, "row": np.arange(len(keys))})
    return (pa.Table.from_batches([batch]) for batch in rows.to_batches(max_chunksize=n_rows))


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("hashes", [mixed, alike])
@pytest.mark.parametrize("limit", [1000, 20_000, 100_000, 1 << 30])
@pytest.mark.parametrize("n_keys", [1, 50, 20_000])
def test_each_row_is_in_one_part_with_all_rows_of_its_key(hashes: object, limit: int, n_keys: int) -> None:
    keys = np.random.default_rng(n_keys).integers(0, n_keys, 20_000)
    division = Division(hashes, lambda rows: int(rows.nbytes), limit)  # type: ignore[arg-type]
    with in_parts(tables(keys), division, lambda rows: rows, "rows") as parts:
        assert parts.in_memory == (limit > 16 * 20_000)
        for _ in range(2):
            found = list(parts)
            assert len(found) == len(parts)
            rows = np.sort(np.concatenate([part["row"].to_numpy() for part in found]))
            assert np.array_equal(rows, np.arange(20_000))
            of_parts = [set(part["key"].to_pylist()) for part in found]
            assert sum(map(len, of_parts)) == len(set().union(*of_parts)) == len(np.unique(keys))
            for part in found:
                assert part.nbytes <= limit or len(np.unique(part["key"])) == 1, "a part above the limit"


def test_repeated_rows_are_dropped_before_they_count() -> None:
    keys = np.tile(np.arange(100), 1000)
    rows = (table.select(["key"]) for table in tables(keys, 10_000))
    division = Division(
        mixed, lambda rows: int(rows.nbytes), 1 << 17, lambda rows: rows.group_by("key").aggregate([])
    )
    with in_parts(rows, division, lambda rows: rows.num_rows, "rows") as parts:
        assert list(parts) == [100]


def divided(keys: np.ndarray) -> RowParts[pa.Table]:
    with in_parts(
        tables(keys), Division(mixed, lambda rows: int(rows.nbytes), 10_000), lambda rows: rows, "rows"
    ) as parts:
        return parts


def test_files_that_cannot_be_opened_are_named_and_removed() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    n_open = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (n_open + 40, before[1]))
    try:
        with pytest.raises(
            PuffinFastError, match=r"rows: could not be written to temporary files: .*Too many open files"
        ):
            divided(np.arange(10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(os.listdir("/proc/self/fd")) <= n_open + 1


@pytest.mark.parametrize("how", [Path.unlink, lambda path: os.truncate(path, 100)], ids=["removed", "cut"])
def test_files_that_cannot_be_read_are_named(temporary: Path, how: object) -> None:
    division = Division(mixed, lambda rows: int(rows.nbytes), 10_000)
    with in_parts(tables(np.arange(10_000)), division, lambda rows: rows, "rows") as parts:
        for path in next(temporary.iterdir()).iterdir():
            how(path)  # type: ignore[operator]
        with pytest.raises(PuffinFastError, match="rows: could not be read from temporary files"):
            list(parts)


@pytest.mark.parametrize("sizes", [[1] * 3000, [100_000, 1, 0, 7], [], [0]])
def test_batches_of_any_size_become_tables_of_a_usual_size(sizes: list[int]) -> None:
    schema = pa.schema([("a", pa.int64()), ("s", pa.dictionary(pa.int32(), pa.string()))])
    ends = np.cumsum([0, *sizes])
    text = pa.DictionaryArray.from_arrays(pa.array(np.arange(ends[-1]) % 2, pa.int32()), ["x" * 1000, "y"])
    rows = pa.table([pa.array(np.arange(ends[-1])), text], schema=schema).to_batches()
    batches = [rows[0].slice(start, size) for start, size in zip(ends, sizes, strict=False)] if rows else []
    for decode in (None, plain_rows):
        found = list(even_tables(batches, 1 << 20, decode))
        assert [at for table in found for at in table["a"].to_pylist()] == list(range(ends[-1]))
        assert len(found) <= 5 + sum(table.nbytes for table in found) // (1 << 18)
        assert all(table.nbytes <= 2 << 20 for table in found)
