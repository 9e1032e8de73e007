"""Transformations of DataFrames: positions to deletion vectors, deletion vectors to positions, unions of vectors.

They are lazy, as Spark's own transformations are, and can be used with ``df.transform(…)``. They run Python code
through `mapInArrow` only, so that classic sessions and Spark Connect use the same code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from puffin_fast.dv.conversion import FORMATS
from puffin_fast.errors import InvalidInputError
from puffin_fast.spark.dataframe.functions import theta_estimate
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.session.sessions import INTEGERS, check_dataframe, take

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TASK_MEMORY = 128 << 20
"""Default size of the buffers of a task's Python worker, in bytes. With copies, its peak memory is three to four
times the sum of this and the task's largest deletion vector, plus 125 MB of imported modules."""

LEAST_MEMORY, MOST_MEMORY = 1 << 20, 1 << 30

ROWS = pa.schema([("file_path", pa.string()), ("pos", pa.int64())])


def check_memory(task_memory: int) -> int:
    """Checks a memory limit; buffers have 32-bit offsets.

    Raises:
        InvalidInputError: the limit is not an int from 1 MiB to 1 GiB.
    """
    if not isinstance(task_memory, int) or not LEAST_MEMORY <= task_memory <= MOST_MEMORY:
        raise InvalidInputError(
            f"task_memory: expected {LEAST_MEMORY} to {MOST_MEMORY} bytes, found {task_memory!r}"
        )
    return task_memory


def by_file(partials: DataFrame) -> DataFrame:
    """Shuffles the rows so that all rows of a data file are adjacent in one task.

    Rows are partitioned by hash: adaptive execution may coalesce such partitions but does not split them. They
    are sorted by a hash first, because the paths of a table share a long prefix, which is slow to compare.
    """
    from pyspark.sql import functions

    path = functions.col("file_path")
    return partials.repartition(path).sortWithinPartitions(functions.xxhash64(path), path)


def partial_vectors(df: DataFrame, file_path: str, pos: str, task_memory: int) -> DataFrame:
    """Encodes rows of deletes as partial vectors; those of a data file are adjacent in one task."""
    from puffin_fast.spark.worker.combine import PARTIALS, combine

    rows = check_dataframe(df).select(
        take(df, file_path, ("string",), to="file_path"), take(df, pos, INTEGERS, to="pos", cast="long")
    )
    body = over_batches(combine, names=(file_path, pos), memory=check_memory(task_memory))
    return by_file(mapped(rows, body, PARTIALS))


def encode_deletes(
    df: DataFrame,
    *,
    file_path: str = "file_path",
    pos: str = "pos",
    format: str = "iceberg",
    task_memory: int = TASK_MEMORY,
) -> DataFrame:
    """Encodes deleted positions as deletion vectors, one per data file.

    Each input partition encodes its rows as partial vectors. Only partial vectors are shuffled; after the shuffle
    they are united per data file.

    Args:
        df: one row per deleted position, in any order; duplicates are allowed.
        file_path: the column with the data file's path, string.
        pos: the column with the row's position in that file, 0-based; any integer type.
        format: the format of the vectors, one of those of `puffin_fast.dv.convert`: ``iceberg``, ``delta``, …
        task_memory: size of a task's buffers in bytes, independent of skew; 128 MiB by default.

    Returns:
        (file_path string, blob binary, cardinality long): one row per distinct path; blob is a
        ``deletion-vector-v1`` blob (Puffin specification, blob types). A record of a ``.bin`` file of Delta and one of
        Paimon's version 2 have the same bytes; for other formats it is what ``encode`` of their codec returns.

    Raises:
        NotFoundError: a column does not exist.
        InvalidInputError: a column has another type, or the format is unknown. When the DataFrame is computed: a
            null, a negative position, or one above 0x7FFFFFFE80000000.
        LimitExceededError: when the DataFrame is computed, a position that the format cannot hold.
        UnsupportedError: a streaming DataFrame, or a PyArrow that PySpark does not support.

    Examples:
        >>> encoded = pf.spark.encode_deletes(deletes)
        >>> sorted((row.file_path, row.cardinality) for row in encoded.collect())
        [('a.parquet', 2), ('b.parquet', 1)]
    """
    from puffin_fast.spark.worker.merge import VECTORS, merge_into

    if format not in FORMATS:
        raise InvalidInputError(f"format: expected one of {', '.join(FORMATS)}, found {format!r}")
    partials = partial_vectors(df, file_path, pos, task_memory)
    body = over_batches(merge_into, memory=task_memory, format=format)
    return mapped(partials, body, VECTORS)


def union_vectors(
    df: DataFrame, *, file_path: str = "file_path", blob: str = "blob", task_memory: int = TASK_MEMORY
) -> DataFrame:
    """Unites the deletion vectors of each data file.

    Args:
        df: any number of deletion vectors per data file.
        file_path: the column with the data file's path, string.
        blob: the column with ``deletion-vector-v1`` blobs, binary. Spark sends 10,000 rows at a time to
            Python: with blobs of many kilobytes, lower ``spark.sql.execution.arrow.maxRecordsPerBatch``.
        task_memory: as for `encode_deletes`.

    Returns:
        (file_path string, blob binary, cardinality long): one row per distinct path.

    Raises:
        NotFoundError: a column does not exist.
        InvalidInputError: a column has another type. When the DataFrame is computed: a null.
        CorruptDataError: when the DataFrame is computed, a blob is not a valid deletion vector.

    Examples:
        >>> encoded = pf.spark.encode_deletes(deletes)
        >>> unioned = pf.spark.union_vectors(encoded.union(encoded))
        >>> sorted((row.file_path, row.cardinality) for row in unioned.collect())
        [('a.parquet', 2), ('b.parquet', 1)]
    """
    from puffin_fast.spark.worker.merge import VECTORS, merge_whole

    vectors = check_dataframe(df).select(
        take(df, file_path, ("string",), to="file_path"), take(df, blob, ("binary",), to="blob")
    )
    body = over_batches(merge_whole, names=(file_path, blob), memory=check_memory(task_memory))
    return mapped(by_file(vectors), body, VECTORS)


def decode_vectors(df: DataFrame, *, file_path: str = "file_path", blob: str = "blob") -> DataFrame:
    """Decodes deletion vectors to one row per position.

    Args:
        df: one row per deletion vector.
        file_path: the column with the data file's path, string.
        blob: the column with ``deletion-vector-v1`` blobs, binary.

    Returns:
        (file_path string, pos long): ascending within a vector.

    Raises:
        NotFoundError: a column does not exist.
        InvalidInputError: a column has another type. When the DataFrame is computed: a null.
        CorruptDataError: when the DataFrame is computed, a blob is not a valid deletion vector.

    Examples:
        >>> encoded = pf.spark.encode_deletes(deletes)
        >>> pf.spark.decode_vectors(encoded).count()
        3
    """
    from puffin_fast.spark.worker.explode import explode

    vectors = check_dataframe(df).select(
        take(df, file_path, ("string",), to="file_path"), take(df, blob, ("binary",), to="blob")
    )
    return mapped(vectors, over_batches(explode, names=(file_path, blob)), ROWS)


def theta_sketches(df: DataFrame, *columns: str) -> DataFrame:
    """Sketches the distinct values of columns, one sketch for each column.

    Each input partition makes one sketch for each column; only sketches (at most 32 KiB each) are shuffled.

    Args:
        df: any rows.
        columns: names of top-level columns of primitive types; all columns by default.

    Returns:
        (column string, sketch binary, estimate double): one row for each column with rows; sketch is an
        ``apache-datasketches-theta-v1`` blob, which Spark's own ``theta_sketch_estimate`` reads too.

    Raises:
        NotFoundError: a column does not exist.
        InvalidInputError: a column of a type without sketches.

    Examples:
        >>> sketches = pf.spark.theta_sketches(spark.range(100))
        >>> sketches.select("column", "estimate").collect()
        [Row(column='id', estimate=100.0)]
    """
    from pyspark.sql import functions

    from puffin_fast.spark.worker.sketches import SKETCHES, of_columns, unite

    check_dataframe(df)
    names = columns or tuple(df.columns)
    rows = df.select(*(take(df, name, _sketched(df, name), to=f"c{at}") for at, name in enumerate(names)))
    partial = mapped(rows, over_batches(of_columns, names=names), SKETCHES)
    united = mapped(partial.repartition("column"), over_batches(unite), SKETCHES)
    name = functions.get(functions.array(*(functions.lit(name) for name in names)), functions.col("column"))
    return united.select(name.alias("column"), "sketch", theta_estimate("sketch").alias("estimate"))


def _sketched(df: DataFrame, name: str) -> tuple[str, ...]:
    """Returns the types that `take` allows for a column: its own type, if it is primitive."""
    found = [field.dataType for field in df.schema.fields if field.name == name]
    if found and found[0].typeName() in ("array", "map", "struct", "variant", "void"):
        return ("a primitive type",)
    return tuple(kind.simpleString() for kind in found)
