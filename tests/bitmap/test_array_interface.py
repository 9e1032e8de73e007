"""Bitmaps as NumPy arrays, and masks that are series of other packages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import puffin_fast as pf
from puffin_fast.errors import InvalidInputError

BITMAP = pf.PositionBitmap.from_positions([5, 0, 70_000, 2**32 + 3])
POSITIONS = [0, 5, 70_000, 2**32 + 3]


def test_a_bitmap_is_an_array_of_its_positions() -> None:
    array = np.asarray(BITMAP)
    assert (array.dtype, array.tolist()) == (np.uint64, POSITIONS)
    assert np.asarray(pf.PositionBitmap()).tolist() == []
    assert np.isin([5, 6], BITMAP).tolist() == [True, False]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64, ">i8", object])
def test_a_bitmap_is_an_array_of_any_dtype(dtype: Any) -> None:
    array = np.asarray(BITMAP, dtype=dtype)
    assert array.dtype == np.dtype(dtype)
    assert array.tolist() == POSITIONS


def test_numpy_2_raises_when_a_copy_is_forbidden() -> None:
    assert np.array(BITMAP, copy=True).tolist() == np.array(BITMAP, copy=None).tolist() == POSITIONS
    with pytest.raises(ValueError, match="copy"):
        np.array(BITMAP, copy=False)


def test_numpy_s_operators_refuse_a_bitmap() -> None:
    array = np.arange(4)
    for operation in (
        lambda: array - BITMAP,
        lambda: BITMAP - array,
        lambda: BITMAP | array,
        lambda: array & BITMAP,
        lambda: np.add(array, BITMAP),
    ):
        with pytest.raises(TypeError):
            operation()


FLAGS = [True, None, False, True]
MASKS = {
    "Polars": pl.Series(FLAGS),
    "Polars in chunks": pl.concat([pl.Series(FLAGS[:1]), pl.Series(FLAGS[1:])], rechunk=False),
    "pandas": pd.Series([flag is True for flag in FLAGS]),
    "pandas with another index": pd.Series([flag is True for flag in FLAGS], index=[9, 8, 7, 6]),
    "pandas' boolean": pd.Series(FLAGS, dtype="boolean"),
    "pandas on Arrow": pd.Series(FLAGS, dtype=pd.ArrowDtype(pa.bool_())),
    "objects of pandas": pd.Series(FLAGS, dtype=object),
    "pandas' array": pd.array(FLAGS, dtype="boolean"),
    "chunked": pa.chunked_array([FLAGS[:2], FLAGS[2:]]),
    "a list": [flag is True for flag in FLAGS],
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_a_mask_may_be_a_series(mask: Any) -> None:
    assert list(pf.PositionBitmap.from_mask(mask)) == [0, 3]


WRONG = {
    "numbers of Polars": pl.Series([1, 0]),
    "text of Polars": pl.Series(["a"]),
    "numbers of pandas": pd.Series([1, 0]),
    "a frame of Polars": pl.DataFrame({"a": [True]}),
    "a frame of pandas": pd.DataFrame({"a": [True]}),
    "text": "abc",
    "objects": pd.Series([object()]),
}


@pytest.mark.parametrize("mask", WRONG.values(), ids=WRONG)
def test_other_objects_are_refused_as_masks(mask: Any) -> None:
    with pytest.raises(InvalidInputError, match="mask"):
        pf.PositionBitmap.from_mask(mask)
