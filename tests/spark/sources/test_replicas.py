"""Replicas that follow a stream of changes by foreachBatch, through failures, are equal to their source at each batch.

`soak_streams` does this for hundreds of batches, with processes that are killed at random.

``PUFFIN_FAST_BATCHES`` says how many batches there are; 5 by default.
"""

from __future__ import annotations

import os
import random
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin_fast import delta, iceberg
from puffin_fast import spark as ps
from puffin_fast.iceberg.commit.request import JOB_ID
from tests.spark.faults.injection import die
from tests.spark.faults.killing_file_io import KillingFileIO
from tests.spark.sources.streams import begun
from tests.verbs.applied_changes import DELTA_PROPERTIES, Source, made, of, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BATCHES = int(os.environ.get("PUFFIN_FAST_BATCHES", "5"))


class _Failed(Exception):
    """As if the driver was killed."""


class Replica:
    """Applies batches, and compares the replica with the source; fails at random before and after it applied one."""

    def __init__(self, source: Source, verbs: Any, table: Any, seed: int) -> None:
        self.source, self.verbs, self.table = source, verbs, table
        self.chance = random.Random(seed)
        self.applied = self.repeated = self.compared = self.failures = 0
        self.done: set[int] = set()

    def __call__(self, df: DataFrame, number: int) -> None:
        self.maybe_fail()
        job = f"replica-{number}"
        result = ps.upsert(df, self.table, "id", changes=True, job_id=job)
        self.repeated += result.commit.repeated
        self.applied += 1
        self.maybe_fail()
        column = "_commit_version" if self.source.verbs is delta else "_commit_snapshot_id"
        order = column if self.source.verbs is delta else "_change_ordinal"
        last = df.orderBy(order, ascending=False).select(column).first()
        if last is not None:
            self.compare(last[0])
        self.done.add(number)

    def maybe_fail(self) -> None:
        if self.chance.random() < 0.2:
            self.failures += 1
            raise _Failed

    def compare(self, at: int) -> None:
        wanted = (
            self.source.verbs.scan(self.source.table, snapshot_id=at).to_arrow().sort_by("id").to_pylist()
        )
        assert read(self.verbs, self.table) == wanted, at
        self.compared += 1


@pytest.mark.parametrize(
    ("source", "replica"), [(iceberg, iceberg), (iceberg, delta), (delta, iceberg)], ids=["ii", "id", "di"]
)
def test_a_replica_is_equal_at_each_batch_through_failures(
    spark: SparkSession, tmp_path: Path, source: Any, replica: Any
) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("n")
    properties = {"properties": DELTA_PROPERTIES[1]} if source is delta else {}
    machine = Source(source, made(source, (catalog, "n"), tmp_path, "source", **properties), 11)
    follower = Replica(machine, replica, made(replica, (catalog, "n"), tmp_path, "copy"), 4)
    options = {"poll_interval_s": "0", "maxSnapshotsPerTrigger": "3"}
    if source is delta:
        options["path"] = machine.table
    else:
        options |= {"catalog": "c", "table": "n.source"}
        options |= {f"catalog.{name}": catalog.properties[name] for name in ("uri", "warehouse")}
    query = None
    try:
        while len(follower.done) < BATCHES:
            machine.step()
            query = query or begun(spark, tmp_path, follower, options)
            try:
                query.processAllAvailable()
            except Exception as error:
                if "_Failed" not in str(error):
                    raise
                query = None
        assert follower.failures
        assert read(replica, follower.table) == read(source, machine.table) or query is None
    finally:
        if query is not None:
            query.stop()
        catalog.engine.dispose()


def killed(step: str, work: Callable[[], object]) -> None:
    """Lets a fork of this process, the driver, do a batch; it is killed before it writes a file, or after all."""
    child = os.fork()
    if child:
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        return
    try:
        KillingFileIO.at = step
        work()
        die()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def test_a_batch_whose_driver_is_killed_within_its_commit_or_after_it_is_applied_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    properties = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalog = SqlCatalog("c", **properties)
    catalog.create_namespace("n")
    source, copy = (made(iceberg, (catalog, "n"), tmp_path, name) for name in ("source", "copy"))
    options = {"catalog": "c", "table": "n.source", **{f"catalog.{k}": v for k, v in properties.items()}}
    repeated, steps = [], ["snap-", "nowhere"]

    def each(df: DataFrame, number: int) -> None:
        def work() -> Any:
            own = SqlCatalog("c", **properties, **{"py-io-impl": f"{KillingFileIO.__module__}.KillingFileIO"})
            return ps.upsert(df, own.load_table("n.copy"), "id", changes=True, job_id=f"batch-{number}")

        if number and steps:
            while steps:
                killed(steps.pop(0), work)
            raise _Failed
        repeated.append(work().commit.repeated)

    iceberg.append(source, of([{"id": id, "g": "a", "x": 0.5} for id in range(4)]))
    query = begun(spark, tmp_path, each, {**options, "poll_interval_s": "0"})
    query.processAllAvailable()
    with iceberg.transaction(source) as transaction:
        transaction.update("id = 0", {"x": 1.5})
        transaction.delete("id = 1")
        transaction.append(of([{"id": 7, "g": "b", "x": 0.5}]))
    with pytest.raises(Exception, match="_Failed"):
        query.awaitTermination()
    begun(spark, tmp_path, each, options, availableNow=True).awaitTermination()
    assert read(iceberg, copy.refresh()) == read(iceberg, source.refresh())
    assert repeated == [False, True]
    jobs = [snapshot.summary[JOB_ID] for snapshot in copy.metadata.snapshots]
    assert jobs == ["batch-0", "batch-1"]
    catalog.engine.dispose()
