"""Functions of this package that executors import by name and call.

Only a nested function is sent. It is pickled by value, so it also runs where this package is not installed, and raises
an error that says so.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from zipimport import zipimporter

import pyarrow as pa

from puffin_fast import __version__
from puffin_fast.spark.session.sessions import NO_PACKAGE, worker_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_ARCHIVE = re.compile(r"[/\\](?:pyspark\.zip|py4j-[^/\\]*\.zip|spark-core_[^/\\]*\.jar)$")
"""The archives that Spark adds to the path of its workers."""


def by_name(module: str, function: str) -> Callable[[], Callable[..., Any]]:
    """Returns a picklable function that imports ``module.function`` on an executor.

    Returns:
        A function without arguments. If the import fails, it raises a RuntimeError that names the host and the Python
        of the executor (the error classes of this package cannot be imported there). If the executor and the driver
        have different versions of the package, it raises an UnsupportedError.
    """
    trouble, version = NO_PACKAGE, __version__

    def find() -> Callable[..., Any]:
        import platform
        import sys
        from importlib import import_module

        where = f"{platform.node()} ({sys.executable}, Python {platform.python_version()})"
        try:
            there = import_module("puffin_fast")
            if there.__version__ != version:
                raise there.errors.UnsupportedError(
                    f"puffin_fast {there.__version__} on the executor {where}, expected {version}, the driver's"
                )
            found: Callable[..., Any] = getattr(import_module(module), function)
        except ImportError as error:
            raise RuntimeError(f"{trouble} {where}: {error}") from None
        return found

    return find


def over_batches(
    module: str, function: str, **options: Any
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """The body of a `mapInArrow`: ``module.function(batches, **options)`` on the executor, with aligned batches."""
    find = by_name(module, function)

    def body(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        called = find()
        from puffin_fast._alignment import aligned_batch
        from puffin_fast.spark.session.executor_calls import forget_archives

        try:
            yield from called(map(aligned_batch, batches), **options)
        finally:
            forget_archives()

    return body


def forget_archives() -> None:
    """Removes the cached importers of the archives of PySpark and Py4J; the next import from them makes new ones.

    PySpark invalidates all importers before each task. Before Python 3.13, each importer of a package of an archive
    then reads the directory of the archive: 0.1 s of CPU time for all of them. These archives do not change.
    """
    cached = sys.path_importer_cache
    for path, importer in [*cached.items()]:
        if isinstance(importer, zipimporter) and _ARCHIVE.search(importer.archive):
            del cached[path]


def mapped(
    df: DataFrame,
    body: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    schema: StructType | pa.Schema,
) -> DataFrame:
    """`DataFrame.mapInArrow` in the Python of `worker_python`.

    The schema is not given as text, so that names may have any characters; all columns and fields become nullable.
    """
    if isinstance(schema, pa.Schema):
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(schema)
    schema = schema.toNullable()
    with worker_python():
        return df.mapInArrow(body, schema)
