"""Runs the cases of `interrupted.py` in sessions of their own, on a cluster and on Spark Connect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import require_module
from tests.spark.faults.cases import run_cases

pytestmark = [pytest.mark.spark, pytest.mark.slow]

VERBS = ("delete", "upsert", "rewrite")
HOW = {"classic": ("ctrl-c", "group", "executor", "stop"), "connect": ("ctrl-c", "all", "stop")}


@pytest.mark.parametrize("kind", HOW)
def test_interrupted_jobs_say_what_was_committed_and_the_same_calls_work_afterwards(
    kind: str, tmp_path: Path
) -> None:
    if kind == "connect":
        require_module("grpc", "pip install 'pyspark[connect]'")
    status, said = run_cases("interrupted", tmp_path, kind)
    assert status == 0, said[-6000:]
    held = [line.split()[1] for line in said.splitlines() if line.startswith("held ")]
    assert held == [f"{how}-{verb}" for how in HOW[kind] for verb in VERBS]
