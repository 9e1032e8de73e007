"""Random histories of tables that Spark, PyIceberg and this package change in turn."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    ListType,
    PrimitiveType,
    StringType,
    StructType,
)

from puffin_fast import iceberg

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

COLUMNS = (
    "id BIGINT, k INT, s STRING, f FLOAT, d DECIMAL(5, 2), m STRUCT<a: INT, b: STRING>, l ARRAY<INT>, "
    "p MAP<STRING, INT>"
)
PARTITIONS = ("", "", "k", "bucket(3, id)", "truncate(1, s), k")
FIELDS = ("bucket(2, id)", "k", "truncate(1, s)", "bucket(3, id)")
MODES = ("merge-on-read", "copy-on-write")
IDS = 24

REFUSED = (
    "Cannot fast-forward",  # main is not an ancestor of the branch
    "not an ancestor",
    "Cannot find partition field",
    "Cannot remove partition field",
    "Cannot add duplicate partition field",
    "Cannot add redundant partition field",
    "Cannot have redundant partitions",  # PyIceberg, with a void field
    "Cannot drop partition source",
    "Cannot find source column for partition field",
    "Cannot delete column",
    "Cannot cherry-pick",
    "Duplicate rows found",
    "matching multiple",
    "duplicate",
    "more than one",
    "java.lang.Integer cannot be cast to class java.lang.Long",  # Iceberg's Java, after the promotion of a
    "expected java.lang.Long, but was java.lang.Integer",  # partition column
)
"""What the engines refuse because of the table's state."""


class SparkHistory:
    """A table, changed at random.

    Attributes:
        table: as PyIceberg sees it.
        log: what was done.
    """

    def __init__(self, spark: SparkSession, catalog: SqlCatalog, namespace: str, seed: int) -> None:
        self._spark, self._chance = spark, random.Random(seed)
        self._catalog, self._made = catalog, 0
        self._short = f"{namespace}.t{seed}"
        self.name = f"{catalog.name}.{self._short}"
        version, partition = self._chance.choice("12233"), self._chance.choice(PARTITIONS)
        by = f"PARTITIONED BY ({partition})" if partition else ""
        self.log: list[str] = []
        self._sql(
            f"CREATE TABLE {{t}} ({COLUMNS}) USING iceberg {by} "
            f"TBLPROPERTIES ('format-version'='{version}', 'write.wap.enabled'='true')"
        )
        self.table: Table = catalog.load_table(self._short)
        self._set_modes()
        self._insert()

    def step(self) -> None:
        """Runs one random change."""
        often = [self._insert, self._delete, self._delete, self._update, self._update, self._merge]
        often += [self._pyiceberg, self._ours]
        seldom = [self._overwrite, self._rewrite, self._rewrite, self._go_back, self._cherry_pick]
        seldom += [self._branch_off, self._fast_forward, self._set_modes, self._upgrade]
        seldom += [self._evolve, self._evolve, self._partition]
        verb = self._chance.choice(self._chance.choices([often, seldom], [3, 2])[0])
        try:
            verb()
        except Exception as error:
            if not any(part in str(error) for part in REFUSED):
                raise
            self.log.append(f"  refused: {str(error).splitlines()[0]}")
        self.table.refresh()

    # Spark -------------------------------------------------------------------------------------------------

    def _sql(self, statement: str) -> Any:
        text = statement.format(t=self.name)
        self.log.append(text)
        return self._spark.sql(text).collect()

    def _call(self, procedure: str, *arguments: str) -> None:
        given = ", ".join([f"'{self._short}'", *arguments])
        self._sql(f"CALL {self._catalog.name}.system.{procedure}({given})")

    def _target(self) -> str:
        branches = [name for name in self.table.metadata.refs if name != "main"]
        if branches and self._chance.random() < 0.3:
            return f"{self.name}.branch_{self._chance.choice(branches)}"
        return self.name

    def _field(self, name: str) -> str:
        """The present name of a column of the first schema."""
        (at,) = [at for at, part in enumerate(("id", "k", "s", "f", "d", "m", "l", "p"), 1) if part == name]
        return self.table.schema().find_column_name(at) or "id"

    def _ids(self) -> list[int]:
        return self._chance.sample(range(IDS), self._chance.randrange(1, 9))

    def _literal(self, kind: IcebergType) -> str:
        sql = _sql_type(kind)
        if self._chance.random() < 0.15:
            return f"CAST(NULL AS {sql})"
        if isinstance(kind, StructType):
            inner = ", ".join(f"'{field.name}', {self._literal(field.field_type)}" for field in kind.fields)
            return f"named_struct({inner})"
        if isinstance(kind, ListType):
            inner = ", ".join(self._literal(kind.element_type) for _ in range(self._chance.randrange(3)))
            return f"CAST(array({inner}) AS {sql})"
        if not isinstance(kind, PrimitiveType):
            return f"map('x', {self._chance.randrange(3)})"
        if isinstance(kind, StringType):
            return self._chance.choice(["'a'", "'b'", "'ab'", "''"])
        if isinstance(kind, FloatType | DoubleType):
            return f"CAST('{self._chance.choice(['0.5', 'NaN', '-0.0', '2'])}' AS {sql})"
        return f"CAST({self._chance.randrange(4)} AS {sql})"

    def _values(self) -> str:
        rows = []
        for id in self._ids():
            cells = [
                str(id) if field.field_id == 1 else self._literal(field.field_type)
                for field in self.table.schema().fields
            ]
            rows.append(f"({', '.join(cells)})")
        return f"({', '.join(self._names())}) VALUES {', '.join(rows)}"

    def _names(self) -> list[str]:
        return [field.name for field in self.table.schema().fields]

    def _where(self) -> str:
        n, id = self._chance.randrange(IDS), self._field("id")
        k, s = self._field("k"), self._field("s")
        few = ", ".join(map(str, self._ids()))
        by_id = [f"{id} < {n}", f"{id} = {n}", f"{id} > {n}", f"{id} IN ({few})"]
        return self._chance.choice(
            [*by_id, f"{k} = 1", f"{s} = 'a'", f"{k} IS NULL", f"{s} IS NULL OR {k} = 2"]
        )

    def _assignment(self) -> str:
        fields = [field for field in self.table.schema().fields if field.field_id != 1]
        field = self._chance.choice(fields)
        if isinstance(field.field_type, StructType) and field.field_type.fields:
            inner = self._chance.choice(field.field_type.fields)
            return f"{field.name}.{inner.name} = {self._literal(inner.field_type)}"
        return f"{field.name} = {self._literal(field.field_type)}"

    def _insert(self) -> None:
        self._sql(f"INSERT INTO {self._target()} {self._values()}")

    def _delete(self) -> None:
        self._sql(f"DELETE FROM {self._target()} WHERE {self._where()}")

    def _update(self) -> None:
        self._sql(f"UPDATE {self._target()} SET {self._assignment()} WHERE {self._where()}")

    def _merge(self) -> None:
        ids, id = ", ".join(map(str, self._ids())), self._field("id")
        self._sql(
            f"MERGE INTO {self._target()} t USING (SELECT explode(array({ids})) AS given) s ON t.{id} = s.given "
            f"WHEN MATCHED AND {self._where()} THEN DELETE WHEN MATCHED THEN UPDATE SET t.{self._assignment()} "
            f"WHEN NOT MATCHED THEN INSERT ({id}) VALUES (s.given)"
        )

    def _overwrite(self) -> None:
        names, where = ", ".join(self._names()), self._where()
        self._spark.conf.set(
            "spark.sql.sources.partitionOverwriteMode", self._chance.choice(["dynamic", "static"])
        )
        self._sql(f"INSERT OVERWRITE {{t}} SELECT {names} FROM {{t}} WHERE {where}")

    def _rewrite(self) -> None:
        every = "options => map('rewrite-all', 'true')"
        options = "options => map('min-input-files', '1', 'delete-file-threshold', '1', "
        started = f"{options}'use-starting-sequence-number', '{self._chance.choice(['true', 'false'])}')"
        sort = f"strategy => 'sort', sort_order => '{self._field('id')} DESC'"
        procedure, *arguments = self._chance.choice(
            [
                ("rewrite_data_files", every),
                ("rewrite_data_files", started),
                ("rewrite_data_files", sort, every),
                ("rewrite_position_delete_files", every),
                ("rewrite_manifests",),
            ]
        )
        self._named(procedure, *arguments)

    def _named(self, procedure: str, *arguments: str) -> None:
        given = ", ".join([f"table => '{self._short}'", *arguments])
        self._sql(f"CALL {self._catalog.name}.system.{procedure}({given})")

    def _go_back(self) -> None:
        known = {snapshot.snapshot_id: snapshot for snapshot in self.table.metadata.snapshots}
        if known and self._chance.random() < 0.3:
            self._call("set_current_snapshot", str(self._chance.choice([*known])))
            return
        found: list[int] = []
        at = self.table.current_snapshot()
        while at is not None and len(found) < 4:
            found.append(at.snapshot_id)
            at = known.get(at.parent_snapshot_id or -1)
        if found:
            self._call("rollback_to_snapshot", str(self._chance.choice(found)))

    def _cherry_pick(self) -> None:
        self._made += 1
        self._spark.conf.set("spark.wap.id", f"w{self._made}")
        try:
            self._chance.choice([self._staged_insert, self._staged_delete])()
        finally:
            self._spark.conf.unset("spark.wap.id")
        self.table.refresh()
        staged = [
            snapshot.snapshot_id
            for snapshot in self.table.metadata.snapshots
            if snapshot.summary and snapshot.summary.additional_properties.get("wap.id") == f"w{self._made}"
        ]
        if self._chance.random() < 0.6:
            self._insert()
        for snapshot_id in staged:
            self._call("cherrypick_snapshot", str(snapshot_id))

    def _staged_insert(self) -> None:
        self._sql(f"INSERT INTO {{t}} {self._values()}")

    def _staged_delete(self) -> None:
        self._sql(f"DELETE FROM {{t}} WHERE {self._where()}")

    def _branch_off(self) -> None:
        self._sql(f"ALTER TABLE {{t}} CREATE OR REPLACE BRANCH b{self._chance.randrange(2)}")

    def _fast_forward(self) -> None:
        branches = [name for name in self.table.metadata.refs if name != "main"]
        if branches:
            self._call("fast_forward", "'main'", f"'{self._chance.choice(branches)}'")

    # The table ---------------------------------------------------------------------------------------------

    def _set_modes(self) -> None:
        mor = self.table.metadata.format_version > 1
        modes = {
            f"write.{job}.mode": self._chance.choice(MODES if mor else MODES[1:])
            for job in ("delete", "update", "merge")
        }
        modes["write.delete.granularity"] = self._chance.choice(["file", "partition"])
        given = ", ".join(f"'{name}'='{value}'" for name, value in modes.items())
        self._sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({given})")

    def _upgrade(self) -> None:
        version = min(3, self.table.metadata.format_version + 1)
        self._sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('format-version'='{version}')")

    def _evolve(self) -> None:
        fields = self.table.schema().fields
        names = [field.name for field in fields if field.field_id != 1]
        structs = [(f.name, f.field_type) for f in fields if isinstance(f.field_type, StructType)]
        self._made += 1
        kind = self._chance.choice(["BIGINT", "STRING", "STRUCT<x: INT>"])
        verbs: list[str] = [
            f"ADD COLUMN c{self._made} {kind}",
            f"RENAME COLUMN {self._chance.choice([f.name for f in fields])} TO r{self._made}",
            f"ALTER COLUMN {self._chance.choice(names)} FIRST",
            *(f"ALTER COLUMN {f.name} TYPE {wider}" for f in fields if (wider := _wider(f.field_type))),
        ]
        if len(names) > 3:
            verbs.append(f"DROP COLUMN {self._chance.choice(names)}")
        for name, struct in structs:
            inner = [f.name for f in struct.fields]
            verbs.append(f"ADD COLUMN {name}.n{self._made} STRING")
            verbs.append(f"RENAME COLUMN {name}.{self._chance.choice(inner)} TO q{self._made}")
            if len(inner) > 1:
                verbs.append(f"DROP COLUMN {name}.{self._chance.choice(inner)}")
        self._sql(f"ALTER TABLE {{t}} {self._chance.choice(verbs)}")

    def _partition(self) -> None:
        names = {"id": self._field("id"), "k": self._field("k"), "s": self._field("s")}
        given = self._chance.choice(FIELDS)
        for old, new in names.items():
            given = given.replace(f", {old})", f", {new})") if "(" in given else names[given]
        self._sql(f"ALTER TABLE {{t}} {self._chance.choice(['ADD', 'DROP'])} PARTITION FIELD {given}")

    # Other writers ----------------------------------------------------------------------------------------

    def _arrow(self) -> pa.Table:
        schema = self.table.schema().as_arrow()
        id = self._field("id")
        return pa.Table.from_pylist([{id: number} for number in self._ids()], schema)

    def _filter(self) -> str:
        return f"{self._field('id')} {self._chance.choice(['<', '>', '='])} {self._chance.randrange(IDS)}"

    def _pyiceberg(self) -> None:
        if self.table.metadata.format_version > 2:
            return self._ours()
        rows, where = self._arrow(), self._filter()
        verbs: list[Callable[[], Any]] = [
            lambda: self.table.append(rows),
            lambda: self.table.delete(where),
            lambda: self.table.overwrite(rows, where),
            lambda: self.table.upsert(rows, [self._field("id")]),
        ]
        at = self._chance.randrange(len(verbs))
        self.log.append(f"PyIceberg: {('append', 'delete', 'overwrite', 'upsert')[at]}, {where}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            verbs[at]()
        return None

    def _ours(self) -> None:
        if self.table.metadata.format_version < 2:
            return
        rows, where = self._arrow(), self._filter()
        text = [f for f in self.table.schema().fields if isinstance(f.field_type, StringType)]
        verbs: list[Callable[[], Any]] = [
            lambda: iceberg.append(self.table, rows),
            lambda: iceberg.delete(self.table, where),
            lambda: iceberg.overwrite(self.table, rows, where),
            lambda: iceberg.upsert(self.table, rows, [self._field("id")]),
            lambda: iceberg.rewrite_data_files(self.table, min_deleted=0),
        ]
        verbs += [lambda: iceberg.update(self.table, where, {text[0].name: "u"})] if text else []
        at = self._chance.randrange(len(verbs))
        self.log.append(
            f"ours: {('append', 'delete', 'overwrite', 'upsert', 'rewrite', 'update')[at]}, {where}"
        )
        verbs[at]()


def _sql_type(kind: IcebergType) -> str:
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{f.name}: {_sql_type(f.field_type)}' for f in kind.fields)}>"
    if isinstance(kind, ListType):
        return f"ARRAY<{_sql_type(kind.element_type)}>"
    if not isinstance(kind, PrimitiveType):
        return "MAP<STRING, INT>"
    return {"long": "BIGINT"}.get(str(kind), str(kind).upper())


def _wider(kind: IcebergType) -> str | None:
    if isinstance(kind, DecimalType):
        return f"DECIMAL({kind.precision + 2}, {kind.scale})"
    return {"int": "BIGINT", "float": "DOUBLE"}.get(str(kind))
