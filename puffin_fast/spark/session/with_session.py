"""Functions of `pf.spark` are called with the session as the first argument, or without it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from puffin_fast.errors import InvalidInputError
from puffin_fast.spark.session.sessions import is_session, pyspark_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result", covariant=True)


class WithOrWithout(Protocol[Arguments, Result]):
    """A function that may be called with the session before its own arguments."""

    @overload
    def __call__(
        self, spark: SparkSession | DataFrame, /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result: ...
    @overload
    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result: ...


def of_session(
    function: Callable[Concatenate[SparkSession | DataFrame, Arguments], Result],
) -> WithOrWithout[Arguments, Result]:
    """Decorates a function of a session, or a DataFrame of it. Without it, the active session is taken.

    Raises:
        InvalidInputError: no session is given, and none is active.
    """

    known = signature(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "spark" in kwargs or (args and (args[0] is None or _is_of_session(args[0]))):
            return function(*args, **kwargs)
        if not _fits(known, None, *args, **kwargs) and _fits(known, *args, **kwargs):
            return function(*args, **kwargs)  # which says that the first argument is no session
        return function(_active(function.__name__), *args, **kwargs)

    return call


def of_dataframe(function: Callable[Arguments, Result]) -> WithOrWithout[Arguments, Result]:
    """Decorates a function of a DataFrame. It uses the session of the DataFrame: a stream has sessions of its own."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if args and is_session(args[0]):
            args = args[1:]
        return function(*args, **kwargs)

    return call


def _fits(known: Signature, *args: Any, **kwargs: Any) -> bool:
    try:
        known.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _is_of_session(value: Any) -> bool:
    return is_session(value) or is_session(getattr(value, "sparkSession", None))


def _active(name: str) -> Any:
    pyspark_version()
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise InvalidInputError(
            f"{name}: expected a SparkSession as the first argument, found none that is active"
        )
    return session
