"""Registration of the data sources ``puffin`` and ``puffin_changes``, and of functions for SQL."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from puffin_fast.spark.dataframe.functions import register_functions
from puffin_fast.spark.session.sessions import session_of, worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Registers ``spark.read.format("puffin")``, and ``spark.readStream.format("puffin_changes")`` if PyIceberg is
    installed.

    ``puffin`` reads the blobs of Puffin files (`puffin_fast.spark.sources.puffin`). ``puffin_changes`` is a stream of
    the changes of a table; its options are described in docs/changes.md.

    On PySpark 4.1 and later the functions of `puffin_fast.spark.functions` are registered for SQL: ``puffin_encode``,
    ``puffin_decode``, ``puffin_cardinality``, ``puffin_contains``, ``puffin_theta_estimate``, and the aggregates
    ``puffin_union``, ``puffin_theta_sketch`` and ``puffin_theta_union``.

    Raises:
        InvalidInputError: the argument is not a session.
        MissingExtraError: PySpark is not installed.

    Examples:
        >>> pf.spark.register(spark)
        >>> written = pf.spark.write_deletion_vectors(deletes, path)
        >>> spark.read.format("puffin").load(path).count()
        2
        >>> spark.sql("SELECT puffin_cardinality(puffin_encode(array(3L, 7L))) AS n").first().n
        2
    """
    session = session_of(spark)
    from puffin_fast.spark.sources.puffin import PuffinDataSource

    with worker_python():
        session.dataSource.register(PuffinDataSource)
        if find_spec("pyiceberg") is not None:
            from puffin_fast.spark.sources.changes import ChangesDataSource

            session.dataSource.register(ChangesDataSource)
    register_functions(session)
