"""Functions of this package that executors import by name and call.

Only a nested function is sent, and bytes with the name of the function and its arguments. It is pickled by value, so it
also runs where this package is not installed, and raises an error that says so.
"""

from __future__ import annotations

import pickle
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from zipimport import zipimporter

import pyarrow as pa

from puffin_fast import __version__
from puffin_fast.spark.session.batches import collected
from puffin_fast.spark.session.sessions import NO_PACKAGE, worker_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Batches = Iterator[pa.RecordBatch]
Options = ParamSpec("Options")
Result = TypeVar("Result")
Body = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]

PICKLED = pa.schema([pa.field("pickled", pa.binary())])
"""The column of `sent_by`."""

_ARCHIVE = re.compile(r"[/\\](?:pyspark\.zip|py4j-[^/\\]*\.zip|spark-core_[^/\\]*\.jar)$")
"""The archives that Spark adds to the path of its workers."""


def pack(value: Any) -> bytes:
    """Pickles and compresses a value for the executors."""
    return zlib.compress(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL), 1)


def unpack(data: bytes) -> Any:
    return pickle.loads(zlib.decompress(data))


def items_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """The items of the packed lists in one binary column."""
    return (item for batch in batches for packed in batch.column(0) for item in unpack(packed.as_py()))


def by_name(function: Callable[..., Result], **options: Any) -> Callable[[], Callable[..., Result]]:
    """Returns a picklable function that imports a function of this package on an executor.

    Args:
        function: a function of a module; only its name and these arguments are sent.
        options: keyword arguments of the function.

    Returns:
        A function without arguments that returns `function` with its options. If the import fails, it raises a
        RuntimeError that names the host and the Python of the executor (the error classes of this package cannot be
        imported there). If the executor and the driver have different versions of the package, it raises an
        UnsupportedError.
    """
    from pyspark import cloudpickle

    trouble, version = NO_PACKAGE, __version__
    pickled: Any = cloudpickle.dumps  # unlike pickle, takes classes of a notebook, as of a file system
    packed = zlib.compress(pickled(partial(function, **options)), 1)

    def find() -> Callable[..., Result]:
        import pickle
        import platform
        import sys
        import zlib
        from importlib import import_module

        where = f"{platform.node()} ({sys.executable}, Python {platform.python_version()})"
        try:
            there = import_module("puffin_fast")
            if there.__version__ != version:
                raise there.errors.UnsupportedError(
                    f"puffin_fast {there.__version__} on the executor {where}, expected {version}, the driver's"
                )
            found: Callable[..., Result] = pickle.loads(zlib.decompress(packed))
        except ImportError as error:
            raise RuntimeError(f"{trouble} {where}: {error}") from None
        return found

    return find


def over_batches(
    function: Callable[Concatenate[Batches, Options], Iterable[pa.RecordBatch]],
    *args: Options.args,
    **options: Options.kwargs,
) -> Body:
    """The body of a `mapInArrow`: ``function(batches, **options)`` on the executor, with aligned batches."""
    find = by_name(function, **options)

    def body(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        called = find()
        from pyspark import TaskContext

        from puffin_fast._alignment import aligned_batch
        from puffin_fast._concurrency.workers import as_attempt
        from puffin_fast.spark.session.executor_calls import forget_archives

        context = TaskContext.get()
        name = "driver" if context is None else f"{context.partitionId():05d}-{context.taskAttemptId()}"
        try:
            with as_attempt(name):
                yield from called(map(aligned_batch, batches))
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
    body: Body,
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


def sent_by(
    df: DataFrame,
    function: Callable[Concatenate[Batches, Options], Iterable[object]],
    *args: Options.args,
    **options: Options.kwargs,
) -> DataFrame:
    """Calls a function for the batches of each task; the objects that it yields are sent to the driver.

    Returns:
        The pickled objects, in one binary column, for `received`.
    """
    return mapped(df, over_batches(_pickled, body=partial(function, **options)), PICKLED)


def _pickled(batches: Batches, body: Callable[[Batches], Iterable[object]]) -> Batches:
    for value in body(batches):
        data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        yield pa.RecordBatch.from_arrays([pa.array([data], pa.binary())], schema=PICKLED)


def received(sent: DataFrame) -> list[Any]:
    """Collects the objects of `sent_by`, within `split_by_rows_only` and `own_errors`."""
    return [pickle.loads(value.as_buffer()) for value in collected(sent).column(0)]
