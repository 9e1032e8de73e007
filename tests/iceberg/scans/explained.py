"""A table with deletes and a key index in two partitions, filters of its rows, and the row groups that a scan reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from puffin_fast import iceberg
from puffin_fast.iceberg.index import lookup
from puffin_fast.rows.files.parquet import ParquetReader
from tests.kit.faults import RacingCatalog
from tests.kit.tables import iceberg_table

if TYPE_CHECKING:
    from pyiceberg.table import Table

N, EACH, GROUP = 6, 500, 100
SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "part", LongType()), NestedField(3, "s", StringType())
)


def rows(start: int, stop: int, part: int) -> pa.Table:
    names = pa.array([f"x{i * 7919 % 3000}" for i in range(start, stop)])
    return pa.table({"id": range(start, stop), "part": [part] * (stop - start), "s": names})


DATA = [rows(at * EACH, (at + 1) * EACH, at % 2) for at in range(N)]
"""The rows of each data file."""


@pytest.fixture
def table(racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Six data files of five row groups in two partitions; two files have deletes, one of all rows of a row group."""
    monkeypatch.setattr(lookup, "ROWS_PER_CANDIDATE", 0)
    properties = {"write.parquet.row-group-limit": str(GROUP)}
    found = iceberg_table(racing, DATA, version=2, partition=("part",), properties=properties)
    iceberg.delete(found, "id < 150 or (id >= 700 and id < 710)")
    iceberg.index_keys(found, "s")
    return found


KEYS = pa.table({"s": [f"x{at * 7919 % 3000}" for at in (3, 705, 2999)] + ["nobody"]})

FILTERS = {
    "true": lambda id, part, s: True,
    "part = 1": lambda id, part, s: part == 1,
    "id >= 2450": lambda id, part, s: id >= 2450,
    "id < 170": lambda id, part, s: id < 170,
    "id < 10": lambda id, part, s: id < 10,
    "s = 'x77'": lambda id, part, s: s == "x77",
    "s in ('x77', 'x1011', 'x12') and part = 1": lambda id, part, s: s in ("x77", "x1011", "x12") and part == 1,
    "s = 'nobody'": lambda id, part, s: False,
    "id = 705 or s = 'x3'": lambda id, part, s: id == 705 or s == "x3",
}  # fmt: skip


def read_by(work: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, int]]:
    """The row groups of which columns are read."""
    found: set[tuple[str, int]] = set()
    inner = ParquetReader.columns

    def watched(self: ParquetReader, group: int, *rest: Any, **options: Any) -> Any:
        found.add((self.location, group))
        return inner(self, group, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ParquetReader, "columns", watched)
        work()
    return found
