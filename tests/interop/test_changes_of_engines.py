"""Changes of tables that Spark wrote are those of Iceberg's changelog view.

`seeds` says how many histories there are; 2 by default.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from puffin_fast import iceberg
from tests.kit.histories.sql import MODES
from tests.kit.seeds import seeds

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jar, pytest.mark.spark, pytest.mark.slow]

SEEDS = seeds(2)

WORDS = {
    "INSERT": "insert",
    "DELETE": "delete",
    "UPDATE_BEFORE": "update_preimage",
    "UPDATE_AFTER": "update_postimage",
}


class Twins:
    """A table of merge on read and one of copy on write, changed by the same statements. `id` is unique in both.

    Attributes:
        tables: both; the second is copy on write.
        ends: of each table its snapshot after each statement.
    """

    def __init__(self, spark: SparkSession, catalog: SqlCatalog, namespace: str, seed: int) -> None:
        self.spark, self.chance, self.log = spark, random.Random(seed), list[str]()
        version, by = self.chance.choice("23"), self.chance.choice(["", "PARTITIONED BY (k)"])
        self.names = [f"{catalog.name}.{namespace}.{mode}" for mode in ("mor", "cow")]
        for name, mode in zip(self.names, MODES, strict=True):
            modes = ", ".join(f"'write.{job}.mode'='{mode}'" for job in ("delete", "update", "merge"))
            spark.sql(
                f"CREATE TABLE {name} (id BIGINT, k INT, s STRING, f DOUBLE, m STRUCT<a: INT>) USING iceberg {by} "
                f"TBLPROPERTIES ('format-version'='{version}', {modes})"
            )
        self.tables = [catalog.load_table(name.partition(".")[2]) for name in self.names]
        self.ends: list[list[int | None]] = [[], []]

    def row(self, id: int) -> str:
        k, f, a = (self.chance.choice(["NULL", "0", "1"]) for _ in range(3))
        s = self.chance.choice(["NULL", "'a'", "'b'"])
        return (
            f"SELECT {id}L AS id, CAST({k} AS INT) AS k, {s} AS s, CAST({f} AS DOUBLE) AS f, "
            f"named_struct('a', CAST({a} AS INT)) AS m"
        )

    def step(self) -> None:
        ids = self.chance.sample(range(12), self.chance.randrange(1, 6))
        rows, few = " UNION ALL ".join(map(self.row, ids)), ", ".join(map(str, ids))
        values = "t.k = s.k, t.s = s.s, t.f = s.f, t.m = s.m"
        merge = f"MERGE INTO {{t}} t USING ({rows}) s ON t.id = s.id"
        statement = self.chance.choice(
            [
                f"{merge} WHEN NOT MATCHED THEN INSERT *",
                f"{merge} WHEN MATCHED THEN UPDATE SET {values} WHEN NOT MATCHED THEN INSERT *",
                f"{merge} WHEN MATCHED AND t.k = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET {values}",
                f"DELETE FROM {{t}} WHERE id IN ({few})",
                "DELETE FROM {t} WHERE k IS NULL",
                f"UPDATE {{t}} SET s = 'c' WHERE id IN ({few})",
                "UPDATE {t} SET m.a = 5, f = f WHERE k = 0",
                "INSERT OVERWRITE {t} SELECT id, k, s, f, m FROM {t} WHERE id < 9",
                "rewrite",
            ]
        )
        self.log.append(statement)
        for name, table, ends in zip(self.names, self.tables, self.ends, strict=True):
            catalog, _, short = name.partition(".")
            every = "options => map('rewrite-all', 'true')"
            rewrite = f"CALL {catalog}.system.rewrite_data_files(table => '{short}', {every})"
            text = rewrite if statement == "rewrite" else statement.format(t=name)
            self.spark.sql(text).collect()
            table.refresh()
            head = table.current_snapshot()
            ends.append(None if head is None else head.snapshot_id)

    def view(self, before: int | None, after: int | None, *options: str) -> list[tuple[str, ...]]:
        """The lines of Iceberg's changelog view of the copy-on-write table."""
        if before == after:
            return []
        catalog, _, short = self.names[1].partition(".")
        ends = {"start-snapshot-id": before, "end-snapshot-id": after}
        given = ", ".join(f"'{name}', '{end}'" for name, end in ends.items() if end is not None)
        arguments = ", ".join(
            [f"table => '{short}'", "changelog_view => 'seen'", f"options => map({given})", *options]
        )
        self.spark.sql(f"CALL {catalog}.system.create_changelog_view({arguments})")
        rows = self.spark.sql("SELECT id, k, s, f, m, _change_type FROM seen").toArrow().to_pylist()
        return sorted((*map(repr, [*row.values()][:-1]), WORDS[row["_change_type"]]) for row in rows)


def lines(table: Table, before: int | None, after: int | None, **options: Any) -> list[tuple[str, ...]]:
    """The lines of `changes`; none before the first snapshot."""
    if after is None:
        return []
    rows = iceberg.changes(table, before, after, **options).to_arrow()
    return sorted(
        (*map(repr, [*row.values()][:-1]), row["_change_type"])
        for row in rows.select(["id", "k", "s", "f", "m", "_change_type"]).to_pylist()
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_are_icebergs_changelog_view_of_the_copy_on_write_twin(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str, seed: int
) -> None:
    twins = Twins(iceberg_spark, shared_catalog, namespace, seed)
    by_id = "identifier_columns => array('id')"
    try:
        for _ in range(12):
            twins.step()
        for steps in zip(*map(pairwise, twins.ends), strict=True):
            apart, images = twins.view(*steps[1]), twins.view(*steps[1], by_id)
            for table, ends in zip(twins.tables, steps, strict=True):
                assert lines(table, *ends, updates=False) == apart, (table.name(), ends)
                assert lines(table, *ends, join_cols="id") == images, (table.name(), ends)
        first, last = sorted(twins.chance.sample(range(12), 2))
        net = twins.view(twins.ends[1][first], twins.ends[1][last], "net_changes => true")
        for table, known in zip(twins.tables, twins.ends, strict=True):
            assert lines(table, known[first], known[last], net=True, updates=False) == net, table.name()
    except BaseException as error:
        error.add_note("\n".join(twins.log))
        raise
