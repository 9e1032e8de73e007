"""Runs a job repeatedly and kills it at each step that changes a file or the catalog.

A process of its own that imports and then only forks: the jobs run in forks, so that none of them starts an
interpreter. It is asked in lines ``<job> <folder>`` on standard input and answers each with a line of JSON. The
folder holds ``catalog.db`` and ``wh`` with the table ``n.t``; each run starts from them as they were.

A step is a file created, finished or removed, a commit of the catalog, or the job's end: what it reads changes
nothing, so between two steps one moment is like another. At the end of a file half of it is there. Merges of segments
of a key index are steps, too.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from sqlalchemy import event

from puffin_fast import iceberg, key_index
from puffin_fast.iceberg.index import build, lookup
from puffin_fast.puffin import PuffinReader
from tests.kit.faults import RacingCatalog
from tests.kit.tables import path_of

Result = TypeVar("Result")

JOB = {"job_id": "the-job"}
FEW = {**JOB, "threads": 1}

ROWS = pa.table({"id": [50, 150, 300], "w": ["a", "b", "c"]})
"""Two keys that the tables of `test_killed` have, and one that they have not."""


KEYS = (3, 7, 50, 99, 100, 105, 150, 300)
"""Some ids that are there, deleted, new, or never there."""


def delete_positions(table: Any) -> object:
    paths = sorted(task.data.file_path for task in iceberg.plan_files(table).tasks)
    return iceberg.delete_positions(table, pa.table({"file_path": paths * 2, "pos": [3, 3, 60, 60]}), **FEW)


def transaction(table: Any) -> None:
    with iceberg.transaction(table, **JOB) as tx:
        tx.append(ROWS)
        tx.delete("id >= 90 and id < 120", threads=1)
        tx.update("id >= 45 and id < 51", {"w": "t"}, threads=1)
        tx.delete("w = 'c' or id = 47", threads=1)


JOBS: dict[str, Callable[[Any], object]] = {
    "append": lambda table: iceberg.append(table, ROWS, **JOB),
    "delete": lambda table: iceberg.delete(table, "id >= 90 and id < 120", **FEW),
    "delete_positions": delete_positions,
    "delete_keys": lambda table: iceberg.delete_keys(table, ROWS, ["id"], **FEW),
    "upsert": lambda table: iceberg.upsert(table, ROWS, ["id"], **FEW),
    "update": lambda table: iceberg.update(table, "id >= 90 and id < 120", {"id": 90}, **FEW),
    "transaction": transaction,
    "upgrade": iceberg.upgrade,
    "convert_position_deletes": lambda table: iceberg.convert_position_deletes(table, **FEW),
    "convert_equality_deletes": lambda table: iceberg.convert_equality_deletes(table, **FEW),
    "compact": lambda table: iceberg.compact(table, **FEW),
    "repair": lambda table: iceberg.repair(table, **FEW),
    "rewrite_data_files": lambda table: iceberg.rewrite_data_files(table, min_input_files=2, **FEW),
    "index_keys": lambda table: iceberg.index_keys(table, "id", threads=1),
    "sort": lambda table: iceberg.rewrite_data_files(table, sort_by=["w desc", "id"], **FEW),
}

AT_ONCE = timedelta()
REMOVING: dict[str, Callable[[Any], object]] = {
    "expire_snapshots": lambda table: iceberg.expire_snapshots(table, older_than=timedelta(), threads=1),
    "remove_orphan_files": lambda table: iceberg.remove_orphan_files(
        table, older_than=AT_ONCE, threads=1, dry_run=False
    ),
}
"""Jobs that remove files and leave all rows as they are."""

POLICY = iceberg.MaintenancePolicy(
    ("convert", "rewrite", "compact", "index", "expire"),
    min_input_files=2,
    expire_older_than=timedelta(),
    retain_last=1,
)

KEEPING: dict[str, Callable[[Any], object]] = {
    "maintain": lambda table: iceberg.maintain(table, POLICY, threads=1),
    "rewrite_and_index": lambda table: iceberg.rewrite_data_files(table, min_input_files=2, threads=1),
}
"""Jobs of several commits that keep key indexes and leave all rows as they are."""

STEPS: list[str] = []
LAST = 0
"""The step at which this process dies; 0: never."""


def step(what: str, unfinished: str | None = None) -> None:
    STEPS.append(what)
    if len(STEPS) == LAST:
        if unfinished is not None:
            os.truncate(unfinished, os.stat(unfinished).st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)


def merge_into(*arguments: Any, **named: Any) -> int:
    step("merge")
    n_bytes = key_index.merge_into(*arguments, **named)
    step("merged")
    return n_bytes


build.merge_into = merge_into  # type: ignore[attr-defined]
lookup.ROWS_PER_CANDIDATE = 0  # small data files are narrowed, too


class KillingStream:
    """A local file being written."""

    def __init__(self, stream: Any, path: str) -> None:
        self.stream, self.path = stream, path
        self.write, self.tell, self.flush = stream.write, stream.tell, stream.flush

    @property
    def closed(self) -> bool:
        return bool(self.stream.closed)

    def close(self) -> None:
        if not self.closed:
            self.stream.close()
            step(f"finish {self.path}", self.path)

    def __enter__(self) -> KillingStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class KillingFile(PyArrowFile):
    """A local file that is a step when it is created, and one when it is finished."""

    def create(self, overwrite: bool = False) -> Any:
        step(f"create {self._path}")
        return KillingStream(super().create(overwrite), self._path)


class KillingFileIO(PyArrowFileIO):
    """Files as `KillingFile`; each that is removed is a step."""

    def new_output(self, location: str) -> KillingFile:
        scheme, netloc, path = self.parse_location(location)
        return KillingFile(location=location, path=path, fs=self.fs_by_scheme(scheme, netloc))

    def delete(self, location: Any) -> None:
        step(f"remove {location}")
        super().delete(location)


def opened(folder: Path) -> tuple[RacingCatalog, Any]:
    catalog = RacingCatalog(
        "killed", uri=f"sqlite:///{folder}/catalog.db", **{"py-io-impl": f"{__name__}.KillingFileIO"}
    )
    return catalog, catalog.load_table("n.t")


def forked(work: Callable[[], Result]) -> Result | None:
    """Returns the result of `work` in a process of its own; None if the process was killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = pickle.dumps((True, work()))
        except BaseException:
            answer = pickle.dumps((False, traceback.format_exc()))
        with os.fdopen(writer, "wb") as stream:
            stream.write(answer)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        answer = stream.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        return None
    worked, result = pickle.loads(answer)
    assert worked, result
    found: Result = result
    return found


def files(folder: Path) -> set[str]:
    return {str(path) for path in (folder / "wh").rglob("*") if path.is_file()}


def stored(table: Any) -> Iterator[tuple[int, str, tuple[int, ...], bytes]]:
    for known in table.metadata.statistics:
        with PuffinReader(path_of(known.statistics_path)) as reader:
            for blob in reader.blobs:
                yield known.snapshot_id, blob.type, tuple(blob.fields), reader.stored(blob)


class State(NamedTuple):
    """The state of a table as readers see it.

    Attributes:
        rows: with their lineage in format version 3.
        found: the ids of some keys, for which a key index is used.
        statistics: snapshot, type, columns and bytes of each blob of the statistics files.
        findings: of `verify`.
        kinds: of each delete file.
        version: format version, and the number of snapshots.
        orphan_files: paths of files that no snapshot needs.
    """

    rows: list[str]
    found: list[int]
    statistics: list[tuple[int, str, tuple[int, ...], bytes]]
    findings: list[str]
    kinds: list[str]
    version: tuple[int, int]
    orphan_files: set[str]

    @classmethod
    def of(cls, folder: Path) -> State:
        _, table = opened(folder)
        metadata = table.metadata
        lineage = ("_row_id", "_last_updated_sequence_number") if metadata.format_version > 2 else ()
        findings = [finding.kind for finding in iceberg.verify(table, threads=1)]
        rows, found = [], []
        if "duplicate" not in findings:  # such a table cannot be read
            rows = iceberg.scan(table, selected_fields=("*", *lineage), threads=1).to_arrow().to_pylist()
            some = iceberg.scan(table, f"id in ({', '.join(map(str, KEYS))})", ["id"], threads=1)
            found = sorted(some.to_arrow()["id"].to_pylist())
        deletes = iceberg.deletes(table)
        kinds = set(zip(deletes["kind"].to_pylist(), deletes["path"].to_pylist(), strict=True))
        orphan_files = iceberg.orphan_files(table, older_than=AT_ONCE, threads=1)
        return cls(
            sorted(map(repr, rows)),
            found,
            sorted(stored(table)),
            findings,
            sorted(kind for kind, _ in kinds),
            (metadata.format_version, len(metadata.snapshots)),
            {path.removeprefix("file://") for path in orphan_files["path"].to_pylist()},
        )

    @property
    def table(self) -> tuple[object, ...]:
        """The state but for files that lie about."""
        return self[:-1]


def restore(folder: Path) -> None:
    for name in ("wh", "catalog.db"):
        place, kept = folder / name, folder / "kept" / name
        if place.is_dir():
            shutil.rmtree(place)
            shutil.copytree(kept, place)
        else:
            shutil.copy(kept, place)


def run(folder: Path, job: str, at: int = 0) -> list[str]:
    """Runs a job up to a step; returns its steps."""
    global LAST
    catalog, table = opened(folder)
    event.listen(catalog.engine, "commit", lambda connection: step("commit"))
    STEPS.clear()
    LAST = at
    (JOBS | REMOVING | KEEPING)[job](table)
    step("return")
    LAST = 0
    return list(STEPS)


def cleaned(folder: Path, job: str) -> tuple[State, State]:
    """The state after a killed run, and the state after a repetition and a removal of orphan files."""
    left = State.of(folder)
    run(folder, job)
    run(folder, "remove_orphan_files")
    return left, State.of(folder)


def repeated(folder: Path, job: str) -> tuple[State, State]:
    """The state after a killed run, and the state after a repetition."""
    left = State.of(folder)
    run(folder, job)
    return left, State.of(folder)


def not_killed(job: str, folder: Path, look: Callable[[Path], State]) -> tuple[State, list[str], State]:
    """Keeps what a folder has and runs a job there; returns the state before, the steps, and what is seen after."""
    (folder / "kept").mkdir()
    shutil.copytree(folder / "wh", folder / "kept" / "wh")
    shutil.copy(folder / "catalog.db", folder / "kept" / "catalog.db")
    before = forked(lambda: State.of(folder))
    steps = forked(lambda: run(folder, job))
    done = forked(lambda: look(folder))
    assert before is not None
    assert done is not None
    assert steps is not None
    return before, steps, done


def _killed(job: str, folder: Path, steps: list[str]) -> Iterator[tuple[int, str, str]]:
    """Kills a job at each of its steps; yields the number of the step, its name, and the beginning of messages.

    Raises:
        AssertionError: the job lives.
    """
    for at, what in enumerate(steps, start=1):
        where = f"{job} killed at step {at}, {what}"
        restore(folder)
        assert forked(lambda at=at: run(folder, job, at)) is None, f"{where}: it lives"  # type: ignore[misc]
        yield at, what, where


def killed_everywhere(job: str, folder: Path) -> list[str]:
    """Kills a job at each of its steps.

    Returns:
        the steps.

    Raises:
        AssertionError: an intermediate state, a lost delete, or a file that no metadata refers to.
    """
    there = files(folder)
    before, steps, done = not_killed(job, folder, State.of)
    assert before.table != done.table, "the job does nothing"
    assert before.orphan_files == set()
    assert all(path in there and path.endswith(".stats") for path in done.orphan_files), "not only replaced"
    assert done.findings == []
    clean = done._replace(orphan_files=set())
    paths = [what.partition(" ") for what in steps]
    made = {path for what, _, path in paths if what == "finish"}
    made -= {path.removeprefix("file://") for what, _, path in paths if what == "remove"}
    assert files(folder) == there | made, "files that were written without a step"
    for _, what, where in _killed(job, folder, steps):
        # metadata that is complete may be another catalog's: its files are no orphans before the next commit
        orphans = set() if what == "commit" else files(folder) - there
        answer = forked(lambda: cleaned(folder, job))
        assert answer is not None
        left, then = answer
        if what == "return":
            assert left == done, f"{where}: {left}"
        else:
            assert left == (*before.table, orphans), f"{where}: {left}"
        assert then == clean, f"{where}: the next run leaves {then}"
    return steps


def is_whole(folder: Path) -> bool:
    """Whether all snapshots can be read."""
    _, table = opened(folder)
    for snapshot in table.metadata.snapshots:
        iceberg.scan(table, snapshot_id=snapshot.snapshot_id, threads=1).to_arrow()
    return True


def killed_while_removing(job: str, folder: Path) -> list[str]:
    """Kills a job that removes files at each of its steps.

    Returns:
        the steps.

    Raises:
        AssertionError: an intermediate state, a lost row, a snapshot that cannot be read, or a file that a repetition
            does not remove.
    """
    before, steps, done = not_killed(job, folder, State.of)
    assert done.rows == before.rows
    assert (done.orphan_files, done.findings) == (set(), [])
    for at, _, where in _killed(job, folder, steps):
        assert forked(lambda: is_whole(folder)), where
        answer = forked(lambda: cleaned(folder, job))
        assert answer is not None
        left, then = answer
        committed = "commit" in steps[: at - 1] or "commit" not in steps
        assert left.table == (done if committed else before).table, f"{where}: {left}"
        assert then == done, f"{where}: a repetition leaves {then}"
    return steps


def killed_between_commits(job: str, folder: Path) -> list[str]:
    """Kills a job of several commits at each of its steps.

    Returns:
        the steps.

    Raises:
        AssertionError: a lost row, a row that came back, a finding of `verify`, a snapshot that cannot be read, or an
            index that a repetition leaves otherwise.
    """
    before, steps, done = not_killed(job, folder, lambda folder: repeated(folder, job)[1])
    same = before.rows, before.found, []
    assert (done.rows, done.found, done.findings) == same
    indexes = {blob[1:3] for blob in done.statistics}
    for _, _, where in _killed(job, folder, steps):
        assert forked(lambda: is_whole(folder)), where
        answer = forked(lambda: repeated(folder, job))
        assert answer is not None
        left, then = answer
        assert (left.rows, left.found, left.findings) == same, f"{where}: {left}"
        assert (then.rows, then.found, then.findings) == same, f"{where}: {then}"
        assert then.kinds == done.kinds, f"{where}: {then}"
        assert {blob[1:3] for blob in then.statistics} == indexes, f"{where}: {then.statistics}"
    return steps


def main() -> None:
    """Serves requests until standard input ends."""
    with (
        tempfile.TemporaryDirectory() as scratch
    ):  # what libraries compute once, they compute before the forks
        catalog = RacingCatalog(
            "killed", uri=f"sqlite:///{scratch}/catalog.db", warehouse=f"file://{scratch}"
        )
        catalog.create_namespace("n")
        iceberg.append(iceberg.create_table(catalog, "n.t", ROWS.schema), ROWS)
        catalog.engine.dispose()
        for job in ("upsert", "compact", "expire_snapshots"):
            run(Path(scratch), job)
        State.of(Path(scratch))
    gc.freeze()  # a collection would touch, and so copy, every page in each fork
    gc.disable()
    for line in sys.stdin:
        job, _, folder = line.strip().partition(" ")
        try:
            kill = killed_while_removing if job in REMOVING else killed_everywhere
            kill = killed_between_commits if job in KEEPING else kill
            answer: object = kill(job, Path(folder))
        except Exception:
            answer = traceback.format_exc()
        print(json.dumps(answer), flush=True)
