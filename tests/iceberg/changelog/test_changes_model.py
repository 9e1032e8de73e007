"""Changes of random histories of tables: the same as two full scans, compared.

The histories are those of `tests.iceberg.changelog.histories`. `seeds` says how many there are; 6 by default.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.iceberg.changelog.histories import History
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

    from tests.iceberg.changelog.histories import History
from tests.iceberg.changelog.changes_model import check_history

SEEDS = seeds(6)
STEPS = 24


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_are_the_difference_of_scans(racing: SqlCatalog, seed: int) -> None:
    history = History(racing, seed)
    try:
        for _ in range(STEPS):
            history.step()
        check_history(history.table, random.Random(seed))
    except BaseException as error:
        error.add_note("\n".join(history.log))
        raise
