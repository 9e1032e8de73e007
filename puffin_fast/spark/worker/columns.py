"""On executors: the bodies of the column functions, for Arrow arrays and for pandas Series."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from puffin_fast import arrow
from puffin_fast.errors import InvalidInputError
from puffin_fast.theta import ThetaSketch

if TYPE_CHECKING:
    import pandas as pd


encode, cardinality, contains = arrow.encode, arrow.cardinality, arrow.contains


def decode(blobs: pa.Array) -> pa.Array:
    return arrow.decode(blobs, type=pa.list_(pa.int64()))


def union(blobs: pa.Array) -> bytes:
    kept = blobs.drop_null()
    offsets = pa.array([0, len(kept)], pa.int32())
    found: bytes = arrow.union(pa.ListArray.from_arrays(offsets, kept))[0].as_py()
    return found


def theta_sketch(values: pa.Array) -> bytes:
    return arrow.theta_sketch(values).to_bytes()


def theta_union(sketches: pa.Array) -> bytes:
    return arrow.theta_union(sketches).to_bytes()


def theta_estimate(sketches: pa.Array) -> pa.Array:
    estimates = [
        None if one is None else ThetaSketch.from_bytes(one, path=f"sketches: row {row}").estimate
        for row, one in enumerate(sketches.to_pylist())
    ]
    return pa.array(estimates, pa.float64())


def over_pandas(*series: pd.Series, inner: Callable[..., Any]) -> Any:
    """Calls a function of this module for Series; the result for each row is a Series, that for a group is bytes."""
    first, *others = series
    read = {encode: _lists, theta_sketch: _values}.get(inner, _binary)
    found = inner(read(first), *map(pa.array, others))
    return found if isinstance(found, bytes) else found.to_pandas(integer_object_nulls=True)


def _values(values: pd.Series) -> pa.Array:
    """Converts each value in an array of length 1, because pandas keeps the type of an array."""
    kept = [one for one in values if one is not None]
    if not kept:
        return pa.nulls(0)
    array = pa.array(np.concatenate(kept), from_pandas=False)
    if pa.types.is_timestamp(array.type):
        array = array.cast(
            pa.timestamp("us", array.type.tz)
        )  # pandas converts Spark's microseconds to nanoseconds
    return array


def _lists(positions: pd.Series) -> pa.Array:
    try:
        return pa.array(positions, pa.list_(pa.int64()), from_pandas=True)
    except pa.ArrowException as error:
        raise InvalidInputError(f"lists: expected lists of integers: {error}") from error


def _binary(blobs: pd.Series) -> pa.Array:
    found = pa.array(blobs, from_pandas=True)  # with an explicit type, Arrow would convert numbers to bytes
    return found.cast(pa.binary()) if pa.types.is_null(found.type) else found
