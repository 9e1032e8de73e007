"""Runs the cases of `cluster.py`, which kills itself during the last one: no delete is lost or applied twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from puffin_fast import spark as ps
from puffin_fast.errors import PuffinFastError
from tests.kit.tables import path_of
from tests.spark.faults.cases import run_cases
from tests.spark.faults.cluster import CASES, JOB, LAST, _catalog, _check
from tests.spark.faults.injection import wait

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def died(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], int]:
    """The folder of the cluster, its output for each case, and its exit code."""
    folder = tmp_path_factory.mktemp("cluster")
    status, said = run_cases("cluster", folder)
    results = {}
    for line in said.splitlines():
        verdict, _, name = line.partition(" ")
        if name in CASES and verdict in ("held", "FAILED"):
            results[name] = verdict if verdict == "held" else said[-6000:]
    return folder, results, status


@pytest.mark.parametrize("name", CASES)
def test_on_a_cluster(name: str, died: tuple[Path, dict[str, str], int]) -> None:
    folder, results, _ = died
    assert results.get(name, (folder / "log").read_text()[-6000:]) == "held"


def test_a_driver_killed_within_a_job_changes_nothing_and_its_files_are_found(
    died: tuple[Path, dict[str, str], int],
) -> None:
    folder, _, status = died
    assert status == -signal.SIGKILL, (folder / "log").read_text()[-6000:]
    catalog = _catalog(folder / LAST)
    table = catalog.load_table("n.t")
    _check(table, set())

    def left() -> set[Path]:
        return {path for path in path_of(table.location()).rglob("*") if ".puffin" in path.name}

    before = left()
    found = {Path(path.removeprefix("file://")) for path in ps.job_files(table, JOB)}
    assert before <= found <= left()
    assert any(path.suffix == ".tmp" for path in found)

    def tidy() -> bool:
        ps.remove_job_files(table, JOB)
        return not left()

    wait(tidy)  # a task may end after its driver
    assert ps.job_files(table, JOB) == []
    catalog.engine.dispose()
    with pytest.raises(PuffinFastError, match="job_id"):
        ps.job_files(table, "no/name")
