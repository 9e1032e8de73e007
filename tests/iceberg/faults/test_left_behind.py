"""A job that did not commit leaves no file and no lock, and does not change the state of a forked child process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast._process.gc_pause import paused_gc
from puffin_fast._process.interrupt import interruptible
from puffin_fast.errors import PuffinFastError
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from tests.iceberg.conftest import rows_of
from tests.kit.faults import RacingCatalog
from tests.kit.mounts import may_mount
from tests.kit.tables import files_of

ROWS = pa.table({"id": pa.array(range(100), pa.int64())})

ROOT = Path(__file__).parents[3]


def transaction(table: Table) -> None:
    with iceberg.transaction(table) as tx:
        tx.delete("id < 50")
        tx.append(pa.table({"id": [500]}))
        tx.delete("id < 60")


VERBS: dict[str, Callable[[Table], object]] = {
    "append": lambda table: iceberg.append(table, pa.table({"id": [500]})),
    "delete": lambda table: iceberg.delete(table, "id < 50"),
    "delete_keys": lambda table: iceberg.delete_keys(table, pa.table({"id": [77]}), "id"),
    "upsert": lambda table: iceberg.upsert(table, pa.table({"id": [3, 700]}), "id", skip_unchanged=False),
    "transaction": transaction,
}


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    made = iceberg.create_table(racing, "n.t", ROWS.schema)
    iceberg.append(made, ROWS)
    return made


@pytest.mark.parametrize("verb", VERBS)
def test_a_catalog_that_is_read_only_is_an_error_and_leaves_nothing(
    racing: RacingCatalog, table: Table, verb: str
) -> None:
    path = racing.properties["uri"].removeprefix("sqlite:///")
    uri = f"sqlite:///file:{path}?mode=ro&uri=true"
    catalog = SqlCatalog("racing", uri=uri, warehouse=racing.properties["warehouse"])
    before = files_of(table)
    with pytest.raises(PuffinFastError, match=r"n\.t: the catalog refused the commit: .*readonly"):
        VERBS[verb](catalog.load_table("n.t"))
    assert files_of(table) == before
    catalog.engine.dispose()


FULL = """
import errno, sys
from dataclasses import dataclass
from pathlib import Path
import numpy as np, pyarrow as pa
from puffin_fast import iceberg
from puffin_fast.errors import PuffinFastError
from tests.kit.faults import RacingCatalog
from tests.kit.tables import files_of
from tests.iceberg.faults.test_left_behind import VERBS

disk, folder = Path(sys.argv[1]), sys.argv[2]
catalog = RacingCatalog("full", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{disk}/wh")
catalog.create_namespace("n")
table = iceberg.create_table(catalog, "n.t", pa.schema([("id", pa.int64())]))
iceberg.append(table, pa.table({"id": range(100)}))
before = files_of(table)

many = pa.table({"id": np.random.default_rng(1).integers(0, 1 << 60, 1 << 20)})  # 8 MiB for a disk of 4
for source in (many, many.to_reader(1 << 16)):
    try:
        print("COMMITTED", iceberg.append(table, source))
    except PuffinFastError as error:
        print("refused", "No space" in str(error), files_of(table) == before)

def leave(n_bytes):
    "Fills the disk up to so many bytes."
    ballast = open(disk / "ballast", "wb", buffering=0)
    while True:
        try:
            ballast.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC
            ballast.truncate(ballast.tell() - n_bytes)
            return

for name, verb in VERBS.items():
    for pages in range(0, 12, 2):
        leave(4096 * pages)
        try:
            verb(table)
        except PuffinFastError as error:
            print("refused", name, pages, files_of(table) == before)
        else:
            print("done", name)
            break
        finally:
            (disk / "ballast").unlink()
    before = files_of(table)
    catalog.before.append(lambda: leave(0))
    try:
        iceberg.append(table, pa.table({"id": [9]}))
        print("COMMITTED", name)
    except PuffinFastError as error:
        print("refused", name, "metadata", files_of(table) == before)
    (disk / "ballast").unlink()
"""


@pytest.mark.skipif(not may_mount(), reason="needs unshare and user namespaces to mount a small disk")
def test_a_disk_that_is_full_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    """The disk fills up while data files, delete files, manifests or the catalog's metadata are written."""
    disk, script = tmp_path / "disk", tmp_path / "full.py"
    disk.mkdir()
    script.write_text(FULL)
    command = f"mount -t tmpfs -o size=4m none {disk} && exec {sys.executable} {script} {disk} {tmp_path}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command],
        capture_output=True,
        text=True,
        timeout=100,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["refused True True"] * 2
    refused = [line for line in lines if line.startswith("refused")]
    assert all(line.endswith("True") for line in refused), lines
    assert not [line for line in lines if line.startswith("COMMITTED")]
    assert all(f"refused {name} 0 True" in lines for name in VERBS)


PARTS = ("iceberg/commit", "iceberg/delete_files", "iceberg/dml", "puffin", "_io/sink")
OWN = tuple(f"{ROOT}/puffin_fast/{part}" for part in PARTS)
FINALIZERS = ("remove_files", "remove", "remove_created", "__del__")
"""Python drops what is raised in them."""


@dataclass
class Interrupt:
    """Raises KeyboardInterrupt at the n-th event that is chosen, of those in this thread."""

    is_chosen: Callable[[CodeType, str], bool]
    left: int

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self.is_chosen(frame.f_code, event):
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self if frame.f_code.co_filename.startswith(OWN) else None


def is_own_line(code: CodeType, event: str) -> bool:
    """Whether it is a line of the writing and committing code."""
    return event == "line" and code.co_filename.startswith(OWN) and code.co_name not in FINALIZERS


def interrupted(table: Table, verb: str, interrupt: Interrupt) -> bool:
    """Returns whether a job was interrupted; otherwise it finished."""
    previous = sys.gettrace()
    sys.settrace(interrupt)
    try:
        VERBS[verb](table)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(previous)
    return False


@pytest.mark.parametrize("verb", ["append", "delete", "upsert"])
def test_ctrl_c_before_the_catalog_is_asked_leaves_nothing(
    racing: RacingCatalog, table: Table, verb: str
) -> None:
    """Interrupts at points of the whole job; after the request to the catalog the files may be part of a commit."""
    before, head, asked, tried = files_of(table), table.metadata.current_snapshot_id, 0, 0
    for at in range(1, 20_000, 29):
        if not interrupted(table, verb, Interrupt(is_own_line, at)):
            break
        tried += 1
        table.refresh()
        new = files_of(table) - before
        if table.metadata.current_snapshot_id == head:
            was_asked = any(path.name.endswith(".metadata.json") for path in new)
            assert not new or was_asked, (at, new)
            asked += was_asked
        else:
            assert new
            break
        before |= new
    assert tried > 10
    assert asked < 3
    assert rows_of(racing.load_table("n.t")).num_rows >= 50


SERIALIZERS = {
    "a snapshot": ("pyiceberg/table/metadata.py", "serialize_snapshots"),
    "a summary": ("pyiceberg/table/snapshots.py", "ser_model"),
    "the current snapshot": ("pyiceberg/table/metadata.py", "serialize_current_snapshot_id"),
    "a connection": ("sqlalchemy/engine/base.py", "_close_impl"),
}


@pytest.mark.parametrize("place", SERIALIZERS)
def test_ctrl_c_that_a_library_reports_as_its_own_error_is_an_interrupt(
    racing: RacingCatalog, table: Table, place: str
) -> None:
    file, function = SERIALIZERS[place]

    def is_call(code: CodeType, event: str) -> bool:
        return event == "call" and code.co_name == function and code.co_filename.endswith(file)

    for at in range(1, 12):
        interrupt = Interrupt(is_call, at)
        if not interrupted(table, "delete", interrupt):
            assert interrupt.left > 0
            break
    assert at > 1
    assert rows_of(racing.load_table("n.t")).num_rows >= 49


def test_an_interrupt_that_the_caller_handles_is_not_raised_again() -> None:
    def fail() -> None:
        with interruptible():
            try:
                raise KeyError(1)
            except KeyError:
                raise OSError from None

    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(OSError, match=r"^$"):
            fail()


def in_child(check: Callable[[], bool]) -> bool:
    """Returns the result of a function in a forked process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that other threads are running is the point
        child = os.fork()
    if not child:
        os._exit(0 if check() else 1)
    return os.waitpid(child, 0)[1] == 0


@pytest.fixture
def held() -> Iterator[Callable[[Callable[[Callable[[], object]], object]], None]]:
    """Runs something on another thread up to where it calls what it was given; it goes on after the test."""
    reached, released = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def wait() -> None:
        reached.set()
        assert released.wait(60)

    def hold(work: Callable[[Callable[[], object]], object]) -> None:
        threads.append(threading.Thread(target=work, args=(wait,)))
        threads[0].start()
        assert reached.wait(60)

    yield hold
    released.set()
    for thread in threads:
        thread.join()


def test_a_child_that_is_forked_during_planning_collects_garbage(held: Any) -> None:
    def plan(wait: Callable[[], object]) -> None:
        with paused_gc():
            wait()

    held(plan)
    assert not gc.isenabled()
    assert in_child(lambda: gc.isenabled() and paused_and_resumed())
    assert not gc.isenabled()


def paused_and_resumed() -> bool:
    with paused_gc():
        paused = not gc.isenabled()
    return paused and gc.isenabled()


def test_a_child_that_is_forked_by_the_planning_thread_stays_in_the_gc_pause() -> None:
    with paused_gc():
        assert in_child(lambda: not gc.isenabled())
    assert gc.isenabled()


def test_version_3_is_written_by_the_thread_in_the_context_only(
    racing: RacingCatalog, table: Table, held: Any
) -> None:
    def change(wait: Callable[[], object]) -> None:
        with v3_metadata(racing):
            wait()

    def is_refused() -> bool:
        try:
            racing.load_table("n.t").transaction().set_properties({"a": "b"}).commit_transaction()
        except NotImplementedError:
            return True
        return False

    held(change)
    assert is_refused()
    assert in_child(is_refused)
    with v3_metadata(racing), v3_metadata(racing):
        assert in_child(lambda: not is_refused())
    assert is_refused()
