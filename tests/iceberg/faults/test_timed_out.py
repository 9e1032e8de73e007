"""Exceptions of a signal's handler at any moment come out of every verb as they are."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from puffin_fast import delta, iceberg
from tests.kit.tables import sqlite_catalog

ROWS = pa.table({"id": range(20), "s": [str(i) for i in range(20)]})


class OutOfTimeError(KeyError, ValueError):
    """A limit of time, of a class that parsers translate."""


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


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # a handler in a weak reference's call
@pytest.mark.parametrize("verb", VERBS)
def test_a_limit_of_time_is_what_it_is(verb: str, tables: tuple[Any, str]) -> None:
    """The handler is called at chosen function calls, which is where a signal may come; not by a clock."""
    calls, chosen = 0, -1

    def handler(number: int, frame: FrameType | None) -> None:
        raise OutOfTimeError("out of time")

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"
        if calls == chosen and event == "call":
            sys.setprofile(None)
            signal.raise_signal(signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        VERBS[verb](*tables)
        sys.setprofile(count)
        VERBS[verb](*tables)
        sys.setprofile(None)
        n_calls = calls
        others = []
        for number in range(1, 40):
            calls, chosen = 0, number * n_calls // 40
            try:
                sys.setprofile(count)
                VERBS[verb](*tables)
            except OutOfTimeError:
                continue
            except BaseException as error:
                others.append(f"{type(error).__name__}: {error}")
            finally:
                sys.setprofile(None)
        assert others == []
    finally:
        signal.signal(signal.SIGALRM, before)
