"""Changes of random histories of Delta tables: the same as two full scans, compared.

Histories have the verbs of this package, purges, and deltalake's.
`seeds` says how many there are for each kind of table; 3 by default.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.delta.changes_model import KINDS, History
from tests.seeds import seeds

SEEDS = seeds(3)
STEPS = 14


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_changes_are_the_difference_of_scans(tmp_path: Path, kind: str, seed: int) -> None:
    history = History(tmp_path / "t", kind, seed)
    for _ in range(STEPS):
        history.step()
    history.check()
