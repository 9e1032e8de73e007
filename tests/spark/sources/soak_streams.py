"""Replicas that follow a stream of changes for hundreds of micro-batches, while its processes are killed at random.

    python -m tests.spark.sources.soak_streams --batches 200 --pairs ii id di
    python -m tests.spark.sources.soak_streams --batches 40 --pairs ii --master local-cluster[2,1,1024]

This process makes random commits in source tables by several engines. Another one, the driver, runs a query of
``puffin_changes`` for each pair of formats, and applies its batches by ``foreachBatch``; after each batch it compares
the replica with the source at the end of the batch. This process kills the driver, its JVM, executors and Python
workers by SIGKILL at random times, and starts the driver again with the same checkpoints. It prints how many batches,
kills and comparisons there were, and the largest resident memory of each kind of process; it fails if one comparison
does. ``pytest`` does not collect it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from puffin_fast import delta, iceberg
from puffin_fast.errors import ConflictError
from tests import jars
from tests.conftest import JVM, QUICK
from tests.rows.deletes.equality_deletes import delete_equal
from tests.verbs.applied_changes import DELTA_PROPERTIES, made, of, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[3]
STARTS = Lock()
"""Queries start one after the other, because each starts Python for its plans."""

VERBS: dict[str, Any] = {"i": iceberg, "d": delta}
KEYS = 4_000
LIVE = 2_000
"""Rows that the source has about."""

AHEAD = 5
"""Commits that the source may have more than the replica."""

STUCK_S = 900
"""A batch that takes so long never ends."""

START_S = 10
"""A driver that is killed while it starts is killed within this time."""

BUSY = "Python worker failed to connect back"
"""The machine is so busy that Python takes more than 10 s to start; nothing else has failed."""

ENDED = 3
"""Exit code of the driver when its session or a comparison has failed."""

BY_EXECUTORS, BY_JAVA = 0.3, 0.08
"""Shares of the batches that executors apply, the driver the others, and of those after which Spark's SQL commits."""

SETTINGS = QUICK | {
    "spark.app.name": "soak",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": JVM,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


class Place:
    """The folder of a run: the tables, the checkpoint, and what the driver reports."""

    def __init__(self, folder: Path, pair: str) -> None:
        self.folder, self.pair = folder, pair
        self.source_verbs, self.copy_verbs = (VERBS[one] for one in pair)
        self.properties = {"uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/w"}
        self.catalog = SqlCatalog(pair, **self.properties)
        self.events, self.checkpoint = folder / "events", folder / "checkpoint"

    def table(self, name: str) -> Any:
        verbs = self.source_verbs if name == "source" else self.copy_verbs
        return self.catalog.load_table(f"n.{name}") if verbs is iceberg else str(self.folder / name)

    def options(self) -> dict[str, str]:
        """The options of the stream."""
        if self.source_verbs is delta:
            return {"path": str(self.folder / "source")}
        return {
            "catalog": self.pair,
            "table": "n.source",
            **{f"catalog.{k}": v for k, v in self.properties.items()},
        }

    def end_of(self, number: int) -> int:
        """The snapshot or version at the end of a batch."""
        offset = json.loads((self.checkpoint / "offsets" / str(number)).read_text().splitlines()[-1])
        found: int = offset["snapshot_id" if self.source_verbs is iceberg else "version"]
        return found

    def report(self, **event: Any) -> None:
        with self.events.open("a") as out:
            out.write(json.dumps(event) + "\n")


# The driver ----------------------------------------------------------------------------------------------------


def of_java(places: Sequence[Place]) -> dict[str, str]:
    """Settings with which Spark's SQL reaches the sources."""
    found = {
        "spark.jars": ",".join(map(str, [*jars.find("delta"), *jars.find("spark")])),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    for place in places:
        catalog = f"spark.sql.catalog.{place.pair}"
        found |= {
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            f"{catalog}.uri": f"jdbc:sqlite:{place.folder}/c.db",
            f"{catalog}.jdbc.schema-version": "V1",
            f"{catalog}.warehouse": f"file://{place.folder}/w",
            f"{catalog}.cache-enabled": "false",
        }
    return found


def commit_by_java(spark: SparkSession, place: Place) -> None:
    """An update, delete or merge of Spark, merge on read or copy on write, in the source. Conflicts are no failures."""
    name = f"{place.pair}.n.source" if place.source_verbs is iceberg else f"delta.`{place.folder}/source`"
    first = random.randrange(KEYS)
    where = f"id >= {first} AND id < {first + 150}"
    merge = f"MERGE INTO {name} t USING (SELECT id + {first} AS id FROM range(0, 300, 3)) s ON t.id = s.id "
    statement = random.choice(
        [
            f"UPDATE {name} SET x = {random.randrange(99) / 2} WHERE {where}",
            f"DELETE FROM {name} WHERE {where}",
            f"{merge} WHEN MATCHED AND t.g = 'b' THEN DELETE WHEN MATCHED THEN UPDATE SET x = t.x + 1",
        ]
    )
    try:
        if place.source_verbs is iceberg:
            modes = ("merge-on-read", "copy-on-write")
            properties = (
                f"'write.{job}.mode' = '{random.choice(modes)}'" for job in ("delete", "update", "merge")
            )
            spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({', '.join(properties)})").collect()
        spark.sql(statement).collect()
        place.report(by_java="commits")
    except Exception as error:
        place.report(by_java=str(error)[:120])


def session(folder: Path, places: Sequence[Place], master: str) -> SparkSession:
    import pyspark
    from pyspark.sql import SparkSession

    home = folder / "home"  # executors keep their logs in it
    home.mkdir(exist_ok=True)
    for part in ("bin", "jars", "python"):
        with suppress(FileExistsError):
            (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    if "cluster" in master:
        os.environ["SPARK_HOME"] = str(home)
    builder = SparkSession.builder.master(master)
    for key, value in {**SETTINGS, **of_java(places)}.items():
        builder = builder.config(key, value)
    return builder.config("spark.local.dir", str(folder / "local")).getOrCreate()


def follow(folder: Path, pairs: Sequence[str], master: str) -> None:
    """Runs the queries, and starts each again if it fails, until the process is killed."""
    from puffin_fast import spark as ps

    places = [Place(folder / pair, pair) for pair in pairs]
    spark = session(folder, places, master)
    ps.register(spark)
    with ThreadPoolExecutor(len(places)) as pool:
        for done in [pool.submit(follow_one, spark, place) for place in places]:
            done.result()


def follow_one(spark: SparkSession, place: Place) -> None:
    while True:
        reader = spark.readStream.format("puffin_changes").options(**place.options())
        stream = reader.option("poll_interval_s", "0.2").option("maxSnapshotsPerTrigger", "3").load()
        writer = stream.writeStream.foreachBatch(partial(apply, place))
        try:
            with STARTS:
                query = writer.option("checkpointLocation", str(place.checkpoint)).start()
                while query.isActive and not query.recentProgress:
                    time.sleep(0.2)
            query.awaitTermination()
        except Exception as error:
            place.report(failed=str(error)[-1500:])
            if spark.sparkContext._jsc is None or spark.sparkContext._jsc.sc().isStopped():
                os._exit(ENDED)


def apply(place: Place, df: DataFrame, number: int) -> None:
    """Applies a batch, on executors or here, and compares the replica with the source at the end of the batch."""
    from puffin_fast import spark as ps

    place.report(begins=number)
    given: Any = {"join_cols": "id", "changes": True, "job_id": f"soak-{number}"}
    verbs: Any = place.copy_verbs
    if random.random() < BY_EXECUTORS:
        result = ps.upsert(df, place.table("copy"), **given)
    else:
        result = verbs.upsert(place.table("copy"), df.toArrow(), **given)
    place.report(applied=number, repeated=result.commit.repeated)
    end, source_verbs = place.end_of(number), place.source_verbs
    wanted = source_verbs.scan(place.table("source"), snapshot_id=end).to_arrow().sort_by("id").to_pylist()
    found = read(verbs, place.table("copy"))
    if found != wanted:
        place.report(differs=number, end=end, too_many=minus(found, wanted), missing=minus(wanted, found))
        os._exit(ENDED)
    place.report(equal=number, rows=len(found))
    if random.random() < BY_JAVA:
        commit_by_java(df.sparkSession, place)


def minus(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> list[str]:
    return sorted((Counter(map(repr, left)) - Counter(map(repr, right))).elements())[:10]


# The source ------------------------------------------------------------------------------------------------------


class Source:
    """A table with unique keys, and random commits of several engines."""

    def __init__(self, place: Place, chance: random.Random) -> None:
        self.place, self.verbs, self.chance = place, place.source_verbs, chance
        self.made: Counter[str] = Counter()

    def commit(self) -> None:
        """Makes one commit or several, if PyIceberg's verb does."""
        self.table = self.place.table("source")
        ids = [row["id"] for row in read(self.verbs, self.table)]
        self.live, self.free = ids, sorted(set(range(KEYS)) - set(ids))
        steps = [self.append, self.delete, self.update, self.move, self.upsert, self.overwrite, self.rewrite]
        steps += [self.several, self.delete_keys]
        if self.verbs is iceberg:
            steps += [self.equality_delete, self.compact]
        else:
            steps.append(self.purge)
            if "delta.enableRowTracking" not in delta.snapshot(self.table).configuration:
                steps += [
                    self.deltalake_append,
                    self.deltalake_delete,
                ]  # it writes no tables with row tracking
        step = self.append if len(ids) < LIVE // 4 else self.chance.choice(steps)
        step = step if self.free else self.delete
        try:
            step()
        except ConflictError:  # with a commit of Java
            self.made["conflicts"] += 1
        else:
            self.made[step.__name__] += 1

    def new(self, ids: list[int]) -> pa.Table:
        return of(
            [{"id": id, "g": self.chance.choice("abcd"), "x": self.chance.randrange(99) / 2} for id in ids]
        )

    def some(self, ids: list[int], most: int) -> list[int]:
        return self.chance.sample(ids, min(len(ids), self.chance.randrange(1, most)))

    def range(self, most: int) -> tuple[int, int]:
        first = self.chance.choice(self.live)
        return first, first + self.chance.randrange(1, most)

    def append(self) -> None:
        self.verbs.append(self.table, self.new(self.some(self.free, 400)))

    def delete(self) -> None:
        first, end = self.range(400)
        self.verbs.delete(self.table, f"id >= {first} and id < {end} and g != 'a'")

    def delete_keys(self) -> None:
        self.verbs.delete_keys(self.table, pa.table({"id": self.some(self.live, 200)}), join_cols="id")

    def update(self) -> None:
        first, end = self.range(300)
        self.verbs.update(self.table, f"id >= {first} and id < {end}", {"x": self.chance.randrange(99) / 2})

    def move(self) -> None:
        self.verbs.update(
            self.table, f"id = {self.chance.choice(self.live)}", {"id": self.chance.choice(self.free)}
        )

    def upsert(self) -> None:
        self.verbs.upsert(self.table, self.new(self.some(sorted({*self.live, *self.free[::8]}), 300)), ["id"])

    def overwrite(self) -> None:
        first, end = self.range(60)
        self.verbs.overwrite(self.table, self.new(list(range(first, end))), f"id >= {first} and id < {end}")

    def rewrite(self) -> None:
        self.verbs.rewrite_data_files(self.table, min_deleted=0.01, min_input_files=2)

    def several(self) -> None:
        """Rows that are appended, updated and deleted by one commit."""
        new = self.some(self.free, 100)
        with self.verbs.transaction(self.table) as transaction:
            transaction.append(self.new(new))
            transaction.update(f"id >= {new[0]} and id < {new[0] + 200}", {"x": 0.25})
            transaction.delete(f"id in ({', '.join(map(str, self.some([*new, *self.live], 50)))})")

    def deltalake_append(self) -> None:
        import deltalake

        deltalake.write_deltalake(self.table, self.new(self.some(self.free, 200)), mode="append")

    def deltalake_delete(self) -> None:
        import deltalake

        first, end = self.range(200)
        deltalake.DeltaTable(self.table).delete(f"id >= {first} and id < {end}")

    def equality_delete(self) -> None:
        """As Flink does."""
        delete_equal(self.table, [1], [(id,) for id in self.some(self.live, 100)])

    def compact(self) -> None:
        iceberg.compact(self.table)

    def purge(self) -> None:
        delta.purge(self.table, min_deleted=0.05)


# The processes of a driver ----------------------------------------------------------------------------------------


def processes() -> dict[int, tuple[int, str]]:
    """The parent and the command of each process."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            found[int(folder.name)] = parent, (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def kind_of(command: str) -> str:
    program, _, rest = command.partition(" ")
    if program.endswith("java"):
        return "executor" if "CoarseGrainedExecutorBackend" in rest else "JVM of the driver"
    if "python" not in program:
        return "other"
    for word, kind in (("soak_streams", "driver"), ("streaming", "planner"), ("spark.daemon", "worker")):
        if word in rest:
            return kind
    return "other"


class Driver:
    """The process of the driver, and those that it started."""

    def __init__(self, folder: Path, pairs: Sequence[str], master: str) -> None:
        self.known: dict[int, str] = {}
        command = [
            sys.executable,
            "-m",
            "tests.spark.sources.soak_streams",
            "--follow",
            str(folder),
            "--master",
            master,
        ]
        with (folder / "log").open("ab") as out:
            self.process = subprocess.Popen(
                [*command, "--pairs", *pairs],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
            )

    def look(self, peaks: dict[str, int]) -> dict[int, str]:
        """Returns the processes that run, and notes how much memory each kind had at most."""
        every = processes()
        mine = {self.process.pid, *(pid for pid in self.known if pid in every)}
        while more := {pid for pid, (parent, _) in every.items() if parent in mine} - mine:
            mine |= more
        running = {pid: kind_of(every[pid][1]) for pid in mine if pid in every and every[pid][1]}
        self.known |= running
        for pid, kind in running.items():
            with suppress(OSError, StopIteration):
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                kib = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
                peaks[kind] = max(peaks.get(kind, 0), kib)
        return running

    def kill(self, pids: list[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def wait(self) -> int:
        """Waits until the driver has ended, and kills what outlives it."""
        status = self.process.wait(180)
        deadline = time.monotonic() + 90
        while left := self.look({}).keys() - {self.process.pid}:
            if time.monotonic() > deadline:
                self.kill([*left])
            time.sleep(0.1)
        return status


# A run ------------------------------------------------------------------------------------------------------------


class Replica:
    """What was seen of one replica, and its source."""

    def __init__(self, place: Place, seed: int) -> None:
        self.place, chance = place, random.Random(f"{seed} {place.pair}")
        self.failures: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.equal: set[int] = set()
        self.seen = self.n_commits = self.commits_then = 0
        place.catalog.create_namespace("n")
        at = (place.catalog, "n")
        for name, verbs in (("source", place.source_verbs), ("copy", place.copy_verbs)):
            properties = {"properties": chance.choice(DELTA_PROPERTIES)} if verbs is delta else {}
            made(verbs, at, place.folder, name, **properties)
        self.source = Source(place, chance)

    def events(self, was_disturbed: bool) -> int:
        """Reads what the driver has reported; returns how many batches have begun."""
        n_begun = 0
        if not self.place.events.exists():
            return 0
        with self.place.events.open() as file:
            file.seek(self.seen)
            for line in iter(file.readline, ""):
                if not line.endswith("\n"):
                    break
                self.seen += len(line)
                event = json.loads(line)
                if "differs" in event:
                    raise AssertionError(f"{self.place.pair}: the replica differs from its source: {event}")
                if "failed" in event:
                    if not was_disturbed and BUSY not in event["failed"]:
                        raise AssertionError(f"the query failed, and nothing was killed: {event}")
                    self.failures[event["failed"][:300]] += 1
                if "by_java" in event:
                    self.source.made[f"Java: {event['by_java']}"] += 1
                n_begun += "begins" in event
                if "equal" in event:
                    self.equal.add(event["equal"])
                    self.commits_then = self.n_commits
                self.counts.update(kind for kind in ("begins", "applied", "equal") if kind in event)
                self.counts["repeated"] += event.get("repeated", False)
        return n_begun

    def commit(self) -> bool:
        """Makes a commit, unless the source has enough of them more than the replica."""
        if self.n_commits - self.commits_then >= AHEAD:
            return False
        self.source.commit()
        self.n_commits += 1
        return True

    def said(self) -> dict[str, Any]:
        return {
            "pair": self.place.pair,
            "commits": self.n_commits,
            "by": dict(self.source.made),
            "batches": len(self.equal),
            "begun": self.counts["begins"],
            "applied": self.counts["applied"],
            "repeated": self.counts["repeated"],
            "compared and equal": self.counts["equal"],
            "queries that failed": dict(self.failures),
        }


class Run:
    """Replicas that one driver serves, until each has applied a number of batches."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.options = folder, options
        self.chance = random.Random(options.seed)
        self.kills: Counter[str] = Counter()
        self.peaks: dict[str, int] = {}
        self.drivers = 0
        self.batch_s, self.last_begun = 5.0, 0.0
        for pair in options.pairs:
            (folder / pair).mkdir(parents=True)
        self.replicas = [Replica(Place(folder / pair, pair), options.seed) for pair in options.pairs]

    def run(self) -> None:
        began = progress = time.monotonic()
        deadline = began + 60 * self.options.minutes
        driver = self.start()
        try:
            while any(len(one.equal) < self.options.batches for one in self.replicas):
                running, now = driver.look(self.peaks), time.monotonic()
                before = sum(len(one.equal) for one in self.replicas)
                for _ in range(sum(one.events(self.was_disturbed) for one in self.replicas)):
                    self.last_begun = progress = now
                    self.plan_kills(now)
                if sum(len(one.equal) for one in self.replicas) > before:
                    self.batch_s = 0.8 * self.batch_s + 0.2 * (now - self.last_begun)
                    progress = now
                if now > deadline:
                    break
                if now - progress > STUCK_S:
                    raise AssertionError(f"no batch in {STUCK_S} s; see {self.folder}/log")
                made_any = [one.commit() for one in self.replicas]
                if not any(made_any):
                    time.sleep(0.2)
                status = driver.process.poll()
                if status is None and now > self.kills_driver:
                    self.was_disturbed = True
                    driver.kill(self.victims(running))
                    status = driver.wait()
                elif status is None and now > self.kills_part:
                    self.kills_part = math.inf
                    parts = [
                        pid for pid, kind in running.items() if kind in ("worker", "planner", "executor")
                    ]
                    if parts:
                        self.was_disturbed = True
                        victim = self.chance.choice(sorted(parts))
                        self.kills[running[victim]] += 1
                        driver.kill([victim])
                if status is not None:
                    driver.wait()
                    for one in self.replicas:
                        one.events(self.was_disturbed)
                    if not self.was_disturbed:
                        raise AssertionError(f"the driver ended with {status}, and nothing was killed")
                    driver = self.start()
        finally:
            driver.kill([*driver.look(self.peaks)])
            driver.wait()
            self.say(time.monotonic() - began)

    def start(self) -> Driver:
        """Starts a driver; one of ten is killed while it starts."""
        self.kills_driver = self.kills_part = math.inf
        self.was_disturbed = False
        self.drivers += 1
        if self.chance.random() < 0.1:
            self.kills_driver = time.monotonic() + self.chance.uniform(0, START_S)
        return Driver(self.folder, self.options.pairs, self.options.master)

    def plan_kills(self, now: float) -> None:
        """Plans whether a batch is disturbed, and when."""
        if self.chance.random() < self.options.kill_driver:
            self.kills_driver = now + self.chance.uniform(0, 1.2 * self.batch_s)
        if self.chance.random() < self.options.kill_part:
            self.kills_part = now + self.chance.uniform(0, 1.2 * self.batch_s)

    def victims(self, running: dict[int, str]) -> list[int]:
        """The driver's Python, its JVM, or both."""
        python = [pid for pid, kind in running.items() if kind == "driver"]
        java = [pid for pid, kind in running.items() if kind == "JVM of the driver"]
        what, pids = self.chance.choice(
            [("driver", python), ("JVM of the driver", java or python), ("driver and its JVM", python + java)]
        )
        self.kills[what] += 1
        return pids

    def say(self, seconds: float) -> None:
        for one in self.replicas:
            print(json.dumps(one.said()), flush=True)
        found = {
            "master": self.options.master,
            "seconds": round(seconds),
            "drivers": self.drivers,
            "kills": dict(self.kills),
            "peak MiB": {kind: kib >> 10 for kind, kib in sorted(self.peaks.items())},
        }
        print(json.dumps(found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument(
        "--pairs", nargs="+", default=["ii", "id", "di"], help="formats of the source and the copy"
    )
    parser.add_argument("--minutes", type=float, default=60, help="the longest time")
    parser.add_argument("--master", default="local[2,3]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill-driver", type=float, default=0.04, help="chance in each batch")
    parser.add_argument(
        "--kill-part", type=float, default=0.1, help="chance for an executor or a Python worker"
    )
    parser.add_argument("--folder", type=Path, help="kept; a temporary one by default")
    parser.add_argument("--follow", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.follow:
        follow(options.follow, options.pairs, options.master)
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        Run((options.folder or Path(scratch)).resolve(), options).run()


if __name__ == "__main__":
    main()
