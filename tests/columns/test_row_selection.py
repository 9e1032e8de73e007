"""Both ways of selecting rows by a mask have the same result as Arrow's filter."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from puffin_fast._kernels.rows import set_bits as rows
from puffin_fast.columns.row_selection import RowSelection, flags_of, mask_of, select_rows


@given(
    flags=st.lists(st.tuples(st.booleans(), st.integers(1, 90)), max_size=12),
    noise=st.lists(st.booleans(), max_size=200),
    start=st.integers(0, 70),
)
def test_indexes_and_runs_are_those_of_the_flags(
    flags: list[tuple[bool, int]], noise: list[bool], start: int
) -> None:
    every = [flag for flag, times in flags for _ in range(times)] + noise
    keep = pa.array(every, pa.bool_()).slice(start)
    expected = np.flatnonzero(np.array(every[start:], bool))
    found = select_rows(keep)
    assert found.dtype == np.int32
    assert found.tolist() == expected.tolist()
    assert flags_of(keep).tolist() == every[start:]
    assert mask_of(np.array(every[start:], bool)).equals(keep)
    runs = sum(1 for i, at in enumerate(expected) if i == 0 or expected[i - 1] != at - 1)
    assert len(keep) == 0 or rows.count_runs(keep.buffers()[1], keep.offset, len(keep)) == runs


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.97, 0.999, 1.0])
@pytest.mark.parametrize("start", [0, 3, 64])
def test_filter_and_take_select_the_same_rows(share: float, start: int) -> None:
    rng = np.random.default_rng(7)
    keep = pa.array(rng.random(5000) < share).slice(start)
    n = len(keep)
    columns = [
        pa.array(rng.integers(0, 9, n)),
        pa.array([None if i % 3 else f"s{i}" for i in range(n)]),
        pa.array([[i] * (i % 3) for i in range(n)]).slice(0, n),
        pa.array([{"a": i} if i % 5 else None for i in range(n)]),
        pa.array(rng.random(n) < 0.5),
    ]
    kept = RowSelection(keep)
    assert kept.n_rows == keep.true_count
    for column, left in zip(columns, kept.of(columns), strict=True):
        left.validate(full=True)
        assert left.equals(column.filter(keep))


@pytest.mark.parametrize("n_selected", [1, 400, 4096, 4097, 9000])
def test_few_and_many_rows_of_numbers_are_those_of_arrow(n_selected: int) -> None:
    rng, n = np.random.default_rng(n_selected), 70_000
    flags = np.zeros(n, np.bool_)
    flags[rng.choice(n, n_selected, replace=False)] = True
    numbers = rng.integers(0, 120, n + 3)
    kinds = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
    kinds += [pa.float32(), pa.float64(), pa.date32(), pa.time32("ms"), pa.time64("us"), pa.duration("us")]
    kinds += [pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.decimal128(25, 2), pa.bool_(), pa.string()]
    narrow = {pa.date32(), pa.time32("ms")}  # Arrow casts only integers of their width to these
    columns = [pa.array(numbers.astype(np.int32) if kind in narrow else numbers).cast(kind) for kind in kinds]
    columns.append(pa.array(numbers.astype(np.float16)))
    columns.append(pa.array(numbers, mask=numbers % 7 == 0))
    kept = RowSelection(mask_of(flags))
    sliced = [column.slice(3) for column in columns]
    for column, left in zip(sliced, kept.of(sliced), strict=True):
        left.validate(full=True)
        assert left.type == column.type
        assert left.equals(column.filter(mask_of(flags)))


def test_null_flags_select_no_row() -> None:
    column = pa.array(range(6))
    for flags in ([True, None, False, True, None, True], [None] * 6):
        kept = RowSelection(pa.array(flags, pa.bool_()))
        assert kept.of([column])[0].to_pylist() == [i for i in range(6) if flags[i]]


def test_a_range_outside_of_the_flags_is_refused() -> None:
    out = np.zeros(80, np.int32)
    for start, n in ((0, 65), (64, 1), (1, 64), (2**64 - 1, 2), (0, 2**40)):
        with pytest.raises(ValueError, match="not inside"):
            rows.rows_into(bytes(8), start, n, out)
        with pytest.raises(ValueError, match="not inside"):
            rows.count_runs(bytes(8), start, n)
    for capacity in (0, 1, 63, 64):
        out[:] = -1
        assert rows.rows_into(b"\xff" * 8, 0, 64, out[:capacity]) == capacity
        assert out[:capacity].tolist() == list(range(capacity))
        assert (out[capacity:] == -1).all()
