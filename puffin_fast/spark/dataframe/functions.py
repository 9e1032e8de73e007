"""Column functions: one vector or list of positions per row, one vector or theta sketch per group.

Each applies a function of `puffin_fast.arrow` in an `arrow_udf` (PySpark 4.1 and later) or a `pandas_udf`. The result
for a null is null, as in SQL; a null inside of a list is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from puffin_fast.errors import InvalidInputError, UnsupportedError
from puffin_fast.spark.session.executor_calls import by_name
from puffin_fast.spark.session.sessions import pyspark_version, worker_python

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

__all__ = [
    "cardinality",
    "contains",
    "decode",
    "encode",
    "register_functions",
    "theta_estimate",
    "theta_sketch",
    "theta_union",
    "union",
]
Via = Literal["auto", "arrow", "pandas"]


def __dir__() -> list[str]:
    return sorted(__all__)


SQL_PREFIX = "puffin_"
"""Begins the names of the functions in SQL."""

ARROW_UDF = (4, 1)
"""The first PySpark series with `arrow_udf`."""

_RETURNS = {
    "encode": "binary",
    "decode": "array<bigint>",
    "cardinality": "bigint",
    "contains": "boolean",
    "theta_estimate": "double",
}
"""The types of the results of scalar functions, as Spark's DDL."""

_AGGREGATES = ("union", "theta_sketch", "theta_union")
"""Functions of groups, whose results are binary."""


def _by_arrow(via: Via) -> bool:
    """Returns whether to use an `arrow_udf`."""
    if via not in ("auto", "arrow", "pandas"):
        raise InvalidInputError(f"via: expected 'auto', 'arrow' or 'pandas', found {via!r}")
    has = pyspark_version() >= ARROW_UDF
    if via == "arrow" and not has:
        raise UnsupportedError("arrow_udf exists from PySpark 4.1 on: take via='pandas' here")
    return has and via != "pandas"


def _way(name: str, via: Via) -> tuple[Callable[[], Callable[..., Any]], type, Any]:
    """Returns a function of `worker.columns`, the type of its arguments, and PySpark's maker of such UDFs."""
    by_arrow = _by_arrow(via)
    from pyspark.sql import functions

    from puffin_fast.spark.worker import columns

    makers: Any = functions  # missing in PySpark's stubs
    if by_arrow:
        import pyarrow as pa

        return by_name(getattr(columns, name)), pa.Array, makers.arrow_udf
    import pandas as pd

    find = by_name(columns.over_pandas, inner=getattr(columns, name))
    return find, pd.Series, makers.pandas_udf


def _annotated(function: Callable[..., Any], kind: type, arity: int, returns: type) -> Callable[..., Any]:
    """Adds the type hints by which Spark recognises scalar and aggregate functions; they must be objects, not names."""
    names = ("first", "second")[:arity]
    function.__annotations__ = dict.fromkeys(names, kind) | {"return": returns}
    return function


def _scalar(name: str, via: Via) -> Any:
    """The UDF of a scalar function."""
    find, kind, make = _way(name, via)

    def one(first: Any) -> Any:
        return find()(first)

    def two(first: Any, second: Any) -> Any:
        return find()(first, second)

    arity = 2 if name == "contains" else 1
    function = _annotated(two if arity == 2 else one, kind, arity, kind)
    function.__name__ = f"dv_{name}"
    return make(function, _RETURNS[name])


def _aggregate(name: str, via: Via) -> Any:
    """The UDF of a function of groups."""
    find, kind, make = _way(name, via)

    def group(first: Any) -> Any:
        return find()(first)

    aggregate = _annotated(group, kind, 1, bytes)
    aggregate.__name__ = f"dv_{name}"
    return make(aggregate, "binary")


def _used(udf: Any, *columns: Column | str) -> Column:
    """The column of a UDF in the Python of `worker_python`: Spark keeps it when the UDF is first used."""
    with worker_python():
        column: Column = udf(*columns)
    return column


def register_functions(session: SparkSession) -> None:
    """Registers the functions of this module for SQL, with the prefix `SQL_PREFIX`. PySpark 4.0 has no `arrow_udf`,
    and then none is registered."""
    if pyspark_version() < ARROW_UDF:
        return
    with worker_python():
        for name in _RETURNS:
            session.udf.register(f"{SQL_PREFIX}{name}", _scalar(name, "arrow"))
        for name in _AGGREGATES:
            session.udf.register(f"{SQL_PREFIX}{name}", _aggregate(name, "arrow"))


def encode(positions: Column | str, *, via: Via = "auto") -> Column:
    """Encodes lists of positions as vectors.

    Args:
        positions: array<bigint>, in any order, may have duplicates.
        via: ``arrow`` for an `arrow_udf`, ``pandas`` for a `pandas_udf`, ``auto`` for an `arrow_udf` if PySpark has it.

    Returns:
        binary: ``deletion-vector-v1`` blobs.

    Raises:
        UnsupportedError: ``arrow`` on PySpark 4.0.
        InvalidInputError: when it runs, a null inside a list, or a position that is negative or too large.
    """
    return _used(_scalar("encode", via), positions)


def decode(blob: Column | str, *, via: Via = "auto") -> Column:
    """Decodes vectors to ascending lists of positions, array<bigint>; arguments as for `encode`.

    Raises:
        CorruptDataError: when it runs, a blob is not a valid vector.
    """
    return _used(_scalar("decode", via), blob)


def cardinality(blob: Column | str, *, via: Via = "auto") -> Column:
    """Returns the number of positions of each vector, bigint; arguments as for `encode`.

    Raises:
        CorruptDataError: when it runs, a blob is not a valid vector.
    """
    return _used(_scalar("cardinality", via), blob)


def contains(blob: Column | str, pos: Column | str, *, via: Via = "auto") -> Column:
    """Returns whether each row's position is in the row's vector, boolean; arguments as for `encode`.

    Raises:
        CorruptDataError: when it runs, a blob is not a valid vector.
    """
    function = _scalar("contains", via)
    if _by_arrow(via):
        return _used(function, blob, pos)
    from pyspark.sql import functions

    position = functions.col(pos) if isinstance(pos, str) else pos
    # pandas converts a column of integers with a null to floats
    filled = functions.coalesce(position, functions.lit(0))
    return functions.when(position.isNotNull(), _used(function, blob, filled))


def union(blob: Column | str, *, via: Via = "auto") -> Column:
    """Aggregate: unites the vectors of a group, binary; nulls are skipped. Arguments as for `encode`.

    Spark passes a whole group to one call: for groups larger than memory use `union_vectors`.

    Raises:
        CorruptDataError: when it runs, a blob is not a valid vector.
    """
    return _used(_aggregate("union", via), blob)


def theta_sketch(values: Column | str, *, via: Via = "auto") -> Column:
    """Aggregate: the theta sketch of a group's distinct values, binary; nulls and empty strings are not counted.

    Spark passes a whole group to one call: for whole columns use `theta_sketches`. Arguments as for `encode`; with
    ``pandas``, values are converted to Python one by one.

    Raises:
        InvalidInputError: when it runs, the type of the values has no sketches.
    """
    if _by_arrow(via):
        return _used(_aggregate("theta_sketch", via), values)
    from pyspark.sql import functions

    column = functions.col(values) if isinstance(values, str) else values
    # pandas converts a column of integers with a null to floats
    arrays = functions.when(column.isNotNull(), functions.array(column))
    return _used(_aggregate("theta_sketch", via), arrays)


def theta_union(sketch: Column | str, *, via: Via = "auto") -> Column:
    """Aggregate: unites the theta sketches of a group, binary; nulls are skipped. Arguments as for `encode`.

    Raises:
        CorruptDataError, UnsupportedError: when it runs, a value is not a valid sketch.
    """
    return _used(_aggregate("theta_union", via), sketch)


def theta_estimate(sketch: Column | str, *, via: Via = "auto") -> Column:
    """Returns the estimated number of distinct values of each theta sketch, double; arguments as for `encode`.

    Raises:
        CorruptDataError, UnsupportedError: when it runs, a value is not a valid sketch.
    """
    return _used(_scalar("theta_estimate", via), sketch)
