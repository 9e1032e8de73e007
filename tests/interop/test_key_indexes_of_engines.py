"""Key indexes of tables that Spark, PyIceberg and this package change in turn: rows are found as without an index.

`seeds` says how many histories there are; 2 by default.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast.iceberg.index import lookup
from puffin_fast.key_index import making
from tests.iceberg.changelog.states import frozen
from tests.interop.spark_histories import IDS, SparkHistory
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jar, pytest.mark.spark, pytest.mark.slow]

SEEDS = seeds(2)
STEPS = 16

KEYS: dict[int, list[Any]] = {1: [*range(IDS)], 2: [0, 1, 2, 3, 4], 3: ["", "a", "b", "ab"]}
"""Values of the key columns, by field id."""

COLUMNS = [[1], [1], [3], [2, 3], [1, 2]]
"""Field ids of the columns that are indexed together."""


class IndexedHistory(SparkHistory):
    """A table with indexes, changed at random."""

    def __init__(self, spark: SparkSession, catalog: SqlCatalog, namespace: str, seed: int) -> None:
        super().__init__(spark, catalog, namespace, seed)
        self.chance = random.Random(-1 - seed)
        self.used = 0

    def names(self, ids: list[int]) -> list[str] | None:
        """The names of columns; None if one was dropped."""
        found = [self.table.schema().find_column_name(id) for id in ids]
        return None if None in found else [name for name in found if name is not None]

    def index(self) -> None:
        """Builds or extends an index, or has Spark replace or remove statistics files."""
        verb = self.chance.choice(["index", "index", "index", "statistics", "expire"])
        if not self.table.metadata.refs.get("main"):
            return
        if verb == "statistics":
            self._named("compute_table_stats")
        elif verb == "expire":
            self._named(
                "expire_snapshots", "older_than => TIMESTAMP '2200-01-01 00:00:00'", "retain_last => 2"
            )
        elif names := self.names(self.chance.choice(COLUMNS)):
            self.log.append(f"index_keys {names}")
            iceberg.index_keys(self.table, names)
        self.table.refresh()

    def seek(self, patch: pytest.MonkeyPatch) -> None:
        """Compares what scans and deletes find with an index and without."""
        ids = self.chance.choice([[1], [2], [3], [1, 2], [2, 3]])
        if (names := self.names(ids)) is None or not self.table.metadata.refs.get("main"):
            return
        values = [self.chance.sample(KEYS[id], min(len(KEYS[id]), self.chance.choice([1, 3]))) for id in ids]
        where = " and ".join(
            f"{name} in ({', '.join(map(repr, some))})" for name, some in zip(names, values, strict=True)
        )
        kinds = self.table.schema().select(*names).as_arrow()
        n = min(map(len, values))
        keys = pa.table(
            [some[:n] for some in values], schema=pa.schema([kinds.field(name) for name in names])
        )
        self.log.append(f"seek {where}")

        def found(table: Table) -> tuple[Counter[Any], int]:
            rows = iceberg.scan(table, where).to_arrow().to_pylist()
            gone = iceberg.delete_keys(table, keys, names, dry_run=True).rows_deleted
            return Counter(tuple(map(frozen, row.values())) for row in rows), gone

        with_index = found(self.table)
        with patch.context() as without:
            without.setattr(lookup, "indexed", lambda *_: iter(()))
            assert with_index == found(self.table)
        self.used += bool(self.table.metadata.statistics)


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_sparks_histories_are_found_as_without_an_index(
    iceberg_spark: SparkSession,
    shared_catalog: SqlCatalog,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    monkeypatch.setattr(lookup, "ROWS_PER_CANDIDATE", 0)  # candidates narrow small data files, too
    monkeypatch.setattr(making, "REMAINDER_BITS", 1)  # hashes of keys collide
    monkeypatch.setattr(making, "_LEAST_HASH_BITS", 0)
    history = IndexedHistory(iceberg_spark, shared_catalog, namespace, seed)
    try:
        for _ in range(STEPS):
            history.step()
            if history.chance.random() < 0.5:
                history.index()
            for _ in range(3):
                history.seek(monkeypatch)
        assert history.used > 5
        (id,) = history.names([1]) or ["id"]
        iceberg.index_keys(history.table, id)
        before = iceberg.scan(history.table).to_arrow().to_pylist()
        expected = Counter(tuple(map(frozen, row.values())) for row in before if row[id] not in (3, 7, 11))
        iceberg.delete_keys(history.table, [3, 7, 11, IDS], id)
        theirs = iceberg_spark.sql(f"SELECT * FROM {history.name}").toArrow().to_pylist()
        assert Counter(tuple(map(frozen, row.values())) for row in theirs) == expected
    except BaseException as error:
        error.add_note("\n".join(history.log))
        raise
