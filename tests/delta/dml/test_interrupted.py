"""A signal's handler raises an exception at any step of a job: it comes out as itself, and the table is whole."""

from __future__ import annotations

import gc
import linecache
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from puffin_fast import delta, iceberg
from puffin_fast._process.interrupt import interruptible, is_from_outside
from tests.kit.tables import delta_table, iceberg_table, sqlite_catalog

N = 60
POINTS = 16
"""Number of steps, evenly spaced over a job, at which it is interrupted."""

CODE = tuple(
    f"/{name}/" for name in ("puffin_fast", "pyiceberg", "fastavro", "pydantic", "concurrent", "json")
)


class JobTimeout(Exception):
    """As Celery's `SoftTimeLimitExceeded`."""


@contextmanager
def at_step(wanted: int | None, kind: type[Exception], function: str | None = None) -> Iterator[list[int]]:
    """Sends a signal at a step of a thread or a function, whose handler raises; yields the number of steps so far."""
    seen = [0]

    def handler(number: int, frame: object) -> None:
        raise kind("time is up")

    def step(frame: Any, event: str, argument: object) -> Any:
        if (
            event == "line"
            and function in (None, frame.f_code.co_name)
            and not _is_with(frame.f_code.co_filename, frame.f_lineno)
        ):
            seen[0] += 1
            if wanted is not None and seen[0] >= wanted and not _drops_exceptions(frame):
                sys.settrace(None)
                signal.raise_signal(signal.SIGALRM)
        return step

    def call(frame: Any, event: str, argument: object) -> Any:
        return step if any(name in frame.f_code.co_filename for name in CODE) else None

    before = signal.signal(signal.SIGALRM, handler)
    gc.collect()
    gc.disable()  # the steps of destructors would be counted, and differ from run to run
    sys.settrace(call)
    try:
        yield seen
    finally:
        sys.settrace(None)
        gc.enable()
        signal.signal(signal.SIGALRM, before)


@cache
def _is_with(file: str, line: int) -> bool:
    """Whether a line is a `with`: it is traced again when its block has ended, where no signal is handled, and an
    exception would leave a lock locked."""
    return linecache.getline(file, line).lstrip().startswith("with ")


def _drops_exceptions(frame: Any) -> bool:
    """Whether the caller of this drops exceptions: of a destructor, or of what SQLAlchemy calls for connections that
    return to its pool. The signal is then sent at a later step."""
    while frame is not None:
        if frame.f_code.co_name in ("__del__", "_roll_back"):
            return True
        frame = frame.f_back
    return False


class Tables:
    """A table of Iceberg and one of Delta with the same rows; each job loads them anew."""

    def __init__(self, folder: Path) -> None:
        self._catalog = sqlite_catalog(folder)
        rows = pa.table({"i": range(N), "s": ["a", "b", "c"] * (N // 3)})
        iceberg_table(self._catalog, rows, partition=["s"])
        # a commit that writes a checkpoint takes more steps than the others
        properties = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "1000"}
        self._delta = delta_table(
            folder / "delta", rows, partition=["s"], properties=properties, by="deltalake"
        )

    def _table(self, engine: Any) -> Any:
        return iceberg.load_table(self._catalog, "n.t") if engine is iceberg else self._delta

    def scan(self, engine: Any, row_filter: str | bool = "true") -> list[int]:
        return sorted(engine.scan(self._table(engine), row_filter).to_arrow()["i"].to_pylist())

    def delete(self, engine: Any, row_filter: str) -> int:
        found: int = engine.delete(self._table(engine), row_filter, threads=1).rows_deleted
        return found


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return Tables(tmp_path_factory.mktemp("tables"))


@pytest.mark.parametrize("kind", [JobTimeout, TimeoutError])
@pytest.mark.parametrize("verb", ["scan", "delete"])
@pytest.mark.parametrize("engine", [iceberg, delta], ids=["iceberg", "delta"])
def test_an_exception_of_a_handler_comes_out_and_the_table_is_whole(
    tables: Tables, engine: Any, verb: str, kind: type[Exception]
) -> None:
    live = tables.scan(engine)
    job: Callable[[str], object] = lambda row_filter: getattr(tables, verb)(engine, row_filter)  # noqa: E731
    job(f"i = {live[-1]}")
    with at_step(None, kind) as steps:
        job(f"i = {live[-2]}")
    live = tables.scan(engine)
    for number in range(POINTS):
        row, wanted = live[0], 1 + steps[0] * number // POINTS
        with at_step(wanted, kind) as seen, pytest.raises(kind) as caught:
            job(f"i = {row}")
        assert (type(caught.value), caught.value.args) == (kind, ("time is up",))
        assert seen[0] >= wanted
        found = tables.scan(engine)
        assert found in (live, live[1:])
        if verb == "delete":
            assert tables.delete(engine, f"i = {row}") == len(found) - len(live) + 1
        live = tables.scan(engine)


@pytest.mark.parametrize("engine", [iceberg, delta], ids=["iceberg", "delta"])
def test_an_exception_while_a_page_is_decoded_is_no_fault_of_the_page(tables: Tables, engine: Any) -> None:
    deleted, row = [i for i in tables.scan(engine) if i % 3 == 0][:2]  # of one data file
    tables.delete(engine, f"i = {deleted}")
    live = tables.scan(engine)
    with at_step(3, TimeoutError, "_decode") as seen, pytest.raises(TimeoutError, match="time is up"):
        tables.delete(engine, f"i = {row}")
    assert seen[0] == 3
    assert tables.scan(engine) == live


def test_what_libraries_make_of_an_exception_is_undone() -> None:
    import pydantic

    class Model(pydantic.BaseModel):
        value: int

        @pydantic.field_serializer("value")
        def shown(self, value: int) -> str:
            signal.raise_signal(signal.SIGALRM)
            return str(value)

        @pydantic.field_validator("value")
        @classmethod
        def checked(cls, value: int) -> int:
            if value < 0:
                signal.raise_signal(signal.SIGALRM)
            return value

    class Limit(ValueError):
        def __init__(self, text: str, seconds: int = 0) -> None:
            super().__init__(text)

    model = Model(value=1)
    calls: list[Callable[[], object]] = [model.model_dump, lambda: Model(value=-1)]
    for kind in (JobTimeout, TimeoutError, Limit):
        for call in calls:
            with at_step(None, kind), pytest.raises(kind, match=r"\Atime is up\Z") as caught, interruptible():
                call()
            assert type(caught.value) is kind
    with at_step(None, JobTimeout):
        assert not is_from_outside(JobTimeout())
