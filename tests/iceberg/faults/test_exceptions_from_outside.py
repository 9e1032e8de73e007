"""What a signal's handler raises comes out of each verb as it is; what another thread sets harms no table."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from puffin_fast import delta, iceberg
from tests.kit.faults import RacingCatalog
from tests.kit.tables import folder_of, sqlite_catalog

RUNS = 40
# an exception that a destructor or a weak reference's call loses
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class OutOfTimeError(KeyError, ValueError):
    """What a handler raises: of classes that parsers translate."""


class OverTimeError(OSError):
    """What another thread sets: of a class that catalogs and files raise, too."""


def set_in(thread: int) -> None:
    """Sets the exception into a thread; raised at the next instruction at which that one looks for interruptions."""
    number, error = ctypes.c_ulong(thread), ctypes.py_object(OverTimeError)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(number, error) == 1


def set_here() -> None:
    set_in(threading.get_ident())


def raise_here() -> None:
    signal.raise_signal(signal.SIGALRM)


@contextmanager
def handler() -> Iterator[None]:
    def raise_error(*_: object) -> None:
        raise OutOfTimeError("out of time")

    before = signal.signal(signal.SIGALRM, raise_error)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)


def n_calls_of(work: Callable[[], object], act: Callable[[], object] = raise_here, at: int = 0) -> int:
    """Runs something, and `act` at the call of a function by its number; returns the number of calls.

    A signal may come at any call; here it comes by number, not by a clock.
    """
    n_calls = 0

    def count(frame: Any, event: str, argument: object) -> None:
        nonlocal n_calls
        n_calls += event == "call"
        if event == "call" and n_calls == at:
            sys.setprofile(None)
            act()

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return n_calls


def other_errors(run: Callable[[int], object], n_calls: int) -> list[str]:
    """The errors of runs with the exception at one of `n_calls` calls, but for the exception."""
    found = []
    for number in range(1, RUNS):
        try:
            run(number * n_calls // RUNS)
        except (OutOfTimeError, OverTimeError):
            continue
        except BaseException as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


ROWS = pa.table({"id": range(20), "s": [str(i) for i in range(20)]})
VERBS: dict[str, Callable[[Any, str], object]] = {
    "scan": lambda table, path: iceberg.scan(table, "id > 5").to_arrow(),
    "scan of a folder": lambda table, path: iceberg.scan(table.location()).count(),
    "delete": lambda table, path: iceberg.delete(table, "id = 5", dry_run=True),
    "upsert": lambda table, path: iceberg.upsert(table, ROWS.slice(0, 2), "id", dry_run=True),
    "changes": lambda table, path: iceberg.changes(table).to_arrow(),
    "orphan_files": lambda table, path: iceberg.orphan_files(table),
    "Delta scan": lambda table, path: delta.scan(path, "id > 5").to_arrow(),
    "Delta verify": lambda table, path: delta.verify(path),
    "Delta delete": lambda table, path: delta.delete(path, "id = 7", dry_run=True),
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    folder = tmp_path_factory.mktemp("tables")
    catalog = sqlite_catalog(folder)
    table = iceberg.create_table(catalog, "n.t", ROWS.schema)
    iceberg.append(table, ROWS)
    path = str(folder / "d")
    delta.create_table(path, ROWS.schema)
    delta.append(path, ROWS)
    yield table, path
    catalog.close()


@pytest.mark.parametrize("verb", VERBS)
def test_a_limit_of_time_is_what_it_is(verb: str, tables: tuple[Any, str]) -> None:
    work = partial(VERBS[verb], *tables)
    work()
    n_calls = n_calls_of(work)
    with handler():
        assert other_errors(lambda at: n_calls_of(work, raise_here, at), n_calls) == []


@pytest.mark.parametrize("act", [raise_here, set_here])
def test_a_delete_happens_or_not(racing: RacingCatalog, act: Callable[[], object]) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64())]))
    ids = set(range(2 * RUNS))
    iceberg.append(table, pa.table({"id": [*ids]}))

    def delete() -> None:
        found = iceberg.load_table(racing, "n.t")
        iceberg.delete(found, f"id = {max(ids)}")
        iceberg.scan(found).to_arrow()

    def run(at: int) -> int:
        try:
            return n_calls_of(delete, act, at)
        finally:
            left = {*iceberg.scan(table.refresh()).to_arrow()["id"].to_pylist()}
            assert left in (ids, ids - {max(ids)})
            ids.intersection_update(left)

    with handler():
        others = other_errors(run, run(0))
    if act is raise_here:
        assert others == []
    assert not [said for said in others if said.startswith("AssertionError")]


def test_a_removal_does_not_report_it_as_a_file_that_was_not_removed(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = iceberg.create_table(racing, "n.t", ROWS.schema)
    iceberg.append(table, ROWS)
    (folder_of(table) / "data" / "left.parquet").write_bytes(b"12345")
    monkeypatch.setattr("pyiceberg.io.pyarrow.PyArrowFileIO.delete", lambda io, path: raise_here())
    with handler(), pytest.raises(OutOfTimeError):
        iceberg.remove_orphan_files(table, older_than=timedelta(), dry_run=False)
