"""Small row groups that are read as one have the rows that they have one by one."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

import puffin_fast as pf
from puffin_fast.errors import PuffinFastError
from puffin_fast.rows.files import joined_groups
from puffin_fast.rows.files.joined_groups import SMALL_ROWS, spans_of
from tests.kit.seeds import seeds
from tests.kit.tables import table_of_files
from tests.rows.files.random_files import random_rows, write


def one_by_one(monkeypatch: pytest.MonkeyPatch, run: Callable[[], Any]) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(joined_groups, "_MOST_GROUPS", 1)
        return run()


@pytest.mark.parametrize("seed", seeds(4))
def test_damaged_pages_are_found_as_one_by_one(
    catalog: InMemoryCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    path = tmp_path / "data.parquet"
    write(rng, path, random_rows(rng, 500))
    table, data = table_of_files(catalog, path), path.read_bytes()
    end = pq.read_metadata(path).serialized_size + 8

    def outcome() -> Any:
        try:
            return pf.iceberg.scan(table, row_filter="k < 5").to_arrow()
        except PuffinFastError as error:
            return type(error)

    for _ in range(15):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 5])):
            damaged[rng.randrange(4, len(data) - end)] = rng.randrange(256)
        path.write_bytes(damaged)
        found, expected = outcome(), one_by_one(monkeypatch, outcome)
        if isinstance(found, pa.Table):
            assert found.equals(expected) or repr(found.to_pydict()) == repr(expected.to_pydict())
        else:
            assert found is expected


def test_a_first_row_group_is_read_alone(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    """The first rows of a scan do not wait for many row groups."""
    path = tmp_path / "data.parquet"
    pq.write_table(random_rows(random.Random(1)), path, row_group_size=10)
    first = next(iter(pf.iceberg.scan(table_of_files(catalog, path), threads=1).limit(3)))
    assert first.num_rows == 3
    runs = joined_groups.joined_groups(
        [(at, 10 * at, 10) for at in range(600)], [100] * 600, [0] * 600, 1 << 17
    )
    assert [len(run) for run in runs] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 89]


def test_spans_of_row_groups_that_do_not_follow_one_another() -> None:
    assert spans_of([(3, 30, 10), (4, 40, 5)]) is None
    found = spans_of([(3, 30, 10), (4, 40, 5), (6, 50, 1), (7, 51, 2), (9, 60, 4)])
    assert found is not None
    assert (found.starts.tolist(), found.stops.tolist()) == ([0, 20, 30], [15, 23, 34])


def test_runs_are_bounded() -> None:
    groups = [(at, 1000 * at, 1000) for at in range(20)]
    by_rows = joined_groups.joined_groups(groups, [1] * 20, [0] * 20, 3000)
    assert [len(run) for run in by_rows] == [1, 2, 3, 3, 3, 3, 3, 2]
    by_bytes = joined_groups.joined_groups(groups, [3 << 20] * 20, [0] * 20, 1 << 17)
    assert [len(run) for run in by_bytes] == [1] * 20
    large = [(0, 0, 5), (1, 5, SMALL_ROWS + 1), (2, 5000, 5), (3, 5005, 5)]
    assert [len(run) for run in joined_groups.joined_groups(large, [1] * 4, [0] * 4, 1 << 17)] == [1, 1, 2]
    texts = joined_groups.joined_groups(groups, [1] * 20, [joined_groups.MOST_TEXT_BYTES] * 20, 1 << 17)
    assert [len(run) for run in texts] == [1] * 20
