"""Small column chunks that are decoded together have the rows that PyArrow reads, and the errors of each alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin_fast._kernels.parquet import pages
from puffin_fast.columns.plain_types import plain
from puffin_fast.errors import PuffinFastError
from puffin_fast.parquet import column_chunks
from puffin_fast.rows.files.files import reading
from tests.kit.arrays import random_array
from tests.parquet.files import reader_of

N = 700
DECIMALS = ("8", "9", "10")
KINDS = (
    *(pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us")),
    *(pa.time64("us"), pa.decimal128(9, 2), pa.decimal128(18, 2), pa.decimal128(30, 2), pa.binary(12)),
)


def rows(seed: int = 0) -> pa.Table:
    """Columns of every kind: without nulls, with some, of nulls; in structs that are null or not; and texts."""
    rng = np.random.default_rng(seed)
    found: dict[str, pa.Array] = {}
    for at, kind in enumerate(KINDS):
        array = random_array(rng, N, kind, nullable=False)
        some = random_array(rng, N, kind, shares=[0.3])
        last = pc.if_else(pa.array(np.arange(N) < N - 3), array, None)
        found |= {f"full{at}": array, f"some{at}": some, f"last{at}": last, f"none{at}": pa.nulls(N, kind)}
        structs = pa.struct([("t", pa.struct([("x", kind)]))])
        found[f"s{at}"] = random_array(rng, N, structs, shares=[0.2])
    found["text"] = pa.array([f"{n:x}" for n in range(N)])
    fields = [pa.field(name, array.type, not name.startswith("full")) for name, array in found.items()]
    return pa.table(list(found.values()), pa.schema(fields))


NAMES = [
    f"{name}.t.x" if name.startswith("s") and name[1:].isdigit() else name for name in rows().schema.names
]
OPTIONS: dict[str, dict[str, Any]] = {
    "zstd": {"compression": "zstd"},
    "snappy, pages": {"compression": "snappy", "data_page_size": 300, "write_batch_size": 50},
    "none, plain": {"compression": "none", "use_dictionary": False},
    "version 2": {
        "compression": "zstd",
        "data_page_version": "2.0",
        "data_page_size": 300,
        "write_batch_size": 50,
    },
    "sums": {"compression": "zstd", "write_page_checksum": True},
    "row groups": {"compression": "zstd", "row_group_size": 300},
}


def read(path: Path, wanted: Any = None) -> list[dict[str, pa.Array]]:
    """The wanted rows of each row group."""
    reader = reader_of(path)
    with reading(str(path)):
        return [
            reader.columns(group, NAMES, 1000, use_threads=False).read(
                0, n_rows, None if wanted is None else wanted[wanted < n_rows]
            )
            for group, n_rows in enumerate(reader.group_rows)
        ]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("wanted", [None, [], [0], [1, 2, 299, 650, 699], range(0, N, 2)])
def test_rows_are_what_pyarrow_reads(tmp_path: Path, options: dict[str, Any], wanted: Any) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(rows(), path, **options)
    some = None if wanted is None else np.array([*wanted], np.int32)
    file = pq.ParquetFile(path)
    for group, found in enumerate(read(path, some)):
        truth = file.read_row_group(group)
        if some is not None:
            truth = truth.take(pa.array(some[some < truth.num_rows]))
        for name in NAMES:
            found[name].validate(full=True)
            expected = plain(truth[name.partition(".")[0]].combine_chunks())
            assert found[name].equals(expected), (group, name)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_all_numbers_are_decoded_together(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(rows(), path, **options)
    alone = {"text"}
    if options.get("use_dictionary", True):  # of decimals in bytes
        alone |= {name for name in NAMES if re.sub(r"\D", "", name) in DECIMALS}
    assert set(reader_of(path).chunks.read_small(0, NAMES, None)) == set(NAMES) - alone


@settings(deadline=None)
@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), option=st.sampled_from(sorted(OPTIONS)))
def test_a_changed_bit_is_what_each_column_alone_makes_of_it(
    tmp_path_factory: pytest.TempPathFactory, at: float, bit: int, option: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"{option.replace(', ', '-')}.parquet"
    if not path.exists():
        pq.write_table(rows(), path, **OPTIONS[option])
    data = bytearray(path.read_bytes())
    data[4 + int(at * (len(data) - 4))] ^= 1 << bit
    changed = path.with_suffix(".changed")
    changed.write_bytes(data)

    def outcome() -> Any:
        try:
            return read(changed)
        except PuffinFastError as error:
            return type(error), str(error)

    together = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_chunks, "LEAST_TOGETHER", 1 << 30)
        assert together == outcome()


def test_a_column_chunk_that_is_not_in_the_bytes_is_left() -> None:
    words = np.array(
        [[start, n_bytes, 64, 8, 8, pages.SAME, 0, pages.UNCOMPRESSED] for start, n_bytes in OUTSIDE]
    )
    outs = [bytearray(80) for _ in OUTSIDE]
    assert pages.read_chunks(b"\x15\0" * 50, words, 10, None, outs, [None] * len(OUTSIDE)) == [False] * len(
        OUTSIDE
    )


OUTSIDE = [(0, 101), (101, 0), (-1, 8), (0, -1), (50, 51), (1 << 62, 1 << 62), (100, 0)]


@pytest.mark.parametrize(("at", "value"), [(3, 7), (4, 16), (5, 9), (6, 256), (7, pages.OTHER)])
def test_values_that_do_not_exist_are_left(at: int, value: int) -> None:
    words = np.array([[0, 100, 64, 8, 8, pages.SAME, 0, pages.UNCOMPRESSED]])
    words[0, at] = value
    assert pages.read_chunks(bytes(100), words, 10, None, [bytearray(160)], [None]) == [False]


def test_an_output_that_is_too_small_is_refused() -> None:
    words = np.array([[0, 100, 64, 8, 8, pages.SAME, 0, pages.UNCOMPRESSED]])
    with pytest.raises(ValueError, match="output"):
        pages.read_chunks(bytes(100), words, 10, None, [bytearray(79)], [None])
    with pytest.raises(ValueError, match="output"):
        pages.read_chunks(bytes(100), words, 10, None, [bytearray(80)], [bytearray(9)])
