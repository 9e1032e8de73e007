"""Registration of the data source ``puffin``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from puffin_fast.spark.session.sessions import session_of, worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Registers ``spark.read.format("puffin")`` with a session; see `puffin_fast.spark.dataframe.source`.

    Raises:
        InvalidInputError: not a session.
        MissingExtraError: PySpark is not installed.

    Examples:
        >>> pf.spark.register(spark)
        >>> written = pf.spark.write_deletion_vectors(deletes, path)
        >>> spark.read.format("puffin").load(path).count()
        2
    """
    session = session_of(spark)
    from puffin_fast.spark.dataframe.source import PuffinDataSource

    with worker_python():
        session.dataSource.register(PuffinDataSource)
