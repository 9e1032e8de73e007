"""What Spark keeps of a table: its metadata in Iceberg's catalogs, rows of ``CACHE TABLE`` and of `DataFrame.cache`.

A catalog of Iceberg in Spark keeps a table for 30 seconds after its last use (``cache-enabled``, on by default). Until
then the session does not see the commit of another client: its queries would return deleted rows.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import wraps
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from puffin_fast._process.interrupt import suppressed
from puffin_fast.spark.session.sessions import pyspark_version, session_of
from puffin_fast.spark.table.names import is_name, path_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_LOG = logging.getLogger(__name__)


def refreshing(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorates a job that changes a table given by its name or path: the session then forgets what it keeps of it.

    Also if the job fails: an earlier part of it may be committed. Not after a dry run, which changes nothing.
    """
    known = signature(function)

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        finally:
            with suppressed(Exception):  # a job that is committed does not fail afterwards
                _refresh(known, *args, **kwargs)

    return call


def _refresh_table(session: SparkSession, name: str) -> None:
    catalog = session.catalog
    keeps_rows = pyspark_version() < (4, 1) and catalog.isCached(name)
    if keeps_rows:  # PySpark 4.0 keeps them when it refreshes a table of Iceberg
        level = session.table(name).storageLevel
        catalog.uncacheTable(name)
    catalog.refreshTable(name)
    if keeps_rows:
        catalog.cacheTable(name, level)


def _refresh(known: Signature, *args: Any, **kwargs: Any) -> None:
    bound = known.bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    table = given.get("table")
    if given.get("dry_run") or not isinstance(table, str | os.PathLike):
        return
    session, text = session_of(next(iter(given.values()))), os.fspath(table)
    try:
        if not is_name(text):
            session.catalog.refreshByPath(text)
        elif (path := path_in(text)) is not None:
            session.catalog.refreshByPath(path)
        else:
            _refresh_table(session, text)
    except Exception as error:
        _LOG.info("%s: Spark does not refresh what it keeps: %s", text, error)
        raise
