"""Column functions: one vector or list of positions per row, one vector or theta sketch per group.

Each is Arrow's batch function of `puffin_fast.arrow` behind an `arrow_udf` (PySpark 4.1 and later) or a
`pandas_udf`. A null argument gives a null, as in SQL; inside of a list a null is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from puffin_fast.errors import InvalidInputError, UnsupportedError
from puffin_fast.spark.session.executor_calls import by_name
from puffin_fast.spark.session.sessions import pyspark_version

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = [
    "cardinality",
    "contains",
    "decode",
    "encode",
    "theta_estimate",
    "theta_sketch",
    "theta_union",
    "union",
]

Via = Literal["auto", "arrow", "pandas"]

ARROW_UDF = (4, 1)
"""The first PySpark series with `arrow_udf`."""

_BODIES = "puffin_fast.spark.worker.columns"


def _by_arrow(via: Via) -> bool:
    """Whether this PySpark makes an `arrow_udf` of it."""
    if via not in ("auto", "arrow", "pandas"):
        raise InvalidInputError(f"via: expected 'auto', 'arrow' or 'pandas', found {via!r}")
    has = pyspark_version() >= ARROW_UDF
    if via == "arrow" and not has:
        raise UnsupportedError("arrow_udf exists from PySpark 4.1 on: take via='pandas' here")
    return has and via != "pandas"


def _way(name: str, via: Via) -> tuple[Callable[[], Callable[..., Any]], type, Any]:
    """A body of `_columns`, the type of its columns, and the maker of its kind of UDF."""
    by_arrow = _by_arrow(via)
    from pyspark.sql import functions

    makers: Any = functions  # PySpark's stubs leave both makers out
    if by_arrow:
        import pyarrow as pa

        return by_name(_BODIES, name), pa.Array, makers.arrow_udf
    import pandas as pd

    return by_name(_BODIES, f"{name}_pandas"), pd.Series, makers.pandas_udf


def _annotated(function: Callable[..., Any], kind: type, arity: int, returns: type) -> Callable[..., Any]:
    """Spark tells a scalar from an aggregate by type hints, which must be real objects, not names."""
    names = ("first", "second")[:arity]
    function.__annotations__ = dict.fromkeys(names, kind) | {"return": returns}
    return function


def _scalar(name: str, returns: str, arity: int, via: Via) -> Callable[..., Column]:
    find, kind, make = _way(name, via)

    def one(first: Any) -> Any:
        return find()(first)

    def two(first: Any, second: Any) -> Any:
        return find()(first, second)

    function = _annotated(one if arity == 1 else two, kind, arity, kind)
    function.__name__ = f"dv_{name}"
    made: Callable[..., Column] = make(function, returns)
    return made


def encode(positions: Column | str, *, via: Via = "auto") -> Column:
    """Lists of positions to vectors.

    Args:
        positions: array<bigint>, any order, repeats allowed.
        via: ``arrow`` for an `arrow_udf`, ``pandas`` for a `pandas_udf`, ``auto`` for the first that exists.

    Returns:
        binary: ``deletion-vector-v1`` blobs.

    Raises:
        UnsupportedError: ``arrow`` on PySpark 4.0.
        InvalidInputError: when it runs, a null inside a list, or a position that is negative or too large.
    """
    return _scalar("encode", "binary", 1, via)(positions)


def decode(blob: Column | str, *, via: Via = "auto") -> Column:
    """Vectors to ascending lists of positions, array<bigint>; arguments as for `encode`.

    Raises:
        CorruptDataError: when it runs, a blob that is no vector.
    """
    return _scalar("decode", "array<bigint>", 1, via)(blob)


def cardinality(blob: Column | str, *, via: Via = "auto") -> Column:
    """How many positions each vector holds, bigint; arguments as for `encode`.

    Raises:
        CorruptDataError: when it runs, a blob that is no vector.
    """
    return _scalar("cardinality", "bigint", 1, via)(blob)


def contains(blob: Column | str, pos: Column | str, *, via: Via = "auto") -> Column:
    """Whether each row's position is in the same row's vector, boolean; arguments as for `encode`.

    Raises:
        CorruptDataError: when it runs, a blob that is no vector.
    """
    function = _scalar("contains", "boolean", 2, via)
    if _by_arrow(via):
        return function(blob, pos)
    from pyspark.sql import functions

    position = functions.col(pos) if isinstance(pos, str) else pos
    filled = functions.coalesce(position, functions.lit(0))  # beside a null pandas makes floats of integers
    return functions.when(position.isNotNull(), function(blob, filled))


def union(blob: Column | str, *, via: Via = "auto") -> Column:
    """Aggregate: the union of a group's vectors, binary; nulls are left out. Arguments as for `encode`.

    Spark gives a group to one call whole: for groups larger than memory take `union_vectors`.

    Raises:
        CorruptDataError: when it runs, a blob that is no vector.
    """
    return _aggregate("union", via)(blob)


def theta_sketch(values: Column | str, *, via: Via = "auto") -> Column:
    """Aggregate: the theta sketch of a group's distinct values, binary; nulls and empty strings are not counted.

    Spark gives a group to one call whole: for whole columns take `theta_sketches`. Arguments as for `encode`; with
    ``pandas``, values cross to Python one by one.

    Raises:
        InvalidInputError: when it runs, values of a type without sketches.
    """
    if _by_arrow(via):
        return _aggregate("theta_sketch", via)(values)
    from pyspark.sql import functions

    column = functions.col(values) if isinstance(values, str) else values
    # beside a null pandas makes floats of integers
    return _aggregate("theta_sketch", via)(functions.when(column.isNotNull(), functions.array(column)))


def theta_union(sketch: Column | str, *, via: Via = "auto") -> Column:
    """Aggregate: the union of a group's theta sketches, binary; nulls are left out. Arguments as for `encode`.

    Raises:
        CorruptDataError, UnsupportedError: when it runs, a value that is no sketch.
    """
    return _aggregate("theta_union", via)(sketch)


def theta_estimate(sketch: Column | str, *, via: Via = "auto") -> Column:
    """How many distinct values each theta sketch saw, double; arguments as for `encode`.

    Raises:
        CorruptDataError, UnsupportedError: when it runs, a value that is no sketch.
    """
    return _scalar("theta_estimate", "double", 1, via)(sketch)


def _aggregate(name: str, via: Via) -> Callable[..., Column]:
    find, kind, make = _way(name, via)

    def group(first: Any) -> Any:
        return find()(first)

    aggregate = _annotated(group, kind, 1, bytes)
    aggregate.__name__ = f"dv_{name}"
    made: Callable[..., Column] = make(aggregate, "binary")
    return made
