"""DataFrame in, DataFrame out: deleted positions to vectors, vectors to positions, vectors to their union.

Lazy like Spark's own transformations, and fit for ``df.transform(…)``. Only Arrow batches cross to Python
(`mapInArrow`), so classic sessions and Connect run the same code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from puffin_fast.errors import InvalidInputError
from puffin_fast.spark.session.executor_calls import over_batches
from puffin_fast.spark.session.sessions import INTEGERS, check_dataframe, take

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["TASK_MEMORY", "decode_vectors", "encode_deletes", "union_vectors"]

TASK_MEMORY = 128 << 20
"""Bytes that a task's Python worker holds by default. With what it copies on the way it peaks at three to four
times this and the task's largest vector together, beside 125 MB of imports."""

LEAST_MEMORY, MOST_MEMORY = 1 << 20, 1 << 30

ROWS = "file_path string, pos long"
_WORKER = "puffin_fast.spark.worker"


def check_memory(task_memory: int) -> int:
    """A memory limit that buffers with 32-bit offsets can keep.

    Raises:
        InvalidInputError: not an int from 1 MiB to 1 GiB.
    """
    if not isinstance(task_memory, int) or not LEAST_MEMORY <= task_memory <= MOST_MEMORY:
        raise InvalidInputError(
            f"task_memory: expected {LEAST_MEMORY} to {MOST_MEMORY} bytes, found {task_memory!r}"
        )
    return task_memory


def by_file(partials: DataFrame) -> DataFrame:
    """Brings all rows of a file into one task, next to each other.

    Partitioned by hash, which adaptive execution may coalesce and never splits. Sorted by a hash first:
    paths of one table share their first hundred bytes, which makes comparing them slow.
    """
    from pyspark.sql import functions

    path = functions.col("file_path")
    return partials.repartition(path).sortWithinPartitions(functions.xxhash64(path), path)


def partial_vectors(df: DataFrame, file_path: str, pos: str, task_memory: int) -> DataFrame:
    """Rows of deletes as partial vectors, all those of a file together in one task."""
    from puffin_fast.spark.worker.combine import PARTIALS

    rows = check_dataframe(df).select(
        take(df, file_path, ("string",), to="file_path"), take(df, pos, INTEGERS, to="pos", cast="long")
    )
    body = over_batches(
        f"{_WORKER}.combine", "combine", names=(file_path, pos), memory=check_memory(task_memory)
    )
    return by_file(rows.mapInArrow(body, PARTIALS))


def encode_deletes(
    df: DataFrame, *, file_path: str = "file_path", pos: str = "pos", task_memory: int = TASK_MEMORY
) -> DataFrame:
    """Deleted positions to deletion vectors, one per data file.

    Each partition of the input combines its rows into partial vectors; only those are shuffled, and united
    per file after it.

    Args:
        df: one row per deleted position, in any order, repeats allowed.
        file_path: the column with the data file's path, string.
        pos: the column with the row's position in that file, 0-based; any integer type.
        task_memory: bytes that a task may hold, whatever the skew (see `TASK_MEMORY`).

    Returns:
        (file_path string, blob binary, cardinality long): one row per distinct path; blob is a
        ``deletion-vector-v1`` blob (Puffin specification, blob types).

    Raises:
        NotFoundError: no such column.
        InvalidInputError: a column of another type; when it runs, a null, a negative position or one that is
            too large, naming the column.
        UnsupportedError: a streaming DataFrame, or a Python whose PyArrow Spark cannot use.
    """
    from puffin_fast.spark.worker.merge import VECTORS

    partials = partial_vectors(df, file_path, pos, task_memory)
    return partials.mapInArrow(over_batches(f"{_WORKER}.merge", "merge", memory=task_memory), VECTORS)


def union_vectors(
    df: DataFrame, *, file_path: str = "file_path", blob: str = "blob", task_memory: int = TASK_MEMORY
) -> DataFrame:
    """Vectors of the same data file to one vector, their union.

    Args:
        df: any number of vectors per data file.
        file_path: the column with the data file's path, string.
        blob: the column with ``deletion-vector-v1`` blobs, binary. Spark sends 10,000 rows at a time to
            Python: with blobs of many kilobytes, lower ``spark.sql.execution.arrow.maxRecordsPerBatch``.
        task_memory: as for `encode_deletes`.

    Returns:
        (file_path string, blob binary, cardinality long): one row per distinct path.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: a column of another type; when it runs, a null, naming the column.
        CorruptDataError: when it runs, a blob that is no vector.
    """
    from puffin_fast.spark.worker.merge import VECTORS

    vectors = check_dataframe(df).select(
        take(df, file_path, ("string",), to="file_path"), take(df, blob, ("binary",), to="blob")
    )
    body = over_batches(
        f"{_WORKER}.merge", "merge_whole", names=(file_path, blob), memory=check_memory(task_memory)
    )
    return by_file(vectors).mapInArrow(body, VECTORS)


def decode_vectors(df: DataFrame, *, file_path: str = "file_path", blob: str = "blob") -> DataFrame:
    """Deletion vectors to the positions in them, one row each.

    Args:
        df: one row per vector.
        file_path: the column with the data file's path, string.
        blob: the column with ``deletion-vector-v1`` blobs, binary.

    Returns:
        (file_path string, pos long): ascending within a vector.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: a column of another type; when it runs, a null, naming the column.
        CorruptDataError: when it runs, a blob that is no vector.
    """
    vectors = check_dataframe(df).select(
        take(df, file_path, ("string",), to="file_path"), take(df, blob, ("binary",), to="blob")
    )
    return vectors.mapInArrow(over_batches(f"{_WORKER}.explode", "explode", names=(file_path, blob)), ROWS)
