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
    """
    session = session_of(spark)
    from puffin_fast.spark.dataframe.source import PuffinDataSource

    with worker_python():
        session.dataSource.register(PuffinDataSource)
