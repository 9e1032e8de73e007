"""An exception that another thread sets into a thread is raised as it is: it says nothing about table and catalog."""

from __future__ import annotations

import ctypes
import io
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast._run.interrupt import is_from_outside

if TYPE_CHECKING:
    from tests.iceberg.conftest import RacingCatalog

RUNS = 40


class OverTimeError(OSError):
    """What a limit of time raises: of a class that catalogs and files raise, too."""


def set_in(thread: int) -> None:
    """Sets the exception into a thread; raised at the next instruction at which that one looks for interruptions."""
    number, error = ctypes.c_ulong(thread), ctypes.py_object(OverTimeError)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(number, error) == 1


def raised_by(work: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:
        work()
    return caught.value


def in_a_loop() -> None:
    setting = threading.Thread(target=set_in, args=(threading.get_ident(),))
    setting.start()
    while True:
        pass


def in_a_call() -> None:
    set_in(threading.get_ident())


@pytest.mark.parametrize("work", [in_a_loop, in_a_call])
def test_an_exception_that_was_set_is_from_outside(work: Callable[[], object]) -> None:
    error = raised_by(work)
    assert isinstance(error, OverTimeError)
    assert is_from_outside(error)


def own() -> None:
    raise OverTimeError


@pytest.mark.parametrize(
    "work",
    [
        own,
        lambda: int("x"),
        lambda: Path("/missing").stat(),
        lambda: bytes(1 << 62),
        lambda: queue.SimpleQueue[int]().get(block=False),
        lambda: next(iter(())),
        lambda: next(one for one in [own] if one()),
        lambda: fastavro.schemaless_reader(io.BytesIO(), {"type": "long"}, None),
        lambda: [*fastavro.reader(io.BytesIO(b"Obj\x01"))],
    ],
)
def test_an_exception_of_the_code_is_its_own(work: Callable[[], object]) -> None:
    assert not is_from_outside(raised_by(work))


def interrupted(work: Callable[[], object], at: int) -> int:
    """Runs and sets the exception at the call of a function by its number; returns the number of calls."""
    n_calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal n_calls
        if event == "call":
            n_calls += 1
            if n_calls == at:
                sys.setprofile(None)
                set_in(threading.get_ident())

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return n_calls


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one that a destructor loses
def test_no_verb_reports_it_as_an_error_of_the_table_or_its_catalog(
    racing: RacingCatalog,
) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64())]))
    iceberg.append(table, pa.table({"id": range(2 * RUNS)}))
    ids = set(range(2 * RUNS))

    def delete() -> None:
        found = racing.load_table("n.t")
        iceberg.delete(found, f"id = {max(ids)}")
        iceberg.scan(found).to_arrow()

    def run(at: int) -> int:
        n_calls = 0
        try:
            n_calls = interrupted(delete, at)
        finally:
            left = {*iceberg.scan(table.refresh()).to_arrow()["id"].to_pylist()}
            assert left in (ids, ids - {max(ids)})
            ids.intersection_update(left)
        return n_calls

    n_calls = run(0)
    reported = []
    for at in range(1, n_calls, n_calls // RUNS):
        try:
            run(at)
        except OverTimeError:
            continue
        except Exception as error:
            reported.append((at, error))
    assert not reported
