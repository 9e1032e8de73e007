"""Random histories of tables whose changes are compared with their scans.

All verbs of `tests.iceberg.dml.model`, without its checks of each step, and: tables of format version 1,
PyIceberg's copy on write, rollbacks, tags, columns of more types, promoted and moved columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from puffin_fast import iceberg
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from tests.iceberg.dml.model import SCHEMA, Machine, Row

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

_STRUCT = StructType(NestedField(100, "a", IntegerType()), NestedField(101, "b", StringType()))

VALUES: dict[str, tuple[IcebergType, list[Any]]] = {
    "long": (LongType(), [0, 7]),
    "int": (IntegerType(), [0, 7]),
    "float": (FloatType(), [0.0, -0.0, float("nan"), 0.5]),
    "double": (DoubleType(), [0.0, -0.0, float("nan"), 0.5]),
    "string": (StringType(), ["", "ä"]),
    "binary": (BinaryType(), [b"", b"\xff"]),
    "decimal(5, 2)": (DecimalType(5, 2), [Decimal("1.50"), Decimal("-0.01")]),
    "timestamptz": (TimestamptzType(), [datetime(2020, 1, 1, tzinfo=UTC)]),
    "struct": (_STRUCT, [{"a": 1, "b": None}, {"a": None, "b": "x"}, {"a": None, "b": None}]),
    "list": (ListType(102, IntegerType(), element_required=False), [[], [1, None], [2]]),
}
"""Types of columns that are added, with values besides null."""

WIDER: dict[str, IcebergType] = {
    "int": LongType(),
    "float": DoubleType(),
    "decimal(5, 2)": DecimalType(9, 2),
}


class History(Machine):
    """A table, changed at random."""

    def __init__(self, catalog: SqlCatalog, seed: int) -> None:
        super().__init__(catalog, seed)
        self.has_doubles = False  # PyIceberg's upsert may append a row twice, which rows here cannot be
        if self.chance.random() < 0.2:
            spec, properties = self.table.spec(), {**self.table.properties, "format-version": "1"}
            catalog.drop_table("n.t")
            self.table = catalog.create_table("n.t", SCHEMA, partition_spec=spec, properties=properties)
            self.say("as a table of version 1")

    def step(self) -> None:
        """Runs one random operation."""
        version = self.table.metadata.format_version
        if version == 1 and self.chance.random() < 0.1:
            self.upgrade("main")
        elif version == 1 or self.has_doubles or (version == 2 and self.chance.random() < 0.3):
            self.chance.choice([self.by_pyiceberg, self.by_pyiceberg, self.by_pyiceberg, self.other])()
        elif self.chance.random() < 0.12:
            self.other()
        else:
            super().step()
        self.check("main", None)

    def same(self, snapshot_id: int) -> None:
        """Snapshots are compared by the caller."""

    def check(self, branch: str, before: Any) -> None:
        """Keeps the rows of new heads."""
        for name, rows in self.branches.items():
            reference = self.table.metadata.refs.get(name)
            if reference is not None and reference.snapshot_id not in self.snapshots:
                self.snapshots[reference.snapshot_id] = {n: dict(row) for n, row in rows.items()}

    def other(self) -> None:
        """Changes of metadata."""
        verbs: list[Callable[[str], Any]] = [self.go_back, self.tag, self.promote, self.move, self.add_column]
        verbs += [self.drop_column, self.rename_column, self.partition_otherwise]
        if self.table.metadata.snapshots:
            self.chance.choice(verbs)("main")

    def by_pyiceberg(self) -> None:
        """PyIceberg's verbs, of which some make several snapshots. It refuses tables with equality deletes."""
        rows, where = self.arrow(self.new_rows(self.chance.sample(range(40), 3))), self.filter().text
        verbs: list[Callable[[], Any]] = [
            lambda: self.table.append(rows),
            lambda: self.table.delete(where),
            lambda: self.table.overwrite(rows, where),
            lambda: self.table.upsert(rows, [self.name("id")]),
            lambda: self.table.overwrite(rows),
        ]
        at = self.chance.choices(range(5), [5, 5, 4, 4, 1])[0]
        self.say(f"PyIceberg: {('append', 'delete', 'overwrite', 'upsert', 'overwrite all')[at]}, {where}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                verbs[at]()
            except Exception as error:
                self.say(f"refused: {error}")
        self.table.refresh()
        self.last = None
        if self.table.metadata.snapshots:
            rows = iceberg.scan(self.table, selected_fields=("row",)).to_arrow()["row"]
            self.has_doubles |= len(rows) > len(rows.unique())
            self.branches["main"] = {} if self.has_doubles else self.read()

    def new_rows(self, ids: list[int]) -> list[Row]:
        rows = super().new_rows(ids)
        for name, own in self.own(self.table.schema()).items():
            if own.startswith("c"):
                for row in rows:
                    row[own] = self.value(self.table.schema().find_field(name).field_type)
        return rows

    def value(self, kind: IcebergType) -> Any:
        """A value of a type, or null."""
        narrow = {str(wide): name for name, wide in WIDER.items() if name != "int"}.get(str(kind), str(kind))
        name = {StructType: "struct", ListType: "list"}.get(type(kind), narrow)
        return self.chance.choice([None, *VALUES[name][1]])

    def add_column(self, _: str) -> None:
        name, kind = f"new{next(self.jobs)}", self.chance.choice([*VALUES])
        self.say(f"add column {name} {kind}")
        self.evolve(lambda update: update.add_column(name, VALUES[kind][0]))

    def promote(self, _: str) -> None:
        fields = [field for field in self.table.schema().fields if str(field.field_type) in WIDER]
        if fields:
            field = self.chance.choice(fields)
            self.say(f"promote column {field.name} {field.field_type}")
            self.evolve(lambda update: update.update_column(field.name, WIDER[str(field.field_type)]))

    def move(self, _: str) -> None:
        name = self.chance.choice([field.name for field in self.table.schema().fields])
        self.say(f"move column {name}")
        self.evolve(lambda update: update.move_first(name))

    def go_back(self, _: str) -> None:
        """To any snapshot of the table."""
        snapshot_id = self.chance.choice([*self.snapshots])
        self.say(f"set current snapshot {snapshot_id}")
        with v3_metadata(self.catalog):
            self.table.manage_snapshots().set_current_snapshot(snapshot_id).commit()
        self.branches["main"] = {n: dict(row) for n, row in self.snapshots[snapshot_id].items()}
        self.last = None

    def tag(self, _: str) -> None:
        snapshot_id = self.chance.choice([*self.snapshots])
        name = f"tag{next(self.jobs)}"
        self.say(f"create {name}")
        with v3_metadata(self.catalog):
            self.table.manage_snapshots().create_tag(snapshot_id, name).commit()
