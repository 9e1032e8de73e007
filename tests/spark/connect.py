"""Sessions of Spark Connect on ports of their own: several test processes start a server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tests.conftest import QUICK, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


def connect_session(settings: Mapping[str, str]) -> SparkSession:
    """A session of a server in this process, on a port that is free; Connect's own is always 15002."""
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import DefaultChannelBuilder

    os.environ["PYTHONPATH"] = QUICK["spark.executorEnv.PYTHONPATH"]  # Connect's workers get the server's
    port = free_port()
    builder: Any = DefaultChannelBuilder
    builder.default_port = staticmethod(lambda: port)
    session = SparkSession.builder.remote("local[2]").config("spark.connect.grpc.binding.port", str(port))
    for key, value in (QUICK | dict(settings)).items():
        session = session.config(key, value)
    return session.getOrCreate()
