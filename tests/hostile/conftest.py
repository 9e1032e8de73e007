"""Fixtures: a table whose files a test damages, and a separate process that reads it.

``HOSTILE_COSTS=1 pytest tests/hostile`` prints the memory and time of each case at the end.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import puffin_fast as pf
from tests.kit.memory import MIB, Cost, forks
from tests.kit.tables import iceberg_table, path_of, sqlite_catalog

TIMEOUT_S = 60
N_ROWS = 1_000

IMPORTS = """
import pyarrow as pa, pyarrow.parquet, pyarrow.compute
import puffin_fast as pf
import puffin_fast.delta, puffin_fast.paimon
from puffin_fast import arrow, errors, iceberg, puffin
from puffin_fast.puffin import vectors as files
from puffin_fast.bitmap import PositionBitmap
import polars, fastavro, zstandard
from pyiceberg.table import StaticTable
from pyiceberg.catalog.sql import SqlCatalog
import pyiceberg.io.pyarrow

polars.read_avro  # imports what it needs lazily

def refuses(kind, function, *names):
    try:
        function()
    except kind as error:
        for name in names:
            assert name in str(error), error
        return error
    raise AssertionError("not refused")
"""


class HostileTable(NamedTuple):
    """The files of a table with one data file of `N_ROWS` rows, some of them deleted.

    Attributes:
        folder: of its catalog ``c.db`` and its warehouse ``wh``.
        metadata: location of its metadata.
        manifest_list, data_manifest, delete_manifest, data_file, delete_file: paths.
    """

    folder: Path
    metadata: str
    manifest_list: Path
    data_manifest: Path
    delete_manifest: Path
    data_file: Path
    delete_file: Path


def _create(folder: Path, version: str) -> HostileTable:
    catalog = sqlite_catalog(folder)
    table = iceberg_table(catalog, {"id": range(N_ROWS)}, version=int(version))
    pf.iceberg.delete(table, "id >= 10 and id < 20")
    table.refresh()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    by_content = {manifest.content.value: manifest for manifest in snapshot.manifests(table.io)}
    entries = {kind: manifest.fetch_manifest_entry(table.io)[0] for kind, manifest in by_content.items()}
    catalog.engine.dispose()
    return HostileTable(
        folder,
        table.metadata_location,
        path_of(snapshot.manifest_list),
        *(path_of(by_content[kind].manifest_path) for kind in (0, 1)),
        *(path_of(entries[kind].data_file.file_path) for kind in (0, 1)),
    )


@pytest.fixture(scope="session")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[HostileTable, Path]]:
    """Returns the table of a format version, made once, and a copy of its folder."""

    @cache
    def make(version: str) -> tuple[HostileTable, Path]:
        folder = tmp_path_factory.mktemp("hostile")
        table = _create(folder, version)
        return table, shutil.copytree(folder, tmp_path_factory.mktemp("intact") / "copy")

    return make


@pytest.fixture(params=["3"])
def hostile(
    intact: Callable[[str], tuple[HostileTable, Path]], request: pytest.FixtureRequest
) -> HostileTable:
    """A table of format version 3; parametrize indirectly with "2" for position-delete files."""
    table, copy = intact(request.param)
    shutil.rmtree(table.folder)  # what the test before damaged
    shutil.copytree(copy, table.folder)
    return table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what the cases cost, if that is asked for."""
    if not os.environ.get("HOSTILE_COSTS"):
        return
    terminalreporter.write_line(f"{'MiB':>6} {'seconds':>8}  case")
    for report in terminalreporter.stats.get("passed", ()):
        for name, value in report.user_properties:
            if name == "cost":
                n_bytes, seconds = value
                case = report.nodeid.rpartition("::")[2]
                terminalreporter.write_line(f"{n_bytes // MIB:>6} {seconds:>8.2f}  {case}")


@pytest.fixture(scope="session")
def prepared() -> Iterator[Callable[..., Cost]]:
    """A process that has imported what the cases need; each case is a fork of it."""
    with forks(IMPORTS) as run:
        yield run


@pytest.fixture
def confined(request: pytest.FixtureRequest, prepared: Callable[..., Cost]) -> Callable[..., int]:
    """Runs statements in a process with a bound on its address space, beyond what its imports use."""

    def run(action: str, *, limit_mib: int, setup: str = "", **values: Any) -> int:
        given = "".join(f"{name} = {value!r}\n" for name, value in values.items())
        found = prepared(f"{given}\n{setup}", action, limit_mib, TIMEOUT_S)
        request.node.user_properties.append(("cost", tuple(found)))
        return found.n_bytes // MIB

    return run
