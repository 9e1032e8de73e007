"""Runs a job again and again, killed at the first, second, third … step that touches a file or the catalog.

A script of its own, so that it may fork: ``killed.py <folder> <job>``, prints the number of steps that the
job has. The folder holds ``catalog.db`` and ``wh`` with the table ``n.t``; each run starts from them as they
were. After each kill the rows must be those before; a second run must finish the job.
"""

from __future__ import annotations

import ast
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from sqlalchemy import event

from puffin_fast import iceberg

STEPS: list[str] = []
LAST = 0
"""The step at which this process dies; 0: never."""


def step(what: str) -> None:
    STEPS.append(what)
    if len(STEPS) == LAST:
        os.kill(os.getpid(), signal.SIGKILL)


class KillingFileIO(PyArrowFileIO):
    """Each file that is opened, made or removed is a step."""

    def new_input(self, location: str) -> InputFile:
        step(f"read {location}")
        return super().new_input(location)

    def new_output(self, location: str) -> OutputFile:
        step(f"write {location}")
        return super().new_output(location)

    def delete(self, location: Any) -> None:
        step(f"remove {location}")
        super().delete(location)


def opened(folder: Path) -> tuple[SqlCatalog, Any]:
    catalog = SqlCatalog(
        "killed", uri=f"sqlite:///{folder}/catalog.db", **{"py-io-impl": "tests.iceberg.killed.KillingFileIO"}
    )
    return catalog, catalog.load_table("n.t")


def rows(table: Any) -> list[str]:
    return sorted(map(repr, iceberg.scan(table, threads=1).to_arrow().to_pylist()))


def run(folder: Path, job: str, at: int) -> bool:
    """Runs the job in a process of its own; whether it lived."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    status = 1
    try:
        from tests.iceberg import killed

        catalog, table = opened(folder)
        event.listen(catalog.engine, "commit", lambda connection: killed.step("commit"))
        killed.STEPS.clear()
        killed.LAST = at
        getattr(iceberg, job)(table, threads=1)
        status = 0
    finally:
        os._exit(status)


def state(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Rows, findings, kinds of the delete files; asked in a process of its own, for forks share no connection."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _, table = opened(folder)
        findings = [finding.kind for finding in iceberg.verify(table, threads=1)]
        deletes = iceberg.deletes(table)
        files = set(zip(deletes["kind"].to_pylist(), deletes["path"].to_pylist(), strict=True))
        answer = repr((rows(table), findings, sorted(kind for kind, _ in files)))
        with os.fdopen(writer, "w") as stream:
            stream.write(answer)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    found: tuple[list[str], list[str], list[str]] = ast.literal_eval(answer)
    return found


def restore(folder: Path) -> None:
    for name in ("wh", "catalog.db"):
        place, kept = folder / name, folder / "kept" / name
        if place.is_dir():
            shutil.rmtree(place)
            shutil.copytree(kept, place)
        else:
            shutil.copy(kept, place)


def main() -> None:
    folder, job = Path(sys.argv[1]), sys.argv[2]
    (folder / "kept").mkdir()
    shutil.copytree(folder / "wh", folder / "kept" / "wh")
    shutil.copy(folder / "catalog.db", folder / "kept" / "catalog.db")
    before = state(folder)
    assert run(folder, job, 0)
    done = state(folder)
    assert done[0] == before[0], "the job changes rows"
    assert done != before, "the job does nothing"
    at = 0
    while True:
        restore(folder)
        at += 1
        if run(folder, job, at):
            break
        after = state(folder)
        assert after in (before, done), f"killed at step {at}: {after}"
        assert run(folder, job, 0), f"killed at step {at}: the next run fails"
        assert state(folder) == done, f"killed at step {at}: the next run does not finish"
    print(at - 1)


if __name__ == "__main__":
    main()
