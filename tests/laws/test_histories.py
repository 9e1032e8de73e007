"""A table is a list of rows with a history: tables of every kind follow the list through random operations.

After each operation the rows, their lineage, and the metadata are compared, and at times counts, filters, changes
between any two snapshots, and what other implementations read. `seeds` says how many histories of each kind there are:
one for 25 of ``PUFFIN_FAST_OPERATIONS``, which is 100 by default.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from puffin_fast import iceberg
from tests.kit.histories import KINDS, follow
from tests.kit.seeds import seeds

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

EACH = 36
SEEDS = seeds(max(1, int(os.environ.get("PUFFIN_FAST_OPERATIONS", "100")) // 25))


@pytest.mark.filterwarnings("ignore::puffin_fast.errors.EngineSupportWarning")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("table_kind", [kind for kind in KINDS if not kind.endswith(("spark", "duckdb"))])
def test_a_table_is_a_list_of_rows_with_a_history(
    duckdb_iceberg: DuckDBPyConnection, table_kind: str, seed: int
) -> None:
    follow(table_kind, seed, EACH, duckdb=duckdb_iceberg)


def test_a_failure_prints_the_shortest_program_that_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = iceberg.append

    def broken(table: Any, rows: Any, **options: Any) -> Any:
        loses = table.current_snapshot() is not None and len(rows) > 1
        return whole(table, rows.slice(1) if loses else rows, **options)

    with monkeypatch.context() as patch:
        patch.setattr(iceberg, "append", broken)
        with pytest.raises(AssertionError, match="are missing") as caught:
            follow("iceberg 3", 1, 14)
        (program,) = caught.value.__notes__
        assert program.startswith("from tests.kit.histories import replay\n\nreplay('iceberg 3', 1, [\n")
        assert program.splitlines()[-2].endswith("rows to main")
        assert len(program.splitlines()) == 6
        with pytest.raises(AssertionError, match="are missing"):
            exec(program, {})
    exec(program, {})
