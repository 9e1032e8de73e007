"""Definition levels say which values are null, and which of the structs around them, at every depth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast._kernels.parquet import pages
from tests.kit.arrays import random_array
from tests.parquet.files import reader_of

N = 3_000
KINDS = (pa.int32(), pa.int64(), pa.bool_(), pa.string(), pa.decimal128(30, 2))
STEPS = [
    (0, 5, None),
    (5, 1000, None),
    (1010, 990, np.arange(0, 990, 7, np.int32)),
    (2000, 500, None),
    (2507, 493, np.array([0, 1, 492], np.int32)),
]


@given(levels=st.binary(max_size=70), least=st.integers(0, 255))
def test_bits_are_those_of_the_levels_that_are_high_enough(levels: bytes, least: int) -> None:
    flags = np.frombuffer(levels, np.uint8) >= least
    bits = pages.level_bits(levels, least)
    if bits is None:
        assert flags.all()
        return
    assert not flags.all()
    assert np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[: len(flags)].tolist() == [*flags]


@pytest.mark.parametrize("share", [0.01, 0.2, 0.8, 1.0])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [{}, {"use_dictionary": False, "data_page_size": 500, "write_batch_size": 70}],
    ids=["one page", "pages"],
)
def test_nulls_at_every_depth_are_what_pyarrow_reads(
    tmp_path: Path, share: float, depth: int, options: dict[str, Any]
) -> None:
    rng, path = np.random.default_rng(depth), tmp_path / "data.parquet"
    found = {}
    for at, kind in enumerate(KINDS):
        for _ in range(depth):
            kind = pa.struct([("x", kind)])
        found[f"c{at}"] = random_array(rng, N, kind, shares=[share])
    pq.write_table(pa.table(found), path, compression="zstd", **options)
    names = {name: ".".join([name, *["x"] * depth]) for name in found}
    reader = reader_of(path)
    assert set(reader.chunks.pages_of(0, [*names.values()])) == set(names.values())
    for steps in ([(0, N, None)], STEPS):
        columns = reader.columns(0, [*names.values()], N, use_threads=False)
        for first, n_rows, rows in steps:
            some = columns.read(first, n_rows, rows)
            for name, path_of in names.items():
                expected = found[name].slice(first, n_rows)
                some[path_of].validate(full=True)
                assert some[path_of].equals(expected if rows is None else expected.take(pa.array(rows)))
