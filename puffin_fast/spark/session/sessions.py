"""Checks of DataFrames and sessions, and translation of Spark's errors to the errors of this package.

A session is never started here: it comes from the DataFrame. Classic sessions and Spark Connect use the same code.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any

from puffin_fast import errors
from puffin_fast._api.packages import TABLE_PACKAGES
from puffin_fast._process.interrupt import interruptible, suppressed
from puffin_fast._text import shown_argument
from puffin_fast.errors import (
    InvalidInputError,
    JobInterruptedError,
    MissingExtraError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_LOG = logging.getLogger(__name__)

OLDEST = (4, 0)
"""The first PySpark series with `DataFrame.toArrow` and one DataFrame class for classic and Connect."""

INTEGERS = ("tinyint", "smallint", "int", "bigint")
"""Spark's integer types; each is cast to a position (long) without loss."""

NO_PACKAGE = "puffin_fast cannot be imported on the executor"
"""The beginning of the error message of an executor that cannot import this package."""


def pyspark_version() -> tuple[int, int]:
    """Major and minor version of the installed PySpark.

    Raises:
        MissingExtraError: PySpark is not installed.
        UnsupportedError: it is older than 4.0.
    """
    try:
        from pyspark import __version__
    except ImportError as error:
        raise MissingExtraError("pyspark", extra="spark") from error
    major, minor = (int(part) for part in __version__.split(".")[:2])
    if (major, minor) < OLDEST:
        raise UnsupportedError(f"PySpark {__version__}: 4.0 or later is needed")
    return major, minor


def _check_arrow() -> None:
    """Raises UnsupportedError when PySpark does not work with the installed PyArrow."""
    from pyspark.sql.pandas.utils import require_minimum_pyarrow_version

    try:
        require_minimum_pyarrow_version()
    except (ImportError, RuntimeError) as error:
        raise UnsupportedError(f"Spark cannot use Arrow in this Python: {error}") from error


_PYTHON = Lock()
"""Held while the Python of a context is changed."""


@contextmanager
def worker_python() -> Iterator[None]:
    """Functions that are passed to Spark in the block run in this interpreter, if the context is local and no Python is
    configured.

    By default, PySpark uses the first python3 of PATH, which does not have the packages of a virtual environment that
    is not activated. It stores the interpreter with each function, so the setting is changed only during the block.
    """
    import pyspark

    # PySpark's client for Connect has no contexts
    context: Any = getattr(getattr(pyspark, "SparkContext", None), "_active_spark_context", None)
    if (
        context is None
        or "PYSPARK_PYTHON" in os.environ
        or not str(context.master).startswith("local")
        or context.getConf().contains("spark.pyspark.python")
    ):
        yield
        return
    with _PYTHON:
        configured = context.pythonExec
        try:
            context.pythonExec = sys.executable
            yield
        finally:
            context.pythonExec = configured


def check_dataframe(df: object) -> DataFrame:
    """Checks that an object is a batch DataFrame, classic or Connect, and returns it.

    Raises:
        InvalidInputError: not a DataFrame of PySpark.
        UnsupportedError: a streaming DataFrame, a PySpark before 4.0, or a PyArrow that PySpark refuses.
    """
    pyspark_version()
    from pyspark.sql import DataFrame

    if not isinstance(df, DataFrame):
        raise InvalidInputError(f"expected a PySpark DataFrame, found {shown_argument(df)}")
    _check_arrow()
    if df.isStreaming:
        raise UnsupportedError("expected a batch DataFrame, found a streaming one: call this in foreachBatch")
    return df


def is_session(value: object) -> bool:
    """Whether an object is a session, classic or Connect."""
    kind = type(value)  # a DataFrame of Connect has a Column for each name
    return hasattr(kind, "dataSource") and hasattr(kind, "range")


def session_of(spark: object) -> SparkSession:
    """The given session, or the session of the given DataFrame.

    Raises:
        InvalidInputError: the object is neither, or the session is stopped.
        UnsupportedError: as `check_dataframe`.
    """
    pyspark_version()
    from pyspark.sql import DataFrame

    _check_arrow()
    session: Any = spark.sparkSession if isinstance(spark, DataFrame) else spark
    if not is_session(session):
        raise InvalidInputError(f"expected a SparkSession, found {type(spark).__name__}")
    context = getattr(session, "_sc", None)
    if getattr(session, "is_stopped", False) if context is None else context._jsc is None:
        raise InvalidInputError("expected a running SparkSession, found one that is stopped")
    found: SparkSession = session
    return found


def take(df: DataFrame, name: str, types: tuple[str, ...], *, to: str, cast: str | None = None) -> Column:
    """Selects one column of a DataFrame, checked and renamed.

    Args:
        name: a top-level column (dots are part of the name).
        types: the allowed types, as Spark's DDL.
        to: the name of the result.
        cast: the type of the result, where several types are allowed.

    Raises:
        NotFoundError: the column does not exist.
        InvalidInputError: two columns have the name, or its type is not allowed.
    """
    from pyspark.sql import functions

    found = [field for field in df.schema.fields if field.name == name]
    if not found:
        raise NotFoundError(f"column {name!r}: not in the DataFrame, which has {df.columns}")
    if len(found) > 1:
        raise InvalidInputError(f"column {name!r}: {len(found)} columns have this name")
    has = found[0].dataType.simpleString()
    if has not in types:
        raise InvalidInputError(f"column {name!r}: expected {' or '.join(types)}, found {has}")
    column = functions.col("`" + name.replace("`", "``") + "`")
    return (column.cast(cast) if cast else column).alias(to)


_OURS = re.compile(
    r"^(?:.*?\b)?puffin_fast\.errors\.(" + "|".join(errors.__all__) + r"): (.*)$", re.MULTILINE
)
_NO_PACKAGE = re.compile(rf"{NO_PACKAGE} (.*?\)): (?:No module named '([\w]+))?.*$", re.MULTILINE)

_NO_MODULE = re.compile(r"^ModuleNotFoundError: No module named '(numpy|pandas|pyarrow)[.']", re.MULTILINE)
"""The error that PySpark's worker raises before any function of this package runs."""


def _rebuild(text: str) -> PuffinFastError | None:
    """The error of this package that the message of a Spark error contains, if any."""
    if lacking := _NO_PACKAGE.search(text):
        package = lacking[2] or "puffin_fast"
        extra = "iceberg" if package in TABLE_PACKAGES else "spark"
        return MissingExtraError(f"{package} on the executor {lacking[1]}", extra)
    if not (ours := _OURS.search(text)):
        if lacking := _NO_MODULE.search(text):
            package = f"{lacking[1]} in the Python of Spark's workers (PYSPARK_PYTHON chooses it)"
            return MissingExtraError(package, "spark")
        return None
    kind: Any = getattr(errors, ours[1])
    if issubclass(kind, MissingExtraError):
        return PuffinFastError(ours[2].strip())
    rebuilt: PuffinFastError = kind(ours[2].strip())
    return rebuilt


_DESCRIPTION = "spark.job.description"
"""The property of a thread that has the description of its Spark jobs."""


@contextmanager
def tagged(session: SparkSession, tag: str, what: str) -> Iterator[None]:
    """Tags and describes the Spark jobs that this thread starts, for Spark's UI and for `interruptTag`, and logs them.

    Args:
        session: the session. Spark Connect has no descriptions.
        what: what the jobs do.
    """
    context: Any = getattr(session, "_sc", None)
    before = None if context is None else context.getLocalProperty(_DESCRIPTION)
    _LOG.info("%s: %s", tag, what)
    started = time.perf_counter()

    def restore() -> None:
        session.removeTag(tag)
        if context is not None:
            context.setLocalProperty(_DESCRIPTION, before)

    try:
        with restoring(restore):
            session.addTag(tag)
            if context is not None:
                context.setLocalProperty(_DESCRIPTION, f"{tag}: {what}")
            yield
    finally:
        _LOG.info("%s: ended after %.1f s", tag, time.perf_counter() - started)


@contextmanager
def restoring(restore: Callable[[], object]) -> Iterator[None]:
    """Restores the state of a session after the block.

    A session that was stopped in the block has none: its errors do not replace the error of the block.
    """
    try:
        yield
    except BaseException:
        with suppressed(Exception):
            restore()
        raise
    restore()


_CANCELLED = re.compile(
    r"\[(?:SPARK_JOB_CANCELLED|OPERATION_CANCELED|OPERATION_ABANDONED|INVALID_HANDLE\.SESSION_CLOSED)\].*|"
    r"(?<=SparkException: )Job (?:\d+ )?cancelled\b.*|Cannot invoke RPC.*closed.*|(?<=details = \")[^\"]*Channel closed"
)
"""The message for a job that was cancelled, by itself or by its group, tag, session or context: Spark's, or gRPC's if a
session of Spark Connect was stopped."""

_LOST = re.compile(
    r"Job aborted[^\n]*(?:ExecutorLostFailure|Python worker exited unexpectedly|Master removed our application).*"
)
"""Spark's message for a job whose executors or Python workers were lost as often as a task may fail."""


def first_line(error: BaseException) -> str:
    """Returns the message of a Spark error, without the lines of query, query plan and stack trace that follow it."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _spark_errors() -> tuple[type[Exception], ...]:
    """The errors of Spark: those that PySpark knows, Py4J's for all others, in classic sessions, and gRPC's for a
    session of Spark Connect that was stopped."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    except ImportError:  # a client of Spark Connect
        return PySparkException, ValueError
    return PySparkException, Py4JJavaError, ValueError


@contextmanager
def own_errors() -> Iterator[None]:
    """Raises the `PuffinFastError` of an executor again on the driver, chained to Spark's error.

    Other errors (of a user's function, a full disk) are raised unchanged.

    Raises:
        JobInterruptedError: the Spark job was cancelled, or lost its executors. Jobs of this package commit only after
            their Spark jobs.
    """
    try:
        with (
            quiet_contexts(),
            interruptible(),
        ):  # PySpark replaces Ctrl-C by the error of the job that it cancels
            yield
    except _spark_errors() as error:
        if isinstance(error, PuffinFastError):
            raise
        text = str(error)
        own = _rebuild(text)
        for pattern, what in ((_CANCELLED, "was cancelled"), (_LOST, "lost its executors")):
            if own is None and (found := pattern.search(text)):
                own = JobInterruptedError(f"Spark's job {what}, nothing was committed: {found[0].strip()}")
        if own is None:
            raise
        raise own from error


@contextmanager
def quiet_contexts() -> Iterator[None]:
    """Keeps PySpark from logging errors of this thread, which are raised anyway; its entries are kilobytes of JSON."""
    from pyspark.logger import PySparkLogger

    thread = get_ident()

    def of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")]
    try:
        for logger in loggers:
            logger.addFilter(of_others)
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(of_others)
