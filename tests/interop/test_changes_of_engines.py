"""Changes of tables that other engines wrote: the same as two full scans, compared, and as Iceberg's changelog view.

`seeds` says how many histories there are; 2 by default.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from tests.iceberg.changelog.changes_model import check_history
from tests.iceberg.changelog.states import frozen
from tests.interop.conftest import attached
from tests.interop.spark_histories import MODES, SparkHistory
from tests.seeds import seeds

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jar, pytest.mark.spark, pytest.mark.slow]

SEEDS = seeds(2)
STEPS = 20


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_of_sparks_and_pyicebergs_histories_are_the_difference_of_scans(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str, seed: int
) -> None:
    history = SparkHistory(iceberg_spark, shared_catalog, namespace, seed)
    try:
        for _ in range(STEPS):
            history.step()
        check_history(history.table, random.Random(seed))
        theirs = iceberg_spark.sql(f"SELECT * FROM {history.name}").toArrow().to_pylist()
        ours = iceberg.scan(history.table).to_arrow().to_pylist()
        rows = [Counter(tuple(map(frozen, row.values())) for row in side) for side in (theirs, ours)]
        assert rows[0] == rows[1]
    except BaseException as error:
        error.add_note("\n".join(history.log))
        raise


SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int32()), ("s", pa.string()), ("f", pa.float64())])


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("seed", SEEDS)
def test_changes_of_duckdbs_histories_are_the_difference_of_scans(
    rest_catalog: RestCatalog,
    rest_namespace: str,
    duckdb_iceberg: DuckDBPyConnection,
    seed: int,
    version: str,
) -> None:
    chance, log = random.Random(seed), list[str]()
    properties = {"format-version": version, "write.delete.target-file-size-bytes": "1"}
    table = rest_catalog.create_table(f"{rest_namespace}.t", SCHEMA, properties=properties)

    def ids() -> list[int]:
        return chance.sample(range(24), chance.randrange(1, 9))

    def rows() -> pa.Table:
        return pa.Table.from_pylist(
            [{"id": id, "k": chance.choice([None, 0, 1]), "f": chance.choice([0.5, None])} for id in ids()],
            SCHEMA,
        )

    def step(name: str) -> None:
        few, n = ", ".join(map(str, ids())), chance.randrange(24)
        where = chance.choice([f"id < {n}", f"id = {n}", f"id IN ({few})", "k = 1", "k IS NULL"])
        values = ", ".join(f"({id}, {id % 3}, 'd', NULL)" for id in ids())
        given, keys = rows(), ", ".join(f"({id})" for id in ids())
        duckdb = {
            f"INSERT INTO {name} VALUES {values}",
            f"DELETE FROM {name} WHERE {where}",
            f"UPDATE {name} SET s = '{chance.choice('ab')}' WHERE {where}",
            f"MERGE INTO {name} USING (VALUES {keys}) g(id) USING (id) WHEN MATCHED THEN DELETE "
            "WHEN NOT MATCHED THEN INSERT (id) VALUES (id)",
        }
        others: dict[str, Callable[[], Any]] = {
            "append": lambda: iceberg.append(table, given),
            f"delete {where}": lambda: iceberg.delete(table, where),
            f"overwrite {where}": lambda: iceberg.overwrite(table, given, where),
            "rewrite": lambda: iceberg.rewrite_data_files(table, min_deleted=0),
        }
        what = chance.choice([*sorted(duckdb), *others])
        log.append(what)
        if what in duckdb:
            duckdb_iceberg.execute(what)
        else:
            others[what]()
        table.refresh()

    try:
        with attached(duckdb_iceberg, rest_catalog.properties["uri"]) as database:
            for _ in range(STEPS):
                step(f"{database}.{rest_namespace}.t")
        check_history(table, chance)
    except BaseException as error:
        error.add_note("\n".join(log))
        raise


# Iceberg's changelog view ------------------------------------------------------------------------------------

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
