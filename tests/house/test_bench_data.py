"""The benchmarks' inputs are the same everywhere."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench_data import NAMES, SIZES, workloads


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [1, 63, *SIZES[:2]])
def test_workloads_are_distinct_positions_and_what_the_manifest_says(name: str, n: int) -> None:
    positions = workloads.make(name, n)
    assert positions.dtype == np.uint64
    assert len(np.unique(positions)) == n
    expected = json.loads(workloads.MANIFEST.read_text()).get(f"{name}-{n}")
    assert expected in (None, workloads.fingerprint(positions))


def test_the_manifest_covers_every_workload() -> None:
    assert set(json.loads(workloads.MANIFEST.read_text())) == {f"{name}-{n}" for name in NAMES for n in SIZES}
