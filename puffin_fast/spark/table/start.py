"""Starts a verb on a table of Iceberg or Delta."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from puffin_fast.errors import UnsupportedError
from puffin_fast.iceberg.commit.job import open_table
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.spark.table.delta import DeltaVerb
from puffin_fast.spark.table.iceberg import IcebergVerb
from puffin_fast.spark.table.scan import is_delta
from puffin_fast.spark.table.verb import Verb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start(session: SparkSession, table: Any, request: Request) -> Verb:
    """Opens a table for a verb, and refreshes it.

    Raises:
        UnsupportedError: Spark's own verbs would write to another branch, or publish nothing.
    """
    if is_delta(table):
        return DeltaVerb(table, request)
    started = time.perf_counter()
    opened = open_table(table, oldest=2)
    _check_audit(session, opened, request)
    return IcebergVerb(opened, request, started)


def _check_audit(session: SparkSession, table: Any, request: Request) -> None:
    """Checks that the session does not have Iceberg's settings of write-audit-publish for another branch."""
    if table.properties.get("write.wap.enabled", "false").lower() != "true":
        return
    for name in ("spark.wap.branch", "spark.wap.id"):
        value = session.conf.get(name, None)
        if value and (name == "spark.wap.id" or value != request.branch):
            instead = "unset it" if name == "spark.wap.id" else f"pass branch={value!r}, or unset it"
            raise UnsupportedError(
                f"{'.'.join(table.name())}: the table has write.wap.enabled, and the session has {name}={value!r}, "
                f"found branch={request.branch!r}; {instead}"
            )
