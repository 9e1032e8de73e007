"""The executors of a Spark session as `Workers`: bins of items are the partitions of a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from puffin_fast._concurrency.groups import bins_of
from puffin_fast._concurrency.workers import OPEN_BYTES, Threads, Workers, united
from puffin_fast._io.run_folder import run_name
from puffin_fast._text import counted
from puffin_fast.spark.session.batches import collected, rows_per_batch
from puffin_fast.spark.session.executor_calls import (
    Batches,
    mapped,
    over_batches,
    pack,
    received,
    sent_by,
    unpack,
)
from puffin_fast.spark.session.sessions import session_of, tagged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_BYTES = 128 << 20
"""Bytes of files that one task reads (a larger file is a task of its own), as in Spark's own scans."""

HERE_FILES, HERE_BYTES = 256, 32 << 20
"""Up to these numbers of data files and of bytes of their columns, the driver reads them in less time than Spark takes
to run a job."""

LITERAL_BYTES = 1 << 20
"""Bytes of packed bins that are part of a query's plan."""

_PARTS = pa.schema([("key", pa.int64()), ("part", pa.binary())])
"""The pickled result of a key, of one bin or of all."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Spark:
    """The executors of a session; threads of the driver do what takes less time than to run a Spark job."""

    session: SparkSession

    def each(
        self,
        call: Callable[[Item], Result],
        items: Sequence[Item],
        n_bytes: Callable[[Item], int],
        label: str,
        *,
        run: str | None = None,
    ) -> Iterable[Result]:
        if self._are_few(items, n_bytes):
            return Threads().each(call, items, n_bytes, label)
        groups = bins_of(range(len(items)), TASK_BYTES, lambda at: OPEN_BYTES + n_bytes(items[at]))
        ends = [*accumulate(map(len, groups), initial=0)]
        bins = [(number, items[slice(*ends[number : number + 2])]) for number in range(len(groups))]
        with self._tagged(label, len(items), run):
            found = received(sent_by(spread(self.session, bins), _called, call=call))
        return chain.from_iterable(results for _, results in sorted(found, key=itemgetter(0)))

    def united(
        self,
        call: Callable[[Sequence[Item]], Mapping[int, Result]],
        items: Sequence[Item],
        n_bytes: Callable[[Item], int],
        unite: Callable[[Sequence[Result]], Result],
        label: str,
    ) -> Mapping[int, Result]:
        """As `Workers.united`; the results of a key are united on one executor."""
        if self._are_few(items, n_bytes):
            return Threads().united(call, items, n_bytes, unite, label)
        bins = bins_of(items, TASK_BYTES, lambda item: OPEN_BYTES + n_bytes(item))
        parts = mapped(spread(self.session, bins), over_batches(_parts, call=call), _PARTS)
        if len(bins) > 1:
            parts = mapped(parts.repartition("key"), over_batches(_unions, unite=unite), _PARTS)
        with self._tagged(label, len(items)):
            rows = collected(parts)
        results = map(unpack, rows["part"].to_pylist())
        return dict(zip(rows["key"].to_pylist(), results, strict=True))

    def _tagged(self, label: str, n: int, run: str | None = None) -> AbstractContextManager[None]:
        """Names the Spark jobs of the block by a run and what it does with n items."""
        tag = run or run_name(None, label.partition(" ")[0])
        return tagged(self.session, tag, f"{label}: {counted(n, 'item')}")

    def _are_few(self, items: Sequence[Item], n_bytes: Callable[[Item], int]) -> bool:
        return len(items) <= HERE_FILES and sum(map(n_bytes, items)) <= HERE_BYTES

    def bin_bytes(self, n_bytes: int) -> int:
        return TASK_BYTES


def spark_workers(spark: SparkSession | DataFrame) -> Workers:
    """Returns the executors of a session, or of the session of a DataFrame; raises as `session_of`."""
    return Spark(session_of(spark))


def _called(batches: Batches, *, call: Callable[[Any], Any]) -> Iterator[tuple[int, list[Any]]]:
    """On executors: calls a function for each item of the bins of a task; yields their numbers and results."""
    for batch in batches:
        for packed in batch.column(0):
            number, items = unpack(packed.as_py())
            yield number, [*map(call, items)]


def _parts(batches: Batches, *, call: Callable[[Sequence[Any]], Mapping[int, Any]]) -> Batches:
    """On executors: calls a function for the bins of a task; yields the results of each key."""
    for batch in batches:
        for packed in batch.column(0):
            yield _rows(call(unpack(packed.as_py())))


def _unions(batches: Batches, *, unite: Callable[[Sequence[Any]], Any]) -> Batches:
    """On executors: unites the results of each key; all rows of a key are in this partition."""
    pairs = (
        pair
        for batch in batches
        for pair in zip(batch["key"].to_pylist(), batch["part"].to_pylist(), strict=True)
    )
    found = united(({key: unpack(packed)} for key, packed in pairs), unite)
    if found:
        yield _rows(found)


def _rows(parts: Mapping[int, Any]) -> pa.RecordBatch:
    columns = [pa.array([*parts], pa.int64()), pa.array(map(pack, parts.values()), pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=_PARTS)


def frame_of(session: SparkSession, rows: pa.Table) -> DataFrame:
    """`createDataFrame` for sessions without a limit of rows per batch, too, where PySpark passes 0 to PyArrow."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(rows.schema)
    if rows_per_batch(session) > 0:
        return session.createDataFrame(rows, schema)
    return session.createDataFrame(list(zip(*(c.to_pylist() for c in rows.columns), strict=True)), schema)


def spread(session: SparkSession, bins: Sequence[Sequence[Any]]) -> DataFrame:
    """A DataFrame with one partition per bin: those of a range.

    Small bins are literals of the query, others are joined with the range by a broadcast, which is a Spark job.
    """
    from pyspark.sql import functions

    packed = [pack(items) for items in bins]
    numbers = session.range(0, len(bins), 1, len(bins))
    if 0 < sum(map(len, packed)) <= LITERAL_BYTES:
        every = functions.array(*map(functions.lit, packed))
        return numbers.select(functions.get(every, functions.col("id").cast("int")).alias("tasks"))
    table = pa.table({"id": pa.array(range(len(bins)), pa.int64()), "tasks": pa.array(packed, pa.binary())})
    return numbers.join(functions.broadcast(frame_of(session, table)), "id").select("tasks")
