"""Histories in which SQL engines write, too: Spark on both formats, DuckDB on Iceberg tables of a REST catalog."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.interop.conftest import errors_of
from tests.kit.changes import frozen
from tests.kit.histories.delta import PROPERTIES, DeltaHistory
from tests.kit.histories.iceberg import IcebergHistory
from tests.kit.histories.machine import History, Nothing, Row, operation
from tests.kit.rows import in_order

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from puffin_fast.puffin.finding import Finding

MODES = ("merge-on-read", "copy-on-write")


class SqlHistory(History):
    """Statements that all engines understand, and the rows that they leave.

    Attributes:
        name: of the table in SQL.
    """

    name_in_sql: str

    def sql(self, statement: str) -> Any:
        """Runs a statement, in which ``{t}`` is the table."""
        raise NotImplementedError

    def give(self, rows: list[Row]) -> str:
        """Makes rows a relation of the engine, with the present columns; returns its name."""
        raise NotImplementedError

    def statement(self, text: str) -> None:
        self.say(text)
        self.adopts, self.last = True, None
        self.sql(text)

    def target_of(self, branch: str) -> str:
        return "{t}"

    @operation(9)
    def by_sql(self, branch: str) -> None:
        """An insert, delete, update or merge."""
        verbs = [self.insert, self.delete_where, self.update_where, self.merge]
        self.chance.choice(verbs)(branch)

    def insert(self, branch: str) -> None:
        made = self.some_rows(1, 4, 12)
        names = ", ".join(self.own())
        given = self.give(made)
        self.statement(f"INSERT INTO {self.target_of(branch)} SELECT {names} FROM {given}")
        self.put(branch, made)

    def delete_where(self, branch: str) -> None:
        where = self.filter()
        self.statement(f"DELETE FROM {self.target_of(branch)} WHERE {where.text}")
        self.drop(branch, self.chosen(branch, where.holds))

    def update_where(self, branch: str) -> None:
        where, k, s = self.filter(), self.chance.randrange(5), self.chance.choice(["a", "b"])
        ways: list[tuple[str, Row]] = [
            (f"{self.name('k')} = {k}", {"k": k}),
            (f"{self.name('s')} = '{s}', {self.name('x')} = 2.0", {"s": s, "x": 2.0}),
            (f"{self.name('x')} = NULL", {"x": None}),
        ]
        text, values = self.chance.choice(ways)
        self.statement(f"UPDATE {self.target_of(branch)} SET {text} WHERE {where.text}")
        self.change(branch, self.chosen(branch, where.holds), lambda _: values)

    def merge(self, branch: str) -> None:
        """Rows of a key with 1.5 go, others get a value, and new keys come."""
        fresh, x, names = self.rows_of_free_ids(self.branches[branch]), self.name("x"), ", ".join(self.own())
        key, given = self.name("id"), self.give(fresh)
        values = ", ".join(f"s.{name}" for name in self.own())
        self.statement(
            f"MERGE INTO {self.target_of(branch)} t USING {given} s ON t.{key} = s.{key} "
            f"WHEN MATCHED AND t.{x} = 1.5 THEN DELETE WHEN MATCHED THEN UPDATE SET {x} = s.{x} "
            f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
        )
        by_id = {row["id"]: row for row in fresh}
        old = {row["id"] for row in self.branches[branch].values()}
        self.drop(branch, self.chosen(branch, lambda row: row["id"] in by_id and row["x"] == 1.5))
        kept = self.chosen(branch, lambda row: row["id"] in by_id)
        self.change(branch, kept, lambda row: {"x": by_id[row["id"]]["x"]})
        self.put(branch, [row for row in fresh if row["id"] not in old])


class SparkHistory(SqlHistory):
    """Spark's statements, for tables of both formats."""

    spark: Any

    def sql(self, statement: str) -> Any:
        return self.spark.sql(statement.format(t=self.name_in_sql)).collect()

    def give(self, rows: list[Row]) -> str:
        self.spark.createDataFrame(self.arrow(rows)).createOrReplaceTempView("given")
        return "given"

    @operation(1)
    def overwrite_by_sql(self, branch: str) -> None:
        where, names = self.filter(), ", ".join(self.own())
        self.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
        self.statement(f"INSERT OVERWRITE {{t}} SELECT {names} FROM {{t}} WHERE {where.text}")
        self.drop("main", {*self.branches["main"]} - self.chosen("main", where.holds))

    def read_by_spark(self) -> None:
        rows, names = self.branches["main"], ", ".join(self.own())
        found = self.spark.sql(f"SELECT {names} FROM {self.name_in_sql}").toArrow()
        wanted = self.arrow([rows[n] for n in sorted(rows)])
        order = self.name("row")
        theirs = in_order(found.cast(pa.schema([wanted.schema.field(n) for n in found.column_names])), order)
        assert frozen(theirs) == frozen(in_order(wanted, order)), "Spark reads other rows"


class SparkIcebergHistory(SparkHistory, IcebergHistory):
    """An Iceberg table that Spark changes, too: its branches, procedures, staged snapshots and modes."""

    def __init__(self, spark: Any, catalog: Catalog, namespace: str, seed: int, version: str) -> None:
        IcebergHistory.__init__(
            self, catalog, f"{namespace}.t{len(catalog.list_tables(namespace))}", seed, version
        )
        self.spark, self.name_in_sql = spark, ".".join((catalog.name, *self.target.name()))
        self.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.wap.enabled'='true')")
        self.target.refresh()

    def statement(self, text: str) -> None:
        if not self.target.metadata.refs.get("main") and not text.startswith("INSERT INTO"):
            raise Nothing
        super().statement(text)
        self.target.refresh()

    def target_of(self, branch: str) -> str:
        return "{t}" if branch == "main" else f"{{t}}.branch_{branch}"

    def call(self, procedure: str, *arguments: str) -> None:
        table = ".".join(self.target.name())
        given = ", ".join([f"table => '{table}'", *arguments])
        self.statement(f"CALL {self.catalog.name}.system.{procedure}({given})")

    def findings(self, branch: str) -> list[Finding]:
        """Spark leaves dangling delete files and superseded vectors, which only cost."""
        return [one for one in errors_of(self.target, branch=branch) if one.kind != "dangling"]

    def foreign(self) -> None:
        if self.target.metadata.refs.get("main"):
            self.read_by_spark()

    @operation(1)
    def set_modes(self, _: str) -> None:
        modes = {f"write.{job}.mode": self.chance.choice(MODES) for job in ("delete", "update", "merge")}
        if self.version == 1:
            modes = dict.fromkeys(modes, "copy-on-write")
        given = ", ".join(f"'{name}'='{value}'" for name, value in modes.items())
        self.statement(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({given})")

    @operation(2)
    def rewrite_by_spark(self, _: str) -> None:
        every = "options => map('rewrite-all', 'true')"
        options = "options => map('min-input-files', '1', 'delete-file-threshold', '1', "
        started = f"{options}'use-starting-sequence-number', '{self.chance.choice(['true', 'false'])}')"
        sort = f"strategy => 'sort', sort_order => '{self.name('id')} DESC'"
        ways = [
            ("rewrite_data_files", every),
            ("rewrite_data_files", started),
            ("rewrite_data_files", sort, every),
            ("rewrite_position_delete_files", every),
            ("rewrite_manifests",),
        ]
        procedure, *arguments = self.chance.choice(ways)
        self.call(procedure, *arguments)

    @operation(1)
    def statistics_by_spark(self, _: str) -> None:
        self.call("compute_table_stats")

    @operation(1)
    def expire_by_spark(self, _: str) -> None:
        self.call("expire_snapshots", "older_than => TIMESTAMP '2200-01-01 00:00:00'", "retain_last => 2")
        self.snapshots = {id: rows for id, rows in self.snapshots.items() if id in self.known()}

    @operation(1)
    def roll_back(self, _: str) -> None:
        metadata, chain = self.target.metadata, list[int]()
        at = self.target.current_snapshot()
        while at is not None and len(chain) < 4:
            chain.append(at.snapshot_id)
            at = metadata.snapshot_by_id(at.parent_snapshot_id) if at.parent_snapshot_id else None
        known = [id for id in chain if id in self.snapshots]
        if not known:
            raise Nothing
        snapshot_id = self.chance.choice(known)
        self.call("rollback_to_snapshot", f"snapshot_id => {snapshot_id}")
        self.branches["main"] = {n: dict(row) for n, row in self.snapshots[snapshot_id].items()}

    @operation(1)
    def cherry_pick(self, _: str) -> None:
        """An insert that is staged, and then picked, perhaps after another one."""
        made, between = self.some_rows(3), self.chance.random() < 0.6
        id, names = f"w{next(self.jobs)}", ", ".join(self.own())
        known = set(self.known())
        self.spark.conf.set("spark.wap.id", id)
        try:
            self.statement(f"INSERT INTO {{t}} SELECT {names} FROM {self.give(made)}")
        finally:
            self.spark.conf.unset("spark.wap.id")
        (staged,) = {*self.known()} - known
        if between:
            self.insert("main")
        self.call("cherrypick_snapshot", f"snapshot_id => {staged}")
        self.put("main", made)

    @operation(1)
    def fast_forward(self, _: str) -> None:
        """Main to a new branch with a commit."""
        name = f"f{next(self.jobs)}"
        self.statement(f"ALTER TABLE {{t}} CREATE BRANCH {name}")
        self.branches[name] = {n: dict(row) for n, row in self.branches["main"].items()}
        self.delete_where(name)
        self.call("fast_forward", "branch => 'main'", f"to => '{name}'")
        self.statement(f"ALTER TABLE {{t}} DROP BRANCH {name}")
        self.branches["main"] = self.branches.pop(name)

    @operation(1)
    def struct_by_spark(self, _: str) -> None:
        """A field of a struct is added or dropped."""
        later = [f.name for f in self.struct().fields if f.field_id > 8]
        m = self.name("m")
        if later and self.chance.random() < 0.5:
            self.statement(f"ALTER TABLE {{t}} DROP COLUMN {m}.{self.chance.choice(later)}")
        else:
            self.statement(f"ALTER TABLE {{t}} ADD COLUMN {m}.n{next(self.jobs)} STRING")


class SparkDeltaHistory(SparkHistory, DeltaHistory):
    """A Delta table that Spark changes, too."""

    def __init__(self, spark: Any, path: Path, seed: int, kind: str) -> None:
        DeltaHistory.__init__(self, path, seed, kind)
        self.spark, self.name_in_sql = spark, f"delta.`{path}`"
        spark.conf.set("spark.databricks.delta.restore.protocolDowngradeAllowed", "true")

    def has_deltalake(self) -> bool:
        return False

    def check_files(self) -> None:
        """Spark leaves files that no version has."""

    def foreign(self) -> None:
        self.read_by_spark()

    def feed(self) -> Any:
        if self.kind not in ("feed", "mapped"):
            return None
        return self.spark.sql(f"SELECT * FROM table_changes_by_path('{self.target}', 0)").toArrow()

    def is_read_right(self, version: int) -> bool:
        return True

    @operation(2)
    def maintain_by_spark(self, _: str) -> None:
        self.statement(self.chance.choice(["OPTIMIZE {t}", "REORG TABLE {t} APPLY (PURGE)"]))

    @operation(1)
    def restore_by_spark(self, _: str) -> None:
        version = self.chance.choice([*self.snapshots])
        self.statement(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
        self.restore(version)


class DuckdbHistory(SqlHistory, IcebergHistory):
    """An Iceberg table of a REST catalog that DuckDB changes, too."""

    lacks = frozenset(  # DuckDB neither writes to branches nor to evolved tables
        ("branch_off", "go_back", "partition_otherwise", "add_column", "rename_column", "drop_column", "promote",
         "move", "foreign_equality_delete", "foreign_position_deletes", "expire", "upgrade")
    )  # fmt: skip

    def __init__(
        self, connection: Any, database: str, catalog: Catalog, namespace: str, seed: int, version: str
    ) -> None:
        name = f"{namespace}.t{len(catalog.list_tables(namespace))}"
        IcebergHistory.__init__(self, catalog, name, seed, version, by=False, duckdb=connection)
        self.name_in_sql = f"{database}.{name}"

    def sql(self, statement: str) -> Any:
        assert self.duckdb is not None
        return self.duckdb.execute(statement.format(t=self.name_in_sql))

    def give(self, rows: list[Row]) -> str:
        assert self.duckdb is not None
        self.duckdb.register("given", self.arrow(rows))
        return "given"

    def statement(self, text: str) -> None:
        super().statement(text)
        self.target.refresh()


KINDS: dict[str, tuple[type[History], Callable[..., History]]] = {
    **{
        f"iceberg {version} spark": (
            SparkIcebergHistory,
            lambda folder, seed, spark, catalog, namespace, version=version: SparkIcebergHistory(
                spark, catalog, namespace, seed, version
            ),
        )
        for version in "123"
    },
    **{
        f"delta {kind} spark": (
            SparkDeltaHistory,
            lambda folder, seed, spark, kind=kind: SparkDeltaHistory(spark, folder / "t", seed, kind),
        )
        for kind in PROPERTIES
    },
    **{
        f"iceberg {version} duckdb": (
            DuckdbHistory,
            lambda folder, seed, duckdb, database, catalog, namespace, version=version: DuckdbHistory(
                duckdb, database, catalog, namespace, seed, version
            ),
        )
        for version in "23"
    },
}
